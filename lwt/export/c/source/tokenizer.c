/* See tokenizer.h. Of two neighbouring symbols, those are merged whose union is the piece with the lowest id. */
#include "model.h"

#define NO_PIECE 0xffff
#define BLOCK 16
#define LONGEST 16 /* codes of a piece */

/* The ids so far. */
typedef struct {
    lwt_words *words;
    int characters; /* of the current word; 0: none has begun */
    int marks;      /* words before it that are a mark alone, which count if another character follows */
    uint16_t *ids;
    int count, limit;
    uint16_t last; /* the last id; LWT_PAD: none yet */
} output;

static int compare(const uint8_t *a, int length, const uint8_t *b, int n)
{
    for (int i = 0; i < length && i < n; i++)
        if (a[i] != b[i])
            return a[i] - b[i];
    return length - n;
}

static uint16_t piece_id(int index)
{
    uint32_t bit = (uint32_t)index * LWT_ID_BITS;
    const uint8_t *p = lwt_piece_ids + bit / 8;
    uint32_t three = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return three >> bit % 8 & ((1u << LWT_ID_BITS) - 1);
}

/* The id of the piece of n codes, or NO_PIECE. */
static uint16_t find(const uint8_t *codes, int n)
{
    if (n > LONGEST)
        return NO_PIECE;
    int low = 0, high = (LWT_PIECES + BLOCK - 1) / BLOCK;
    while (high - low > 1) { /* the last block that does not begin after it */
        int middle = (low + high) / 2;
        const uint8_t *p = lwt_pieces + lwt_starts[middle];
        if (compare(p + 1, (*p & 15) + 1, codes, n) <= 0)
            low = middle;
        else
            high = middle;
    }
    uint8_t piece[LONGEST];
    const uint8_t *p = lwt_pieces + lwt_starts[low];
    for (int i = low * BLOCK; i < LWT_PIECES && i < (low + 1) * BLOCK; i++) {
        int length = *p >> 4, others = (*p & 15) + 1;
        for (p++; others; others--)
            piece[length++] = *p++;
        int order = compare(piece, length, codes, n);
        if (order >= 0)
            return order ? NO_PIECE : piece_id(i);
    }
    return NO_PIECE;
}

