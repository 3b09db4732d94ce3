/* The parts of a network, one position at a time. Weights are int8 with a half-precision scale per block of inputs. */
#ifndef LWT_ENGINE_H
#define LWT_ENGINE_H

#include <stdint.h>

#include "half.h"

/* y = x W + b. `values` [outputs][inputs], `scales` [outputs][blocks], `bias` [outputs] or NULL. */
typedef struct {
    const int8_t *values;
    const lwt_half *scales;
    const lwt_half *bias;
    uint16_t inputs, outputs;
} lwt_linear;

/* Rows to look up. `values` [rows][width], `scales` [blocks of rows][width]. */
typedef struct {
    const int8_t *values;
    const lwt_half *scales;
    uint16_t width;
} lwt_table;

/* LayerNorm with scale and bias; RMSNorm without a bias. Both [width]. */
typedef struct {
    const lwt_half *scale;
    const lwt_half *bias;
} lwt_norm;

/* Depthwise causal convolution, the present position last. `values` [taps][channels], `scales` [channels]. */
typedef struct {
    const int8_t *values;
    const lwt_half *scales;
    const lwt_half *bias;
} lwt_conv;

/* Token, position and segment; with expanders if the tables are narrow ("nano"). */
typedef struct {
    lwt_table token, position, segment;
    lwt_linear token_expander, position_expander;
} lwt_embedder;

/* The input of a product, value · step: integers meet integers, and their sums are exact. */
typedef struct {
    int16_t *values;
    float step;
} lwt_operand;

/* A text as ids: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]; `first` tokens up to the first [SEP]. */
typedef struct {
    uint16_t *ids;
    uint16_t length, first;
} lwt_row;

/* The place of value i of n in an operand. With SMLAD, four int8 come out of a register as (0, 2) and (1, 3). */
static inline int lwt_place(int i, int n)
{
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
    return i < (n & ~3) ? (i & ~3) | (i & 1) << 1 | (i >> 1 & 1) : i;
#else
    (void)n;
    return i;
#endif
}

/* The sum of the products of n integers. */
int32_t lwt_dot(const int8_t *values, const int16_t *operand, int n);

/* The largest magnitude of a row. */
float lwt_largest(const float *row, int n);

/* Rounds a row to an operand of 16 bits. */
void lwt_round(lwt_operand *operand, const float *row, int n);

void lwt_multiply(const lwt_linear *weight, const lwt_operand *x, float *y);
void lwt_normalise(const lwt_norm *norm, float *row, int n, float epsilon);

/* The embedding of position t; `scratch` has room for a row of every width in use. */
void lwt_embed(const lwt_embedder *embedder, const lwt_row *text, int t, float *row, float *scratch, lwt_operand *x);

/* The classifier's input, `pooled` [LWT_FEATURES]: lwt_pool takes all positions t in order, then lwt_finish_pool. */
void lwt_pool(float *pooled, const lwt_row *text, int t, const float *row);
void lwt_finish_pool(float *pooled, const lwt_row *text);

/* Softmax of n scores, in place. */
void lwt_softmax(float *scores, int n);

float lwt_exp(float x);
float lwt_sigmoid(float x);
float lwt_erf(float x);

#endif
