/* What model.js calls. Results lie in memory until the next call. */
#include "golden.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static lwt_arena arena;
static lwt_findings tested;

#ifdef LWT_BEAMS

static lwt_translation found_answer;
static char found_text[LWT_ANSWER_BYTES];

EXPORT(translate) lwt_status translate(const char *text)
{
    return lwt_translate(&arena, text, found_text, sizeof found_text, &found_answer);
}

EXPORT(text) const char *text(void)
{
    return found_text;
}

#else

static lwt_answer found_answer;
static float shares[LWT_OUTPUTS];

#if LWT_TASKS

static lwt_task chosen;
static const char *names[LWT_OUTPUTS];

EXPORT(select) lwt_status select_task(int slot)
{
    lwt_status status = lwt_select(&chosen, lwt_tasks[slot]);
    for (int i = 0; i < LWT_OUTPUTS; i++)
        names[i] = lwt_label(&chosen, i);
    return status;
}

EXPORT(task) const lwt_task *task(void)
{
    return &chosen;
}

EXPORT(slots) const void *slots(void)
{
    return lwt_tasks;
}

EXPORT(slots_bytes) int slots_bytes(void)
{
    return sizeof lwt_tasks;
}

EXPORT(slot_bytes) int slot_bytes(void)
{
    return LWT_SLOT_BYTES;
}

#define ARENA &arena, &chosen
#else
#define ARENA &arena
#define names lwt_labels
#endif

EXPORT(classify) lwt_status classify(const char *first, const char *second)
{
    lwt_status status = lwt_classify(ARENA, first, second, &found_answer);
    lwt_probabilities(&found_answer, shares, LWT_OUTPUTS);
    return status;
}

EXPORT(probabilities) const float *probabilities(void)
{
    return shares;
}

EXPORT(labels) const char *const *labels(void)
{
    return names;
}

#endif

EXPORT(answer) const void *answer(void)
{
    return &found_answer;
}

EXPORT(describe) const lwt_description *describe(void)
{
    return lwt_describe();
}

EXPORT(version) const char *version(void)
{
    return lwt_version();
}

EXPORT(self_test) int self_test(void)
{
    return lwt_self_test(&arena, &tested);
}

EXPORT(self_test_bits) uint32_t self_test_bits(void)
{
    return tested.bits;
}
