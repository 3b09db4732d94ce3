/* See embed.h. */
#include "model.h"

/* Adds row r of a narrow table, expanded. */
static void expand(const lwt_table *table, const lwt_linear *expander, int r, float *row, float *scratch, lwt_operand *x)
{
    lwt_clear(scratch, table->width);
    lwt_look_up(table, r, scratch);
    lwt_round(x, scratch, table->width);
    lwt_multiply(expander, x, scratch);
    lwt_add(row, scratch, expander->outputs);
}

void lwt_embed(const lwt_embedder *embedder, const lwt_row *text, int t, float *row, float *scratch, lwt_operand *x)
{
    lwt_clear(row, LWT_WIDTH);
    if (LWT_SEGMENTS) { /* a table of three rows has padding first */
        int segment = LWT_SEGMENTS == 1 ? 0 : (t < text->first ? 1 : 2) - (LWT_SEGMENTS == 2);
        lwt_look_up(&embedder->segment, segment, row);
    }
    if (embedder->token_expander.values) {
        expand(&embedder->token, &embedder->token_expander, text->ids[t], row, scratch, x);
        expand(&embedder->position, &embedder->position_expander, t, row, scratch, x);
    } else {
        lwt_look_up(&embedder->token, text->ids[t], row);
        lwt_look_up(&embedder->position, t, row);
    }
}

void lwt_pool(float *pooled, const lwt_row *text, int t, const float *row)
{
    if (t == 0)
        lwt_clear(pooled, LWT_FEATURES);
    if (LWT_POOL_PAIR && t >= text->first)
        pooled += LWT_WIDTH;
    for (int i = 0; i < LWT_WIDTH; i++)
        pooled[i] += LWT_POOL_FIRST || LWT_POOL_MEAN ? row[i] : row[i] * row[i];
}

/* Sums of squares become the root of their mean. */
static void root(float *row, int count)
{
    for (int i = 0; i < LWT_WIDTH; i++)
        row[i] = lwt_sqrt(row[i] / (count ? count : 1) + 1e-12f);
}

void lwt_finish_pool(float *pooled, const lwt_row *text)
{
    for (int i = 0; i < LWT_WIDTH && LWT_POOL_MEAN; i++)
        pooled[i] /= text->length;
    if (LWT_POOL_FIRST || LWT_POOL_MEAN)
        return;
    root(pooled, LWT_POOL_PAIR ? text->first : text->length);
    if (LWT_POOL_PAIR) {
        root(pooled + LWT_WIDTH, text->length - text->first);
        for (int i = 0; i < LWT_WIDTH; i++) {
            float u = pooled[i], v = pooled[LWT_WIDTH + i];
            pooled[2 * LWT_WIDTH + i] = u > v ? u - v : v - u;
            pooled[3 * LWT_WIDTH + i] = u * v;
        }
    }
}

void lwt_head(const lwt_operand *pooled, float *logits)
{
#if LWT_TASKS
    lwt_linear head = lwt_head_of(pooled->task);
    lwt_multiply(&head, pooled, logits);
#else
    lwt_multiply(&lwt_classifier, pooled, logits);
#endif
}

#if LWT_NGRAM_ROWS
/* A step of FNV-1a, with an id in place of a byte. */
static uint32_t mix(uint32_t value, uint16_t id)
{
    return (value ^ id) * 16777619u;
}

void lwt_add_ngrams(const lwt_row *text, float *logits)
{
    float sum[LWT_OUTPUTS];
    int count = 0;
    lwt_clear(sum, LWT_OUTPUTS);
    for (int t = 0; t < text->length; t++) {
        for (int n = 0; n < 2 && (n == 0 || (t > 0 && t != text->first)); n++) { /* the id, and its pair */
            uint32_t hash = mix(n ? mix(2166136261u, text->ids[t - 1]) : 2166136261u, text->ids[t]);
            lwt_look_up(&lwt_ngrams, (int)((hash ^ hash >> 16) % LWT_NGRAM_ROWS), sum);
            count++;
        }
    }
    float gain = 4 / lwt_sqrt((float)count);
    for (int i = 0; i < LWT_OUTPUTS; i++)
        logits[i] += gain * sum[i];
}
#endif
