/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally.c - see tally.h
 *
 * A step's time is that of the request that its command names first. When a
 * complete names one first whose prepare was not the first of a command, the
 * worker has changed the order: no prepare that is noted is trusted any more.
 */
#include "tally.h"

#include <stdlib.h>
#include <string.h>

#include "wire_turn.h"

/* ---- whose it is -------------------------------------------------------------------- */

bool tallies_init(struct tallies *t)
{
	*t = (struct tallies){ .all = calloc(STATUS_MAX_TALLIES, sizeof(*t->all)) };
	return t->all != NULL;
}

void tallies_deinit(struct tallies *t)
{
	free(t->all);
	*t = (struct tallies){ 0 };
}

/* A place for a new name: one that is left over, or that of the model whose last session left first. */
static struct tally *find_room(struct tallies *t)
{
	struct tally *oldest = NULL;

	if (t->n < STATUS_MAX_TALLIES)
		return &t->all[t->n++];
	for (struct tally *y = t->all; y < t->all + t->n; y++)
		if (y->n_sessions == 0 && (!oldest || y->left < oldest->left))
			oldest = y;
	return oldest; /* there is one: sessions are fewer */
}
_Static_assert((int)STATUS_MAX_TALLIES > (int)STATUS_MAX_SESSIONS, "one has no session");

void tally_join(struct tallies *t, struct channel *c)
{
	struct tally *y = t->all;

	while (y < t->all + t->n && strcmp(y->model, c->model_name) != 0)
		y++;
	if (y == t->all + t->n) {
		y = find_room(t);
		*y = (struct tally){ 0 };
		memcpy(y->model, c->model_name, sizeof(y->model));
	}
	y->n_sessions++;
	c->tally = y;
}

static void add_totals(struct session_totals *to, const struct session_totals *t)
{
	to->prefilled += t->prefilled;
	to->stepped += t->stepped;
	to->pages_taken += t->pages_taken;
	to->pages_returned += t->pages_returned;
	to->pages_scrubbed += t->pages_scrubbed;
	to->pages_moved += t->pages_moved;
	to->pages_yielded += t->pages_yielded;
}

void tally_leave(struct tallies *t, struct channel *c)
{
	struct session_totals totals;

	if (!c->tally)
		return;
	session_total(c->session, &totals);
	add_totals(&c->tally->ended, &totals);
	c->tally->n_sessions--;
	c->tally->left = ++t->n_left;
	c->tally = NULL;
}

/* ---- what a command comes to ---------------------------------------------------------- */

static void refuse(struct tally *y, enum tally_kind kind, uint32_t reason)
{
	y->refused[kind]++;
	y->refused_by[kind][reason]++;
}

/* Begins among the entries of a turn. */
static void count_begins(struct channel *c, const struct workspace *w, const uint64_t *entries)
{
	c->tally->admitted[TALLY_BEGIN] += w->n_begun;
	for (uint32_t i = 0; i < w->n_faults; i++)
		if (wire_turn_what(entries[w->faults[i].entry]) == WIRE_TURN_BEGIN)
			refuse(c->tally, TALLY_BEGIN, w->faults[i].fault.reason);
}

static bool first_is_refused(const struct workspace *w)
{
	for (uint32_t i = 0; i < w->n_faults; i++)
		if (w->faults[i].entry == 0)
			return true;
	return false;
}

/* Where the step of @handle is noted. */
static inline struct tally_step *step_of(struct channel *c, uint64_t handle)
{
	return &c->steps[(handle >> 32) % TALLY_STEPS];
}

static inline void end_step(struct channel *c, uint64_t handle, uint64_t now_ns)
{
	struct tally_step *s = step_of(c, handle);

	if (s->handle == handle) {
		times_add(&c->tally->step, now_ns - s->since_ns);
		s->handle = 0;
	} else {
		memset(c->steps, 0, sizeof(c->steps));
	}
}

static inline void begin_step(struct channel *c, uint64_t handle, uint64_t now_ns)
{
	*step_of(c, handle) = (struct tally_step){ handle, now_ns };
}

/* How long a prepare took that was answered at @now_ns. Its slots are behind commands.mine by now. */
static uint64_t taken_by(struct channel *c, uint64_t now_ns)
{
	if (__builtin_expect(c->left_ns != 0, 0)) {
		if ((int32_t)(c->left_until - c->commands.mine) >= 0)
			return now_ns - c->left_ns;
		c->left_ns = 0;
	}
	return now_ns - c->last_ns;
}

static void decided(struct tally *y, enum tally_kind kind, int code, uint32_t reason)
{
	if (code)
		refuse(y, kind, reason);
	else
		y->admitted[kind]++;
}

void tally_begin(struct channel *c, const struct workspace *w, uint64_t now_ns)
{
	decided(c->tally, TALLY_BEGIN, w->code, w->fault.reason);
}

void tally_take(struct channel *c, const struct workspace *w, uint64_t now_ns)
{
	decided(c->tally, TALLY_TAKE, w->code, w->fault.reason);
}

void tally_prefill(struct channel *c, const struct workspace *w, uint64_t now_ns)
{
	if (w->code == 0)
		times_add(&c->tally->prepare, taken_by(c, now_ns));
}

void tally_step_prepare(struct channel *c, const struct workspace *w, uint64_t now_ns)
{
	const struct wire_step_entry *first = command_payload(w);

	if (w->code)
		return;
	times_add(&c->tally->prepare, taken_by(c, now_ns));
	if (!w->n_faults || !first_is_refused(w))
		begin_step(c, first->request, now_ns);
}

void tally_step_complete(struct channel *c, const struct workspace *w, uint64_t now_ns)
{
	const struct wire_step_entry *first = command_payload(w);

	if (w->code == 0 && (!w->n_faults || !first_is_refused(w)))
		end_step(c, first->request, now_ns);
}

void tally_turn(struct channel *c, const struct workspace *w, uint64_t now_ns)
{
	const uint64_t *entries = (const uint64_t *)((const struct wire_fence *)command_payload(w) + 1);
	uint32_t first = wire_turn_what(entries[0]);
	uint64_t handle = wire_turn_handle(entries[0]);

	if (w->code)
		return;
	times_add(&c->tally->prepare, taken_by(c, now_ns));
	if (w->n_begun || w->n_faults) {
		count_begins(c, w, entries);
		if (first_is_refused(w))
			return;
	}
	if (first & WIRE_TURN_COMPLETE)
		end_step(c, handle, now_ns);
	if (first & WIRE_TURN_PREPARE)
		begin_step(c, handle, now_ns);
}

void tally_waits(struct channel *c, const struct workspace *w)
{
	c->tally->waited[command_head(w)->op == WIRE_OP_TAKE ? TALLY_TAKE : TALLY_BEGIN]++;
}

void tally_answered(struct channel *c, const struct admission *a)
{
	times_add(&c->tally->wait, a->waited);
	decided(c->tally, a->took ? TALLY_TAKE : TALLY_BEGIN, a->code, a->fault.reason);
}
