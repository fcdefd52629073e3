/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c - see turn.h */
#include "turn.h"

#include <string.h>

#include "deliver.h"
#include "life.h"
#include "life_read.h"
#include "wire_turn.h"
#include "worker.h"

/* A turn as it is made. */
struct draft {
	struct call call;
	struct wire_fence fence; /* of those without a detail */
	bool has_fence;
	uint64_t entries[SIM_BATCH];
	union wire_turn_detail details[SIM_BATCH];
	int32_t counts[3 * SIM_BATCH * SIM_BATCH];
	uint32_t n, n_details, n_counts;
};

static void add(struct draft *d, uint32_t life, uint64_t handle, uint32_t what)
{
	d->call.turn.what[d->n] = (uint8_t)what;
	d->call.lives |= 1u << life;
	d->call.entries[d->n] = (uint8_t)life;
	d->entries[d->n++] = wire_turn_entry(handle, what);
}

/* ---- what each asks for ------------------------------------------------------------------- */

/* So much of its step stays; true: all of it, and nothing is to be said. */
static bool draw_accepted(struct worker *v, struct life *l, int32_t *accepted)
{
	struct rng *r = &v->world->rng;
	bool parts = l->extends && v->model->chunk_mapped && rng_one_in(r, 2);

	for (uint32_t k = 0; k < l->n; k++) {
		int64_t tokens = l->seqs[k].next - l->seqs[k].end;

		accepted[k] = (int32_t)(parts ? rng_between(r, 0, tokens) : tokens);
	}
	return !parts;
}

/* From where a sequence goes on: behind what stays of its step. */
static int64_t end_of(const struct life *l, const int32_t *accepted, uint32_t k)
{
	return l->seqs[k].end + (l->step ? accepted[k] : 0);
}

static bool may_go_on(struct worker *v, struct life *l, const int32_t *accepted)
{
	if (!life_may_go_on(v, l))
		return false;
	for (uint32_t k = 0; k < l->n; k++)
		if (end_of(l, accepted, k) >= l->capacity)
			return false;
	return l->n > 0;
}

/* True: one token each. */
static bool draw_tokens(struct worker *v, struct life *l, uint32_t i, struct draft *d)
{
	struct rng *r = &v->world->rng;
	struct turn_call *t = &d->call.turn;
	int64_t usual = v->model->max_advance ? v->model->max_advance : 8;

	t->extends[i] = rng_one_in(r, 3);
	t->declared[i] = v->model->max_advance > 0 && life_is_usual(v, l);
	for (uint32_t k = 0; k < l->n; k++) {
		int64_t room = l->capacity - end_of(l, d->call.accepted[i], k);
		int64_t n = t->extends[i] ? rng_between(r, 1, usual) : 1;

		t->tokens[i][k] = (int32_t)(n < room ? n : room);
		t->declared[i] &= n <= v->model->max_advance;
	}
	return !t->extends[i];
}

static bool same(const struct wire_fence *a, const struct wire_fence *b)
{
	return a->kind == b->kind && a->line == b->line && a->value == b->value;
}

static void add_step(struct worker *v, struct draft *d, uint32_t i)
{
	struct life *l = &v->lives[i];
	struct rng *r = &v->world->rng;
	struct wire_fence fence = { 0 };
	bool all = true, ones = true, detail = rng_one_in(r, 3), over;
	uint32_t what = 0;

	if (l->step) {
		what |= WIRE_TURN_COMPLETE;
		fence = life_fence(v, l, &d->call.failed[i]);
		all = draw_accepted(v, l, d->call.accepted[i]);
	}
	over = v->leaves || v->world->healing || rng_one_in(r, 40);
	if (over) {
		what |= WIRE_TURN_FINISH;
	} else if (may_go_on(v, l, d->call.accepted[i])) {
		what |= WIRE_TURN_PREPARE;
		ones = draw_tokens(v, l, i, d);
	}
	if (!what)
		return;
	if (what & WIRE_TURN_COMPLETE && !d->has_fence) {
		d->fence = fence;
		d->has_fence = true;
	}
	detail |= !all || !ones || (what & WIRE_TURN_COMPLETE && !same(&fence, &d->fence));
	detail &= what != WIRE_TURN_FINISH; /* of that nothing is to be said */
	if (detail) {
		d->details[d->n_details].step.fence = fence;
		d->details[d->n_details].step.accepted = all ? 0 : -(int32_t)l->n;
		d->details[d->n_details++].step.tokens = ones ? what & WIRE_TURN_PREPARE ? 1 : 0 : -(int32_t)l->n;
		for (uint32_t k = 0; !all && k < l->n; k++)
			d->counts[d->n_counts++] = d->call.accepted[i][k];
		for (uint32_t k = 0; !ones && k < l->n; k++)
			d->counts[d->n_counts++] = d->call.turn.tokens[i][k];
	}
	add(d, i, l->handle, what | (detail ? WIRE_TURN_DETAIL : 0));
}

/* It does not wait. */
static void add_begin(struct worker *v, struct draft *d, uint32_t i)
{
	struct rng *r = &v->world->rng;
	struct wire_begin b = { .stream = (uint32_t)rng_between(r, 0, v->model->n_streams - 1) };
	int32_t slots[SIM_BATCH];
	uint32_t n = life_draw_slots(v, b.stream, slots);

	if (n == 0)
		return;
	b.max_tokens = rng_one_in(r, 3) ? rng_between(r, 1, v->model->max_seq) : 0;
	life_begins(v, &v->lives[i], &b, slots, n);
	d->details[d->n_details++].begin = b;
	memcpy(d->counts + d->n_counts, slots, n * sizeof(slots[0]));
	d->n_counts += n;
	add(d, i, n, WIRE_TURN_BEGIN);
}

