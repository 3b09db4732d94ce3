/* See tasks.h. */
#include "model.h"

enum { CHECKSUM = 0, BYTES = 4, CLASSES = 6, FINGERPRINT = 8, CHANGES = 12, BITS = 13, BLOCK = 14, FIRST = 16 };

static uint16_t read(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t read_long(const uint8_t *at)
{
    return read(at) | (uint32_t)read(at + 2) << 16;
}

static uint32_t checksum(const uint8_t *at, const uint8_t *end)
{
    uint32_t sum = 0xffffffff;
    while (at < end) {
        sum ^= *at++;
        for (int i = 0; i < 8; i++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

/* Bytes of the head. */
static int head_bytes(int classes, int block, int bits)
{
    int sum = 2 * classes;
    for (int start = 0; start < LWT_FEATURES; start += block) {
        int n = LWT_FEATURES - start < block ? LWT_FEATURES - start : block;
        sum += classes * (2 + lwt_row_bytes(n, bits));
    }
    return sum;
}

lwt_status lwt_select(lwt_task *task, const uint16_t *slot)
{
    if (!task || !slot)
        return LWT_NULL;
    __asm__("" : "+r"(slot)); /* the compiler must not know the contents, which may be replaced in flash */
    const uint8_t *bytes = (const uint8_t *)slot;
    int size = read(bytes + BYTES), classes = read(bytes + CLASSES);
    task->slot = 0;
    if (size < FIRST || size > LWT_SLOT_BYTES || checksum(bytes + BYTES, bytes + size) != read_long(bytes + CHECKSUM))
        return LWT_DAMAGED;
    if (read_long(bytes + FINGERPRINT) != lwt_describe()->fingerprint)
        return LWT_OTHER;
    if (classes > LWT_OUTPUTS)
        return LWT_SMALL;
    for (int i = 0; i < LWT_PLACES; i++)
        task->places[i] = 0;
    int at = FIRST;
    for (int i = 0; i < bytes[CHANGES]; i++) {
        task->places[bytes[at] - 1] = (uint16_t)at;
        at += 4 + read(bytes + at + 2);
    }
    task->head = (uint16_t)at;
    task->name = (const char *)bytes + at + head_bytes(classes, read(bytes + BLOCK), bytes[BITS]);
    task->classes = classes;
    task->slot = bytes;
    return LWT_OK;
}

const char *lwt_label(const lwt_task *task, int index)
{
    if (!task || !task->slot || index < 0 || index >= task->classes)
        return "";
    const char *name = task->name;
    for (int i = 0; i <= index; i++)
        while (*name++)
            ;
    return name;
}

void lwt_adapt(const lwt_linear *weight, const lwt_operand *x, float *y)
{
    int at = x->task->places[weight->place - 1];
    if (!at)
        return;
    const uint8_t *change = x->task->slot + at;
    const lwt_half *scales = (const lwt_half *)(change + 4);
    int rank = change[1];
    if (!rank) {
        const int8_t *values = (const int8_t *)(scales + 1);
        float step = lwt_widen(scales[0]);
        for (int o = 0; o < weight->outputs; o++)
            y[o] *= 1 + values[o] * step;
        return;
    }
    int n = lwt_inputs(weight);
    const int8_t *a = (const int8_t *)(scales + 2 * rank), *b = a + rank * n;
    for (int r = 0; r < rank; r++, a += n, b += weight->outputs) {
        float low = (float)lwt_dot(a, x->values, n) * (lwt_widen(scales[r]) * x->step);
        low *= lwt_widen(scales[rank + r]);
        for (int o = 0; o < weight->outputs; o++)
            y[o] += low * b[o];
    }
}

lwt_linear lwt_head_of(const lwt_task *task)
{
    const lwt_half *bias = (const lwt_half *)(task->slot + task->head), *scales = bias + task->classes;
    int block = read(task->slot + BLOCK), blocks = (LWT_FEATURES + block - 1) / block;
    lwt_linear head = {.scales = scales, .bias = bias, .inputs = LWT_FEATURES};
    head.values = (const int8_t *)(scales + task->classes * blocks);
    head.outputs = (uint16_t)task->classes, head.block = (uint16_t)block, head.bits = task->slot[BITS];
    return head;
}
