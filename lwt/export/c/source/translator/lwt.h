/* A translator. The caller provides the memory, an arena: it need not be zero and holds nothing between calls, so that
   anything else may use it then. No call allocates memory, keeps a pointer, or changes a global variable: calls with
   different arenas may run at the same time. */
#ifndef LWT_H
#define LWT_H

#include <stdint.h>

@SHAPE@
#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LWT_OK,
    LWT_CUT,  /* the answer is valid, but the text had more tokens than the model reads: the last ones were left out */
    LWT_NULL, /* a pointer is NULL; nothing was written */
    LWT_SMALL /* the answer has too little room: it was cut behind a character */
} lwt_status;

typedef union {
    uint32_t alignment;
    uint8_t bytes[LWT_ARENA_BYTES];
} lwt_arena;

typedef struct {
    int pieces, unknown; /* tokens of the text, and how many of them are not in the vocabulary */
    int answer_pieces;   /* tokens of the answer */
    int bytes;           /* that the whole answer has, without the zero */
} lwt_translation;

/* Translates a text in UTF-8 that ends with a zero byte. Writes the answer and a zero to `answer`, in at most `size` bytes;
   LWT_ANSWER_BYTES are always enough. `translation` may be NULL. */
lwt_status lwt_translate(lwt_arena *arena, const char *text, char *answer, int size, lwt_translation *translation);

typedef struct {
    const char *network, *states, *tokenizer;
    uint32_t fingerprint; /* of the weights and the vocabulary */
    int beams, length;
    uint32_t arena_bytes;
} lwt_description;

/* The version of lwt that wrote the program, and what the program is. */
const char *lwt_version(void);
const lwt_description *lwt_describe(void);

/* stage.c has an empty version; replace that file to measure the time of each part. Parts are the text (0), the encoder (1),
   the search (2) and the answer's text (3). */
void lwt_stage(int stage);

#ifdef __cplusplus
}
#endif
#endif
