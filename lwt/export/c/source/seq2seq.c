/* See seq2seq.h. A position's row [d] stays in float32 from layer to layer of the decoder; in the encoder it is rounded to
   a state after each layer. */
#include "model.h"

static void normalise(const lwt_norm *norm, float *row)
{
    lwt_normalise(norm, row, LWT_WIDTH, LWT_EPSILON);
}

/* net->row = table[id] · factor + sinusoids of position t. */
static void embed(lwt_network *net, const lwt_table *table, uint16_t id, int t)
{
    float *row = net->row;
    lwt_clear(row, LWT_WIDTH);
    lwt_look_up(table, id, row);
    for (int i = 0; i < LWT_WIDTH / 2; i++) {
        float angle = t * lwt_frequencies[i];
        row[2 * i] = row[2 * i] * LWT_EMBEDDING_FACTOR + lwt_sine(angle, 0);
        row[2 * i + 1] = row[2 * i + 1] * LWT_EMBEDDING_FACTOR + lwt_sine(angle, 1);
    }
}

/* The input of a sublayer: the row, which is normalised now (pre-norm) or was normalised behind the last sublayer. */
static void enter(lwt_network *net, const lwt_norm *norm, lwt_operand *x)
{
    if (!LWT_PRE_NORM) {
        lwt_round(x, net->row, LWT_WIDTH);
        return;
    }
    for (int i = 0; i < LWT_WIDTH; i++)
        net->mixed[i] = net->row[i];
    normalise(norm, net->mixed);
    lwt_round(x, net->mixed, LWT_WIDTH);
}

/* Adds the output of a sublayer, net->mixed, to the row. */
static void leave(lwt_network *net, const lwt_norm *norm)
{
    lwt_add(net->row, net->mixed, LWT_WIDTH);
    if (!LWT_PRE_NORM)
        normalise(norm, net->row);
}

static void store(lwt_network *net, const lwt_linear *weight, const lwt_operand *x, lwt_states *states, int t)
{
    lwt_clear(net->inner, LWT_WIDTH);
    lwt_multiply(weight, x, net->inner);
    lwt_store(states, t, net->inner);
}

/* Stores the key and the value of an input as position t. */
static void remember(lwt_network *net, const lwt_attention *a, const lwt_operand *x, lwt_cache *cache, int t)
{
    if (!a->heads)
        return;
    store(net, &a->key, x, &cache->keys, t);
    store(net, &a->value, x, &cache->values, t);
}

/* net->mixed = the output of attention from an input to the first `length` positions of a cache; overwrites the input. */
static void attend(lwt_network *net, const lwt_attention *a, lwt_operand *x, const lwt_cache *cache, int length)
{
    lwt_multiply(&a->query, x, net->mixed);
    for (int h = 0; h < a->heads; h++) {
        int n = a->query.outputs / a->heads;
        lwt_heed heed = {&cache->keys, &cache->values, h * n, n, length, net->scores, x};
        lwt_attend(&heed, net->mixed + h * n, net->inner + h * n);
    }
    lwt_round(x, net->inner, lwt_inputs(&a->out));
    lwt_multiply(&a->out, x, net->mixed);
}

static void feed_forward(lwt_network *net, const lwt_layer *layer, lwt_operand *x)
{
    enter(net, &layer->norm, x);
    lwt_multiply(&layer->first, x, net->inner);
    lwt_activate(LWT_ACTIVATION, net->inner, layer->first.outputs);
    lwt_round(x, net->inner, layer->first.outputs);
    lwt_multiply(&layer->second, x, net->mixed);
    leave(net, &layer->norm);
}

/* Replaces the states of a source by the outputs of a layer. */
static void encode(lwt_network *net, const lwt_layer *layer)
{
    lwt_states *states = &net->text.encoder.states;
    lwt_cache *cache = &net->text.encoder.cache;
    lwt_operand x = {.values = net->integers};
    for (int t = 0; t < net->length; t++) {
        lwt_read(net->row, states, t);
        enter(net, &layer->self.norm, &x);
        remember(net, &layer->self, &x, cache, t);
    }
    for (int t = 0; t < net->length; t++) {
        lwt_read(net->row, states, t);
        enter(net, &layer->self.norm, &x);
        attend(net, &layer->self, &x, cache, net->length);
        leave(net, &layer->self.norm);
        feed_forward(net, layer, &x);
        lwt_store(states, t, net->row);
    }
}

