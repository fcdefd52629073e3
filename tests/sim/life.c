/* SPDX-License-Identifier: Apache-2.0 */
/* life.c - the requests of a worker: which command comes next */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "life.h"
#include "life_read.h"

/* ---- what is there to be asked for --------------------------------------------------- */

static bool line_reached(const struct worker *v, uint32_t stream, uint64_t value)
{
	return load_acquire(&v->gpu.streams[stream].line->word) >= value;
}

/* Completed steps of @l whose point may still be open; those that are not are forgotten. */
static uint32_t in_flight(struct worker *v, struct life *l)
{
	uint32_t n = 0;

	for (size_t i = 0; i < sizeof(l->open) / sizeof(l->open[0]); i++) {
		if (l->open[i] && line_reached(v, l->stream, l->open[i]))
			l->open[i] = 0;
		n += l->open[i] != 0;
	}
	return n;
}

static uint32_t declared_in_flight(const struct worker *v)
{
	return v->model->in_flight ? v->model->in_flight : MODEL_IN_FLIGHT;
}

bool life_may_go_on(struct worker *v, struct life *l)
{
	uint32_t own = l->step && !line_reached(v, l->stream, l->fence);

	return in_flight(v, l) + own < declared_in_flight(v);
}

bool life_is_usual(const struct worker *v, const struct life *l)
{
	return line_reached(v, l->stream, l->beyond);
}

bool life_is_over(const struct worker *v)
{
	if (v->n_calls || v->n_nops || v->poisoned || !hold_is_over(v))
		return false;
	for (int i = 0; i < SIM_BATCH; i++)
		if (v->lives[i].state != LIFE_NONE)
			return false;
	for (uint32_t i = 0; i < v->model->n_streams; i++)
		if (!gpu_idle(&v->gpu, i))
			return false;
	return true;
}

bool life_has_work(const struct worker *v)
{
	for (int i = 0; i < SIM_BATCH; i++) {
		const struct life *l = &v->lives[i];

		if (!l->called && l->state != LIFE_NONE && l->state != LIFE_BEGINNING && l->state != LIFE_ENDING)
			return true;
	}
	return false;
}

/* ---- begin -------------------------------------------------------------------------------- */

uint32_t life_draw_slots(struct worker *v, uint32_t stream, int32_t *slots)
{
	uint32_t n = 0;
	struct rng *r = &v->world->rng;

	for (int32_t i = 0; i < v->model->max_batch; i++)
		if (!v->slot_used[i] && (v->slots[i].stream == stream || rng_one_in(r, 4)) &&
		    (n == 0 || rng_one_in(r, 2)))
			slots[n++] = i;
	return n;
}

void life_begins(struct worker *v, struct life *l, const struct wire_begin *b, const int32_t *slots, uint32_t n)
{
	*l = (struct life){ .state = LIFE_BEGINNING, .stream = b->stream, .n = n, .called = true };
	l->pinned = b->flags & WIRE_BEGIN_PINNED;
	l->capacity = b->max_tokens ? b->max_tokens : v->model->max_seq;
	l->since = v->world->now;
	l->wait_ns = b->wait_ms * NS_PER_MS;
	for (uint32_t i = 0; i < n; i++) {
		l->seqs[i] = (struct life_seq){ .uid = ++v->world->sequences, .slot = slots[i] };
		v->slot_used[slots[i]] = true;
	}
}

static void begin(struct worker *v, struct life *l)
{
	struct rng *r = &v->world->rng;
	struct wire_begin b = { .stream = (uint32_t)rng_between(r, 0, v->model->n_streams - 1) };
	int32_t slots[SIM_BATCH];
	uint32_t n = life_draw_slots(v, b.stream, slots);
	struct message m;
	struct call *c;

	if (n == 0)
		return;
	b.max_tokens = rng_one_in(r, 3) ? rng_between(r, 1, v->model->max_seq) : 0;
	if (rng_one_in(r, 10))
		b.flags |= WIRE_BEGIN_PINNED;
	if (rng_one_in(r, 2))
		b.wait_ms = (uint32_t)rng_between(r, 1, rng_one_in(r, 3) ? 8000 : 60);
	message_begin(&m, WIRE_OP_BEGIN, 0);
	message_add(&m, &b, sizeof(b));
	message_add(&m, slots, n * sizeof(*slots));
	c = message_send(v, &m, n);
	if (!c)
		return;
	life_begins(v, l, &b, slots, n);
	c->lives = 1u << (l - v->lives);
	if (b.wait_ms > 0)
		call_may_wait(v, c);
}

