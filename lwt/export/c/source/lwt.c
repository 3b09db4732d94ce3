/* See lwt.h. */
#include "model.h"

typedef struct {
    uint16_t ids[LWT_LENGTH];
    union { /* ids are made before the network runs */
        lwt_words words;
        lwt_network network;
    } use;
} memory;

typedef char the_arena_has_room[sizeof(memory) <= LWT_ARENA_BYTES ? 1 : -1];

lwt_status lwt_classify(lwt_arena *arena, @PARAMETER@const char *first, const char *second, lwt_answer *answer)
{
    if (!arena || !first || !answer)
        return LWT_NULL;
    memory *own = (memory *)arena;
    lwt_row row = {.ids = own->ids};
#if LWT_TASKS
    if (!task || !task->slot)
        return LWT_NULL;
    row.task = task;
    answer->classes = task->classes;
#else
    answer->classes = LWT_CLASSES;
#endif
    lwt_stage(0);
    int cut = lwt_encode(&own->use.words, first, second, &row);
    answer->tokens = row.length;
    answer->pieces = row.length - (second ? 3 : 2);
    answer->unknown = 0;
    for (int i = 0; i < row.length; i++)
        answer->unknown += row.ids[i] == LWT_UNKNOWN;
    lwt_forward(&own->use.network, &row, answer->logits);
#if LWT_NGRAM_ROWS
    lwt_add_ngrams(&row, answer->logits);
#endif
    answer->best = 0;
    for (int i = 1; i < answer->classes; i++)
        if (answer->logits[i] > answer->logits[answer->best])
            answer->best = i;
    return cut ? LWT_CUT : LWT_OK;
}

/* Whether the probabilities of `answer` can be written. */
static lwt_status check(const lwt_answer *answer, const void *probabilities, int count)
{
    return !answer || !probabilities ? LWT_NULL : !answer->classes ? LWT_NO_CLASSES : count < answer->classes ? LWT_SMALL : LWT_OK;
}

lwt_status lwt_probabilities(const lwt_answer *answer, float *probabilities, int count)
{
    lwt_status status = check(answer, probabilities, count);
    if (status == LWT_OK) {
        for (int i = 0; i < answer->classes; i++)
            probabilities[i] = answer->logits[i];
        lwt_softmax(probabilities, answer->classes);
    }
    return status;
}

/* 2^-x, both in units of 2^-16 and 2^-30: 2^-k · 2^-r with |r| <= 1/2, by the series up to r^5, whose error is 3e-6. */
static uint32_t power(uint32_t x)
{
    static const int32_t series[] = {1431691, 10327383, 59597083, 257941247, 744261118}; /* (ln 2)^n / n! · 2^30 */
    int32_t k = (int32_t)((x + 0x8000) >> 16), r = (int32_t)x - k * 0x10000;
    int64_t sum = 0;
    for (int i = 0; i < 5; i++)
        sum = (series[i] - sum) * r / 0x10000;
    return k < 31 ? (uint32_t)((1 << 30) - sum) >> k : 0;
}

lwt_status lwt_probabilities_q15(const lwt_answer *answer, uint16_t *probabilities, int count)
{
    lwt_status status = check(answer, probabilities, count);
    if (status != LWT_OK)
        return status;
    uint64_t sum = 0, others = 0; /* weights of all classes, and of those but the best so far */
    uint32_t given = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < answer->classes; i++) {
            float below = (answer->logits[answer->best] - answer->logits[i]) * 94548.4f; /* 2^16 / ln 2 */
            uint64_t weight = power(below < 2e6f ? (uint32_t)below : 2000000);
            if (!pass) {
                sum += weight;
            } else if (i != answer->best) { /* rounds the sum, so that no error adds up */
                others += weight;
                probabilities[i] = (uint16_t)(others * 32768 / sum - given);
                given += probabilities[i];
            }
        }
    }
    probabilities[answer->best] = (uint16_t)(32768 - given);
    return LWT_OK;
}

const char *lwt_version(void)
{
    return "@VERSION@";
}

const lwt_description *lwt_describe(void)
{
    static const lwt_description description = {@DESCRIPTION@};
    return &description;
}
