/* An encoder-decoder transformer (lwt/models/seq2seq.py), one position at a time; d is LWT_WIDTH. */
#ifndef LWT_SEQ2SEQ_H
#define LWT_SEQ2SEQ_H

#include "engine.h"
#include "states.h"

#define LWT_LEAST -3e38f
enum { LWT_BEGIN = 2, LWT_STOP = 3 }; /* ids, as in lwt/data/tokenizer.py */

/* Attention in `heads` heads of n channels: query, key and value map d to heads · n, out maps back. Without heads, the
   bias of `out` is all that remains. */
typedef struct {
    lwt_norm norm;
    lwt_linear query, key, value, out;
    uint16_t heads;
} lwt_attention;

/* Attention to the own text, in the decoder also to the source, and a feed-forward network. */
typedef struct {
    lwt_attention self, cross;
    lwt_norm norm;
    lwt_linear first, second;
} lwt_layer;

extern const lwt_layer lwt_encoder[], lwt_decoder[];
extern const lwt_norm lwt_encoder_norm, lwt_decoder_norm;               /* after the last layer, with LWT_PRE_NORM */
extern const lwt_table lwt_source_table, lwt_target_table, lwt_output_table; /* [v][d] */
extern const lwt_half *const lwt_output_bias;                           /* [v], or NULL */
extern const float lwt_frequencies[LWT_WIDTH / 2];                      /* of the sinusoids of a position */

/* Keys and values [LWT_LENGTH][heads · n] of an attention, each row filled up to d with zeros. */
typedef struct {
    lwt_states keys, values;
} lwt_cache;

typedef struct {
    lwt_cache cross[LWT_DECODER_LAYERS]; /* of the source, for every layer of the decoder */
    union {
        struct {
            lwt_states states; /* of the source, between the layers */
            lwt_cache cache;   /* of the layer at hand */
        } encoder;
        lwt_cache past[LWT_BEAMS][LWT_DECODER_LAYERS]; /* of the answers so far */
    } text;
    int length; /* of the source */
    float scores[LWT_LENGTH], row[LWT_WIDTH], mixed[LWT_INNER], inner[LWT_INNER];
    int16_t integers[LWT_OPERAND];
} lwt_network;

/* The best next ids, best first. `total` is the logarithm of the sum of exp(logit) over all ids, with several beams. */
typedef struct {
    uint16_t ids[LWT_CHOICES];
    float logits[LWT_CHOICES];
    float total;
} lwt_choices;

/* Encodes a source of `length` ids, end mark included. */
void lwt_encode_source(lwt_network *net, const uint16_t *ids, int length);

/* Extends answer `beam` by `id` at position t, and finds what may follow. */
void lwt_step(lwt_network *net, int beam, int t, uint16_t id, lwt_choices *choices);

/* Copies answer `from`, of `length` positions, to answer `to`. */
void lwt_copy_answer(lwt_network *net, int to, int from, int length);

#endif
