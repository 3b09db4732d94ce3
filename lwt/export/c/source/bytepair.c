/* See bytepair.h. Of two neighbouring symbols, those are merged whose union is the piece with the lowest id. */
#include "model.h"

/* The ids so far. */
typedef struct {
    lwt_words *words;
    int characters; /* of the current word; 0: none has begun */
    int marks;      /* words before it that are a mark alone, which count if another character follows */
    lwt_ids *ids;
    uint16_t last; /* the last id; LWT_PAD: none yet */
} output;

/* The id of the piece of the characters from `start` to `end`, or LWT_NOTHING. */
static uint16_t find(const lwt_words *words, int start, int end)
{
    int shared, bytes = (end - start) * LWT_CODE_BYTES;
    return bytes > LWT_LONGEST ? LWT_NOTHING : lwt_piece(words->codes + start * LWT_CODE_BYTES, bytes, &shared);
}

static uint16_t merge_of(const lwt_words *words, int symbol)
{
    return find(words, words->start[symbol], words->start[symbol + 2]);
}

/* Merges the symbols of a word until no pair is a piece; returns how many remain. */
static int merge(lwt_words *words, int symbols)
{
    for (int s = 0; s <= symbols; s++)
        words->start[s] = s;
    for (int s = 0; s + 1 < symbols; s++)
        words->merged[s] = merge_of(words, s);
    for (;;) {
        int best = 0;
        for (int s = 1; s + 1 < symbols; s++)
            if (words->merged[s] < words->merged[best])
                best = s;
        if (symbols < 2 || words->merged[best] == LWT_NOTHING)
            return symbols;
        symbols--;
        for (int s = best + 1; s <= symbols; s++)
            words->start[s] = words->start[s + 1];
        for (int s = best + 1; s + 1 < symbols; s++)
            words->merged[s] = words->merged[s + 1];
        if (best + 1 < symbols)
            words->merged[best] = merge_of(words, best);
        if (best)
            words->merged[best - 1] = merge_of(words, best - 1);
    }
}

static void put_id(output *out, uint16_t id)
{
    if (id != LWT_UNKNOWN || out->last != LWT_UNKNOWN) /* a run of unknown ids is one id */
        lwt_put(out->ids, id);
    out->last = id;
}

/* The id of the piece of one character. */
static uint16_t letter(lwt_code code)
{
    return code == LWT_CODE_UNKNOWN ? LWT_UNKNOWN : lwt_letters[code];
}

static void end_word(output *out)
{
    lwt_words *words = out->words;
    if (out->characters == 1 && lwt_code_at(words->codes, 0) == LWT_SPACE_MARK) {
        out->characters = 0;
        out->marks++;
        return;
    }
    int symbols = merge(words, out->characters);
    for (int s = 0; s < symbols; s++) {
        int start = words->start[s], end = words->start[s + 1];
        put_id(out, end - start > 1 ? find(words, start, end) : letter(lwt_code_at(words->codes, start)));
    }
    out->characters = 0;
}

/* Adds a character to the current word. */
static void append(output *out, lwt_code code)
{
    uint8_t *codes = out->words->codes + out->characters++ * LWT_CODE_BYTES;
    if (LWT_CODE_BYTES > 1)
        codes[0] = (uint8_t)(code >> 8);
    codes[LWT_CODE_BYTES - 1] = (uint8_t)code;
}

static void put_code(output *out, lwt_code code)
{
    if (code == LWT_CODE_NONE)
        return;
    int begins = code == LWT_CODE_SPACE || code == LWT_SPACE_MARK;
    int pending = code == LWT_SPACE_MARK && !out->characters; /* the mark is written in the text, after a space */
    if (pending)
        append(out, LWT_SPACE_MARK);
    if (out->characters && (begins || out->characters == LWT_WORD))
        end_word(out);
    if (code != LWT_CODE_SPACE && !out->characters)
        append(out, LWT_SPACE_MARK);
    if (begins)
        return;
    for (; out->marks; out->marks--)
        put_id(out, lwt_letters[LWT_SPACE_MARK]);
    append(out, code);
}

/* The codes of a character beyond ASCII. */
static void put_character(output *out, uint32_t c)
{
    uint32_t place;
    int range = lwt_range(c, &place);
    if (range < 0) {
        put_code(out, LWT_CODE_UNKNOWN);
        return;
    }
    uint16_t image = lwt_range_images[range];
    if (image & 0x8000) {
        put_code(out, (lwt_code)((image & 0x7fff) + place));
        return;
    }
    const lwt_code *codes = lwt_images + image;
    for (int i = 1; i <= codes[0]; i++)
        put_code(out, codes[i]);
}

void lwt_tokenize(lwt_words *words, lwt_text *text, lwt_ids *ids)
{
    output out = {words, 0, 0, ids, LWT_PAD};
    for (uint32_t c; !lwt_full(ids) && (c = lwt_next(text)) != LWT_END;) {
        if (c < 128)
            put_code(&out, lwt_ascii[c]);
        else
            put_character(&out, c);
    }
    if (out.characters > 1) /* a mark alone, at the end, is no word */
        end_word(&out);
}
