/* A text, or two, as the row of ids that the network reads. */
#ifndef LWT_ENCODE_H
#define LWT_ENCODE_H

#include <stdint.h>

#include "engine.h"
#include "text.h"

/* The ids of a text so far: the first ones, or with LWT_CUT_MIDDLE the first and, in a ring buffer, the last. */
typedef struct {
    uint16_t *ids;
    int count, limit;
} lwt_ids;

void lwt_put(lwt_ids *ids, uint16_t id);

/* Whether no more ids can change the row. */
int lwt_full(const lwt_ids *ids);

/* Adds the ids of a text until no more can change the row; bytepair.c and wordpiece.c are two versions. */
void lwt_tokenize(lwt_words *words, lwt_text *text, lwt_ids *ids);

/* A text, or two (`second` may be NULL), as a row of at most LWT_LENGTH ids; the longer one is cut first, at its end,
   or in its middle with LWT_CUT_MIDDLE. */
void lwt_encode(lwt_words *words, const char *first, const char *second, lwt_row *row);

#endif
