/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.c - steps: one token for every sequence of a request, or several (extend.h)
 *
 * A step is over many requests, each for itself: an entry says how many tokens.
 * A prepare binds what the new endpoint needs from the sequence's own
 * reservation; what leaves the window stays in the row until the complete, and
 * then goes back there. Inside a page a step only counts: only the sequences that
 * are due (agenda.h) change more than that.
 */
#include "decode.h"

#include "agenda.h"
#include "bug.h"
#include "delivery.h"
#include "dirty.h"
#include "extend.h"
#include "moves.h"
#include "shared_point.h"
#include "slice.h"
#include "transition.h"

/* ---- one token --------------------------------------------------------------- */

/* One more token for @q: 0, or why not. */
static int advance_fault(const struct session *s, const struct request *r, const struct seq *q)
{
	int64_t e = seq_endpoint(r, q) + 1;

	if (e > r->capacity)
		return SWAKV_ELIMIT;
	FOR_EACH_GROUP (g, s) {
		const struct span *p = seq_span(g, q);

		if (window_end(&g->window, e) - p->end > p->n_reserved)
			return SWAKV_EPENDING;
	}
	return 0;
}

/* The first sequence of the batch whose step fails with @code. */
static int32_t first_with(struct session *s, const struct request *r, int code)
{
	int32_t left = slice_part(s, INT32_MAX);
	uint32_t i = 0;

	for (; advance_fault(s, r, request_seq(s, r, i)) != code; i++)
		slice_step(s, &left, (int32_t)s->n_groups);
	slice_rest(s, left);
	return (int32_t)i;
}

/*
 * What stands in the way of one more token for every sequence, of which the @n
 * at the places in the scratch are due; of several faults the first in the order
 * of errors.
 */
static int check_advance(struct session *s, struct request *r, uint32_t n, struct fault *f)
{
	int32_t left = slice_part(s, INT32_MAX), at;
	int worst = 0;

	for (uint32_t i = 0; i < n && worst != SWAKV_EPENDING; i++) {
		int code = advance_fault(s, r, agenda_seq(s, r, s->slot_scratch[i]));

		worst = code ? code : worst;
		slice_step(s, &left, (int32_t)s->n_groups);
	}
	slice_rest(s, left);
	if (worst == 0)
		return 0;
	at = first_with(s, r, worst);
	if (worst == SWAKV_EPENDING)
		return fault_in_flight(f, fault_set(f, FAULT_PAGES_PENDING, at, 0, 1), request_open_points(s, r),
				       s->model.in_flight);
	r->phase = PHASE_FINISHING;
	s->change++;
	return fault_set(f, FAULT_CAPACITY, at, seq_endpoint(r, request_seq(s, r, (uint32_t)at)), r->capacity);
}

/* As seq_bind(), of the one column behind the row's end and a page of the reservation. */
static void bind_next(struct session *s, struct group *g, struct request *r, const struct seq *q, struct delivery *d)
{
	struct span *p = seq_span(g, q);
	int32_t page;

	MUST(p->n_reserved > 0);
	page = seq_reserved(g, q)[--p->n_reserved];
	g->n_unbound--;
	page_table_fill(&g->table, q->slot, p->end, page);
	if (g->class->scrub != WIRE_SCRUB_NEVER && page_class_bind(g->class, page, g->serial)) {
		delivery_scrub(d, group_row(g, q->slot), p->end, p->end + 1);
		g->n_scrubbed++;
	}
	row_list_note(s, g, &r->dirty, q->slot);
}

/* One more token for every sequence of @r. */
static int decode_prepare(struct session *s, struct request *r, struct delivery *d, struct fault *f)
{
	uint32_t n_due = agenda_due(s, r, r->steps + 1);
	int32_t left = slice_part(s, INT32_MAX);
	int code;

	if (n_due && (code = check_advance(s, r, n_due, f)))
		return code;
	for (uint32_t i = 0; i < n_due; i++) {
		struct seq *q = agenda_seq(s, r, s->slot_scratch[i]);
		int64_t e = seq_endpoint(r, q) + 1;

		FOR_EACH_GROUP (g, s) {
			if (window_end(&g->window, e) > seq_span(g, q)->end)
				bind_next(s, g, r, q, d);
		}
		slice_step(s, &left, (int32_t)s->n_groups);
	}
	if (n_due)
		slice_rest(s, left);
	transition_begin(s, r, TRANSITION_STEP);
	if (moves_are_due(s, r))
		moves_make(s, r, d);
	delivery_collect(s, r, d);
	return 0;
}

/* The sequences at the @n_due places in the scratch change more than their count with the step that is done. */
static void settle_due(struct session *s, struct request *r, uint32_t n_due, const struct resolved_fence *p)
{
	int32_t left = slice_part(s, INT32_MAX);
	struct leaving leaving;

	leaving_init(s, r, p->value, &leaving);
	for (uint32_t i = 0; i < n_due; i++) {
		struct seq *q = agenda_seq(s, r, s->slot_scratch[i]);
		int64_t e = seq_endpoint(r, q);

		FOR_EACH_GROUP (g, s) {
			int32_t begin = seq_retained_begin(g, q, e);

			if (begin > seq_span(g, q)->begin)
				seq_unbind(s, g, r, q, seq_span(g, q)->begin, begin, &leaving);
		}
		seq_settle(s, r, q, e);
		slice_step(s, &left, (int32_t)s->n_groups);
	}
	slice_rest(s, left);
	agenda_settle(s, r, n_due);
	fence_note(s, r, p, &leaving);
}

