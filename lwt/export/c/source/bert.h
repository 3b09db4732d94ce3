/* BERT and its relatives: attention and a feed-forward network, each with a residual and a norm (lwt/models/bert.py). */
#ifndef LWT_BERT_H
#define LWT_BERT_H

#include "embed.h"
#include "engine.h"
#include "states.h"

typedef struct {
    lwt_norm attention_norm, mlp_norm;
    lwt_linear query, key, value, out; /* efficient attention has no key and value: both are the states */
    lwt_linear first, second;          /* of the feed-forward network */
} lwt_block;

extern const lwt_embedder lwt_tables;
extern const lwt_norm lwt_embed_norm; /* scale NULL: no norm */
extern const lwt_block lwt_blocks[LWT_LAYERS];
extern const lwt_linear lwt_pooler; /* values NULL: no pooler */

/* States, keys and values of a layer; with efficient attention, states and outputs, since the states are both. */
typedef struct {
    lwt_states states[LWT_EFFICIENT ? 2 : 3];
    float scores[LWT_LENGTH];
    float pooled[LWT_FEATURES], row[LWT_WIDTH], mixed[LWT_INNER];
    float inner[LWT_INNER];
    int16_t integers[LWT_OPERAND];
} lwt_network;

/* Logits [LWT_OUTPUTS] of a text. */
void lwt_forward(lwt_network *net, const lwt_row *text, float *logits);

#endif
