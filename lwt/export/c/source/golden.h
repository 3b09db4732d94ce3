/* The model's answers, computed in JAX with the same integers. */
#ifndef LWT_GOLDEN_H
#define LWT_GOLDEN_H

#include "lwt.h"

typedef struct {
    char texts[LWT_TEXTS][LWT_GOLDEN_BYTES];
    float logits[LWT_OUTPUTS];
} lwt_golden;

extern const int lwt_golden_count;
extern const lwt_golden lwt_goldens[];

/* Number of goldens whose logits differ by more than LWT_TOLERANCE of the largest; *worst is the largest difference. */
int lwt_self_test(lwt_arena *arena, float *worst);

#endif