void lwt_encode_source(lwt_network *net, const uint16_t *ids, int length)
{
    lwt_states *states = &net->text.encoder.states;
    lwt_operand x = {.values = net->integers};
    net->length = length;
    for (int t = 0; t < length; t++) {
        embed(net, &lwt_source_table, ids[t], t);
        lwt_store(states, t, net->row);
    }
    for (int l = 0; l < LWT_ENCODER_LAYERS; l++)
        encode(net, &lwt_encoder[l]);
    for (int t = 0; t < length; t++) {
        lwt_read(net->row, states, t);
        if (LWT_PRE_NORM)
            normalise(&lwt_encoder_norm, net->row);
        lwt_round(&x, net->row, LWT_WIDTH);
        for (int l = 0; l < LWT_DECODER_LAYERS; l++)
            remember(net, &lwt_decoder[l].cross, &x, &net->cross[l], t);
    }
}

/* Puts an id in its place among the best, if it is one of them; of equal ones, the first is better. */
static void choose(lwt_choices *choices, int id, float logit)
{
    int place = LWT_CHOICES;
    while (place && logit > choices->logits[place - 1])
        place--;
    for (int i = LWT_CHOICES - 1; i > place; i--) {
        choices->ids[i] = choices->ids[i - 1];
        choices->logits[i] = choices->logits[i - 1];
    }
    if (place < LWT_CHOICES) {
        choices->ids[place] = (uint16_t)id;
        choices->logits[place] = logit;
    }
}

/* Logits of LWT_PART ids from `first` on. Scales of a block of rows belong to the channels of the input, so they become a
   part of it, which is rounded anew. */
static void project(lwt_network *net, lwt_operand *x, int first, int count, float *logits)
{
    const lwt_table *table = &lwt_output_table;
    for (int i = 0; i < LWT_WIDTH && table->block; i++)
        net->mixed[i] = net->row[i] * lwt_widen(table->scales[first / table->block * LWT_WIDTH + i]);
    if (table->block || first == 0)
        lwt_round(x, table->block ? net->mixed : net->row, LWT_WIDTH);
    int bytes = lwt_row_bytes(LWT_WIDTH, table->bits);
    for (int i = 0; i < count; i++) {
        int32_t sum = lwt_dot_bits(table->values + (first + i) * bytes, x->values, LWT_WIDTH, table->bits);
        logits[i] = (float)sum * x->step * (table->block ? 1 : lwt_widen(table->scales[first + i]));
        if (lwt_output_bias)
            logits[i] += lwt_widen(lwt_output_bias[first + i]);
    }
}

/* Finds the best ids for the row, LWT_PART logits at a time. */
static void find(lwt_network *net, lwt_choices *choices)
{
    float *logits = net->inner, largest = LWT_LEAST, sum = 0;
    lwt_operand x = {.values = net->integers};
    for (int i = 0; i < LWT_CHOICES; i++)
        choices->logits[i] = LWT_LEAST;
    for (int first = 0; first < LWT_VOCABULARY; first += LWT_PART) {
        int count = LWT_VOCABULARY - first < LWT_PART ? LWT_VOCABULARY - first : LWT_PART;
        project(net, &x, first, count, logits);
        for (int i = 0; i < count; i++)
            if (first + i != LWT_PAD && first + i != LWT_BEGIN)
                choose(choices, first + i, logits[i]);
        if (LWT_BEAMS > 1)
            lwt_add_exponentials(logits, count, &largest, &sum);
    }
    choices->total = LWT_BEAMS > 1 ? largest + lwt_log(sum) : 0;
}

void lwt_step(lwt_network *net, int beam, int t, uint16_t id, lwt_choices *choices)
{
    lwt_operand x = {.values = net->integers};
    embed(net, &lwt_target_table, id, t);
    for (int l = 0; l < LWT_DECODER_LAYERS; l++) {
        const lwt_layer *layer = &lwt_decoder[l];
        lwt_cache *past = &net->text.past[beam][l];
        enter(net, &layer->self.norm, &x);
        remember(net, &layer->self, &x, past, t);
        attend(net, &layer->self, &x, past, t + 1);
        leave(net, &layer->self.norm);
        enter(net, &layer->cross.norm, &x);
        attend(net, &layer->cross, &x, &net->cross[l], net->length);
        leave(net, &layer->cross.norm);
        feed_forward(net, layer, &x);
    }
    if (LWT_PRE_NORM)
        normalise(&lwt_decoder_norm, net->row);
    find(net, choices);
}

static void copy(lwt_states *to, const lwt_states *from, int length)
{
    for (int t = 0; t < length; t++) {
        if (LWT_INT8)
            to->steps[t] = from->steps[t];
        for (int i = 0; i < LWT_WIDTH; i++)
            to->cells[t][i] = from->cells[t][i];
    }
}

void lwt_copy_answer(lwt_network *net, int to, int from, int length)
{
    for (int l = 0; l < LWT_DECODER_LAYERS; l++) {
        copy(&net->text.past[to][l].keys, &net->text.past[from][l].keys, length);
        copy(&net->text.past[to][l].values, &net->text.past[from][l].values, length);
    }
}
