/* See engine.h. Sums of integers are exact, and floats are added in one order: the same result on every machine. */
#include "model.h"

/* 16 times the values of 4 bits in a byte. */
static inline int low_half(int8_t pair)
{
    return (int8_t)(uint8_t)((uint8_t)pair << 4);
}

static inline int high_half(int8_t pair)
{
    return pair & ~15;
}

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

int32_t lwt_dot(const int8_t *values, const int16_t *operand, int n)
{
    int32_t sum = 0;
    for (; n > 0; n -= 8, values += 8, operand += 8) {
        mve_pred16_t rest = vctp16q((uint32_t)n);
        sum = vmladavaq_p_s16(sum, vldrbq_z_s16(values, rest), vldrhq_z_s16(operand, rest), rest);
    }
    return sum;
}

/* 16 times the sum for weights of 4 bits, which are the high halves of bytes. */
static int32_t dot_halves(const int8_t *values, const int16_t *operand, int n)
{
    int32_t sum = 0;
    for (; n > 0; n -= 16, values += 8, operand += 16) {
        int16x8_t pairs = vldrbq_s16(values);
        sum = vmladavaq_s16(sum, vshrq_n_s16(vshlq_n_s16(pairs, 12), 8), vldrhq_s16(operand));
        sum = vmladavaq_s16(sum, vandq_s16(pairs, vdupq_n_s16(~15)), vldrhq_s16(operand + 8));
    }
    return sum;
}

#elif defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>

static inline uint32_t load(const void *four)
{
    uint32_t word;
    __builtin_memcpy(&word, four, 4);
    return word;
}

static inline int32_t dot_word(uint32_t four, const int16_t *operand, int32_t sum)
{
    sum = __smlad(__sxtb16(four), load(operand), sum);
    return __smlad(LWT_ODD_BYTES(four), load(operand + 2), sum);
}

static inline int32_t dot_four(const int8_t *values, const int16_t *operand, int32_t sum)
{
    return dot_word(load(values), operand, sum);
}

int32_t lwt_dot(const int8_t *values, const int16_t *operand, int n)
{
    int32_t sum = 0;
    for (; n >= 16; n -= 16, values += 16, operand += 16) { /* unrolled by hand, since -Os does not unroll */
        sum = dot_four(values, operand, sum);
        sum = dot_four(values + 4, operand + 4, sum);
        sum = dot_four(values + 8, operand + 8, sum);
        sum = dot_four(values + 12, operand + 12, sum);
    }
    for (; n >= 4; n -= 4, values += 4, operand += 4)
        sum = dot_four(values, operand, sum);
    for (int i = 0; i < n; i++)
        sum += values[i] * operand[lwt_place(i)];
    return sum;
}

/* 16 times the sum for weights of 4 bits, which are the high halves of bytes. */
static int32_t dot_halves(const int8_t *values, const int16_t *operand, int n)
{
    int32_t sum = 0;
    for (; n > 0; n -= 16, values += 8, operand += 16) {
        uint32_t a = load(values), b = load(values + 4);
        sum = dot_word(a << 4 & 0xf0f0f0f0, operand, sum);
        sum = dot_word(b << 4 & 0xf0f0f0f0, operand + 4, sum);
        sum = dot_word(a & 0xf0f0f0f0, operand + 8, sum);
        sum = dot_word(b & 0xf0f0f0f0, operand + 12, sum);
    }
    return sum;
}

#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>

static inline v128_t dot_eight(v128_t values, const int16_t *operand, v128_t sums)
{
    return wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(values, wasm_v128_load(operand)));
}

static inline int32_t total(v128_t sums)
{
    return wasm_i32x4_extract_lane(sums, 0) + wasm_i32x4_extract_lane(sums, 1) + wasm_i32x4_extract_lane(sums, 2)
        + wasm_i32x4_extract_lane(sums, 3);
}

int32_t lwt_dot(const int8_t *values, const int16_t *operand, int n)
{
    v128_t sums = wasm_i32x4_splat(0);
    for (; n >= 8; n -= 8, values += 8, operand += 8)
        sums = dot_eight(wasm_i16x8_load8x8(values), operand, sums);
    int32_t sum = total(sums);
    for (int i = 0; i < n; i++)
        sum += values[i] * operand[i];
    return sum;
}

/* 16 times the sum for weights of 4 bits, which are the high halves of bytes. */
static int32_t dot_halves(const int8_t *values, const int16_t *operand, int n)
{
    v128_t sums = wasm_i32x4_splat(0);
    for (; n > 0; n -= 16, values += 8, operand += 16) {
        v128_t pairs = wasm_i16x8_load8x8(values);
        sums = dot_eight(wasm_i16x8_shr(wasm_i16x8_shl(pairs, 12), 8), operand, sums);
        sums = dot_eight(wasm_v128_and(pairs, wasm_i16x8_splat(~15)), operand + 8, sums);
    }
    return total(sums);
}