/* ---- commands about one request ---------------------------------------------------------------- */

static bool send_about(struct worker *v, struct life *l, struct message *m, uint32_t n)
{
	struct call *c = message_send(v, m, n);

	if (!c)
		return false;
	c->lives = 1u << (l - v->lives);
	l->called = true;
	return true;
}

static void prefill(struct worker *v, struct life *l)
{
	int32_t lengths[SIM_BATCH];
	struct message m;

	for (uint32_t i = 0; i < l->n; i++)
		lengths[i] = (int32_t)rng_between(&v->world->rng, 1, l->capacity);
	message_begin(&m, WIRE_OP_PREFILL_PREPARE, l->handle);
	message_add(&m, lengths, l->n * sizeof(*lengths));
	if (!send_about(v, l, &m, l->n))
		return;
	for (uint32_t i = 0; i < l->n; i++)
		l->seqs[i].next = lengths[i];
}

struct wire_fence life_fence(struct worker *v, struct life *l, bool *failed)
{
	*failed = !v->poisoned && (l->lost || world_fault(v->world, SIM_POISON));
	if (*failed)
		return (struct wire_fence){ .kind = WIRE_FENCE_FAILED };
	if (line_reached(v, l->stream, l->fence) && rng_one_in(&v->world->rng, 2))
		return (struct wire_fence){ .kind = WIRE_FENCE_DONE };
	return (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = l->stream, .value = l->fence };
}

static void complete_alone(struct worker *v, struct life *l, uint16_t op)
{
	struct message m;
	bool failed;
	struct wire_fence f = life_fence(v, l, &failed);

	message_begin(&m, op, l->handle);
	message_add(&m, &f, sizeof(f));
	if (send_about(v, l, &m, 0))
		life_note_failed(v, l, failed);
}

static void compact(struct worker *v, struct life *l)
{
	struct wire_compact head = { .flags = rng_one_in(&v->world->rng, 2) ? WIRE_COMPACT_MOVE_ROWS : 0 };
	struct rng *r = &v->world->rng;
	struct message m;

	for (uint32_t i = 0; i < l->n; i++)
		l->map[i] = rng_one_in(r, 3) ? -1 : head.new_batch++;
	for (uint32_t i = 0; i < l->n; i++) { /* shuffled */
		uint32_t k = (uint32_t)rng_between(r, 0, l->n - 1);
		int32_t x = l->map[i];

		l->map[i] = l->map[k];
		l->map[k] = x;
	}
	l->new_batch = head.new_batch;
	l->move = head.flags != 0;
	message_begin(&m, WIRE_OP_COMPACT_BEGIN, l->handle);
	message_add(&m, &head, sizeof(head));
	message_add(&m, l->map, l->n * sizeof(l->map[0]));
	send_about(v, l, &m, l->n);
}

static void rewind_some(struct worker *v, struct life *l)
{
	int32_t tokens[SIM_BATCH];
	struct message m;

	for (uint32_t i = 0; i < l->n; i++) {
		struct life_seq *q = &l->seqs[i];
		int64_t most = (int64_t)v->model->max_rewind - (q->high - q->end);

		most = most < q->end ? most : q->end;
		tokens[i] = (int32_t)(most > 0 ? rng_between(&v->world->rng, 0, most) : 0);
		q->next = q->end - tokens[i];
	}
	message_begin(&m, WIRE_OP_REWIND, l->handle);
	message_add(&m, tokens, l->n * sizeof(*tokens));
	send_about(v, l, &m, l->n);
}

static void reserve(struct worker *v, struct life *l)
{
	int64_t tokens = rng_between(&v->world->rng, l->capacity, v->model->max_seq);
	struct message m;
	struct call *c;

	message_begin(&m, WIRE_OP_RESERVE, l->handle);
	message_add(&m, &tokens, sizeof(tokens));
	c = message_send(v, &m, 0);
	if (!c)
		return;
	c->lives = 1u << (l - v->lives);
	c->value = tokens;
	l->called = true;
}

/* From the answer on its pages stay where they are, or from now on they may move. */
static void pin(struct worker *v, struct life *l)
{
	bool pins = rng_one_in(&v->world->rng, 2);
	struct message m;

	message_begin(&m, pins ? WIRE_OP_PIN : WIRE_OP_UNPIN, l->handle);
	if (send_about(v, l, &m, 0))
		l->pinned = false;
}

