/* See embbert.h. */
#include "model.h"

/* Writes the output of block `b` at position t of `x` to net->row. */
static void encode(lwt_network *net, const lwt_block *b, const lwt_states *x, int t, const lwt_row *text)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    lwt_load(&operand, x, t, net->row);
    lwt_multiply(&b->query, &operand, net->mixed);
    for (int h = 0; h < LWT_HEADS; h++) {
        int n = LWT_WIDTH / LWT_HEADS;
        lwt_heed heed = {x, x, h * n, n, text->length, net->scores, &operand};
        lwt_attend(&heed, net->mixed + h * n, net->inner + h * n);
    }
    lwt_round(&operand, net->inner, LWT_WIDTH);
    lwt_multiply(&b->out, &operand, net->row);

    lwt_convolve(&b->conv, x, t, LWT_EXPANSION, net->inner);
    for (int i = 0; i < LWT_WIDTH * LWT_EXPANSION; i++)
        net->inner[i] *= lwt_sigmoid(net->inner[i]);
    lwt_round(&operand, net->inner, LWT_WIDTH * LWT_EXPANSION);
    lwt_multiply(&b->contract, &operand, net->mixed);

    for (int i = 0; i < LWT_WIDTH; i++)
        net->row[i] = b->attended * net->row[i] - b->convolved * net->mixed[i];
}

void lwt_forward(lwt_network *net, const lwt_row *text, float *logits)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    lwt_stage(1);
    for (int t = 0; t < text->length; t++) {
        lwt_embed(&lwt_tables, text, t, net->row, net->inner, &operand);
        lwt_normalise(&lwt_blocks[0].norm, net->row, LWT_WIDTH, LWT_EPSILON);
        lwt_store(&net->states[0], t, net->row);
    }
    for (int l = 0; l < LWT_LAYERS; l++) {
        int last = l + 1 == LWT_LAYERS;
        lwt_stage(2 + l);
        int wanted = last && LWT_POOL_FIRST ? 1 : text->length; /* the convolution is causal: one query is enough */
        for (int t = 0; t < wanted; t++) {
            encode(net, &lwt_blocks[l], &net->states[l % 2], t, text);
            if (last) {
                lwt_pool(net->pooled, text, t, net->row);
            } else {
                lwt_normalise(&lwt_blocks[l + 1].norm, net->row, LWT_WIDTH, LWT_EPSILON);
                lwt_store(&net->states[(l + 1) % 2], t, net->row);
            }
        }
    }
    lwt_stage(2 + LWT_LAYERS);
    lwt_finish_pool(net->pooled, text);
    lwt_round(&operand, net->pooled, LWT_FEATURES);
    lwt_head(&operand, logits);
}
