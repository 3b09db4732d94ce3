/* From text to ids: cleaning and byte-pair pieces as in training, from tables. */
#ifndef LWT_TOKENIZER_H
#define LWT_TOKENIZER_H

#include <stdint.h>

#include "engine.h"

#define LWT_WORD 1024 /* characters of a word; longer words are split */

enum { LWT_PAD, LWT_UNKNOWN, LWT_CLS, LWT_MASK, LWT_SEP };

/* Codes stand for the characters of the vocabulary, in the order of their numbers, and for these. */
enum { LWT_CODE_NONE = 253, LWT_CODE_SPACE, LWT_CODE_UNKNOWN };

/* Characters up to U+007F: their codes. */
extern const uint8_t lwt_ascii[128];
/* Ranges of other characters with known ones in them: number << 11 | length - 1, ascending. What they become: from
   0x8000 on, codes one after the other; else a place in `lwt_images`, a length and so many codes. */
extern const uint32_t lwt_ranges[];
extern const uint16_t lwt_range_images[];
extern const uint8_t lwt_images[];
/* Ids of the codes. */
extern const uint16_t lwt_letters[];
/* Longer pieces, sorted: shared with the one before << 4 | others - 1, and the other codes. Every 16th shares nothing;
   `lwt_starts` are their places. `lwt_piece_ids` has LWT_ID_BITS a piece. */
extern const uint8_t lwt_pieces[];
extern const uint16_t lwt_starts[];
extern const uint8_t lwt_piece_ids[];

/* Working memory. */
typedef struct {
    uint8_t codes[LWT_WORD];
    uint16_t start[LWT_WORD + 1];
    uint16_t merged[LWT_WORD];
    uint16_t second[LWT_LENGTH];
} lwt_words;

/* A text, or two (`second` may be NULL), as a row of at most LWT_LENGTH ids; the longer one is cut first, at its end,
   or in its middle with LWT_CUT_MIDDLE. */
void lwt_encode(lwt_words *words, const char *first, const char *second, lwt_row *row);

#endif