static uint16_t merge_of(const lwt_words *words, int symbol)
{
    return find(words->codes + words->start[symbol], words->start[symbol + 2] - words->start[symbol]);
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
        if (symbols < 2 || words->merged[best] == NO_PIECE)
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

/* The ids kept from the start of a long text; the rest of the row is a ring buffer for its end. */
static int first_half(int limit)
{
    return (limit + 1) / 2;
}

static void put_id(output *out, uint16_t id)
{
    int repeated = id == LWT_UNKNOWN && out->last == LWT_UNKNOWN, at = out->count; /* a run of unknown ids is one id */
    out->last = id;
    if (repeated || (at >= out->limit && !LWT_CUT_MIDDLE))
        return;
    if (at >= out->limit) {
        int half = first_half(out->limit);
        at = half + (at - half) % (out->limit - half);
    }
    out->ids[at] = id;
    out->count++;
}

static void reverse(uint16_t *ids, int count)
{
    for (int i = 0; i < count / 2; i++) {
        uint16_t id = ids[i];
        ids[i] = ids[count - 1 - i];
        ids[count - 1 - i] = id;
    }
}

/* Keeps `kept` of the `count` ids of a text: the first ones, or as many first as last ones. */
static void cut(uint16_t *ids, int count, int kept, int limit)
{
    if (!LWT_CUT_MIDDLE || kept == count)
        return;
    if (count > limit) { /* puts the ring buffer in order */
        int half = first_half(limit), rest = limit - half, turn = (count - half) % rest;
        reverse(ids + half, turn);
        reverse(ids + half + turn, rest - turn);
        reverse(ids + half, rest);
        count = limit;
    }
    for (int i = first_half(kept); i < kept; i++)
        ids[i] = ids[count - kept + i];
}

static void end_word(output *out)
{
    lwt_words *words = out->words;
    if (out->characters == 1 && words->codes[0] == LWT_SPACE_MARK) {
        out->characters = 0;
        out->marks++;
        return;
    }
    int symbols = merge(words, out->characters);
    for (int s = 0; s < symbols; s++) {
        const uint8_t *codes = words->codes + words->start[s];
        int n = words->start[s + 1] - words->start[s];
        put_id(out, n > 1 ? find(codes, n) : *codes == LWT_CODE_UNKNOWN ? LWT_UNKNOWN : lwt_letters[*codes]);
    }
    out->characters = 0;
}

static void put_code(output *out, uint8_t code)
{
    uint8_t *codes = out->words->codes;
    if (code == LWT_CODE_NONE)
        return;
    int begins = code == LWT_CODE_SPACE || code == LWT_SPACE_MARK;
    int pending = code == LWT_SPACE_MARK && !out->characters; /* the mark is written in the text, after a space */
    if (pending)
        codes[out->characters++] = LWT_SPACE_MARK;
    if (out->characters && (begins || out->characters == LWT_WORD))
        end_word(out);
    if (code != LWT_CODE_SPACE && !out->characters)
        codes[out->characters++] = LWT_SPACE_MARK;
    if (begins)
        return;
    for (; out->marks; out->marks--)
        put_id(out, lwt_letters[LWT_SPACE_MARK]);
    codes[out->characters++] = code;
}

/* The codes of a character beyond ASCII. */
static void put_character(output *out, uint32_t c)
{
    int low = 0, high = LWT_RANGES;
    while (low < high) { /* the first range that begins after it */
        int middle = (low + high) / 2;
        if (lwt_ranges[middle] >> 11 <= c)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t range = low ? lwt_ranges[low - 1] : 0, place = c - (range >> 11);
    if (!low || place > (range & 0x7ff)) {
        put_code(out, LWT_CODE_UNKNOWN);
        return;
    }
    uint16_t image = lwt_range_images[low - 1];
    if (image & 0x8000) {
        put_code(out, (uint8_t)(image + place));
        return;
    }
    const uint8_t *codes = lwt_images + image;
    for (int i = 1; i <= codes[0]; i++)
        put_code(out, codes[i]);
}

static int put_text(lwt_words *words, const char *utf8, uint16_t *ids, int limit)
{
    output out = {words, 0, 0, ids, 0, limit, LWT_PAD};
    const uint8_t *end = (const uint8_t *)utf8;
    while (*end)
        end++;
    lwt_text text = {(const uint8_t *)utf8, end, ' ', 0};
    for (uint32_t c; (LWT_CUT_MIDDLE || out.count < limit) && (c = lwt_next(&text)) != LWT_END;) {
        if (c < 128)
            put_code(&out, lwt_ascii[c]);
        else
            put_character(&out, c);
    }
    if (out.characters > 1) /* a mark alone, at the end, is no word */
        end_word(&out);
    return out.count;
}

void lwt_encode(lwt_words *words, const char *first, const char *second, lwt_row *row)
{
    int limit = LWT_LENGTH - 2 - (second != 0);
    uint16_t *ids = row->ids;
    int a = put_text(words, first, ids + 1, limit);
    int b = second ? put_text(words, second, words->second, limit) : 0;
    if (a + b > limit) { /* see truncate in lwt/data/batches/text_rows.py */
        int half = limit - b > (limit + 1) / 2 ? limit - b : (limit + 1) / 2;
        int first_kept = a < half ? a : half, second_kept = b < limit - first_kept ? b : limit - first_kept;
        cut(ids + 1, a, first_kept, limit);
        cut(words->second, b, second_kept, limit);
        a = first_kept;
        b = second_kept;
    }
    ids[0] = LWT_CLS;
    ids[a + 1] = LWT_SEP;
    row->first = a + 2;
    row->length = a + 2;
    if (second) {
        for (int i = 0; i < b; i++)
            ids[a + 2 + i] = words->second[i];
        ids[a + 2 + b] = LWT_SEP;
        row->length += b + 1;
    }
}
