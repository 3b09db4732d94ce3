/* The model's answers, computed in JAX with the same integers. */
#ifndef LWT_GOLDEN_H
#define LWT_GOLDEN_H

#include "model.h"

typedef struct {
#if LWT_TASKS
    int task;
#endif
    char texts[LWT_TEXTS][LWT_GOLDEN_BYTES];
    float logits[LWT_OUTPUTS];
} lwt_golden;

extern const int lwt_golden_count;
extern const lwt_golden lwt_goldens[];

typedef struct {
    int failures;  /* goldens whose task is damaged, or whose logits differ by more than LWT_TOLERANCE of the largest */
    float worst;   /* the largest difference */
    uint32_t bits; /* a hash of the bits of all logits, which are the same on all machines */
} lwt_findings;

/* Returns the number of failures. */
int lwt_self_test(lwt_arena *arena, lwt_findings *found);

#endif
