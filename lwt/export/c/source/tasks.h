/* Tasks: what each adds to the network, in a slot of its own, which may be replaced in flash. lwt.h has lwt_select.

   A slot, little-endian: uint32 checksum (CRC-32 of all that follows), uint16 bytes, uint16 classes, uint32 fingerprint of
   the network, uint8 number of changed products, uint8 bits of the head, uint16 block of the head. Then of each product:
   uint8 its place, uint8 rank, uint16 bytes of the following. With rank 0 that is a half-precision step and an int8 for each
   output, which is multiplied by 1 + step · int8. Else y += x A B: for each of the rank's columns of A and rows of B two
   half-precision scales, then A [rank][inputs] and B [rank][outputs] in int8. Then the head: bias [classes], scales
   [classes][blocks] and values, as in lwt_linear; and the names of the task and its classes, each with a zero byte. All
   parts but the names start at even places. */
#ifndef LWT_TASKS_H
#define LWT_TASKS_H

#include "engine.h"

/* Changes a product, of which y [outputs] is the result without the task. */
void lwt_adapt(const lwt_linear *weight, const lwt_operand *x, float *y);

/* The head of a task. */
lwt_linear lwt_head_of(const lwt_task *task);

#endif
