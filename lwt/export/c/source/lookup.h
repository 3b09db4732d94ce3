/* Tables that both tokenizers read: ranges of characters, and sorted pieces (lwt/export/c/tables.py). */
#ifndef LWT_LOOKUP_H
#define LWT_LOOKUP_H

#include <stdint.h>

#define LWT_NOTHING 0xffff

#if LWT_WIDE
typedef uint32_t lwt_place_in_pieces;
#else
typedef uint16_t lwt_place_in_pieces;
#endif

/* Ranges of characters beyond ASCII, ascending: number << 11 | length - 1. */
extern const uint32_t lwt_ranges[];
/* Pieces of several symbols, sorted: shared with the one before << 4 | others, and the other symbols; 15 others are
   15 and as many as the next byte says. Every 16th shares nothing; `lwt_starts` are their places. `lwt_piece_ids` has
   LWT_ID_BITS a piece. */
extern const uint8_t lwt_pieces[];
extern const lwt_place_in_pieces lwt_starts[];
extern const uint8_t lwt_piece_ids[];

/* The range of character c and its place there; -1: none. */
int lwt_range(uint32_t c, uint32_t *place);

/* The id of the piece of n symbols, or LWT_NOTHING. Else *shared has how many of them could begin a piece at most. */
uint16_t lwt_piece(const uint8_t *symbols, int n, int *shared);

/* The symbols of the piece with an id; returns how many, 0: it has only one, or the id is not that of a piece. */
int lwt_symbols(uint16_t id, uint8_t symbols[LWT_LONGEST]);

#endif
