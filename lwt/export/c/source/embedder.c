/* See embedder.h. */
#include "model.h"

/* Convolves net->row, the next position, with the `count` rows kept before; returns how many are kept now. */
static int convolve(lwt_network *net, int count)
{
    count = lwt_slide(&net->states, count);
    lwt_store(&net->states, count, net->row);
    lwt_convolve(&lwt_convolution, &net->states, count, 1, net->row);
    return count + 1;
}

void lwt_forward(lwt_network *net, const lwt_row *text, float *logits)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    lwt_stage(1);
    int wanted = LWT_POOL_FIRST ? 1 : text->length, count = 0;
    for (int t = 0; t < wanted; t++) {
        lwt_embed(&lwt_tables, text, t, net->row, net->inner, &operand);
        if (lwt_embed_norm.scale)
            lwt_normalise(&lwt_embed_norm, net->row, LWT_WIDTH, LWT_EPSILON);
        if (LWT_TAPS)
            count = convolve(net, count);
        lwt_pool(net->pooled, text, t, net->row);
    }
    lwt_stage(2);
    lwt_finish_pool(net->pooled, text);
    lwt_round(&operand, net->pooled, LWT_FEATURES);
    lwt_head(&operand, logits);
}
