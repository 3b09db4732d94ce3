/* See lookup.h. */
#include "model.h"

#define BLOCK 16

int lwt_range(uint32_t c, uint32_t *place)
{
    int low = 0, high = LWT_RANGES;
    while (low < high) { /* the first range that begins after it */
        int middle = (low + high) / 2;
        if (lwt_ranges[middle] >> 11 <= c)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t range = low ? lwt_ranges[low - 1] : 0;
    *place = c - (range >> 11);
    return low && *place <= (range & 0x7ff) ? low - 1 : -1;
}

static uint16_t id_of(int index)
{
    uint32_t bit = (uint32_t)index * LWT_ID_BITS;
    const uint8_t *p = lwt_piece_ids + bit / 8;
    uint32_t three = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return three >> bit % 8 & ((1u << LWT_ID_BITS) - 1);
}

/* The number of equal symbols at the start. */
static int common(const uint8_t *a, int length, const uint8_t *b, int n)
{
    int i = 0;
    while (i < length && i < n && a[i] == b[i])
        i++;
    return i;
}

/* Whether piece `a` comes after `b`, of which `same` symbols are equal. */
static int after(const uint8_t *a, int length, const uint8_t *b, int n, int same)
{
    return same < length && (same == n || a[same] > b[same]);
}

/* The other symbols of the piece at `p`: their number, and where they begin. */
static int others(const uint8_t **p)
{
    int count = *(*p)++ & 15;
    return count < 15 ? count : count + *(*p)++;
}

uint16_t lwt_piece(const uint8_t *symbols, int n, int *shared)
{
    int low = 0, high = (LWT_PIECES + BLOCK - 1) / BLOCK;
    while (high - low > 1) { /* the last block that does not begin after it */
        int middle = (low + high) / 2;
        const uint8_t *p = lwt_pieces + lwt_starts[middle];
        int length = others(&p);
        if (after(p, length, symbols, n, common(p, length, symbols, n)))
            high = middle;
        else
            low = middle;
    }
    uint8_t piece[LWT_LONGEST];
    const uint8_t *p = lwt_pieces + lwt_starts[low];
    *shared = 0;
    for (int i = low * BLOCK; i < LWT_PIECES && i < (low + 1) * BLOCK; i++) {
        int length = *p >> 4;
        for (int more = others(&p); more; more--)
            piece[length++] = *p++;
        int same = common(piece, length, symbols, n);
        if (after(piece, length, symbols, n, same))
            break;
        if (same == length && same == n)
            return id_of(i);
        *shared = same; /* of the last piece that does not come after it: a piece that begins it is no longer */
    }
    return LWT_NOTHING;
}

int lwt_symbols(uint16_t id, uint8_t symbols[LWT_LONGEST])
{
    int index = 0, length = 0;
    while (index < LWT_PIECES && id_of(index) != id)
        index++;
    if (index == LWT_PIECES)
        return 0;
    const uint8_t *p = lwt_pieces + lwt_starts[index / BLOCK];
    for (int i = index - index % BLOCK; i <= index; i++) {
        length = *p >> 4;
        for (int more = others(&p); more; more--)
            symbols[length++] = *p++;
    }
    return length;
}