static void end(struct worker *v, struct life *l, bool abandon)
{
	struct wire_fence f = { .kind = WIRE_FENCE_POINT };
	struct message m;

	message_begin(&m, abandon ? WIRE_OP_ABANDON : WIRE_OP_FINISH, l->handle);
	message_add(&m, &f, sizeof(f));
	if (send_about(v, l, &m, 0))
		l->state = LIFE_ENDING;
}

/* ---- steps of several requests ----------------------------------------------------------------------- */

static bool may_step(struct worker *v, struct life *l)
{
	if (l->state != LIFE_EXECUTING || l->called || l->step || l->compacting || v->poisoned ||
	    in_flight(v, l) >= declared_in_flight(v))
		return false;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->seqs[i].end >= l->capacity)
			return false;
	return l->n > 0;
}

/* Tokens of each sequence into @counts; what the entry says. */
static int32_t draw_tokens(struct worker *v, struct life *l, int32_t *counts)
{
	struct rng *r = &v->world->rng;
	int64_t usual = v->model->max_advance ? v->model->max_advance : 8;

	l->extends = rng_one_in(r, 3);
	l->declared = v->model->max_advance > 0 && line_reached(v, l->stream, l->beyond);
	for (uint32_t i = 0; i < l->n; i++) {
		int64_t room = l->capacity - l->seqs[i].end;
		int64_t n = !l->extends ? 1 : rng_between(r, 1, rng_one_in(r, 6) ? 60 : usual);

		n = n < room ? n : room;
		l->declared &= n <= v->model->max_advance;
		counts[i] = (int32_t)n;
		l->seqs[i].next = l->seqs[i].end + n;
	}
	return l->extends ? -(int32_t)l->n : 1;
}

/* @call says what the @n entries are about. */
static void send_steps(struct worker *v, uint16_t op, const struct call *call, const struct wire_step_entry *entries,
		       uint32_t n, const int32_t *counts, uint32_t n_counts)
{
	struct message m;
	struct call *c;

	message_begin(&m, op, n_counts);
	message_add(&m, entries, n * sizeof(entries[0]));
	message_add(&m, counts, n_counts * sizeof(counts[0]));
	c = message_send(v, &m, n);
	if (c)
		life_take_call(v, c, call, n);
}

static void prepare_steps(struct worker *v, struct life *first)
{
	struct wire_step_entry entries[SIM_BATCH] = { 0 };
	int32_t counts[SIM_BATCH * SIM_BATCH];
	struct call call = { 0 };
	uint32_t n = 0, n_counts = 0;
	bool all = rng_one_in(&v->world->rng, 2);

	for (int i = 0; i < SIM_BATCH; i++) {
		struct life *l = &v->lives[i];

		if (!may_step(v, l) || (l != first && !all))
			continue;
		entries[n].request = l->handle;
		entries[n].tokens = draw_tokens(v, l, counts + n_counts);
		n_counts += l->extends ? l->n : 0;
		call.lives |= 1u << i;
		call.entries[n++] = (uint8_t)i;
	}
	send_steps(v, WIRE_OP_STEP_PREPARE, &call, entries, n, counts, n_counts);
}

static void complete_steps(struct worker *v, struct life *first)
{
	struct wire_step_entry entries[SIM_BATCH] = { 0 };
	int32_t counts[SIM_BATCH * SIM_BATCH];
	struct call call = { 0 };
	uint32_t n = 0, n_counts = 0;
	bool all = rng_one_in(&v->world->rng, 2);

	for (int i = 0; i < SIM_BATCH; i++) {
		struct life *l = &v->lives[i];
		bool parts = l->extends && v->model->chunk_mapped && rng_one_in(&v->world->rng, 2);

		if (!l->step || l->called || l->state != LIFE_EXECUTING || (l != first && !all))
			continue;
		entries[n].request = l->handle;
		entries[n].fence = life_fence(v, l, &call.failed[i]);
		entries[n].accepted = parts ? -(int32_t)l->n : 0;
		for (uint32_t k = 0; k < l->n; k++) {
			int64_t tokens = l->seqs[k].next - l->seqs[k].end;

			call.accepted[i][k] = (int32_t)(parts ? rng_between(&v->world->rng, 0, tokens) : tokens);
			if (parts)
				counts[n_counts++] = call.accepted[i][k];
		}
		call.lives |= 1u << i;
		call.entries[n++] = (uint8_t)i;
	}
	send_steps(v, WIRE_OP_STEP_COMPLETE, &call, entries, n, counts, n_counts);
}

