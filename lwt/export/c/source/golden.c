/* See golden.h. */
#include "golden.h"

static float magnitude(float x)
{
    return x < 0 ? -x : x;
}

int lwt_self_test(lwt_arena *arena, float *worst)
{
    int failures = 0;
    *worst = 0;
    for (int g = 0; g < lwt_golden_count; g++) {
        const lwt_golden *golden = &lwt_goldens[g];
        float logits[LWT_OUTPUTS], largest = 1e-6f, error = 0;
        lwt_classify(arena, golden->texts[0], LWT_TEXTS == 2 ? golden->texts[LWT_TEXTS - 1] : 0, logits);
        for (int i = 0; i < LWT_OUTPUTS; i++) {
            float difference = magnitude(logits[i] - golden->logits[i]);
            error = difference <= error ? error : difference; /* NaN stays */
            largest = magnitude(golden->logits[i]) > largest ? magnitude(golden->logits[i]) : largest;
        }
        error /= largest;
        failures += !(error <= LWT_TOLERANCE);
        *worst = error <= *worst ? *worst : error;
    }
    return failures;
}
