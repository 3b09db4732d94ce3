/* From text to ids: BERT's cleaning and WordPiece, from tables. LWT_WORD is the number of characters of a word from
   which on, exclusively, it is unknown. */
#ifndef LWT_WORDPIECE_H
#define LWT_WORDPIECE_H

#include <stdint.h>

#define LWT_MARK 0xff /* begins pieces that continue a word; the other symbols are UTF-8 */

/* What characters become: a character with flags, of which a space ends the word. */
#define LWT_CHARACTER 0x1fffff
#define LWT_RISING (1u << 21)   /* the characters of a range become that one and those behind it */
#define LWT_ALONE (1u << 22)    /* it is a word */
#define LWT_SEQUENCE (1u << 23) /* no character, but a place in `lwt_sequences`: a length and so many characters */

/* Characters up to U+007F: 0 is left out, 0x80 is a flag as LWT_ALONE. */
extern const uint8_t lwt_ascii[128];
/* Of each range. Characters in no range become themselves. */
extern const uint32_t lwt_range_images[];
extern const uint32_t lwt_sequences[];
/* Tokens that are found in the text as it is: a length and so many bytes, the longest first; and their ids. */
extern const uint8_t lwt_added[];
extern const uint16_t lwt_added_ids[];

/* Working memory. */
typedef struct {
    uint8_t bytes[4 * LWT_WORD];
    uint16_t ids[LWT_WORD];
    uint16_t second[LWT_LENGTH];
} lwt_words;

#endif