/* A handle that names nothing any more. */
static void misuse(struct worker *v)
{
	int64_t tokens = v->model->max_seq;
	struct message m;
	struct call *c;

	message_begin(&m, WIRE_OP_RESERVE, v->ended_handle);
	message_add(&m, &tokens, sizeof(tokens));
	c = message_send(v, &m, 0);
	if (c)
		c->misuse = true;
}

/* Some begin or take is to wait no longer. */
static void withdraw(struct worker *v)
{
	struct call *c = &v->calls[rng_between(&v->world->rng, 0, WORKER_CALLS - 1)];
	struct message m;

	if (!c->used || !c->waits || c->withdrawn)
		return;
	message_begin(&m, WIRE_OP_WITHDRAW, c->ticket);
	c->withdrawn = message_send(v, &m, 0) != NULL;
}

/* ---- choosing ------------------------------------------------------------------------------------------- */

/* A completion failed: all requests end, then the streams are waited for. */
static void resolve_poison(struct worker *v)
{
	struct wire_fence fences[SIM_STREAMS] = { 0 };
	struct message m;

	for (int i = 0; i < SIM_BATCH; i++) {
		struct life *l = &v->lives[i];

		if (l->state == LIFE_NONE)
			continue;
		if (!l->called && l->state != LIFE_BEGINNING)
			end(v, l, true);
		return;
	}
	for (uint32_t i = 0; i < v->model->n_streams; i++)
		if (!gpu_idle(&v->gpu, i))
			return;
	if (v->n_calls)
		return;
	message_begin(&m, WIRE_OP_SHUTDOWN, 0); /* all fences say done */
	message_add(&m, fences, v->model->n_streams * sizeof(fences[0]));
	message_send(v, &m, v->model->n_streams);
}

static void go_on(struct worker *v, struct life *l)
{
	struct rng *r = &v->world->rng;
	bool ending = v->leaves || v->world->healing;

	if (l->step)
		complete_steps(v, l);
	else if (l->compacting)
		complete_alone(v, l, WIRE_OP_COMPACT_COMPLETE);
	else if (ending || rng_one_in(r, 40))
		end(v, l, rng_one_in(r, 3));
	else if (v->model->max_rewind && rng_one_in(r, 10))
		rewind_some(v, l);
	else if (rng_one_in(r, 25))
		compact(v, l);
	else if (l->capacity < v->model->max_seq && rng_one_in(r, 12))
		reserve(v, l);
	else if (may_step(v, l))
		prepare_steps(v, l);
	else if (in_flight(v, l) < declared_in_flight(v))
		end(v, l, false); /* it has reached its length */
}

void life_act(struct worker *v)
{
	struct rng *r = &v->world->rng;
	struct life *l = &v->lives[rng_between(r, 0, SIM_BATCH - 1)];

	if (rng_one_in(r, 30))
		withdraw(v);
	if (v->hold.manages && rng_one_in(r, 3)) {
		hold_act(v);
		return;
	}
	if (v->poisoned) {
		resolve_poison(v);
		return;
	}
	if (world_fault(v->world, SIM_TURNS)) {
		turn_send(v);
		return;
	}
	if (v->ended_handle && rng_one_in(r, 50)) {
		misuse(v);
		return;
	}
	if (l->called || l->state == LIFE_BEGINNING || l->state == LIFE_ENDING)
		return;
	if (l->early) {
		end(v, l, true);
		return;
	}
	if ((l->step || l->compacting || l->state == LIFE_ADMITTED) && rng_one_in(r, 60)) {
		end(v, l, true);
		return;
	}
	if (l->handle && rng_one_in(r, 60)) {
		pin(v, l);
		return;
	}
	switch (l->state) {
	case LIFE_NONE:
		if (!v->leaves && !v->world->healing && !v->hold.alone && !rng_one_in(r, 3))
			begin(v, l);
		break;
	case LIFE_ADMITTED:
		if (l->step)
			complete_alone(v, l, WIRE_OP_PREFILL_COMPLETE);
		else if (v->leaves || v->world->healing)
			end(v, l, false);
		else
			prefill(v, l);
		break;
	case LIFE_EXECUTING:
		go_on(v, l);
		break;
	case LIFE_FINISHING:
		end(v, l, false);
		break;
	default:
		break;
	}
}
