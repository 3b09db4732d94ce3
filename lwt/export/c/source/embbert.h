/* EmbBERT: efficient attention minus convolution, without residuals ("EmbBERT-Q", section 3.1). */
#ifndef LWT_EMBBERT_H
#define LWT_EMBBERT_H

#include "embed.h"
#include "engine.h"
#include "states.h"

typedef struct {
    lwt_norm norm;
    lwt_linear query, out; /* keys and values are the normalised states themselves */
    lwt_conv conv;
    lwt_linear contract;
    float attended, convolved; /* the two factors λ */
} lwt_block;

extern const lwt_embedder lwt_tables;
extern const lwt_block lwt_blocks[LWT_LAYERS];

/* The states of a layer and of the next, and a few rows. */
typedef struct {
    lwt_states states[2];
    float scores[LWT_LENGTH];
    float pooled[LWT_FEATURES], row[LWT_WIDTH], mixed[LWT_WIDTH];
    float inner[LWT_INNER];
    int16_t integers[LWT_OPERAND];
} lwt_network;

/* Logits [LWT_OUTPUTS] of a text. */
void lwt_forward(lwt_network *net, const lwt_row *text, float *logits);

#endif
