/* From text to ids: cleaning and byte-pair pieces as in training, from tables. */
#ifndef LWT_BYTEPAIR_H
#define LWT_BYTEPAIR_H

#include <stdint.h>

#define LWT_WORD 1024 /* characters of a word; longer words are split */

enum { LWT_PAD, LWT_UNKNOWN, LWT_CLS, LWT_MASK, LWT_SEP };

/* Codes stand for the characters of the vocabulary, in the order of their numbers, and for these. A code has one byte, or
   two if there are more characters. */
#if LWT_CODE_BYTES > 1
typedef uint16_t lwt_code;
#else
typedef uint8_t lwt_code;
#endif
enum { LWT_CODE_NONE = (1 << 8 * LWT_CODE_BYTES) - 3, LWT_CODE_SPACE, LWT_CODE_UNKNOWN };

/* Characters up to U+007F: their codes. */
extern const lwt_code lwt_ascii[128];
/* What the characters of a range become: from 0x8000 on, codes one after the other; else a place in `lwt_images`, a
   length and so many codes. Characters in no range are unknown. */
extern const uint16_t lwt_range_images[];
extern const lwt_code lwt_images[];
/* Ids of the codes. */
extern const uint16_t lwt_letters[];

/* Working memory. */
typedef struct {
    uint8_t codes[LWT_WORD * LWT_CODE_BYTES]; /* high bytes first, as in the pieces */
    uint16_t start[LWT_WORD + 1];
    uint16_t merged[LWT_WORD];
    uint16_t second[LWT_LENGTH];
} lwt_words;

static inline lwt_code lwt_code_at(const uint8_t *codes, int i)
{
    codes += i * LWT_CODE_BYTES;
    return LWT_CODE_BYTES > 1 ? (lwt_code)(codes[0] << 8 | codes[LWT_CODE_BYTES - 1]) : codes[0];
}

#endif
