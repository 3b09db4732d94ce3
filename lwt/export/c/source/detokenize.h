/* From ids of byte-pair pieces to text, as SentencePiece does it. */
#ifndef LWT_DETOKENIZE_H
#define LWT_DETOKENIZE_H

#include <stdint.h>

/* The characters of the codes. */
extern const uint32_t lwt_characters[LWT_LETTERS];

/* Writes the text of `count` ids as UTF-8 with a zero at its end, in at most `size` bytes; returns how many bytes the whole
   text needs, without the zero. A text that does not fit is cut behind a character. */
int lwt_detokenize(const uint16_t *ids, int count, char *text, int size);

#endif
