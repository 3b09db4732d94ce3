/* The answers of the model, computed in NumPy with the same integers and the same rounding. */
#ifndef LWT_GOLDEN_H
#define LWT_GOLDEN_H

#include "model.h"

typedef struct {
    const char *text, *answer;
} lwt_golden;

extern const int lwt_golden_count;
extern const lwt_golden lwt_goldens[];

typedef struct {
    int failures;  /* goldens whose answers differ */
    uint32_t bits; /* a hash of all answers, which are the same on all machines */
} lwt_findings;

/* Returns the number of failures. */
int lwt_self_test(lwt_arena *arena, lwt_findings *found);

#endif
