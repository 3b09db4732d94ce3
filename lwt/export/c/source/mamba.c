/* See mamba.h. */
#include "model.h"

/* log(1 + e^x) = max(x, 0) + log(1 + e) with e = e^-|x|: the series of lwt_log up to s^11, in which a small e stays exact. */
static float softplus(float x)
{
    float e = lwt_exp(x < 0 ? x : -x), s = e / (2 + e), q = s * s;
    float series = 1 + q * (1 / 3.f + q * (1 / 5.f + q * (1 / 7.f + q * (1 / 9.f + q / 11))));
    return (x > 0 ? x : 0) + 2 * s * series;
}

/* One position of the scan: moves the states, and replaces the channels `u` by what is read from them, times `gate`. */
static void scan(const lwt_block *b, lwt_memory *memory, const float *time, const float *selected, const float *gate, float *u)
{
    const float *write = selected + LWT_TIME_RANK, *read = write + LWT_STATE, *rates = b->rates;
    for (int i = 0; i < LWT_CHANNELS; i++, rates += LWT_STATE) {
        float *states = memory->states[i], y = 0;
        float step = softplus(time[i] + lwt_widen(b->time_bias[i])), change = step * u[i];
        for (int n = 0; n < LWT_STATE; n++) {
            states[n] = lwt_exp(step * rates[n]) * states[n] + write[n] * change;
            y += states[n] * read[n];
        }
        u[i] = (y + lwt_widen(b->skip[i]) * u[i]) * gate[i];
    }
}

/* Adds the output of block `b` at position t to net->row. */
static void encode(lwt_network *net, const lwt_block *b, lwt_memory *memory, int t, const lwt_row *text)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    float *u = net->inner, *gate = u + LWT_CHANNELS;
    lwt_clear(net->mixed, LWT_WIDTH);
    lwt_add(net->mixed, net->row, LWT_WIDTH);
    lwt_normalise(&b->norm, net->mixed, LWT_WIDTH, LWT_EPSILON);
    lwt_round(&operand, net->mixed, LWT_WIDTH);
    lwt_multiply(&b->in, &operand, u);

    int at = lwt_slide(&memory->window, t < LWT_ROWS ? t : LWT_ROWS);
    lwt_store(&memory->window, at, u);
    lwt_convolve(&b->conv, &memory->window, at, 1, u);
    lwt_activate(LWT_SILU, u, 2 * LWT_CHANNELS);

    lwt_round(&operand, u, LWT_CHANNELS);
    lwt_multiply(&b->select, &operand, net->selected);
    lwt_round(&operand, net->selected, LWT_TIME_RANK);
    lwt_multiply(&b->time, &operand, net->time);
    scan(b, memory, net->time, net->selected, gate, u);
    lwt_round(&operand, u, LWT_CHANNELS);
    lwt_multiply(&b->out, &operand, net->mixed);
    lwt_add(net->row, net->mixed, LWT_WIDTH);
}

void lwt_forward(lwt_network *net, const lwt_row *text, float *logits)
{
    lwt_operand operand = {.values = net->integers, .task = text->task};
    int wanted = LWT_POOL_FIRST ? 1 : text->length; /* every layer is causal */
    for (int l = 0; l < LWT_LAYERS; l++)
        lwt_clear(net->memories[l].states[0], LWT_CHANNELS * LWT_STATE);
    for (int t = 0; t < wanted; t++) {
        lwt_stage(1);
        lwt_embed(&lwt_tables, text, t, net->row, net->inner, &operand);
        for (int l = 0; l < LWT_LAYERS; l++) {
            lwt_stage(2 + l);
            encode(net, &lwt_blocks[l], &net->memories[l], t, text);
        }
        lwt_pool(net->pooled, text, t, net->row);
    }
    lwt_stage(2 + LWT_LAYERS);
    lwt_finish_pool(net->pooled, text);
    lwt_round(&operand, net->pooled, LWT_FEATURES);
    lwt_head(&operand, logits);
}
