/* A @KIND@@FOR_TASKS@. The caller provides the memory, an arena: it need not be zero and holds nothing between calls, so that
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
    LWT_NO_CLASSES, /* the model predicts a number, which has no probability; nothing was written */
    LWT_DAMAGED,    /* a slot is empty or damaged, by its checksum; no task is selected */
    LWT_OTHER       /* a slot was made for another network; no task is selected */
} lwt_status;

typedef union {
    uint32_t alignment;
    uint8_t bytes[LWT_ARENA_BYTES];
} lwt_arena;

typedef struct {
    float logits[LWT_OUTPUTS]; /* of the classes, or the number */
    int best;                  /* the class with the highest logit: @LABEL@ */
    int tokens;                /* that the network read, with those at the start and the end of texts */
    int pieces, unknown;       /* tokens of the text itself, and how many of them are not in the vocabulary */
    int classes;               /* their number; 0: logits[0] is a number */
} lwt_answer;

#if LWT_TASKS
/* A task, as lwt_select reads it from its slot, which must stay as it is while the task is in use. */
typedef struct lwt_task {
    const uint8_t *slot; /* NULL: no task is selected */
    const char *name;
    int classes;
    uint16_t head, places[LWT_PLACES];
} lwt_task;

/* The slots of the tasks. They lie in the section .lwt_tasks, where those of another tasks.bin may take their place. A slot
   may also lie elsewhere, at an even address. */
extern const uint16_t lwt_tasks[LWT_TASKS][LWT_SLOT_BYTES / 2];

/* Checks and reads a slot. Returns LWT_OK, LWT_NULL, LWT_DAMAGED, LWT_OTHER, or LWT_SMALL if the task has more than
   LWT_OUTPUTS classes. */
lwt_status lwt_select(lwt_task *task, const uint16_t *slot);

/* The name of a class; an empty one if there is no such class. */
const char *lwt_label(const lwt_task *task, int index);
#else
/* The names of the classes; an empty one for a number. */
extern const char *const lwt_labels[LWT_OUTPUTS];
#endif

/* Classifies a text in UTF-8 that ends with a zero byte, or two texts; `second` is NULL if LWT_TEXTS is 1. Returns LWT_OK,
   LWT_CUT or LWT_NULL. */
lwt_status lwt_classify(lwt_arena *arena, @PARAMETER@const char *first, const char *second, lwt_answer *answer);

/* The probabilities of the classes, in their order; `count` is the room, at least answer->classes. The second function gives
   them in units of 1/32768, whose sum is 32768, and computes in integers. */
lwt_status lwt_probabilities(const lwt_answer *answer, float *probabilities, int count);
lwt_status lwt_probabilities_q15(const lwt_answer *answer, uint16_t *probabilities, int count);

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
   (1), the layers (2, 3, ...) and the head. MAMBA begins those of the middle anew at each position. */
void lwt_stage(int stage);

#ifdef __cplusplus
}
#endif
#endif
