/* A text classifier. The caller provides the memory, an arena: it need not be zero and holds nothing between calls. */
#ifndef LWT_H
#define LWT_H

#include "model.h"

typedef struct {
    uint16_t ids[LWT_LENGTH];
    union { /* ids are made before the network runs */
        lwt_words words;
        lwt_network network;
    } use;
} lwt_arena;

/* Logits of a text in UTF-8, or of two (`second` may be NULL); returns the class with the highest. */
int lwt_classify(lwt_arena *arena, const char *first, const char *second, float logits[LWT_OUTPUTS]);

#endif
