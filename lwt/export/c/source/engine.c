/* See engine.h. Sums of integers are exact, and floats are added in one order: the same result on every machine. */
#include "model.h"

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

#elif defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>

static inline int32_t dot_four(const int8_t *values, const int16_t *operand, int32_t sum)
{
    uint32_t four, even, odd;
    __builtin_memcpy(&four, values, 4);
    __builtin_memcpy(&even, operand, 4);
    __builtin_memcpy(&odd, operand + 2, 4);
    sum = __smlad(__sxtb16(four), even, sum);
    return __smlad(__sxtb16(__ror(four, 8)), odd, sum);
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
    for (; n; n--)
        sum += *values++ * *operand++;
    return sum;
}

#else

int32_t lwt_dot(const int8_t *values, const int16_t *operand, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += values[i] * operand[i];
    return sum;
}

#endif

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
        operand->values[lwt_place(i, n)] = (int16_t)(value + (value < 0 ? -0.5f : 0.5f));
    }
}

void lwt_multiply(const lwt_linear *weight, const lwt_operand *x, float *y)
{
    const int8_t *values = weight->values;
    const lwt_half *scales = weight->scales;
    for (int o = 0; o < weight->outputs; o++) {
        float sum = 0;
        for (int start = 0; start < weight->inputs; start += LWT_BLOCK) {
            int n = weight->inputs - start < LWT_BLOCK ? weight->inputs - start : LWT_BLOCK;
            sum += lwt_widen(*scales++) * (float)lwt_dot(values, x->values + start, n);
            values += n;
        }
        y[o] = sum * x->step + (weight->bias ? lwt_widen(weight->bias[o]) : 0);
    }
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
    float inverse = 1 / __builtin_sqrtf(square / n + epsilon);
    for (int i = 0; i < n; i++)
        row[i] = row[i] * inverse * lwt_widen(norm->scale[i]) + (norm->bias ? lwt_widen(norm->bias[i]) : 0);
}

/* Adds row r of a table. */
static void look_up(const lwt_table *table, int r, float *row)
{
    const int8_t *values = table->values + r * table->width;
    const lwt_half *scales = table->scales + r / LWT_BLOCK * table->width;
    for (int i = 0; i < table->width; i++)
        row[i] += values[i] * lwt_widen(scales[i]);
}

static void clear(float *row, int n)
{
    for (int i = 0; i < n; i++)
        row[i] = 0;
}

/* Adds row r of a narrow table, expanded. */
static void expand(const lwt_table *table, const lwt_linear *expander, int r, float *row, float *scratch, lwt_operand *x)
{
    clear(scratch, table->width);
    look_up(table, r, scratch);
    lwt_round(x, scratch, table->width);
    lwt_multiply(expander, x, scratch);
    for (int i = 0; i < expander->outputs; i++)
        row[i] += scratch[i];
}

void lwt_embed(const lwt_embedder *embedder, const lwt_row *text, int t, float *row, float *scratch, lwt_operand *x)
{
    clear(row, LWT_WIDTH);
    if (LWT_SEGMENTS) { /* a table of three rows has padding first */
        int segment = LWT_SEGMENTS == 1 ? 0 : (t < text->first ? 1 : 2) - (LWT_SEGMENTS == 2);
        look_up(&embedder->segment, segment, row);
    }
    if (embedder->token_expander.values) {
        expand(&embedder->token, &embedder->token_expander, text->ids[t], row, scratch, x);
        expand(&embedder->position, &embedder->position_expander, t, row, scratch, x);
    } else {
        look_up(&embedder->token, text->ids[t], row);
        look_up(&embedder->position, t, row);
    }
}

void lwt_pool(float *pooled, const lwt_row *text, int t, const float *row)
{
    if (t == 0)
        clear(pooled, LWT_FEATURES);
    if (LWT_POOL_PAIR && t >= text->first)
        pooled += LWT_WIDTH;
    for (int i = 0; i < LWT_WIDTH; i++)
        pooled[i] += LWT_POOL_FIRST || LWT_POOL_MEAN ? row[i] : row[i] * row[i];
}

/* Sums of squares become the root of their mean. */
static void root(float *row, int count)
{
    for (int i = 0; i < LWT_WIDTH; i++)
        row[i] = __builtin_sqrtf(row[i] / (count ? count : 1) + 1e-12f);
}

void lwt_finish_pool(float *pooled, const lwt_row *text)
{
    for (int i = 0; i < LWT_WIDTH && LWT_POOL_MEAN; i++)
        pooled[i] /= text->length;
    if (LWT_POOL_FIRST || LWT_POOL_MEAN)
        return;
    root(pooled, LWT_POOL_PAIR ? text->first : text->length);
    if (LWT_POOL_PAIR) {
        root(pooled + LWT_WIDTH, text->length - text->first);
        for (int i = 0; i < LWT_WIDTH; i++) {
            float u = pooled[i], v = pooled[LWT_WIDTH + i];
            pooled[2 * LWT_WIDTH + i] = u > v ? u - v : v - u;
            pooled[3 * LWT_WIDTH + i] = u * v;
        }
    }
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
