/* The parts of a network, one position at a time. Weights are int8 or int4 with a half-precision scale per block. */
#ifndef LWT_ENGINE_H
#define LWT_ENGINE_H

#include <stdint.h>

#include "half.h"

/* Weights of 4 bits are two a byte: byte k of 8 has values k (low) and k + 8 (high) of 16. A row of n is filled up with
   zeros to a multiple of 16. Bytes of a row: */
static inline int lwt_row_bytes(int n, int bits)
{
    return bits == 4 ? (n + 15) / 16 * 8 : n;
}

/* y = x W + b. `values` [outputs][inputs], `scales` [outputs][blocks of inputs], `bias` [outputs] or NULL. `place` numbers
   the products that a task may change, from 1 on. With `first`, W is the second of two factors: y = (x first) W + b. */
typedef struct lwt_linear {
    const int8_t *values;
    const lwt_half *scales;
    const lwt_half *bias;
    uint16_t inputs, outputs, block;
    uint8_t bits, place;
#if LWT_RANK
    const struct lwt_linear *first;
#endif
} lwt_linear;

/* The inputs of a product, or of the first of two. */
static inline int lwt_inputs(const lwt_linear *weight)
{
#if LWT_RANK
    if (weight->first)
        return weight->first->inputs;
#endif
    return weight->inputs;
}

/* Rows to look up. `values` [rows][width]; `scales` [blocks of rows][width], or [rows] if block is 0. */
typedef struct {
    const int8_t *values;
    const lwt_half *scales;
    uint16_t width, block;
    uint8_t bits;
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

/* The input of a product, value · step: integers meet integers, and their sums are exact. `values` has room for
   LWT_OPERAND integers: the input, up to a multiple of 16, and in the last LWT_RANK what lies between two factors. `task`
   may change the product; NULL: none does. */
typedef struct {
    int16_t *values;
    float step;
    const struct lwt_task *task;
} lwt_operand;

/* The place of value i in an operand. With SMLAD, four int8 come out of a register as (0, 2) and (1, 3). */
static inline int lwt_place(int i)
{
#if defined(__ARM_FEATURE_DSP) && !defined(__ARM_FEATURE_MVE)
    return (i & ~3) | (i & 1) << 1 | (i >> 1 & 1);
#else
    return i;
#endif
}

/* Bytes 1 and 3, sign-extended, for SMLAD; __sxtb16 gives bytes 0 and 2. GCC has no __ror. */
#define LWT_ODD_BYTES(four) __sxtb16((four) >> 8 | (four) << 24)

/* The sum of the products of n integers: of 8 bits, and of 8 or 4 bits. */
int32_t lwt_dot(const int8_t *values, const int16_t *operand, int n);
int32_t lwt_dot_bits(const int8_t *values, const int16_t *operand, int n, int bits);

/* The largest magnitude of a row. */
float lwt_largest(const float *row, int n);

/* Rounds a row to an operand of 16 bits. */
void lwt_round(lwt_operand *operand, const float *row, int n);

void lwt_multiply(const lwt_linear *weight, const lwt_operand *x, float *y);
void lwt_normalise(const lwt_norm *norm, float *row, int n, float epsilon);

/* Adds row r of a table. */
void lwt_look_up(const lwt_table *table, int r, float *row);

void lwt_clear(float *row, int n);
void lwt_add(float *row, const float *more, int n);

/* Softmax of n scores, in place. */
void lwt_softmax(float *scores, int n);

/* Applies an activation to n values: */
enum { LWT_RELU, LWT_SILU, LWT_GELU, LWT_GELU_TANH, LWT_TANH }; /* as in parts.py */
void lwt_activate(int activation, float *row, int n);

/* The root, rounded to nearest: of the compiler, or of integers where the processor has none. x >= 0. */
float lwt_sqrt(float x);

/* Adds exp(score) of n scores to a sum that is kept as exp(largest) · sum. */
void lwt_add_exponentials(const float *scores, int n, float *largest, float *sum);

float lwt_exp(float x);
float lwt_log(float x); /* x > 0 */
float lwt_sine(float x, int quarters); /* sin(x + quarters · pi/2), 0 <= x < 10000 */
float lwt_sigmoid(float x);
float lwt_erf(float x);

#endif
