/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally.h - what the sessions of one model have done, by name, over all of their lives
 *
 * Times are by the round's clock: what is over before it is looked at again took
 * no time. What the engine counts for each session (totals.h) is added here when
 * the session leaves.
 */
#ifndef SWAKV_BROKER_TALLY_H
#define SWAKV_BROKER_TALLY_H

#include <stdint.h>

#include "channel.h"
#include "commands.h"
#include "operation.h"
#include "times.h"

/* Requests that are begun, and pages that workers take themselves. */
enum tally_kind { TALLY_BEGIN, TALLY_TAKE, TALLY_N_KINDS };

struct tally {
	char model[WIRE_MODEL_NAME];
	uint32_t n_sessions; /* that it counts now */
	uint64_t left;       /* number of the last leave of one; the smallest of those without a session goes first */
	uint64_t admitted[TALLY_N_KINDS], waited[TALLY_N_KINDS], refused[TALLY_N_KINDS];
	uint64_t refused_by[TALLY_N_KINDS][FAULT_REASON_COUNT];
	struct session_totals ended; /* of sessions that have left */
	struct times prepare;        /* a prepare, from when it was seen to its answer */
	struct times step;           /* a step, from the answer to its prepare to its complete */
	struct times wait;           /* a begin or take that waited, to its answer */
};

struct tallies {
	struct tally *all; /* [STATUS_MAX_TALLIES], of which n have a name */
	uint32_t n;
	uint64_t n_left;
};

/* False: memory is short. */
bool tallies_init(struct tallies *t);
/* Safe to repeat. */
void tallies_deinit(struct tallies *t);
/* @c counts for its model from now on, until it leaves. */
void tally_join(struct tallies *t, struct channel *c);
/* Its session is about to leave the engine. Safe to repeat. */
void tally_leave(struct tallies *t, struct channel *c);

/*
 * What operation.c names for the operations that are counted: the command of @c in
 * @w has its outcome, which is not that it waits, at @now_ns.
 */
void tally_begin(struct channel *c, const struct workspace *w, uint64_t now_ns);
void tally_take(struct channel *c, const struct workspace *w, uint64_t now_ns);
void tally_prefill(struct channel *c, const struct workspace *w, uint64_t now_ns);
void tally_step_prepare(struct channel *c, const struct workspace *w, uint64_t now_ns);
void tally_step_complete(struct channel *c, const struct workspace *w, uint64_t now_ns);
void tally_turn(struct channel *c, const struct workspace *w, uint64_t now_ns);

/* Whichever it is; after its slots have been given back. */
static inline void tally_command(struct channel *c, const struct workspace *w, uint64_t now_ns)
{
	const struct operation *o = w->operation;

	if (o && o->tally)
		o->tally(c, w, now_ns);
}

/* It waits from now on. */
void tally_waits(struct channel *c, const struct workspace *w);
/* And has been answered. */
void tally_answered(struct channel *c, const struct admission *a);

/* A round is over, or a command cannot be executed in it: what is in the ring has waited since @now_ns at least. */
static inline void tally_left(struct channel *c, uint64_t now_ns)
{
	if (c->left_ns && (int32_t)(c->left_until - c->commands.mine) > 0)
		return; /* what was left before is still there */
	c->left_until = c->commands.peer;
	c->left_ns = now_ns;
}

#endif
