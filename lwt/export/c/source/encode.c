/* See encode.h. */
#include "model.h"

int lwt_full(const lwt_ids *ids)
{
    return !LWT_CUT_MIDDLE && ids->count > ids->limit;
}

void lwt_put(lwt_ids *ids, uint16_t id)
{
    int at = ids->count;
    if (lwt_full(ids))
        return;
    ids->count++;
    if (at >= ids->limit) {
        if (!LWT_CUT_MIDDLE)
            return;
        int half = lwt_first_half(ids->limit);
        at = half + (at - half) % (ids->limit - half);
    }
    ids->ids[at] = id;
}

int lwt_read_ids(lwt_words *words, const char *utf8, uint16_t *row, int limit)
{
    lwt_ids ids = {row, 0, limit};
    const uint8_t *end = (const uint8_t *)utf8;
    while (*end)
        end++;
    lwt_text text = {(const uint8_t *)utf8, end, ' ', 0};
    lwt_tokenize(words, &text, &ids);
    return ids.count;
}
