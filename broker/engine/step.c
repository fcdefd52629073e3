/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - prefill and decode: how a window moves (spec sections 2, 3 and 6)
 *
 * A prepare binds what the new endpoint needs from the sequence's own
 * reservation; what leaves the window stays in the row until the complete, and
 * leased until the completion point. Inside a page a step only counts.
 */
#include "bug.h"
#include "internal.h"

/* Common to all prepares: refused before anything of the request is looked at. */
int request_check_prepare(struct session *s, uint64_t handle, struct request **out, struct fault *f)
{
	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (s->poisoned)
		return fault_set(f, FAULT_POISONED, -1, session_quarantined(s), 0);
	return request_find(s, handle, out, f);
}

static void bind(struct session *s, struct seq *q, int32_t column)
{
	MUST(q->n_reserved > 0);
	page_table_put(&s->table, q->slot, column, seq_reserved(s, q)[--q->n_reserved]);
}

/* Columns [first, end) of the sequence have been bound: the delivery says so if they must be scrubbed. */
static void tell_dirty(struct session *s, const struct seq *q, int32_t first, int32_t end, struct delivery *d)
{
	bool dirty = false;

	for (int32_t c = first; c < end; c++)
		dirty |= page_class_bind(s->class, page_table_get(&s->table, q->slot, c), s->serial);
	if (dirty)
		delivery_scrub(d, q->slot, first, end);
}

static void begin_transition(struct session *s, struct request *r, enum transition t)
{
	r->transition = t;
	s->n_transitions++;
	s->change++;
}

static void end_transition(struct session *s, struct request *r)
{
	r->transition = TRANSITION_NONE;
	s->n_transitions--;
	s->change++;
}

static void settle(struct session *s, struct request *r, struct seq *q, int64_t endpoint)
{
	q->base = endpoint - (int64_t)r->steps;
	q->begin = window_begin(&s->window, endpoint);
	q->end = window_end(&s->window, endpoint);
	q->due = (uint64_t)(window_next_change(&s->window, endpoint, r->capacity) - q->base);
}

/* The request's work has been completed with fence @p: a point, unless it was reached. */
static void note_fence(struct session *s, struct request *r, const struct resolved_fence *p,
		       const struct page_chain *staged)
{
	if (p->value > r->last_value)
		r->last_value = p->value;
	if (!p->reached)
		point_open(s, r->stream, p->value, r, staged);
}

/* ---- prefill -------------------------------------------------------------- */

static int check_prefill(struct session *s, const struct request *r, const int32_t *lengths, uint32_t n,
			 struct fault *f)
{
	if (r->phase != PHASE_ADMITTED)
		return fault_set(f, FAULT_NOT_ADMITTED, -1, r->phase, 0);
	if (n != r->n_seqs)
		return fault_set(f, FAULT_LENGTH_COUNT, -1, n, r->n_seqs);
	for (uint32_t i = 0; i < n; i++)
		if (lengths[i] < 1 || lengths[i] > r->capacity)
			return fault_set(f, FAULT_LENGTH_RANGE, (int32_t)i, lengths[i], r->capacity);
	if (points_spare(s) < POINTS_PER_TRANSITION)
		return fault_set(f, FAULT_POINTS_FULL, -1, s->n_points, 0);
	return 0;
}

int request_prefill_prepare(struct session *s, uint64_t handle, const int32_t *lengths, uint32_t n, struct delivery *d,
			    struct fault *f)
{
	bool scrubs = s->class->scrub != WIRE_SCRUB_NEVER;
	struct request *r;
	int code;

	delivery_reset(d);
	if ((code = request_check_prepare(s, handle, &r, f)) || (code = check_prefill(s, r, lengths, n, f)))
		return code;
	for (uint32_t i = 0; i < n; i++) {
		struct seq *q = request_seq(s, r, i);
		int32_t first = window_begin(&s->window, lengths[i]), last = window_end(&s->window, lengths[i]);

		q->length = lengths[i];
		page_table_open(&s->table, q->slot);
		MUST(q->n_reserved >= last - first);
		page_table_put_run(&s->table, q->slot, first, seq_reserved(s, q) + q->n_reserved, last - first);
		q->n_reserved -= last - first;
		page_table_close(&s->table, q->slot);
		if (scrubs)
			tell_dirty(s, q, first, last, d);
		row_list_note(s, &r->dirty, q->slot);
	}
	r->phase = PHASE_EXECUTING;
	begin_transition(s, r, TRANSITION_PREFILL);
	delivery_collect(s, r, d);
	return 0;
}

