/* See golden.h. */
#include "golden.h"

static char answer[LWT_GOLDEN_BYTES];

int lwt_self_test(lwt_arena *arena, lwt_findings *found)
{
    found->failures = 0;
    found->bits = 2166136261u; /* FNV-1a */
    for (int g = 0; g < lwt_golden_count; g++) {
        const char *wanted = lwt_goldens[g].answer;
        int i = 0;
        lwt_translate(arena, lwt_goldens[g].text, answer, sizeof answer, 0);
        for (; answer[i] && answer[i] == wanted[i]; i++)
            found->bits = (found->bits ^ (uint8_t)answer[i]) * 16777619u;
        found->failures += answer[i] != wanted[i];
    }
    return found->failures;
}
