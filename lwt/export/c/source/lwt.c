/* See lwt.h. */
#include "lwt.h"

int lwt_classify(lwt_arena *arena, const char *first, const char *second, float logits[LWT_OUTPUTS])
{
    lwt_row row = {.ids = arena->ids};
    lwt_encode(&arena->use.words, first, second, &row);
    lwt_forward(&arena->use.network, &row, logits);
    int best = 0;
    for (int i = 1; i < LWT_OUTPUTS; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}
