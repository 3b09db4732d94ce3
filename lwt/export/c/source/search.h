/* Greedy search, and with LWT_BEAMS > 1 beam search for the largest log p(answer) / penalty(length), as in
   lwt/tasks/decoding.py. */
#ifndef LWT_SEARCH_H
#define LWT_SEARCH_H

#include "seq2seq.h"

extern const float lwt_penalties[LWT_LENGTH + 1]; /* by which the log-probability of an answer of so many ids is divided */

/* An answer, without the end mark. */
typedef struct {
    uint16_t ids[LWT_LENGTH];
    int length;
    float score;
} lwt_candidate;

#if LWT_BEAMS > 1

/* A running answer in memory `slot` of the network and of the search, extended by an id. */
typedef struct {
    int slot;
    uint16_t id;
    float score;
} lwt_branch;

typedef struct {
    lwt_candidate running[LWT_BEAMS];  /* by slot */
    lwt_candidate finished[LWT_BEAMS]; /* best first; those that do not exist have a score of LWT_LEAST */
    lwt_branch branches[LWT_BEAMS];    /* the running answers, best first */
    lwt_branch found[2 * LWT_BEAMS];   /* their best continuations, best first */
} lwt_search;

#else

typedef struct {
    lwt_choices choices;
} lwt_search;

#endif

/* Writes the answer to an encoded source to `answer` [LWT_LENGTH]; returns its length. */
int lwt_find_answer(lwt_search *search, lwt_network *net, uint16_t *answer);

#endif
