/* MAMBA: a causal convolution and a scan of states that the text selects (lwt/models/mamba.py). It reads a text position by
   position through all layers, and keeps of the earlier ones what the convolution sees and the states of the scan. */
#ifndef LWT_MAMBA_H
#define LWT_MAMBA_H

#include "embed.h"
#include "engine.h"
#include "states.h"

typedef struct {
    lwt_norm norm;
    lwt_linear in;     /* the channels, and those that gate them */
    lwt_linear select; /* from a channel's input: its step in low rank; what writes to the states; what reads them */
    lwt_linear time, out;
    lwt_conv conv;
    const float *rates;               /* [LWT_CHANNELS][LWT_STATE], negative */
    const lwt_half *time_bias, *skip; /* [LWT_CHANNELS] */
} lwt_block;

extern const lwt_embedder lwt_tables;
extern const lwt_block lwt_blocks[LWT_LAYERS];

/* What a layer keeps from position to position. */
typedef struct {
    lwt_states window;
    float states[LWT_CHANNELS][LWT_STATE];
} lwt_memory;

typedef struct {
    lwt_memory memories[LWT_LAYERS];
    float pooled[LWT_FEATURES], row[LWT_WIDTH], mixed[LWT_WIDTH];
    float inner[LWT_INNER], time[LWT_CHANNELS], selected[LWT_TIME_RANK + 2 * LWT_STATE];
    int16_t integers[LWT_OPERAND];
} lwt_network;

/* Logits [LWT_OUTPUTS] of a text. */
void lwt_forward(lwt_network *net, const lwt_row *text, float *logits);

#endif
