/* SPDX-License-Identifier: Apache-2.0 */
/*
 * operations.h - what a worker does when it is told to: an operation each, of the
 * name that the command has
 *
 * Each returns a code of <swakv/error.h> and adds to @answer what worker.h says.
 */
#ifndef SWAKV_REPLAY_OPERATIONS_H
#define SWAKV_REPLAY_OPERATIONS_H

#include "worker.h"

typedef int operation(struct worker *w, const json_t *command, json_t *answer);

/* ---- begin.c: a request comes, waits and goes ---- */

operation do_begin, do_queue, do_admitted, do_withdraw, do_reserve, do_finish, do_abandon, do_last_updates;
/* From now on @name means @request; NULL: its begin was refused, and a name that has a meaning keeps it. */
int name_request(struct worker *w, const char *name, swakv_request *request);
/*
 * True when @call, which may wait, is answered as soon as the broker has looked at
 * it: *@code is its result, and the answer says "at_once". False: it waits, or did
 * so in vain; *@code is 0, or what kept the broker from looking.
 */
bool decided_at_once(struct worker *w, struct worker_call *call, json_t *answer, int *code);
/* Waits for the result of @call. SWAKV_ETIMEDOUT: it still waits for pages. */
int call_result(struct worker *w, const struct worker_call *call);
/* Of begins that nobody has asked the answer of. */
void forget_waiting(struct worker *w);

/* ---- steps.c: what it does meanwhile ---- */

operation do_prefill_prepare, do_prefill_complete, do_prefill, do_decode_prepare, do_decode_complete, do_decode,
	do_extend_prepare, do_extend_complete, do_extend, do_rewind, do_compact_begin, do_compact_complete, do_compact;

/* ---- turn.c: the end of steps and the beginning of the next, in one message ---- */

operation do_turn;

/* ---- manage.c: pages that it manages itself ---- */

operation do_take, do_queue_take, do_taken, do_give, do_offer, do_wanted, do_takeable, do_has;
/* Of all that it has taken, or waits for. */
void forget_pages(struct worker *w);

#endif
