/* SPDX-License-Identifier: Apache-2.0 */
/* operation_turn.c - see operation_turn.h */
#include "operation_turn.h"

static uint32_t n_details(const struct wire_command *head)
{
	return (uint32_t)head->request;
}

static uint32_t n_counts(const struct wire_command *head)
{
	return (uint32_t)(head->request >> 32);
}

uint64_t turn_listed(const struct wire_command *head)
{
	return n_details(head) * (uint64_t)sizeof(union wire_turn_detail) + n_counts(head) * (uint64_t)sizeof(int32_t);
}

enum fault_reason turn_check(const struct wire_command *head, uint32_t max_batch, int64_t *got, int64_t *most)
{
	*got = head->n;
	*most = max_batch;
	if (head->n == 0 || head->n > max_batch)
		return FAULT_STEP_COUNT;
	*got = n_details(head);
	*most = head->n;
	if (n_details(head) > head->n)
		return FAULT_TURN_DETAILS;
	*got = n_counts(head);
	*most = (int64_t)TURN_COUNTS * max_batch;
	return n_counts(head) > TURN_COUNTS * max_batch ? FAULT_STEP_COUNTS : FAULT_NONE;
}

/* The command in @w, whose header has been checked. */
static struct turn turn_of(const struct workspace *w)
{
	const struct wire_command *head = command_head(w);
	const struct wire_fence *fence = command_payload(w);
	const uint64_t *entries = (const uint64_t *)(fence + 1);
	const union wire_turn_detail *details = (const union wire_turn_detail *)(entries + head->n);

	return (struct turn){
		.entries = entries,
		.details = details,
		.counts = (const int32_t *)(details + n_details(head)),
		.fence = *fence,
		.n = head->n,
		.n_details = n_details(head),
		.n_counts = n_counts(head),
	};
}

bool turn_reads_lines(const struct workspace *w)
{
	const struct turn t = turn_of(w);

	if (t.fence.kind != WIRE_FENCE_DONE)
		return true;
	for (uint32_t i = 0; i < t.n; i++)
		if (wire_turn_what(t.entries[i]) & (WIRE_TURN_FINISH | WIRE_TURN_DETAIL))
			return true; /* perhaps for nothing: a look costs less than to find out */
	return false;
}

bool turn_begins(const struct workspace *w)
{
	const struct turn t = turn_of(w);

	for (uint32_t i = 0; t.n_details > 0 && i < t.n; i++)
		if (wire_turn_what(t.entries[i]) == WIRE_TURN_BEGIN)
			return true;
	return false;
}

/* The slots of the requests that have begun, whose begins stand in order. */
static void note_begun(const struct workspace *w, const struct turn *t, struct channel *c, uint64_t now_ns)
{
	const union wire_turn_detail *d = t->details;
	const int32_t *counts = t->counts;
	uint32_t k = 0;

	for (uint32_t i = 0; i < t->n && k < w->n_begun; i++) {
		uint32_t what = wire_turn_what(t->entries[i]);

		if (!(what & WIRE_TURN_DETAIL))
			continue;
		if (what == WIRE_TURN_BEGIN) {
			uint32_t n = (uint32_t)wire_turn_handle(t->entries[i]);

			for (uint32_t q = 0; w->begun[k].entry == i && q < n; q++)
				c->begun_ns[counts[q]] = now_ns; /* the engine has checked the slots */
			k += w->begun[k].entry == i;
			counts += n;
		}
		if (what & WIRE_TURN_COMPLETE)
			counts += step_listed(d->step.accepted);
		if (what & WIRE_TURN_PREPARE)
			counts += step_listed(d->step.tokens);
		d++;
	}
}

int do_step_turn(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	struct turn t = turn_of(w);
	struct turn_answer answer = { .faults = w->faults, .begun = w->begun };
	int code;

	t.closed = channel_closed_for(c);
	code = step_turn(c->session, &t, c->armed, &answer, &w->delivery, &w->fault);
	w->n_faults = answer.n_faults;
	w->n_begun = answer.n_begun;
	if (w->n_begun > 0)
		note_begun(w, &t, c, now_ns);
	return code;
}

