/* See golden.h. */
#include "golden.h"

static float magnitude(float x)
{
    return x < 0 ? -x : x;
}

int lwt_self_test(lwt_arena *arena, lwt_findings *found)
{
    found->failures = 0;
    found->worst = 0;
    found->bits = 2166136261u; /* FNV-1a */
    for (int g = 0; g < lwt_golden_count; g++) {
        const lwt_golden *golden = &lwt_goldens[g];
        float largest = 1e-6f, error = 0;
        lwt_answer answer;
#if LWT_TASKS
        lwt_task task;
        if (lwt_select(&task, lwt_tasks[golden->task]) != LWT_OK) {
            found->failures++;
            continue;
        }
#endif
        lwt_classify(arena, @ARGUMENT@golden->texts[0], LWT_TEXTS == 2 ? golden->texts[LWT_TEXTS - 1] : 0, &answer);
        for (int i = 0; i < answer.classes || i < 1; i++) {
            float difference = magnitude(answer.logits[i] - golden->logits[i]);
            found->bits = (found->bits ^ lwt_to_bits(answer.logits[i])) * 16777619u;
            error = difference <= error ? error : difference; /* NaN stays */
            largest = magnitude(golden->logits[i]) > largest ? magnitude(golden->logits[i]) : largest;
        }
        error /= largest;
        found->failures += !(error <= LWT_TOLERANCE);
        found->worst = error <= found->worst ? found->worst : error;
    }
    return found->failures;
}
