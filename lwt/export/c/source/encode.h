/* The ids of a text. */
#ifndef LWT_ENCODE_H
#define LWT_ENCODE_H

#include <stdint.h>

#include "text.h"

/* The ids of a text so far: the first ones, or with LWT_CUT_MIDDLE the first and, in a ring buffer, the last. */
typedef struct {
    uint16_t *ids;
    int count, limit;
} lwt_ids;

/* The ids kept from the start of a long text; the rest of the row is a ring buffer for its end. */
static inline int lwt_first_half(int limit)
{
    return (limit + 1) / 2;
}

void lwt_put(lwt_ids *ids, uint16_t id);

/* Whether no more ids can change the row, or say that it was cut. */
int lwt_full(const lwt_ids *ids);

/* Adds the ids of a text until no more can change the row; bytepair.c and wordpiece.c are two versions. */
void lwt_tokenize(lwt_words *words, lwt_text *text, lwt_ids *ids);

/* Writes the ids of a text in UTF-8 to `row` [limit]; returns how many it has; above `limit`, some are
   left out, and the number counts at least one of them. */
int lwt_read_ids(lwt_words *words, const char *utf8, uint16_t *row, int limit);

#endif