/* The step of one token is done for every sequence: only those that are due change more than their count. */
static int decode_complete(struct session *s, struct request *r, const struct wire_fence *fence, uint64_t armed,
			   struct fault *f)
{
	struct resolved_fence p;
	uint32_t n_due;
	int code;

	if ((code = fence_resolve(s, r, fence, armed, &p, f)))
		return code;
	if (p.failed)
		return request_poison(s, r, f);
	transition_end(s, r);
	if (moves_were_made(s, r))
		moves_release(s, r, p.value);
	r->steps++;
	n_due = agenda_due(s, r, r->steps);
	if (n_due)
		settle_due(s, r, n_due, &p);
	else
		fence_note(s, r, &p, NULL);
	return 0;
}

/* ---- a step over several requests ------------------------------------------- */

/* The counts from number @at on; a step that lists none may have NULL. */
static const int32_t *counts_at(const struct step *step, uint32_t at)
{
	return at < step->n_counts ? step->counts + at : NULL;
}

/* The counts of one entry, from *@at on; there are as many as it lists, but are they one a sequence? */
static int take_counts(const struct request *r, int32_t value, const int32_t *at, struct counts *out, struct fault *f)
{
	*out = (struct counts){ .of = value < 0 ? at : NULL, .each = value < 0 ? 0 : value };
	if (value < 0 && step_listed(value) != r->n_seqs)
		return fault_set(f, FAULT_STEP_LISTED, -1, step_listed(value), r->n_seqs);
	return 0;
}

static inline int entry_prepare(struct session *s, const struct wire_step_entry *entry, const int32_t *list,
				struct delivery *d, struct fault *f)
{
	struct counts tokens;
	struct request *r;
	int code;

	if ((code = request_check_executing(s, entry->request, &r, f)))
		return code;
	if ((code = take_counts(r, entry->tokens, list, &tokens, f)))
		return code;
	if (entry->tokens == 0)
		return fault_set(f, FAULT_STEP_TOKENS, -1, 0, s->model.max_seq);
	if (points_spare(s) < POINTS_PER_TRANSITION)
		return fault_set(f, FAULT_POINTS_FULL, -1, s->n_points, 0);
	return entry->tokens == 1 ? decode_prepare(s, r, d, f) : extend_prepare(s, r, &tokens, d, f);
}

/* What is wrong with the step as a whole; @complete: it is the complete of one. */
static int check_step(const struct session *s, const struct step *step, bool complete, struct fault *f)
{
	uint64_t n_counts = 0;

	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (step->n < 1 || step->n > (uint32_t)s->model.max_batch)
		return fault_set(f, FAULT_STEP_COUNT, -1, step->n, s->model.max_batch);
	for (uint32_t i = 0; i < step->n; i++)
		n_counts += step_listed(complete ? step->entries[i].accepted : step->entries[i].tokens);
	if (n_counts != step->n_counts)
		return fault_set(f, FAULT_STEP_COUNTS, -1, step->n_counts, (int64_t)n_counts);
	return 0;
}

int step_prepare(struct session *s, const struct step *step, struct wire_entry_fault *faults, uint32_t *n_faults,
		 struct delivery *d, struct fault *f)
{
	uint32_t at = 0; /* in the counts */
	int code;

	delivery_reset(d);
	*n_faults = 0;
	if ((code = check_step(s, step, false, f)))
		return code;
	for (uint32_t i = 0; i < step->n; i++) {
		struct fault one;

		if (entry_prepare(s, &step->entries[i], counts_at(step, at), d, &one)) {
			faults[(*n_faults)++] = (struct wire_entry_fault){ .entry = i, .fault = one };
			slice_spend(s, 1); /* perhaps it has looked for pages that are not there */
		}
		at += step_listed(step->entries[i].tokens);
	}
	return 0;
}

static inline int entry_complete(struct session *s, const struct wire_step_entry *entry, const int32_t *list,
				 const uint64_t *armed, struct fault *f)
{
	struct counts accepted;
	struct request *r;
	int code;

	if ((code = request_find(s, entry->request, &r, f)))
		return code;
	if (r->transition != TRANSITION_EXTEND && (code = transition_check(r, TRANSITION_STEP, f)))
		return code;
	if ((code = take_counts(r, entry->accepted, list, &accepted, f)))
		return code;
	if (r->transition == TRANSITION_STEP && (entry->accepted == 0 || entry->accepted == 1))
		return decode_complete(s, r, &entry->fence, armed[r->stream], f);
	return extend_complete(s, r, &accepted, &entry->fence, armed[r->stream], f);
}

int step_complete(struct session *s, const struct step *step, const uint64_t *armed, struct wire_entry_fault *faults,
		  uint32_t *n_faults, struct fault *f)
{
	uint32_t at = 0; /* in the counts */
	int code;

	*n_faults = 0;
	if ((code = check_step(s, step, true, f)))
		return code;
	for (uint32_t i = 0; i < step->n; i++) {
		struct fault one;

		if (entry_complete(s, &step->entries[i], counts_at(step, at), armed, &one))
			faults[(*n_faults)++] = (struct wire_entry_fault){ .entry = i, .fault = one };
		at += step_listed(step->entries[i].accepted);
	}
	return 0;
}

/* ---- entries of a turn ----------------------------------------------------------- */

int step_entry_prepare(struct session *s, const struct wire_step_entry *entry, const int32_t *list, struct delivery *d,
		       struct fault *f)
{
	return entry_prepare(s, entry, list, d, f);
}

int step_entry_complete(struct session *s, const struct wire_step_entry *entry, const int32_t *list,
			const uint64_t *armed, struct fault *f)
{
	return entry_complete(s, entry, list, armed, f);
}
