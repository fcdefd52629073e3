/* SPDX-License-Identifier: Apache-2.0 */
/* operation_turn.h - STEP_TURN, for the table of operations (operation.h) */
#ifndef SWAKV_BROKER_OPERATION_TURN_H
#define SWAKV_BROKER_OPERATION_TURN_H

#include "operation.h"

/* Bytes of what its entries list. */
uint64_t turn_listed(const struct wire_command *head);
/* 0, or the fault of its header. */
enum fault_reason turn_check(const struct wire_command *head, uint32_t max_batch, int64_t *got, int64_t *most);
/* True when it completes at a line, or ends a request. */
bool turn_reads_lines(const struct workspace *w);
/* True when it begins requests: what has been reached must be known by then, since it is not tried again. */
bool turn_begins(const struct workspace *w);
int do_step_turn(struct workspace *w, struct channel *c, uint64_t now_ns);
uint64_t weight_turn(const struct workspace *w, const struct channel *c);

#endif
