/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sequence.c - what a sequence holds in each layer group, and how that moves
 *
 * In every group its pages are in its row, in its reservation, or behind an
 * open completion point; together they are its reservation, and for a while
 * more when a step took what the reservation lacked.
 *
 * A page that a step leaves behind goes straight back to the reservation, though
 * that step may still be running: only the sequence's own next steps can bind it,
 * and they come later on the same stream. Pages wait for the request's last value
 * only where somebody else may get them, since the sequence holds more than its
 * reservation, or where the stream keeps no order.
 */
#include "sequence.h"
#include "dirty.h"

#include "bug.h"
#include "delivery.h"
#include "internal.h"
#include "moves.h"
#include "slice.h"

struct mapped seq_mapped_at(const struct session *s, const struct group *g, const struct seq *q, int64_t e)
{
	const struct span *p = seq_span(g, q);
	int32_t begin = s->model.chunk_mapped ? p->begin : seq_retained_begin(g, q, e);
	struct mapped m = { .lo = p->begin, .gap = p->end, .resume = p->end, .hi = window_end(&g->window, e) };

	if (begin > m.resume)
		m.resume = begin;
	return m;
}

int64_t seq_pending_endpoint(const struct request *r, const struct seq *q)
{
	switch (r->transition) {
	case TRANSITION_PREFILL:
		return q->length;
	case TRANSITION_STEP:
		return seq_endpoint(r, q) + 1;
	case TRANSITION_EXTEND:
		return seq_endpoint(r, q) + q->advance;
	default:
		return seq_endpoint(r, q);
	}
}

struct mapped seq_mapped(const struct session *s, const struct group *g, const struct request *r, const struct seq *q)
{
	const struct span *p = seq_span(g, q);
	int32_t first;

	switch (r->transition) {
	case TRANSITION_PREFILL: /* its final window only */
		first = window_begin(&g->window, q->length);
		return (struct mapped){ first, first, first, window_end(&g->window, q->length) };
	case TRANSITION_STEP:
	case TRANSITION_EXTEND: /* what leaves stays until the complete */
		return seq_mapped_at(s, g, q, seq_pending_endpoint(r, q));
	default:
		return (struct mapped){ p->begin, p->end, p->end, p->end };
	}
}

void seq_bind(struct session *s, struct group *g, struct request *r, struct seq *q, int32_t first, int32_t end,
	      struct delivery *d)
{
	struct span *p = seq_span(g, q);
	int32_t n = end - first, own = n < p->n_reserved ? n : p->n_reserved;

	page_table_open(&g->table, q->slot);
	for (int32_t c = first, part; c < first + own; c += part) {
		part = slice_part(s, first + own - c);
		page_table_put_run(&g->table, q->slot, c, seq_reserved(g, q) + p->n_reserved, part);
		p->n_reserved -= part;
		g->n_unbound -= part;
		slice_spend(s, part);
	}
	for (int32_t c = first + own; c < end; c++) {
		int32_t page;

		group_take(s, g, &page, 1);
		if (g->movable)
			moves_note(s, g, q, &page, 1);
		page_table_put(&g->table, q->slot, c, page);
	}
	page_table_close(&g->table, q->slot);
	p->n_extra += n - own;
	if (g->class->scrub != WIRE_SCRUB_NEVER)
		dirty_tell(s, g, q, first, end, d);
	row_list_note(s, g, &r->dirty, q->slot);
}

void seq_give_back(struct group *g, struct seq *q, int32_t page)
{
	struct span *p = seq_span(g, q);

	if (p->n_extra > 0) {
		p->n_extra--;
		g->n_held--;
		page_class_put(g->class, page);
	} else {
		seq_reserved(g, q)[p->n_reserved++] = page;
		g->n_unbound++;
	}
}

void leaving_init(const struct session *s, const struct request *r, uint64_t value, struct leaving *l)
{
	uint64_t last = value > r->last_value ? value : r->last_value;

	l->through = last <= s->lines[r->stream].reached;
	page_chains_init(&l->staged, s->n_groups);
}

static inline void unbind(struct session *s, struct group *g, struct seq *q, int32_t first, int32_t end, bool waits,
			  struct page_chain *chain)
{
	page_table_open(&g->table, q->slot);
	for (int32_t c = first; c < end; c++) {
		int32_t page = page_table_get(&g->table, q->slot, c);

		page_table_put(&g->table, q->slot, c, -1);
		if (waits) {
			page_chain_add(g->class, chain, page, q->index);
			seq_span(g, q)->n_staged++;
		} else {
			seq_give_back(g, q, page);
		}
	}
	page_table_close(&g->table, q->slot);
}

void seq_unbind(struct session *s, struct group *g, struct request *r, struct seq *q, int32_t first, int32_t end,
		struct leaving *l)
{
	bool waits = !l->through && (r->unordered || seq_span(g, q)->n_extra > 0);

	if (first >= end)
		return;
	for (int32_t n; first < end; first += n) {
		n = slice_part(s, end - first);
		unbind(s, g, q, first, first + n, waits, &l->staged.of[g->index]);
		slice_spend(s, SLICE_CELL * n);
	}
	row_list_note(s, g, &r->dirty, q->slot);
}

void seq_settle(struct session *s, const struct request *r, struct seq *q, int64_t endpoint)
{
	int64_t next = r->capacity + 1;

	if (endpoint > q->high)
		q->high = endpoint;
	FOR_EACH_GROUP (g, s) {
		struct span *p = seq_span(g, q);
		int64_t change = window_next_change(&g->window, endpoint, r->capacity);

		p->begin = seq_retained_begin(g, q, endpoint);
		p->end = window_end(&g->window, endpoint);
		next = change < next ? change : next;
	}
	q->base = endpoint - (int64_t)r->steps;
	q->due = (uint64_t)(next - q->base);
}

/* Clears what endpoint @e does not retain of the row, in the order of its columns. */
static void clear_outside(struct session *s, struct group *g, struct request *r, struct seq *q, int64_t e,
			  struct leaving *l)
{
	int32_t begin = seq_retained_begin(g, q, e), end = window_end(&g->window, e);
	struct mapped m = seq_mapped(s, g, r, q);

	seq_unbind(s, g, r, q, m.lo, m.gap < begin ? m.gap : begin, l);
	seq_unbind(s, g, r, q, end > m.lo ? end : m.lo, m.gap, l);
	seq_unbind(s, g, r, q, m.resume, m.hi < begin ? m.hi : begin, l);
	seq_unbind(s, g, r, q, end > m.resume ? end : m.resume, m.hi, l);
}

void seq_settle_back(struct session *s, struct request *r, struct seq *q, int64_t endpoint, struct leaving *l)
{
	FOR_EACH_GROUP (g, s)
		clear_outside(s, g, r, q, endpoint, l);
	seq_settle(s, r, q, endpoint);
	slice_spend(s, (int32_t)s->n_groups);
}
