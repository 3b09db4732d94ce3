/* The Embedder, alone or with a convolution after it. No layer attends, so only a few states are kept. */
#ifndef LWT_EMBEDDER_H
#define LWT_EMBEDDER_H

#include "embed.h"
#include "engine.h"
#include "states.h"

extern const lwt_embedder lwt_tables;
extern const lwt_norm lwt_embed_norm; /* scale NULL: no norm */
extern const lwt_conv lwt_convolution;

/* The states that the convolution reads, and a few rows. */
typedef struct {
    lwt_states states;
    float pooled[LWT_FEATURES], row[LWT_WIDTH];
    float inner[LWT_INNER];
    int16_t integers[LWT_OPERAND];
} lwt_network;

/* Logits [LWT_OUTPUTS] of a text. */
void lwt_forward(lwt_network *net, const lwt_row *text, float *logits);

#endif
