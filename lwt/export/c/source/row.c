/* See row.h. */
#include "model.h"

static void reverse(uint16_t *ids, int count)
{
    for (int i = 0; i < count / 2; i++) {
        uint16_t id = ids[i];
        ids[i] = ids[count - 1 - i];
        ids[count - 1 - i] = id;
    }
}

/* Keeps `kept` of the `count` ids of a text: the first ones, or as many first as last ones. */
static void cut(uint16_t *ids, int count, int kept, int limit)
{
    if (!LWT_CUT_MIDDLE || kept == count)
        return;
    if (count > limit) { /* puts the ring buffer in order */
        int half = lwt_first_half(limit), rest = limit - half, turn = (count - half) % rest;
        reverse(ids + half, turn);
        reverse(ids + half + turn, rest - turn);
        reverse(ids + half, rest);
        count = limit;
    }
    for (int i = lwt_first_half(kept); i < kept; i++)
        ids[i] = ids[count - kept + i];
}

int lwt_encode(lwt_words *words, const char *first, const char *second, lwt_row *row)
{
    int limit = LWT_LENGTH - 2 - (second != 0);
    uint16_t *ids = row->ids;
    int a = lwt_read_ids(words, first, ids + 1, limit);
    int b = second ? lwt_read_ids(words, second, words->second, limit) : 0;
    int is_cut = a + b > limit;
    if (is_cut) { /* see truncate in lwt/data/batches/text_rows.py */
        int half = limit - b > (limit + 1) / 2 ? limit - b : (limit + 1) / 2;
        int first_kept = a < half ? a : half, second_kept = b < limit - first_kept ? b : limit - first_kept;
        cut(ids + 1, a, first_kept, limit);
        cut(words->second, b, second_kept, limit);
        a = first_kept;
        b = second_kept;
    }
    ids[0] = LWT_CLS;
    ids[a + 1] = LWT_SEP;
    row->first = a + 2;
    row->length = a + 2;
    if (second) {
        for (int i = 0; i < b; i++)
            ids[a + 2 + i] = words->second[i];
        ids[a + 2 + b] = LWT_SEP;
        row->length += b + 1;
    }
    return is_cut;
}
