/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - every invariant of spec section 4, from scratch
 *
 * Walks all holders and counts the leases of each page; slow, and meant for
 * tests. Byte ranges of different classes are compared through their extents.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

struct checker {
	char *buf;
	size_t size;
	bool ok;
	uint8_t *leases[POOL_MAX_CLASSES]; /* holders found of each page */
};

__attribute__((format(printf, 2, 3))) static void violated(struct checker *k, const char *format, ...)
{
	va_list ap;

	if (!k->ok)
		return;
	k->ok = false;
	va_start(ap, format);
	vsnprintf(k->buf, k->size, format, ap);
	va_end(ap);
}

/* One more holder of @page. */
static void hold(struct checker *k, const struct session *s, int32_t page, enum page_state state, const char *who)
{
	uint8_t *n;

	if (page < 0 || page >= s->class->num_pages) {
		violated(k, "session %u: %s holds page %" PRId32 " outside 0 to %" PRId32, s->tag, who, page,
			 s->class->num_pages - 1);
		return;
	}
	n = &k->leases[s->class_index][page];
	if (++*n > 1)
		violated(k, "session %u: %s holds page %" PRId32 ", which has another holder", s->tag, who, page);
	if (s->class->state[page] != state)
		violated(k, "session %u: %s holds page %" PRId32 " in state %d", s->tag, who, page,
			 s->class->state[page]);
}

static int32_t count_staged(struct checker *k, const struct session *s, const struct request *r, const struct seq *q)
{
	int32_t n = 0, index = (int32_t)(q - s->seqs);

	for (int32_t i = r->first_point; i >= 0; i = s->points[i].same_request)
		for (int32_t page = s->points[i].pages.first; page >= 0; page = s->class->link[page])
			if (s->class->owner[page] == index) {
				hold(k, s, page, PAGE_LEASED, "a completion point");
				n++;
			}
	return n;
}

static void check_row(struct checker *k, const struct session *s, int32_t slot, int32_t lo, int32_t hi)
{
	const int32_t *v = s->table.cells + ((int64_t)slot * 2 + 1) * s->table.width;

	for (int32_t c = 0; c < s->table.width; c++) {
		int32_t page = page_table_get(&s->table, slot, c);

		if ((c >= lo && c < hi) != (page >= 0))
			violated(k,
				 "session %u slot %" PRId32 ": column %" PRId32 " holds %" PRId32
				 ", mapped should be [%" PRId32 ", %" PRId32 ")",
				 s->tag, slot, c, page, lo, hi);
		if (v[c] != (page < 0 ? -1 : page + s->table.num_pages))
			violated(k,
				 "session %u slot %" PRId32 " column %" PRId32 ": V id %" PRId32 " for K id %" PRId32,
				 s->tag, slot, c, v[c], page);
		if (page >= 0)
			hold(k, s, page, PAGE_LEASED, "a row");
	}
	if (load_relaxed(&s->table.heads[slot].sequence) & 1)
		violated(k, "session %u slot %" PRId32 ": its row was left open", s->tag, slot);
}

static void check_sequence(struct checker *k, const struct session *s, const struct request *r, uint32_t i)
{
	const struct seq *q = request_seq(s, r, i);
	int64_t e = seq_endpoint(r, q);
	int32_t lo, hi, staged;

	if (s->slots[q->slot].seq != q - s->seqs)
		violated(k, "session %u: slot %" PRId32 " does not know its sequence", s->tag, q->slot);
	seq_mapped(s, r, q, &lo, &hi);
	check_row(k, s, q->slot, lo, hi);
	for (int32_t n = 0; n < q->n_reserved; n++)
		hold(k, s, seq_reserved(s, q)[n], PAGE_LEASED, "a reservation");
	staged = count_staged(k, s, r, q);
	if (staged != q->n_staged)
		violated(k, "session %u slot %" PRId32 ": %" PRId32 " pages staged, counted %" PRId32, s->tag, q->slot,
			 q->n_staged, staged);
	if (hi - lo + q->n_reserved + staged != r->reservation)
		violated(k,
			 "session %u slot %" PRId32 ": bound %" PRId32 " + reserved %" PRId32 " + staged %" PRId32
			 " is not its reservation %" PRId32,
			 s->tag, q->slot, hi - lo, q->n_reserved, staged, r->reservation);
	if (e > 0 && (q->begin != window_begin(&s->window, e) || q->end != window_end(&s->window, e)))
		violated(k, "session %u slot %" PRId32 ": retained range does not fit endpoint %" PRId64, s->tag,
			 q->slot, e);
}

