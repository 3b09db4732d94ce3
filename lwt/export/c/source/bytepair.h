/* From text to ids: cleaning and byte-pair pieces as in training, from tables. */
#ifndef LWT_BYTEPAIR_H
#define LWT_BYTEPAIR_H

#include <stdint.h>

#define LWT_WORD 1024 /* characters of a word; longer words are split */

enum { LWT_PAD, LWT_UNKNOWN, LWT_CLS, LWT_MASK, LWT_SEP };

/* Codes stand for the characters of the vocabulary, in the order of their numbers, and for these. */
enum { LWT_CODE_NONE = 253, LWT_CODE_SPACE, LWT_CODE_UNKNOWN };

/* Characters up to U+007F: their codes. */
extern const uint8_t lwt_ascii[128];
/* What the characters of a range become: from 0x8000 on, codes one after the other; else a place in `lwt_images`, a
   length and so many codes. Characters in no range are unknown. */
extern const uint16_t lwt_range_images[];
extern const uint8_t lwt_images[];
/* Ids of the codes. */
extern const uint16_t lwt_letters[];

/* Working memory. */
typedef struct {
    uint8_t codes[LWT_WORD];
    uint16_t start[LWT_WORD + 1];
    uint16_t merged[LWT_WORD];
    uint16_t second[LWT_LENGTH];
} lwt_words;

#endif
