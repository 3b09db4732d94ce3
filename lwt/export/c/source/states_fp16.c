/* States in half precision; sums in float32. See states.h. */
#include "model.h"

void lwt_store(lwt_states *states, int t, const float *row)
{
    for (int i = 0; i < LWT_CHANNELS; i++)
        states->cells[t][i] = lwt_narrow(row[i]);
}

void lwt_read(float *row, const lwt_states *states, int t)
{
    for (int i = 0; i < LWT_CHANNELS; i++)
        row[i] = lwt_widen(states->cells[t][i]);
}

void lwt_load(lwt_operand *x, const lwt_states *states, int t, float *scratch)
{
    lwt_read(scratch, states, t);
    lwt_round(x, scratch, LWT_CHANNELS);
}

/* q · key, four at a time. */
static float product(const float *q, const lwt_half *key, int n)
{
    float sum = 0;
    for (; n >= 4; n -= 4, q += 4, key += 4) {
        sum += q[0] * lwt_widen(key[0]);
        sum += q[1] * lwt_widen(key[1]);
        sum += q[2] * lwt_widen(key[2]);
        sum += q[3] * lwt_widen(key[3]);
    }
    for (; n; n--)
        sum += *q++ * lwt_widen(*key++);
    return sum;
}

/* The sum of weight · value over the positions, for one channel, and for four. */
static void weigh(const float *weights, const lwt_half *value, int length, float *mixed)
{
    float sum = 0;
    for (; length; length--, weights++, value += LWT_CHANNELS)
        sum += *weights * lwt_widen(*value);
    *mixed = sum;
}

static void weigh_four(const float *weights, const lwt_half *value, int length, float *mixed)
{
    float a = 0, b = 0, c = 0, d = 0;
    for (; length; length--, weights++, value += LWT_CHANNELS) {
        a += *weights * lwt_widen(value[0]);
        b += *weights * lwt_widen(value[1]);
        c += *weights * lwt_widen(value[2]);
        d += *weights * lwt_widen(value[3]);
    }
    mixed[0] = a, mixed[1] = b, mixed[2] = c, mixed[3] = d;
}

void lwt_attend(const lwt_heed *heed, const float *q, float *mixed)
{
    float scale = 1 / lwt_sqrt((float)heed->n);
    for (int s = 0; s < heed->length; s++)
        heed->scores[s] = scale * product(q, heed->keys->cells[s] + heed->start, heed->n);
    lwt_softmax(heed->scores, heed->length);
    const lwt_half *values = heed->values->cells[0] + heed->start;
    int i = 0;
    for (; i < (heed->n & ~3); i += 4)
        weigh_four(heed->scores, values + i, heed->length, mixed + i);
    for (; i < heed->n; i++)
        weigh(heed->scores, values + i, heed->length, mixed + i);
}

void lwt_convolve(const lwt_conv *conv, const lwt_states *states, int t, int expansion, float *y)
{
    int channels = LWT_CHANNELS * expansion;
    int first = t + 1 < LWT_TAPS ? LWT_TAPS - 1 - t : 0; /* taps before position 0 see zeros */
    for (int c = 0; c < channels; c++) {
        const int8_t *kernel = conv->values + first * channels + c;
        const lwt_half *x = &states->cells[t - (LWT_TAPS - 1) + first][c / expansion];
        float sum = 0;
        for (int i = first; i < LWT_TAPS; i++, kernel += channels, x += LWT_CHANNELS)
            sum += *kernel * lwt_widen(*x);
        y[c] = sum * lwt_widen(conv->scales[c]) + (conv->bias ? lwt_widen(conv->bias[c]) : 0);
    }
}