#else

int32_t lwt_dot(const int8_t *values, const int16_t *operand, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += values[i] * operand[i];
    return sum;
}

/* 16 times the sum for weights of 4 bits, which are the high halves of bytes. */
static int32_t dot_halves(const int8_t *values, const int16_t *operand, int n)
{
    int32_t sum = 0;
    for (; n > 0; n -= 16, values += 8, operand += 16)
        for (int i = 0; i < 8; i++)
            sum += low_half(values[i]) * operand[i] + high_half(values[i]) * operand[i + 8];
    return sum;
}

#endif

int32_t lwt_dot_bits(const int8_t *values, const int16_t *operand, int n, int bits)
{
    return bits == 4 ? dot_halves(values, operand, n) / 16 : lwt_dot(values, operand, n);
}

float lwt_largest(const float *row, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++) {
        float magnitude = row[i] < 0 ? -row[i] : row[i];
        if (magnitude > largest)
            largest = magnitude;
    }
    return largest;
}

void lwt_round(lwt_operand *operand, const float *row, int n)
{
    float largest = lwt_largest(row, n);
    float units = largest > 0 ? 32767 / largest : 0;
    operand->step = largest / 32767;
    for (int i = 0; i < n; i++) {
        float value = row[i] * units;
        operand->values[lwt_place(i)] = (int16_t)(value + (value < 0 ? -0.5f : 0.5f));
    }
}

static void multiply(const lwt_linear *weight, const lwt_operand *x, float *y)
{
    const int8_t *values = weight->values;
    const lwt_half *scales = weight->scales;
    for (int o = 0; o < weight->outputs; o++) {
        float sum = 0;
        for (int start = 0; start < weight->inputs; start += weight->block) {
            int n = weight->inputs - start < weight->block ? weight->inputs - start : weight->block;
            sum += lwt_widen(*scales++) * (float)lwt_dot_bits(values, x->values + start, n, weight->bits);
            values += lwt_row_bytes(n, weight->bits);
        }
        y[o] = sum * x->step + (weight->bias ? lwt_widen(weight->bias[o]) : 0);
    }
}

void lwt_multiply(const lwt_linear *weight, const lwt_operand *x, float *y)
{
    const lwt_operand *last = x;
#if LWT_RANK
    lwt_operand between = {.values = x->values + LWT_OPERAND - LWT_RANK};
    if (weight->first) { /* y has room for its outputs, which are fewer */
        multiply(weight->first, x, y);
        lwt_round(&between, y, weight->inputs);
        last = &between;
    }
#endif
    multiply(weight, last, y);
#if LWT_TASKS
    if (weight->place && x->task)
        lwt_adapt(weight, x, y);
#endif
}

void lwt_normalise(const lwt_norm *norm, float *row, int n, float epsilon)
{
    float mean = 0, square = 0;
    if (norm->bias) {
        for (int i = 0; i < n; i++)
            mean += row[i];
        mean /= n;
    }
    for (int i = 0; i < n; i++) {
        row[i] -= mean;
        square += row[i] * row[i];
    }
    float inverse = 1 / lwt_sqrt(square / n + epsilon);
    for (int i = 0; i < n; i++)
        row[i] = row[i] * inverse * lwt_widen(norm->scale[i]) + (norm->bias ? lwt_widen(norm->bias[i]) : 0);
}

/* Value i of a row of weights. */
static int value_of(const int8_t *row, int i, int bits)
{
    if (bits == 8)
        return row[i];
    int8_t pair = row[i / 16 * 8 + i % 8];
    return (i & 8 ? high_half(pair) : low_half(pair)) / 16;
}

void lwt_look_up(const lwt_table *table, int r, float *row)
{
    const int8_t *values = table->values + r * lwt_row_bytes(table->width, table->bits);
    const lwt_half *scales = table->scales + (table->block ? r / table->block * table->width : r);
    for (int i = 0; i < table->width; i++)
        row[i] += value_of(values, i, table->bits) * lwt_widen(scales[table->block ? i : 0]);
}

void lwt_clear(float *row, int n)
{
    for (int i = 0; i < n; i++)
        row[i] = 0;
}

void lwt_add(float *row, const float *more, int n)
{
    for (int i = 0; i < n; i++)
        row[i] += more[i];
}

void lwt_softmax(float *scores, int n)
{
    float largest = scores[0], sum = 0;
    for (int i = 1; i < n; i++)
        if (scores[i] > largest)
            largest = scores[i];
    for (int i = 0; i < n; i++)
        sum += scores[i] = lwt_exp(scores[i] - largest);
    for (int i = 0; i < n; i++)
        scores[i] /= sum;
}