/* Of what was not sent nothing has begun. */
static void undo(struct worker *v, const struct draft *d)
{
	for (uint32_t e = 0; e < d->n; e++)
		if (d->call.turn.what[e] == WIRE_TURN_BEGIN)
			life_free_slots(v, &v->lives[d->call.entries[e]]);
}

void turn_send(struct worker *v)
{
	struct draft d = { 0 };
	struct message m;
	struct call *c;

	for (uint32_t i = 0; i < SIM_BATCH; i++) {
		struct life *l = &v->lives[i];

		if (l->called || l->early || l->compacting || rng_one_in(&v->world->rng, 3))
			continue;
		if (l->state == LIFE_EXECUTING)
			add_step(v, &d, i);
		else if (l->state == LIFE_NONE && !v->leaves && !v->world->healing && !v->hold.alone &&
			 rng_one_in(&v->world->rng, 3))
			add_begin(v, &d, i);
	}
	if (d.n == 0)
		return;
	message_begin(&m, WIRE_OP_STEP_TURN, d.n_details | (uint64_t)d.n_counts << 32);
	message_add(&m, &d.fence, sizeof(d.fence));
	message_add(&m, d.entries, d.n * sizeof(d.entries[0]));
	message_add(&m, d.details, d.n_details * sizeof(d.details[0]));
	message_add(&m, d.counts, d.n_counts * sizeof(d.counts[0]));
	c = message_send(v, &m, d.n);
	if (!c) {
		undo(v, &d);
		return;
	}
	c->turn = d.call.turn;
	life_take_call(v, c, &d.call, d.n);
	v->world->turns++;
}

/* ---- its answer ---------------------------------------------------------------------------- */

/* What is said of one entry. */
struct outcome {
	struct life *life;
	uint32_t what;
	const struct fault *complete, *other; /* why not; NULL: it was done */
	uint64_t handle;                      /* of a begin */
	bool over;                            /* nothing else was tried, or can be */
};

static void find_outcome(struct outcome *s, const struct wire_delivery *d, const struct wire_entry_fault *faults,
			 const struct wire_begun *begun, uint32_t entry)
{
	for (uint32_t k = 0; k < d->n_faults; k++) {
		bool of_complete = s->what & WIRE_TURN_COMPLETE &&
				   (faults[k].skipped || !(s->what & (WIRE_TURN_FINISH | WIRE_TURN_PREPARE)));

		if (faults[k].entry == entry)
			*(of_complete ? &s->complete : &s->other) = &faults[k].fault;
	}
	for (uint32_t k = 0; k < d->n_begun; k++)
		if (begun[k].entry == entry)
			s->handle = begun[k].handle;
}

static void read_begun(struct worker *v, const struct call *c, struct outcome *s)
{
	const struct wire_reply head = { .code = s->other ? s->other->code : 0, .value = s->handle };

	if (!s->other && !s->handle)
		world_break(v->world, "worker %u: a begin of a turn was neither granted nor refused", v->number);
	else
		life_read_begin(v, s->life, c, &head, s->other);
}

static void prepare(struct worker *v, const struct call *c, struct outcome *s)
{
	uint32_t i = (uint32_t)(s->life - v->lives);
	struct life *l = s->life;

	l->extends = c->turn.extends[i];
	l->declared = c->turn.declared[i];
	for (uint32_t k = 0; k < l->n; k++)
		l->seqs[k].next = l->seqs[k].end + (l->extends ? c->turn.tokens[i][k] : 1);
	life_read_prepared(v, l, s->other);
}

static void complete(struct worker *v, const struct call *c, struct outcome *s)
{
	s->over = s->complete || c->failed[s->life - v->lives];
	life_read_completed(v, s->life, c, s->complete);
}

static void finish(struct worker *v, struct outcome *s)
{
	if (s->other)
		life_refused(v, s->life, "finish in a turn", s->other);
	else
		life_free_slots(v, s->life);
}

void turn_read(struct worker *v, const struct call *c, const struct message *m, const struct fault *whole)
{
	const struct wire_entry_fault *faults;
	struct outcome said[SIM_BATCH] = { 0 };
	const struct wire_begun *begun;
	struct wire_delivery d;

	if (whole) {
		life_refused(v, &v->lives[c->entries[0]], "a turn", whole);
		return;
	}
	faults = deliver(v, m, &d);
	begun = (const struct wire_begun *)((const unsigned char *)(faults + d.n_faults) +
					    d.n_updates * sizeof(struct wire_update) +
					    d.n_rows * sizeof(struct wire_row) +
					    d.n_scrubs * sizeof(struct wire_scrub));
	for (uint32_t e = 0; e < c->n_entries; e++) {
		said[e].life = &v->lives[c->entries[e]];
		said[e].life->called = false;
		said[e].what = c->turn.what[e];
		find_outcome(&said[e], &d, faults, begun, e);
	}
	for (uint32_t e = 0; e < c->n_entries; e++)
		if (said[e].what & WIRE_TURN_COMPLETE)
			complete(v, c, &said[e]);
	for (uint32_t e = 0; e < c->n_entries; e++)
		if (said[e].what & WIRE_TURN_FINISH && !said[e].over)
			finish(v, &said[e]);
	for (uint32_t e = 0; e < c->n_entries; e++)
		if (said[e].what == WIRE_TURN_BEGIN)
			read_begun(v, c, &said[e]);
	for (uint32_t e = 0; e < c->n_entries; e++)
		if (said[e].what & WIRE_TURN_PREPARE && !said[e].over)
			prepare(v, c, &said[e]);
	deliver_mark_clears(v); /* what no step of this answer has marked */
}