static int check_complete(const struct session *s, const struct request *r, enum transition t, struct fault *f)
{
	if (r->transition != t)
		return fault_set(f, FAULT_NOT_PENDING, -1, r->transition, t);
	return 0;
}

int request_prefill_complete(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed,
			     struct fault *f)
{
	static const struct page_chain none = PAGE_CHAIN_EMPTY;
	struct resolved_fence p;
	struct request *r;
	int code;

	if ((code = request_find(s, handle, &r, f)) || (code = check_complete(s, r, TRANSITION_PREFILL, f)) ||
	    (code = fence_resolve(s, r, fence, armed, &p, f)))
		return code;
	if (p.failed)
		return request_poison(s, r, f);
	end_transition(s, r);
	for (uint32_t i = 0; i < r->n_seqs; i++) {
		struct seq *q = request_seq(s, r, i);

		settle(s, r, q, q->length);
	}
	agenda_build(s, r);
	note_fence(s, r, &p, &none);
	return 0;
}

/* ---- decode step ------------------------------------------------------------ */

/* One more token for @q: 0, or why not. */
static int advance_fault(const struct session *s, const struct request *r, const struct seq *q)
{
	int64_t e = seq_endpoint(r, q) + 1;

	if (e > r->capacity)
		return SWAKV_ELIMIT;
	return window_end(&s->window, e) - q->end > q->n_reserved ? SWAKV_EPENDING : 0;
}

/* The first sequence of the batch whose step fails with @code. */
static int32_t first_with(const struct session *s, const struct request *r, int code)
{
	uint32_t i = 0;

	while (advance_fault(s, r, request_seq(s, r, i)) != code)
		i++;
	return (int32_t)i;
}

/*
 * What stands in the way of one more token for every sequence, of which the @n
 * at the places in the scratch are due; of several faults the first in the order
 * of errors.
 */
static int check_advance(struct session *s, struct request *r, uint32_t n, struct fault *f)
{
	int worst = 0;
	int32_t at;

	for (uint32_t i = 0; i < n && worst != SWAKV_EPENDING; i++) {
		int code = advance_fault(s, r, agenda_seq(s, r, s->slot_scratch[i]));

		worst = code ? code : worst;
	}
	if (worst == 0)
		return 0;
	at = first_with(s, r, worst);
	if (worst == SWAKV_EPENDING)
		return fault_set(f, FAULT_PAGES_PENDING, at, 0, 1);
	r->phase = PHASE_FINISHING;
	s->change++;
	return fault_set(f, FAULT_CAPACITY, at, seq_endpoint(r, request_seq(s, r, (uint32_t)at)), r->capacity);
}

static int decode_prepare(struct session *s, const struct wire_step_entry *entry, struct delivery *d, struct fault *f)
{
	bool scrubs = s->class->scrub != WIRE_SCRUB_NEVER;
	struct request *r;
	uint32_t n_due;
	int code;

	if ((code = request_check_prepare(s, entry->request, &r, f)))
		return code;
	if (r->phase != PHASE_EXECUTING)
		return fault_set(f, FAULT_NOT_EXECUTING, -1, r->phase, 0);
	if (r->transition != TRANSITION_NONE)
		return fault_set(f, FAULT_TRANSITION_PENDING, -1, r->transition, 0);
	if (entry->tokens != 1)
		return fault_set(f, FAULT_STEP_TOKENS, -1, entry->tokens, 1);
	if (points_spare(s) < POINTS_PER_TRANSITION)
		return fault_set(f, FAULT_POINTS_FULL, -1, s->n_points, 0);
	n_due = agenda_due(s, r, r->steps + 1);
	if (n_due && (code = check_advance(s, r, n_due, f)))
		return code;
	for (uint32_t i = 0; i < n_due; i++) {
		struct seq *q = agenda_seq(s, r, s->slot_scratch[i]);

		if (window_end(&s->window, seq_endpoint(r, q) + 1) == q->end)
			continue;
		page_table_open(&s->table, q->slot);
		bind(s, q, q->end);
		page_table_close(&s->table, q->slot);
		if (scrubs)
			tell_dirty(s, q, q->end, q->end + 1, d);
		/* While its lines are at hand, with what it had to send before. */
		row_list_remove(s, &r->dirty, q->slot);
		page_table_collect(&s->table, q->slot, d);
	}
	begin_transition(s, r, TRANSITION_STEP);
	delivery_collect(s, r, d);
	return 0;
}

