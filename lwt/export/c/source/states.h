/* The states of all positions, between layers: the bulk of the memory. Rounded to fp16, or to int8 with a step per row;
   states_fp16.c and states_int8.c are two versions of the same functions. */
#ifndef LWT_STATES_H
#define LWT_STATES_H

#include "engine.h"

#if LWT_INT8
typedef int8_t lwt_cell;
#define LWT_STEPS LWT_ROWS
#else
typedef lwt_half lwt_cell;
#define LWT_STEPS 1 /* no steps, but an array cannot be empty */
#endif

typedef struct {
    float steps[LWT_STEPS];
    lwt_cell cells[LWT_ROWS][LWT_CHANNELS];
} lwt_states;

void lwt_store(lwt_states *states, int t, const float *row);

/* The place of the next row in states that only lwt_convolve reads, and that have `count` rows so far. If there is no more
   room, the rows that later positions see move to the start. */
static inline int lwt_slide(lwt_states *states, int count)
{
    if (count < LWT_ROWS)
        return count;
    for (int r = 0; r < LWT_TAPS - 1; r++) {
        int from = LWT_ROWS - (LWT_TAPS - 1) + r;
        for (int i = 0; i < LWT_CHANNELS; i++)
            states->cells[r][i] = states->cells[from][i];
        if (LWT_INT8)
            states->steps[r] = states->steps[from];
    }
    return LWT_TAPS - 1;
}

/* Position t as an operand (`scratch` [LWT_CHANNELS]), and as floats. */
void lwt_load(lwt_operand *x, const lwt_states *states, int t, float *scratch);
void lwt_read(float *row, const lwt_states *states, int t);

/* softmax(q · keys / sqrt(n)) values, of the n channels from `start`; `q` and `mixed` may be the same. */
typedef struct {
    const lwt_states *keys, *values;
    int start, n, length;
    float *scores;        /* [length] */
    lwt_operand *operand; /* [n] */
} lwt_heed;

void lwt_attend(const lwt_heed *heed, const float *q, float *mixed);

/* Channels of output t: each input channel makes `expansion` of them. */
void lwt_convolve(const lwt_conv *conv, const lwt_states *states, int t, int expansion, float *y);

#endif
