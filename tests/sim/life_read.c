/* SPDX-License-Identifier: Apache-2.0 */
/* life_read.c - answers: what they change in the worker's books, and what its device gets to do */
#include "life_read.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "deliver.h"
#include "want.h"

#define ANSWER_NS (5 * NS_PER_MS)

void life_take_call(struct worker *v, struct call *c, const struct call *from, uint32_t n_entries)
{
	c->lives = from->lives;
	c->n_entries = n_entries;
	memcpy(c->entries, from->entries, sizeof(c->entries));
	memcpy(c->accepted, from->accepted, sizeof(c->accepted));
	memcpy(c->failed, from->failed, sizeof(c->failed));
	for (int i = 0; i < SIM_BATCH; i++) {
		if (!(c->lives >> i & 1))
			continue;
		v->lives[i].called = true;
		v->poisoned |= c->failed[i];
	}
}

void life_note_failed(struct worker *v, struct life *l, bool failed)
{
	uint32_t i = (uint32_t)(l - v->lives);

	v->poisoned |= failed;
	for (int k = 0; k < WORKER_CALLS; k++)
		if (v->calls[k].used && v->calls[k].lives == 1u << i)
			v->calls[k].failed[i] = failed;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static int64_t down(int64_t tokens, int64_t page)
{
	return tokens > 0 ? tokens / page : 0;
}

static int64_t up(int64_t tokens, int64_t page)
{
	return (tokens + page - 1) / page;
}

/* What a step of @q from @q->end to @q->next reads and writes in @group. */
static struct gpu_part part_of(const struct worker *v, const struct life_seq *q, uint32_t group, bool prefill)
{
	const struct wire_group *g = &v->model->groups[group];
	int64_t p = g->page_tokens, w = g->kind == WIRE_GROUP_FULL ? INT32_MAX : g->window;
	int64_t high = q->high > q->next ? q->high : q->next;
	int64_t kept = down(high - w - (int64_t)v->model->max_rewind, p);
	struct gpu_part part = { .group = group, .uid = q->uid, .slot = q->slot };

	part.write = (int32_t)down(q->end, p);
	if ((prefill || !v->model->chunk_mapped) && part.write < kept)
		part.write = (int32_t)kept;
	part.write_end = (int32_t)up(q->next, p);
	if (!prefill && q->end > 0) {
		part.read = (int32_t)down(q->end + 1 - w, p);
		part.read_end = (int32_t)up(q->end, p);
	}
	return part;
}

/* The step's work: what it touches goes on the stream of the request, and a mark behind it. */
static void launch(struct worker *v, struct life *l, bool prefill)
{
	uint32_t n = l->n * v->model->n_groups, i = 0;
	struct gpu_part *parts = malloc(n * sizeof(*parts));

	for (uint32_t s = 0; s < l->n; s++)
		for (uint32_t g = 0; g < v->model->n_groups; g++)
			parts[i++] = part_of(v, &l->seqs[s], g, prefill);
	deliver_arm(v, l->stream);
	gpu_kernel(&v->gpu, l->stream, parts, l->lost ? 0 : n, v->world->plan.kernel_ns);
	l->fence = deliver_mark(v, l->stream);
	/* While it holds more than its reservation, what it leaves waits for the point, too. */
	if (!prefill &&
	    ((l->extends && !l->declared) || load_acquire(&v->gpu.streams[l->stream].line->word) < l->beyond))
		l->beyond = l->fence;
	l->step = true;
}

/* ---- answers ---------------------------------------------------------------------------------- */

void life_free_slots(struct worker *v, struct life *l)
{
	if (l->handle)
		v->ended_handle = l->handle;
	for (uint32_t i = 0; i < l->n; i++)
		v->slot_used[l->seqs[i].slot] = false;
	*l = (struct life){ 0 };
}

/* What @l was completed with may be open. */
static void note_open(struct life *l)
{
	for (size_t i = 0; i < sizeof(l->open) / sizeof(l->open[0]); i++)
		if (!l->open[i]) {
			l->open[i] = l->fence;
			return;
		}
}

/* @l has been completed: its point may be open. */
static void settle(struct worker *v, struct life *l, const int32_t *accepted)
{
	for (uint32_t i = 0; i < l->n; i++) {
		struct life_seq *q = &l->seqs[i];

		q->end = accepted ? q->end + accepted[i] : q->next;
		q->high = q->end > q->high ? q->end : q->high;
	}
	for (uint32_t i = 0; i < l->n && v->world->options.trace; i++)
		world_trace(v->world, "worker %u: sequence %u settled at %d, its point is %u", v->number,
			    l->seqs[i].uid, (int)l->seqs[i].end, (unsigned)l->fence);
	l->step = false;
	note_open(l);
}

static void compacted(struct worker *v, struct life *l)
{
	struct life_seq now[SIM_BATCH];
	int32_t slots[SIM_BATCH];
	uint32_t n = l->n;

	for (uint32_t i = 0; i < n; i++) {
		slots[i] = l->seqs[i].slot;
		v->slot_used[slots[i]] = false;
		if (l->map[i] >= 0)
			now[l->map[i]] = l->seqs[i];
	}
	l->n = (uint32_t)l->new_batch;
	for (uint32_t i = 0; i < l->n; i++) {
		l->seqs[i] = now[i];
		if (l->move)
			l->seqs[i].slot = slots[i];
		v->slot_used[l->seqs[i].slot] = true;
	}
	l->compacting = false;
	if (l->n == 0)
		l->state = LIFE_FINISHING;
}

void life_refused(struct worker *v, const struct life *l, const char *what, const struct fault *f)
{
	char text[256];

	fault_format(f, text, sizeof(text));
	world_break(v->world, "worker %u: %s of request %#llx was refused with %s: %s", v->number, what,
		    (unsigned long long)l->handle, swakv_error_name(f->code), text);
}

void life_read_begin(struct worker *v, struct life *l, const struct call *c, const struct wire_reply *head,
		     const struct fault *f)
{
	if (head->code == 0) {
		l->handle = head->value;
		l->state = LIFE_ADMITTED;
		v->world->admitted++;
		fair_check_admitted(v, l->since);
		deliver_take_slots(v, l);
		return;
	}
	if (head->code == SWAKV_ENOPAGES && !c->withdrawn && v->world->healing &&
	    l->since + l->wait_ns > v->world->healed + SERVED_NS)
		world_break(v->world,
			    "worker %u: a begin of %u sequences that waited was not served though nothing failed "
			    "any more",
			    v->number, l->n);
	switch (head->code) {
	case SWAKV_ENOPAGES:
	case SWAKV_ENEVER:
	case SWAKV_EPENDING:
	case SWAKV_EBUSY: /* too many wait */
		break;
	default:
		if (f->reason == FAULT_DRAINED && orders_drained(v->world, v->model_index, l->since))
			break;
		if (head->code == SWAKV_EPOISONED && v->poisoned)
			break;
		life_refused(v, l, "begin", f);
	}
	life_free_slots(v, l);
}

static void trace_step(const struct worker *v, const struct life *l, const struct fault *f)
{
	if (!v->world->options.trace)
		return;
	for (uint32_t i = 0; i < l->n; i++)
		world_trace(v->world, "worker %u: sequence %u from %d to %d: %s", v->number, l->seqs[i].uid,
			    (int)l->seqs[i].end, (int)l->seqs[i].next, f ? swakv_error_name(f->code) : "prepared");
}

/* One request's part of a step's answer. */
void life_read_prepared(struct worker *v, struct life *l, const struct fault *f)
{
	trace_step(v, l, f);
	if (!f) {
		launch(v, l, false);
		return;
	}
	if (f->code == SWAKV_EPOISONED && v->poisoned)
		return;
	if ((f->code == SWAKV_EPENDING || f->code == SWAKV_ENOPAGES || f->code == SWAKV_ENEVER) && !l->declared)
		return;
	if (f->reason == FAULT_POINTS_FULL)
		return;
	life_refused(v, l, l->declared ? "a step within what its model declared" : "step", f);
}

void life_read_completed(struct worker *v, struct life *l, const struct call *c, const struct fault *f)
{
	uint32_t i = (uint32_t)(l - v->lives);

	if (c->failed[i]) { /* the request is in quarantine, its handle is not valid any more */
		life_free_slots(v, l);
		return;
	}
	if (f)
		life_refused(v, l, "complete", f);
	else
		settle(v, l, c->accepted[i]);
}

static const struct fault *fault_of_entry(const struct wire_entry_fault *faults, uint32_t n, uint32_t entry)
{
	for (uint32_t i = 0; i < n; i++)
		if (faults[i].entry == entry)
			return &faults[i].fault;
	return NULL;
}

static void read_step(struct worker *v, const struct call *c, const struct message *m, const struct fault *whole)
{
	const struct wire_entry_fault *faults = NULL;
	struct wire_delivery d = { 0 };

	if (!whole)
		faults = deliver(v, m, &d);
	for (uint32_t i = 0; i < c->n_entries; i++) {
		struct life *l = &v->lives[c->entries[i]];
		const struct fault *f = whole ? whole : fault_of_entry(faults, d.n_faults, i);

		l->called = false;
		if (c->op == WIRE_OP_STEP_PREPARE)
			life_read_prepared(v, l, f);
		else
			life_read_completed(v, l, c, f);
	}
	deliver_mark_clears(v); /* what no step of this answer has marked */
}

/* Answers about one request that may not be refused but for poison. */
static void read_one(struct worker *v, struct life *l, const struct call *c, const struct message *m,
		     const struct fault *f)
{
	uint32_t i = (uint32_t)(l - v->lives);
	struct wire_delivery d;

	if (f && f->code == SWAKV_EPOISONED && v->poisoned) {
		if (c->op == WIRE_OP_PREFILL_COMPLETE || c->op == WIRE_OP_COMPACT_COMPLETE)
			life_free_slots(v, l);
		return;
	}
	if (c->failed[i]) {
		life_free_slots(v, l);
		return;
	}
	/* Gives behind work that never ends have taken all points. */
	if (f && f->reason == FAULT_POINTS_FULL && (c->op == WIRE_OP_PREFILL_PREPARE || c->op == WIRE_OP_COMPACT_BEGIN))
		return;
	if (f) {
		life_refused(v, l,
			     c->op == WIRE_OP_REWIND            ? "rewind"
			     : c->op == WIRE_OP_PREFILL_PREPARE ? "prefill"
								: "command",
			     f);
		return;
	}
	switch (c->op) {
	case WIRE_OP_PREFILL_PREPARE:
		deliver(v, m, &d);
		launch(v, l, true);
		break;
	case WIRE_OP_PREFILL_COMPLETE:
		settle(v, l, NULL);
		l->state = LIFE_EXECUTING;
		break;
	case WIRE_OP_REWIND:
		for (uint32_t k = 0; k < l->n; k++)
			l->seqs[k].end = l->seqs[k].next;
		break;
	case WIRE_OP_RESERVE:
		l->capacity = c->value;
		break;
	case WIRE_OP_PIN:
		l->pinned = true;
		break;
	case WIRE_OP_UNPIN:
		break;
	case WIRE_OP_COMPACT_BEGIN:
		deliver(v, m, &d);
		l->compacting = true;
		l->fence = deliver_mark(v, l->stream);
		break;
	case WIRE_OP_COMPACT_COMPLETE:
		deliver(v, m, &d);
		if (v->armed[l->stream] > v->marked[l->stream])
			deliver_mark(v, l->stream); /* nothing but clears: marked behind them at once */
		if (load_acquire(&v->gpu.streams[l->stream].line->word) < l->beyond)
			l->beyond = l->fence;
		note_open(l);
		compacted(v, l);
		break;
	default:
		life_free_slots(v, l); /* finish, abandon */
	}
}

static struct life *life_of(struct worker *v, const struct call *c)
{
	return c->lives ? &v->lives[__builtin_ctz(c->lives)] : NULL;
}

/* @c, which was not refused, has got pages beyond all doubt. */
static bool got_pages(const struct worker *v, const struct life *l, const struct call *c)
{
	bool got = c->op == WIRE_OP_BEGIN || c->op == WIRE_OP_TAKE;

	for (uint32_t i = 0; i < v->model->n_groups && c->op == WIRE_OP_RESERVE; i++) {
		const struct wire_group *g =
			&v->model->groups[i]; /* of full attention: a page for each so many tokens */

		got |= g->kind == WIRE_GROUP_FULL && up(c->value, g->page_tokens) > up(l->capacity, g->page_tokens);
	}
	return got;
}

static void read_answer(struct worker *v, struct call *c, const struct message *m)
{
	const struct wire_reply *head = (const struct wire_reply *)m->bytes;
	const struct fault *f = head->code ? (const struct fault *)(m->bytes + sizeof(*head)) : NULL;
	struct life *l = life_of(v, c);

	if (l)
		l->called = false;
	if (c->misuse) {
		if (!f)
			world_break(v->world, "worker %u: a request that has ended was taken for one that lives",
				    v->number);
		return;
	}
	if (!f && got_pages(v, l, c))
		want_check_given(v);
	switch (c->op) {
	case WIRE_OP_BEGIN:
		life_read_begin(v, l, c, head, f);
		break;
	case WIRE_OP_STEP_PREPARE:
	case WIRE_OP_STEP_COMPLETE:
		read_step(v, c, m, f);
		break;
	case WIRE_OP_STEP_TURN:
		turn_read(v, c, m, f);
		break;
	case WIRE_OP_TAKE:
		hold_read_take(v, c, m, f);
		break;
	case WIRE_OP_GIVE:
		hold_read_give(v, c, f);
		break;
	case WIRE_OP_WITHDRAW:
		if (f)
			world_break(v->world, "worker %u: a withdrawal was refused with code %d", v->number, f->code);
		break;
	case WIRE_OP_SHUTDOWN:
		if (head->code == 0)
			v->poisoned = false;
		break;
	case WIRE_OP_CLOSE:
		break;
	case WIRE_OP_RESERVE:
		if (f && (f->code == SWAKV_ENOPAGES || f->code == SWAKV_ENEVER || f->code == SWAKV_EPENDING))
			break;
		/* fall through */
	default:
		read_one(v, l, c, m, f);
	}
}

/* An answer that does not wait for pages waits for nobody else either. */
static void check_time(struct worker *v, const struct call *c)
{
	uint64_t from = c->sent > v->hears_since ? c->sent : v->hears_since;

	if (!c->waits && v->world->now - from > ANSWER_NS)
		world_break(v->world, "worker %u has waited %.3f ms for the answer to op %u", v->number,
			    (double)(v->world->now - from) / 1e6, c->op);
}

/* Each command that cannot wait is answered once, and after the one before it, however full the ring was. */
static bool check_order(struct worker *v, uint16_t op, uint64_t order)
{
	if (order && order != ++v->answered) {
		world_break(v->world,
			    "worker %u got the answer to its command %llu (op %u), and command %llu was answered last",
			    v->number, (unsigned long long)order, op, (unsigned long long)v->answered - 1);
		return false;
	}
	return true;
}

bool life_read(struct worker *v)
{
	struct message m;
	int r;

	while ((r = message_receive(v, &m)) > 0) {
		const struct wire_reply *head = (const struct wire_reply *)m.bytes;
		struct call *c;
		struct call answered;

		if (head->op == WIRE_OP_NOP) {
			v->n_nops--;
			if (!check_order(v, head->op, head->user_data))
				return false;
			continue;
		}
		c = &v->calls[(head->user_data & 0xff) % WORKER_CALLS];
		answered = *c;

		if (!c->used || c->op != head->op) {
			world_break(v->world, "worker %u got an answer to nothing: op %u", v->number, head->op);
			return false;
		}
		c->used = false;
		v->n_calls--;
		if (!check_order(v, answered.op, answered.order))
			return false;
		check_time(v, &answered);
		read_answer(v, &answered, &m);
	}
	for (int i = 0; i < WORKER_CALLS && !v->world->broken[0]; i++)
		if (v->calls[i].used)
			check_time(v, &v->calls[i]);
	return r == 0;
}
