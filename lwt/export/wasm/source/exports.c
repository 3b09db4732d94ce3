/* What model.js calls. Results lie in `result` until the next call. */
#include "golden.h"

#define EXPORT(name) __attribute__((export_name(#name)))

static lwt_arena arena;
static lwt_findings found;

#ifdef LWT_BEAMS

static struct {
    lwt_translation translation;
    char answer[LWT_ANSWER_BYTES];
} result;

EXPORT(translate) lwt_status translate(const char *text)
{
    return lwt_translate(&arena, text, result.answer, sizeof result.answer, &result.translation);
}

#else

static struct {
    lwt_answer answer;
    float probabilities[LWT_OUTPUTS];
} result;

EXPORT(classify) lwt_status classify(const char *first, const char *second)
{
    lwt_status status = lwt_classify(&arena, first, second, &result.answer);
    lwt_probabilities(&result.answer, result.probabilities, LWT_OUTPUTS);
    return status;
}

EXPORT(labels) const char *const *labels(void)
{
    return lwt_labels;
}

#endif

EXPORT(answer) const void *answer(void)
{
    return &result;
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
    return lwt_self_test(&arena, &found);
}

EXPORT(self_test_bits) uint32_t self_test_bits(void)
{
    return found.bits;
}