/* The agenda holds each sequence once, none before its parent. */
static void check_agenda(struct checker *k, const struct session *s, const struct request *r)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < r->n_seqs; i++) {
		const struct seq *q = agenda_seq(s, r, (int32_t)i);

		if (i > 0 && agenda_seq(s, r, (int32_t)((i - 1) / 2))->due > q->due)
			violated(k, "session %u slot %" PRId32 ": due before its parent in the agenda", s->tag,
				 q->slot);
		if (q->due <= r->steps)
			violated(k, "session %u slot %" PRId32 ": its change is overdue", s->tag, q->slot);
		for (uint32_t n = 0; n < r->n_seqs; n++)
			found += request_seq(s, r, n) == q;
	}
	if (found != r->n_seqs)
		violated(k, "session %u: %u of %u sequences are in the agenda", s->tag, found, r->n_seqs);
}

static void check_free_slots(struct checker *k, const struct session *s)
{
	uint32_t used = 0;

	for (int32_t i = 0; i < s->model.max_batch; i++) {
		if (s->slots[i].seq >= 0)
			used++;
		else if (!s->ended) /* then its rows show what they held at the end */
			check_row(k, s, i, 0, 0);
	}
	if (used != s->n_sequences || used + s->n_free_seqs != (uint32_t)s->model.max_batch)
		violated(k, "session %u: %u slots in use, %u sequences, %u free", s->tag, used, s->n_sequences,
			 s->n_free_seqs);
}

static void check_lines(struct checker *k, const struct session *s)
{
	uint32_t points = 0;

	for (uint32_t l = 0; l < s->model.n_streams; l++) {
		uint64_t last = s->lines[l].reached;
		int32_t n = 0;

		for (int32_t i = s->lines[l].first_point; i >= 0; i = s->points[i].next, points++) {
			const struct point *p = &s->points[i];

			if (p->value < last || p->value <= s->lines[l].reached)
				violated(k, "session %u line %u: point of value %" PRIu64 " out of order", s->tag, l,
					 p->value);
			last = p->value;
			for (int32_t page = p->pages.first; p->request < 0 && page >= 0; page = s->class->link[page])
				hold(k, s, page, PAGE_LEASED, "a releasing point");
		}
		for (int32_t page = s->lines[l].quarantine.first; page >= 0; page = s->class->link[page], n++)
			hold(k, s, page, PAGE_QUARANTINED, "the quarantine");
		if (n != s->lines[l].quarantine.n)
			violated(k, "session %u line %u: %" PRId32 " pages in quarantine, counted %" PRId32, s->tag, l,
				 s->lines[l].quarantine.n, n);
	}
	if (points != s->n_points)
		violated(k, "session %u: %u points open, counted %u", s->tag, s->n_points, points);
}

static void check_session(struct checker *k, const struct session *s)
{
	uint32_t requests = 0, transitions = 0;

	for (int32_t i = s->first_request; i >= 0; i = s->requests[i].next, requests++) {
		const struct request *r = &s->requests[i];

		transitions += r->transition != TRANSITION_NONE;
		for (uint32_t n = 0; n < r->n_seqs; n++)
			check_sequence(k, s, r, n);
		if (r->phase != PHASE_ADMITTED && r->transition != TRANSITION_PREFILL)
			check_agenda(k, s, r);
	}
	if (requests != s->n_requests || transitions != s->n_transitions)
		violated(k, "session %u: %u requests (%u in transition), counted %u (%u)", s->tag, s->n_requests,
			 s->n_transitions, requests, transitions);
	check_free_slots(k, s);
	check_lines(k, s);
}

static void check_class(struct checker *k, const struct engine *e, int index)
{
	const struct page_class *c = e->pool.classes[index];
	char why[160];

	if (!page_class_check(&e->pool, c, index, why, sizeof(why)))
		violated(k, "%s", why);
	for (int32_t page = 0; page < c->num_pages; page++) {
		bool held = c->state[page] == PAGE_LEASED || c->state[page] == PAGE_QUARANTINED;

		if (held != (k->leases[index][page] == 1))
			violated(k, "class %d page %" PRId32 ": state %d with %d holders", index, page, c->state[page],
				 k->leases[index][page]);
	}
}

bool engine_check(const struct engine *e, char *buf, size_t size)
{
	struct checker k = { .buf = buf, .size = size, .ok = true };
	const struct session *s;

	for (int i = 0; i < e->pool.n_classes; i++) {
		k.leases[i] = calloc((size_t)e->pool.classes[i]->num_pages, 1);
		if (!k.leases[i])
			violated(&k, "out of memory for the check");
	}
	if (k.ok) {
		LIST_FOREACH (s, &e->sessions, siblings)
			check_session(&k, s);
		for (int i = 0; i < e->pool.n_classes; i++)
			check_class(&k, e, i);
	}
	for (int i = 0; i < e->pool.n_classes; i++)
		free(k.leases[i]);
	return k.ok;
}
