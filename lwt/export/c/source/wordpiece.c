/* See wordpiece.h. A word is the longest piece that begins it, then the longest that continues it, and so on. */
#include "model.h"

/* The current word. */
typedef struct {
    lwt_words *words;
    int characters, bytes;
    lwt_ids *ids;
} output;

/* Finds the longest piece at the start of *n symbols; returns its id or LWT_NOTHING, and its length in *n. */
static uint16_t longest(const uint8_t *symbols, int *n)
{
    uint16_t id;
    int shared;
    if (*n > LWT_LONGEST)
        *n = LWT_LONGEST;
    while ((id = lwt_piece(symbols, *n, &shared)) == LWT_NOTHING && shared)
        *n = shared;
    return id;
}

/* Divides the word into pieces; returns how many, 0: it is unknown. */
static int divide(const output *out)
{
    uint8_t *bytes = out->words->bytes;
    int count = 0;
    for (int at = 0, n; at < out->bytes; at += n) {
        int mark = at > 0;
        if (mark)
            bytes[at - 1] = LWT_MARK; /* what was there is read */
        n = out->bytes - at + mark;
        uint16_t id = longest(bytes + at - mark, &n);
        if (id == LWT_NOTHING)
            return 0;
        out->words->ids[count++] = id;
        n -= mark;
    }
    return count;
}

static void end_word(output *out)
{
    int count = out->characters > LWT_WORD ? 0 : divide(out);
    for (int i = 0; i < count; i++)
        lwt_put(out->ids, out->words->ids[i]);
    if (!count && out->characters)
        lwt_put(out->ids, LWT_UNKNOWN);
    out->characters = out->bytes = 0;
}

static void put_byte(output *out, uint32_t byte)
{
    out->words->bytes[out->bytes++] = (uint8_t)byte;
}

static void put_character(output *out, uint32_t image)
{
    uint32_t c = image & LWT_CHARACTER;
    if (c == ' ' || image & LWT_ALONE)
        end_word(out);
    if (c == ' ')
        return;
    if (out->characters < LWT_WORD) {
        if (c >= 0x80) {
            int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
            put_byte(out, 0xff00u >> (more + 1) | c >> 6 * more);
            for (more--; more > 0; more--)
                put_byte(out, 0x80 | (c >> 6 * more & 0x3f));
            put_byte(out, 0x80 | (c & 0x3f));
        } else {
            put_byte(out, c);
        }
    }
    if (out->characters <= LWT_WORD)
        out->characters++;
    if (image & LWT_ALONE)
        end_word(out);
}

/* The parts of a Hangul syllable (the Unicode Standard, section 3.12). */
static void put_syllable(output *out, uint32_t number)
{
    put_character(out, 0x1100 + number / 588);
    put_character(out, 0x1161 + number % 588 / 28);
    if (number % 28)
        put_character(out, 0x11a7 + number % 28);
}

/* What a character in the text becomes. */
static void put(output *out, uint32_t c)
{
    uint32_t place;
    if (c < 128) {
        if (lwt_ascii[c])
            put_character(out, (lwt_ascii[c] & 0x7f) | (lwt_ascii[c] & 0x80 ? LWT_ALONE : 0));
        return;
    }
    if (LWT_HANGUL && c >= 0xac00 && c < 0xd7a4) {
        put_syllable(out, c - 0xac00);
        return;
    }
    int range = lwt_range(c, &place);
    uint32_t image = range < 0 ? c : lwt_range_images[range];
    if (!(image & LWT_SEQUENCE)) {
        put_character(out, image & LWT_RISING ? image + place : image);
        return;
    }
    const uint32_t *sequence = lwt_sequences + (image & LWT_CHARACTER);
    for (uint32_t i = 1; i <= *sequence; i++)
        put_character(out, sequence[i]);
}

/* Takes a token that is in the text as it is. */
static int take(output *out, lwt_text *text)
{
    const uint8_t *token = lwt_added;
    for (int i = 0; i < LWT_ADDED; i++, token += *token + 1) {
        int n = 0;
        while (n < *token && text->at + n < text->end && text->at[n] == token[n + 1])
            n++;
        if (n < *token)
            continue;
        end_word(out);
        lwt_put(out->ids, lwt_added_ids[i]);
        text->at += n;
        text->before = token[n];
        return 1;
    }
    return 0;
}

void lwt_tokenize(lwt_words *words, lwt_text *text, lwt_ids *ids)
{
    output out = {words, 0, 0, ids};
    while (!lwt_full(ids)) {
        if (take(&out, text))
            continue;
        uint32_t c = lwt_next(text);
        if (c == LWT_END)
            break;
        put(&out, c);
    }
    end_word(&out);
}
