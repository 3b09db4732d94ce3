/* See bert.h. */
#include "model.h"

static void normalise(const lwt_norm *norm, float *row)
{
    lwt_normalise(norm, row, LWT_WIDTH, LWT_EPSILON);
}

/* Writes the attention's output at position t to net->mixed. */
static void attend(lwt_network *net, const lwt_block *b, const lwt_states *x, int t, const lwt_row *text)
{
    const lwt_states *keys = LWT_EFFICIENT ? x : &net->states[1], *values = LWT_EFFICIENT ? x : &net->states[2];
    lwt_operand operand = {.values = net->integers, .task = text->task};
    lwt_load(&operand, x, t, net->row);
    lwt_multiply(&b->query, &operand, net->mixed);
    for (int h = 0; h < LWT_HEADS; h++) {
        int n = LWT_WIDTH / LWT_HEADS;
        lwt_heed heed = {keys, values, h * n, n, text->length, net->scores, &operand};
        lwt_attend(&heed, net->mixed + h * n, net->inner + h * n);
    }
    lwt_round(&operand, net->inner, LWT_WIDTH);
    lwt_multiply(&b->out, &operand, net->mixed);
}

/* Writes a block's output at position t to net->row. */
static void encode(lwt_network *net, const lwt_block *b, const lwt_states *x, int t, const lwt_row *text)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    attend(net, b, x, t, text);
    lwt_read(net->row, x, t);
    lwt_add(net->row, net->mixed, LWT_WIDTH);
    normalise(LWT_INLINE ? &b->mlp_norm : &b->attention_norm, net->row);
    lwt_round(&operand, net->row, LWT_WIDTH);
    lwt_multiply(&b->first, &operand, net->inner);
    lwt_activate(LWT_ACTIVATION, net->inner, b->first.outputs);
    lwt_round(&operand, net->inner, b->first.outputs);
    lwt_multiply(&b->second, &operand, net->mixed);
    lwt_add(net->row, net->mixed, LWT_WIDTH);
    if (!LWT_INLINE)
        normalise(&b->mlp_norm, net->row);
}

/* Stores keys and values of all positions, for attention that has them. */
static void project(lwt_network *net, const lwt_block *b, const lwt_row *text)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    for (int t = 0; t < text->length && !LWT_EFFICIENT; t++) {
        lwt_load(&operand, &net->states[0], t, net->row);
        lwt_multiply(&b->key, &operand, net->row);
        lwt_store(&net->states[1], t, net->row);
        lwt_multiply(&b->value, &operand, net->row);
        lwt_store(&net->states[2], t, net->row);
    }
}

static void classify(lwt_network *net, const lwt_row *text, float *logits)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    lwt_stage(2 + LWT_LAYERS);
    lwt_finish_pool(net->pooled, text);
    lwt_round(&operand, net->pooled, LWT_FEATURES);
    if (lwt_pooler.values) {
        lwt_multiply(&lwt_pooler, &operand, net->row);
        lwt_activate(LWT_POOLER_ACTIVATION, net->row, LWT_WIDTH);
        lwt_round(&operand, net->row, LWT_WIDTH);
    }
    lwt_head(&operand, logits);
}

void lwt_forward(lwt_network *net, const lwt_row *text, float *logits)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    lwt_stage(1);
    for (int t = 0; t < text->length; t++) {
        lwt_embed(&lwt_tables, text, t, net->row, net->inner, &operand);
        if (lwt_embed_norm.scale)
            normalise(&lwt_embed_norm, net->row);
        if (LWT_INLINE)
            normalise(&lwt_blocks[0].attention_norm, net->row);
        lwt_store(&net->states[0], t, net->row);
    }
    for (int l = 0; l < LWT_LAYERS; l++) {
        int last = l + 1 == LWT_LAYERS;
        lwt_stage(2 + l);
        int wanted = last && LWT_POOL_FIRST ? 1 : text->length;
        int from = LWT_EFFICIENT ? l % 2 : 0; /* keys and values are the states: the next go elsewhere */
        int to = LWT_EFFICIENT ? !from : 0;
        project(net, &lwt_blocks[l], text);
        for (int t = 0; t < wanted; t++) {
            encode(net, &lwt_blocks[l], &net->states[from], t, text);
            if (last) {
                lwt_pool(net->pooled, text, t, net->row);
            } else {
                if (LWT_INLINE)
                    normalise(&lwt_blocks[l + 1].attention_norm, net->row);
                lwt_store(&net->states[to], t, net->row);
            }
        }
    }
    classify(net, text, logits);
}
