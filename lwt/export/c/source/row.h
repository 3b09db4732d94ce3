/* A text, or two, as the row of ids that a classifier reads. */
#ifndef LWT_ROW_H
#define LWT_ROW_H

#include "encode.h"

/* [CLS] a [SEP], or [CLS] a [SEP] b [SEP]; `first` tokens up to the first [SEP]. */
typedef struct {
    uint16_t *ids;
    uint16_t length, first;
    const struct lwt_task *task; /* of the answer; NULL: the program has only one */
} lwt_row;

/* A text, or two (`second` may be NULL), as a row of at most LWT_LENGTH ids; the longer one is cut first, at its end,
   or in its middle with LWT_CUT_MIDDLE. Returns whether anything was cut. */
int lwt_encode(lwt_words *words, const char *first, const char *second, lwt_row *row);

#endif