int step_prepare(struct session *s, const struct wire_step_entry *entries, uint32_t n, struct wire_entry_fault *faults,
		 uint32_t *n_faults, struct delivery *d, struct fault *f)
{
	delivery_reset(d);
	*n_faults = 0;
	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (n < 1 || n > (uint32_t)s->model.max_batch)
		return fault_set(f, FAULT_STEP_COUNT, -1, n, s->model.max_batch);
	for (uint32_t i = 0; i < n; i++) {
		struct fault one;

		if (decode_prepare(s, &entries[i], d, &one))
			faults[(*n_faults)++] = (struct wire_entry_fault){ .entry = i, .fault = one };
	}
	return 0;
}

/* Clears the pages that left the window; they return to the reservation now, or wait on @staged. */
static void retire(struct session *s, struct request *r, struct seq *q, int32_t begin, bool reached,
		   struct page_chain *staged)
{
	if (begin == q->begin)
		return;
	page_table_open(&s->table, q->slot);
	for (int32_t c = q->begin; c < begin; c++) {
		int32_t page = page_table_get(&s->table, q->slot, c);

		page_table_put(&s->table, q->slot, c, -1);
		if (reached) {
			seq_reserved(s, q)[q->n_reserved++] = page;
		} else {
			page_chain_add(s->class, staged, page, (int32_t)(q - s->seqs));
			q->n_staged++;
		}
	}
	page_table_close(&s->table, q->slot);
	row_list_note(s, &r->dirty, q->slot);
}

static int decode_complete(struct session *s, const struct wire_step_entry *entry, const uint64_t *armed,
			   struct fault *f)
{
	struct page_chain staged = PAGE_CHAIN_EMPTY;
	struct resolved_fence p;
	uint32_t n_due;
	struct request *r;
	int code;

	if ((code = request_find(s, entry->request, &r, f)) || (code = check_complete(s, r, TRANSITION_STEP, f)))
		return code;
	if (entry->accepted < 0 || entry->accepted > 1)
		return fault_set(f, FAULT_STEP_ACCEPTED, -1, entry->accepted, 1);
	if ((code = fence_resolve(s, r, &entry->fence, armed[r->stream], &p, f)))
		return code;
	if (p.failed)
		return request_poison(s, r, f);
	end_transition(s, r);
	r->steps++;
	n_due = agenda_due(s, r, r->steps);
	for (uint32_t i = 0; i < n_due; i++) {
		struct seq *q = agenda_seq(s, r, s->slot_scratch[i]);
		int64_t e = seq_endpoint(r, q);

		retire(s, r, q, window_begin(&s->window, e), p.reached, &staged);
		settle(s, r, q, e);
	}
	agenda_settle(s, r, n_due);
	note_fence(s, r, &p, &staged);
	return 0;
}

int step_complete(struct session *s, const struct wire_step_entry *entries, uint32_t n, const uint64_t *armed,
		  struct wire_entry_fault *faults, uint32_t *n_faults, struct fault *f)
{
	*n_faults = 0;
	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (n < 1 || n > (uint32_t)s->model.max_batch)
		return fault_set(f, FAULT_STEP_COUNT, -1, n, s->model.max_batch);
	for (uint32_t i = 0; i < n; i++) {
		struct fault one;

		if (decode_complete(s, &entries[i], armed, &one))
			faults[(*n_faults)++] = (struct wire_entry_fault){ .entry = i, .fault = one };
	}
	return 0;
}
