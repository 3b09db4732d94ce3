/* What stands before and behind the layers of a text classifier: its embedding, and the input of its head. */
#ifndef LWT_EMBED_H
#define LWT_EMBED_H

#include "engine.h"
#include "row.h"

/* Token, position and segment; with expanders if the tables are narrow ("nano"). */
typedef struct {
    lwt_table token, position, segment;
    lwt_linear token_expander, position_expander;
} lwt_embedder;

/* The embedding of position t; `scratch` has room for a row of every width in use. */
void lwt_embed(const lwt_embedder *embedder, const lwt_row *text, int t, float *row, float *scratch, lwt_operand *x);

/* The classifier's input, `pooled` [LWT_FEATURES]: lwt_pool takes all positions t in order, then lwt_finish_pool. */
void lwt_pool(float *pooled, const lwt_row *text, int t, const float *row);
void lwt_finish_pool(float *pooled, const lwt_row *text);

extern const lwt_linear lwt_classifier; /* of a program with one task */

/* The logits of the pooled row. */
void lwt_head(const lwt_operand *pooled, float *logits);

extern const lwt_table lwt_ngrams; /* rows of logits, LWT_NGRAM_ROWS of them */

/* Adds the logits of the ids and of the pairs of neighbouring ids of a text. */
void lwt_add_ngrams(const lwt_row *text, float *logits);

#endif
