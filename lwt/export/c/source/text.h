/* The characters of a UTF-8 text, without HTML and addresses. */
#ifndef LWT_TEXT_H
#define LWT_TEXT_H

#include <stdint.h>

#define LWT_END 0x110000 /* returned after the last character */

typedef struct {
    const uint8_t *at, *end;
    uint32_t before; /* the last character read */
    int endless;     /* bits: no script, style sheet, comment ends from here on, so that none is looked for again */
} lwt_text;

/* The next character. Bytes that are no UTF-8 are U+FFFD, as many of them as Python's decoder gives; a tag or an
   address is a space. */
uint32_t lwt_next(lwt_text *text);

#endif