#if defined(__SSE2__) || defined(__aarch64__) || defined(__wasm__) || (defined(__ARM_FP) && (__ARM_FP & 4))

float lwt_sqrt(float x)
{
    return __builtin_sqrtf(x);
}

#else

float lwt_sqrt(float x)
{
    uint32_t bits = lwt_to_bits(x), exponent = bits >> 23, root = 0;
    if (!exponent) /* 0, or a subnormal number: times 2^24 */
        return bits ? lwt_sqrt(x * 0x1p24f) * 0x1p-12f : x;
    uint32_t rest = (bits & 0x7fffff) | 0x800000;
    rest <<= exponent % 2 ? 1 : 2; /* the exponent becomes even */
    for (uint32_t bit = 1 << 24; bit; bit >>= 1) { /* 25 binary digits: one more than a float has */
        if (2 * root + bit <= rest) {
            rest -= 2 * root + bit;
            root += bit;
        }
        rest <<= 1;
    }
    return lwt_of_bits(((exponent + 125) / 2 << 23) + ((root + (root & 1)) >> 1));
}

#endif

/* 2^n · e^r with |r| <= ln 2 / 2, by the series up to r^6: relative error below 2e-7. */
float lwt_exp(float x)
{
    if (x < -87)
        return 0;
    x = x > 88 ? 88 : x;
    int n = (int)(x * 1.44269504f + (x < 0 ? -0.5f : 0.5f));
    float r = x - n * 0.693145752f - n * 1.42860677e-6f; /* ln 2 in two parts, the first exact times n */
    float series = 1 + r * (1 + r * (0.5f + r * (1 / 6.f + r * (1 / 24.f + r * (1 / 120.f + r / 720)))));
    return series * lwt_of_bits((uint32_t)(n + 127) << 23);
}

void lwt_add_exponentials(const float *scores, int n, float *largest, float *sum)
{
    float own = scores[0], part = 0;
    for (int i = 1; i < n; i++)
        own = scores[i] > own ? scores[i] : own;
    for (int i = 0; i < n; i++)
        part += lwt_exp(scores[i] - own);
    float both = own > *largest ? own : *largest;
    *sum = *sum * lwt_exp(*largest - both) + part * lwt_exp(own - both);
    *largest = both;
}

/* x = 2^n · m with 0.7 < m < 1.42; log m = 2 artanh(s) with s = (m - 1) / (m + 1), by the series up to s^9. */
float lwt_log(float x)
{
    uint32_t bits = lwt_to_bits(x) + (0x3f800000 - 0x3f3504f3); /* of x / sqrt(1/2) */
    int n = (int)(bits >> 23) - 127;
    float m = lwt_of_bits((bits & 0x7fffff) + 0x3f3504f3), s = (m - 1) / (m + 1), q = s * s;
    float series = 1 + q * (1 / 3.f + q * (1 / 5.f + q * (1 / 7.f + q / 9)));
    return n * 0.693147181f + 2 * s * series;
}

/* x + quarters · pi/2 = n · pi + r with |r| <= pi/2; sin r by the series up to r^11: absolute error below 1e-6. */
float lwt_sine(float x, int quarters)
{
    float half = 0.5f * quarters;
    int n = (int)(x * 0.318309886f + half + 0.5f);
    float k = n - half, r = x - k * 3.140625f - k * 9.67653590e-4f, q = r * r; /* pi in two parts, the first exact */
    float series = 1 / 120.f - q * (1 / 5040.f - q * (1 / 362880.f - q / 39916800));
    float y = r * (1 - q * (1 / 6.f - q * series));
    return n & 1 ? -y : y;
}

float lwt_sigmoid(float x)
{
    return 1 / (1 + lwt_exp(-x));
}

/* Abramowitz and Stegun 7.1.26: absolute error below 5e-7. */
float lwt_erf(float x)
{
    float size = x < 0 ? -x : x, t = 1 / (1 + 0.3275911f * size);
    float series = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float y = 1 - series * lwt_exp(-size * size);
    return x < 0 ? -y : y;
}

static float activated(int activation, float x)
{
    switch (activation) {
    case LWT_RELU:
        return x > 0 ? x : 0;
    case LWT_SILU:
        return x * lwt_sigmoid(x);
    case LWT_GELU:
        return 0.5f * x * (1 + lwt_erf(x * 0.707106781f));
    case LWT_TANH: /* tanh(u) = 2 sigmoid(2u) - 1 */
        return 2 * lwt_sigmoid(2 * x) - 1;
    default:
        return x * lwt_sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
    }
}

void lwt_activate(int activation, float *row, int n)
{
    for (int i = 0; i < n; i++)
        row[i] = activated(activation, row[i]);
}