/* ---- what it may come to ------------------------------------------------------------------ */

static int64_t greatest(const struct turn *t)
{
	int64_t most = 0;

	for (uint32_t i = 0; i < t->n_counts; i++)
		most = t->counts[i] > most ? t->counts[i] : most;
	return most;
}

/* What the fence of a complete adds. */
static uint64_t proof_weight(const struct channel *c, uint64_t handle, const struct wire_fence *fence,
			     uint64_t *highest)
{
	uint64_t n;

	if (fence->line >= WIRE_MAX_STREAMS)
		return 0;
	n = fence_weight(c->session, handle, fence, highest[fence->line]);
	if (fence->kind == WIRE_FENCE_LINE && fence->value > highest[fence->line])
		highest[fence->line] = fence->value;
	return n;
}

/* All parts of one entry that is no begin, but for the fence; @most: of the counts. */
static uint64_t parts_weight(const struct channel *c, uint32_t what, uint64_t handle, const struct wire_step_entry *e,
			     int64_t most)
{
	bool one_stays = e->accepted == 0 || e->accepted == 1, one_more = e->tokens == 1;
	uint64_t n = 0;

	if (what & WIRE_TURN_FINISH || (what & WIRE_TURN_COMPLETE && e->fence.kind == WIRE_FENCE_FAILED))
		return request_weight(c->session, handle, WEIGHT_WHOLE);
	if (what & WIRE_TURN_COMPLETE && what & WIRE_TURN_PREPARE && one_stays && one_more)
		return request_weight(c->session, handle, WEIGHT_TURN);
	if (what & WIRE_TURN_COMPLETE)
		n += request_weight(c->session, handle, one_stays ? WEIGHT_DECODE : WEIGHT_PENDING);
	if (what & WIRE_TURN_PREPARE && one_more && !(what & WIRE_TURN_COMPLETE))
		n += request_weight(c->session, handle, WEIGHT_DECODE);
	else if (what & WIRE_TURN_PREPARE)
		n += request_weight(c->session, handle, e->tokens > 0 ? e->tokens : most);
	return n;
}

uint64_t weight_turn(const struct workspace *w, const struct channel *c)
{
	const struct turn t = turn_of(w);
	const union wire_turn_detail *d = t.details, *end = t.details + t.n_details;
	const struct wire_fence none = { .kind = WIRE_FENCE_POINT };
	uint64_t n = 0, highest[WIRE_MAX_STREAMS] = { 0 };
	int64_t most = greatest(&t);

	for (uint32_t i = 0; i < t.n && n <= ENGINE_LONG; i++) {
		uint32_t what = wire_turn_what(t.entries[i]);
		uint64_t handle = wire_turn_handle(t.entries[i]);
		const union wire_turn_detail *own = what & WIRE_TURN_DETAIL && d < end ? d++ : NULL;
		struct wire_step_entry e = { .tokens = 1, .fence = t.fence };

		n += 4; /* each walk looks at it, and it may be refused */
		if (what == WIRE_TURN_BEGIN) {
			n += own ? begin_weight(c->session, own->begin.max_tokens, (uint32_t)handle) : 0;
			continue;
		}
		if (own)
			e = (struct wire_step_entry){ .tokens = own->step.tokens,
						      .accepted = own->step.accepted,
						      .fence = own->step.fence };
		n += parts_weight(c, what, handle, &e, most);
		if (what & WIRE_TURN_COMPLETE)
			n += proof_weight(c, handle, &e.fence, highest);
		if (what & WIRE_TURN_FINISH) /* of no value that is known here: its place may be any */
			n += fence_weight(c->session, handle, &none, UINT64_MAX);
	}
	return n;
}
