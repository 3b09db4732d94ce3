/* The characters of a text that came as UTF-8, without what does not count as text: HTML and addresses. */
#ifndef LWT_TEXT_H
#define LWT_TEXT_H

#include <stdint.h>

#define LWT_END 0x110000 /* what follows the last character */

typedef struct {
    const uint8_t *at, *end;
    uint32_t before; /* the character that was read last */
    int endless;     /* bits: no script, style sheet, comment ends from here on, so that none is looked for again */
} lwt_text;

/* The next character. Bytes that are no UTF-8 are U+FFFD, as many of them as Python's decoder gives; a tag or an
   address is a space. */
uint32_t lwt_next(lwt_text *text);

#endif
