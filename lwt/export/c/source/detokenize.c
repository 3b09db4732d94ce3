/* See detokenize.h. */
#include "model.h"

#define QUESTION 0x2047 /* what SentencePiece writes for an unknown piece, between spaces */

typedef struct {
    char *text;
    int size, length; /* length of the whole text; no more than size - 1 bytes are written */
    int full;         /* a character did not fit */
} output;

static void put_character(output *out, uint32_t c)
{
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    out->full |= out->length + more >= out->size - 1;
    for (int i = more; i >= 0; i--, out->length++) {
        uint32_t first = more ? 0xff00u >> (more + 1) & 0xff : 0, bits = c >> 6 * i;
        if (!out->full)
            out->text[out->length] = (char)(i == more ? first | bits : 0x80 | (bits & 0x3f));
    }
    if (!out->full)
        out->text[out->length] = 0;
}

static void put_code(output *out, lwt_code code)
{
    if (code != LWT_SPACE_MARK)
        put_character(out, lwt_characters[code]);
    else if (out->length) /* the mark before the first word is no space */
        put_character(out, ' ');
}

static void put_id(output *out, uint16_t id)
{
    uint8_t codes[LWT_LONGEST];
    if (id == LWT_UNKNOWN) {
        put_character(out, ' ');
        put_character(out, QUESTION);
        put_character(out, ' ');
        return;
    }
    int count = lwt_symbols(id, codes);
    for (int code = 0; !count && code < LWT_LETTERS; code++)
        if (lwt_letters[code] == id)
            put_code(out, (lwt_code)code);
    for (int i = 0; i < count / LWT_CODE_BYTES; i++)
        put_code(out, lwt_code_at(codes, i));
}

int lwt_detokenize(const uint16_t *ids, int count, char *text, int size)
{
    output out = {text, size, 0, 0};
    if (size > 0)
        text[0] = 0;
    for (int i = 0; i < count; i++)
        put_id(&out, ids[i]);
    return out.length;
}
