/* States in int8 with a step a row: products and their sums are integers. See states.h. */
#include "model.h"

#define LARGEST_SUM 0x7fffffff
#define UNITS(terms, factor) (LARGEST_SUM / (factor) / (terms) < 32767 ? LARGEST_SUM / (factor) / (terms) : 32767)
#define WEIGHT_UNITS UNITS(LWT_LENGTH, 127)      /* units per 1, so that no sum of weight · value overflows */
#define TAP_UNITS UNITS(LWT_TAPS + 1, 127 * 127) /* the same for tap · weight · value */

void lwt_store(lwt_states *states, int t, const float *row)
{
    float largest = lwt_largest(row, LWT_CHANNELS);
    float units = largest > 0 ? 127 / largest : 0;
    states->steps[t] = largest / 127;
    for (int i = 0; i < LWT_CHANNELS; i++) {
        float value = row[i] * units;
        states->cells[t][i] = (int8_t)(value + (value < 0 ? -0.5f : 0.5f));
    }
}

void lwt_read(float *row, const lwt_states *states, int t)
{
    for (int i = 0; i < LWT_CHANNELS; i++)
        row[i] = states->cells[t][i] * states->steps[t];
}

void lwt_load(lwt_operand *x, const lwt_states *states, int t, float *scratch)
{
    (void)scratch;
    for (int i = 0; i < LWT_CHANNELS; i++)
        x->values[lwt_place(i)] = states->cells[t][i];
    x->step = states->steps[t];
}

/* The weights, as integers, overwrite the first half of the scores' memory. */
static void put_weight(float *scores, int s, int16_t weight)
{
    __builtin_memcpy((char *)scores + 2 * s, &weight, 2);
}

static int16_t get_weight(const float *scores, int s)
{
    int16_t weight;
    __builtin_memcpy(&weight, (const char *)scores + 2 * s, 2);
    return weight;
}

/* Turns probabilities times the values' steps into integers; returns the value of one unit. */
static float round_weights(float *scores, const float *steps, int length)
{
    for (int s = 0; s < length; s++)
        scores[s] *= steps[s];
    float largest = lwt_largest(scores, length);
    float units = largest > 0 ? WEIGHT_UNITS / largest : 0;
    for (int s = 0; s < length; s++)
        put_weight(scores, s, (int16_t)(scores[s] * units + 0.5f));
    return largest / WEIGHT_UNITS;
}

/* The sum of weight · value over the positions, for one channel. */
static int32_t weigh(const float *scores, const int8_t *value, int length)
{
    int32_t sum = 0;
    for (int s = 0; s < length; s++, value += LWT_CHANNELS)
        sum += get_weight(scores, s) * *value;
    return sum;
}

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>

/* The same for four channels. */
static void weigh_four(const float *scores, const int8_t *value, int length, int32_t *sums)
{
    int32x4_t sum = vdupq_n_s32(0);
    for (int s = 0; s < length; s++, value += LWT_CHANNELS)
        sum = vmlaq_n_s32(sum, vldrbq_s32(value), get_weight(scores, s));
    vst1q_s32(sums, sum);
}

#elif defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>

/* The same for four channels, two positions at a time. */
static void weigh_four(const float *scores, const int8_t *value, int length, int32_t *sums)
{
    int32_t sum[4] = {0};
    int s = 0;
    for (; s + 1 < length; s += 2, value += 2 * LWT_CHANNELS) {
        uint32_t weights, here, next;
        __builtin_memcpy(&weights, (const char *)scores + 2 * s, 4);
        __builtin_memcpy(&here, value, 4);
        __builtin_memcpy(&next, value + LWT_CHANNELS, 4);
        uint32_t here02 = __sxtb16(here), here13 = LWT_ODD_BYTES(here);
        uint32_t next02 = __sxtb16(next), next13 = LWT_ODD_BYTES(next);
        sum[0] = __smlad((here02 & 0xffff) | next02 << 16, weights, sum[0]);
        sum[1] = __smlad((here13 & 0xffff) | next13 << 16, weights, sum[1]);
        sum[2] = __smlad(here02 >> 16 | (next02 & 0xffff0000), weights, sum[2]);
        sum[3] = __smlad(here13 >> 16 | (next13 & 0xffff0000), weights, sum[3]);
    }
    for (int i = 0; i < 4; i++)
        sums[i] = sum[i] + (s < length ? get_weight(scores, s) * value[i] : 0);
}

#else

static void weigh_four(const float *scores, const int8_t *value, int length, int32_t *sums)
{
    for (int i = 0; i < 4; i++)
        sums[i] = weigh(scores, value + i, length);
}

#endif

void lwt_attend(const lwt_heed *heed, const float *q, float *mixed)
{
    lwt_round(heed->operand, q, heed->n);
    float scale = heed->operand->step / lwt_sqrt((float)heed->n);
    for (int s = 0; s < heed->length; s++) {
        int32_t sum = lwt_dot(heed->keys->cells[s] + heed->start, heed->operand->values, heed->n);
        heed->scores[s] = (float)sum * (scale * heed->keys->steps[s]);
    }
    lwt_softmax(heed->scores, heed->length);
    float unit = round_weights(heed->scores, heed->values->steps, heed->length);
    const int8_t *values = heed->values->cells[0] + heed->start;
    int i = 0;
    for (; i < (heed->n & ~3); i += 4) {
        int32_t sums[4];
        weigh_four(heed->scores, values + i, heed->length, sums);
        for (int j = 0; j < 4; j++)
            mixed[i + j] = (float)sums[j] * unit;
    }
    for (; i < heed->n; i++)
        mixed[i] = (float)weigh(heed->scores, values + i, heed->length) * unit;
}

void lwt_convolve(const lwt_conv *conv, const lwt_states *states, int t, int expansion, float *y)
{
    int channels = LWT_CHANNELS * expansion;
    int first = t + 1 < LWT_TAPS ? LWT_TAPS - 1 - t : 0; /* taps before position 0 see zeros */
    const float *steps = states->steps + t - (LWT_TAPS - 1);
    int16_t weights[LWT_TAPS + 1]; /* a model without a convolution has no taps */
    float largest = lwt_largest(steps + first, LWT_TAPS - first);
    float units = largest > 0 ? TAP_UNITS / largest : 0;
    for (int i = first; i < LWT_TAPS; i++)
        weights[i] = (int16_t)(steps[i] * units + 0.5f);
    for (int c = 0; c < channels; c++) {
        const int8_t *kernel = conv->values + first * channels + c;
        const int8_t *x = &states->cells[t - (LWT_TAPS - 1) + first][c / expansion];
        int32_t sum = 0;
        for (int i = first; i < LWT_TAPS; i++, kernel += channels, x += LWT_CHANNELS)
            sum += *kernel * *x * weights[i];
        y[c] = (float)sum * (largest / TAP_UNITS) * lwt_widen(conv->scales[c])
            + (conv->bias ? lwt_widen(conv->bias[c]) : 0);
    }
}
