/* A text classifier. The caller provides the memory, an arena: it need not be zero and holds nothing between calls, so that
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
    LWT_CUT,       /* the answer is valid, but the text had more tokens than the model reads: the others were left out */
    LWT_NULL,      /* a pointer is NULL; nothing was written */
    LWT_SMALL,     /* an output has too little room; nothing was written */
    LWT_NO_CLASSES /* the model predicts a number, which has no probability; nothing was written */
} lwt_status;

typedef union {
    uint32_t alignment;
    uint8_t bytes[LWT_ARENA_BYTES];
} lwt_arena;

typedef struct {
    float logits[LWT_OUTPUTS]; /* of the classes, or the number */
    int best;                  /* the class with the highest logit: lwt_labels[best] */
    int tokens;                /* that the network read, with those at the start and the end of texts */
    int pieces, unknown;       /* tokens of the text itself, and how many of them are not in the vocabulary */
} lwt_answer;

/* Classifies a text in UTF-8 that ends with a zero byte, or two texts; `second` is NULL if there is one. Returns LWT_OK,
   LWT_CUT or LWT_NULL. */
lwt_status lwt_classify(lwt_arena *arena, const char *first, const char *second, lwt_answer *answer);

/* The probabilities of the classes, in their order; `count` is the room, at least LWT_CLASSES. The second function gives
   them in units of 1/32768, whose sum is 32768, and computes in integers. */
lwt_status lwt_probabilities(const lwt_answer *answer, float *probabilities, int count);
lwt_status lwt_probabilities_q15(const lwt_answer *answer, uint16_t *probabilities, int count);

/* The names of the classes; an empty one for a number. */
extern const char *const lwt_labels[LWT_OUTPUTS];

typedef struct {
    const char *network, *states, *tokenizer;
    uint32_t fingerprint; /* of the weights and the vocabulary */
    int classes, texts, length;
    uint32_t arena_bytes;
} lwt_description;

/* The version of lwt that wrote the program, and what the program is. */
const char *lwt_version(void);
const lwt_description *lwt_describe(void);

/* stage.c has an empty version; replace that file to measure the time of each part. Parts are the text (0), the embedding
   (1), the layers (2, 3, ...) and the head. */
void lwt_stage(int stage);

#ifdef __cplusplus
}
#endif
#endif
