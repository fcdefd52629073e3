/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - every invariant of spec section 4, from scratch
 *
 * Walks all holders and counts the leases of each page; slow, and meant for
 * tests. Byte ranges of different classes are compared through their extents.
 */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "internal.h"
#include "managed.h"
#include "pool_check.h"
#include "shared_point.h"

struct checker {
	char *buf;
	size_t size;
	bool ok;
	uint8_t *leases[POOL_MAX_CLASSES]; /* holders found of each page */
	int64_t held[WIRE_MAX_GROUPS];     /* pages found of the session under check */
	int64_t unseen[POOL_MAX_CLASSES];  /* pages of sessions in the middle of their work: who holds which is not
					      looked at */
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
static void hold(struct checker *k, const struct session *s, const struct group *g, int32_t page, enum page_state state,
		 const char *who)
{
	uint8_t *n;

	if (page < 0 || page >= g->class->num_pages) {
		violated(k, "session %u group %u: %s holds page %" PRId32 " outside 0 to %" PRId32, s->tag, g->index,
			 who, page, g->class->num_pages - 1);
		return;
	}
	n = &k->leases[g->class_index][page];
	if (++*n > 1)
		violated(k, "session %u group %u: %s holds page %" PRId32 ", which has another holder", s->tag,
			 g->index, who, page);
	if (g->class->state[page] != state)
		violated(k, "session %u group %u: %s holds page %" PRId32 " in state %d", s->tag, g->index, who, page,
			 g->class->state[page]);
	k->held[g->index]++;
}

static int32_t count_staged(struct checker *k, const struct session *s, const struct group *g, const struct request *r,
			    const struct seq *q)
{
	int32_t n = 0, index = q->index;

	for (int32_t i = r->first_point; i >= 0; i = s->points[i].same_request)
		for (int32_t page = point_chain(s, &s->points[i], g->index)->first; page >= 0;
		     page = g->class->link[page])
			if (g->class->owner[page] == index) {
				hold(k, s, g, page, PAGE_LEASED, "a completion point");
				n++;
			}
	return n;
}

/* Pages of the row of @slot, which must lie in the columns of @m and nowhere else. */
static void check_row(struct checker *k, const struct session *s, const struct group *g, int32_t slot,
		      const struct mapped *m)
{
	bool joined = g->class->key.joined;
	const int32_t *v = page_table_row(&g->table, slot) + (joined ? 0 : g->table.width);

	for (int32_t c = 0; c < g->table.width; c++) {
		int32_t page = page_table_get(&g->table, slot, c);
		bool mapped = (c >= m->lo && c < m->gap) || (c >= m->resume && c < m->hi);

		if (mapped != (page >= 0))
			violated(k,
				 "session %u group %u slot %" PRId32 ": column %" PRId32 " holds %" PRId32
				 ", mapped should be [%" PRId32 ", %" PRId32 ") and [%" PRId32 ", %" PRId32 ")",
				 s->tag, g->index, slot, c, page, m->lo, m->gap, m->resume, m->hi);
		if (v[c] != (page < 0 ? -1 : joined ? page : page + g->table.num_pages))
			violated(k,
				 "session %u slot %" PRId32 " column %" PRId32 ": V id %" PRId32 " for K id %" PRId32,
				 s->tag, slot, c, v[c], page);
		if (page >= 0)
			hold(k, s, g, page, PAGE_LEASED, "a row");
	}
	if (load_relaxed(&g->table.heads[slot].sequence) & 1)
		violated(k, "session %u slot %" PRId32 ": its row was left open", s->tag, slot);
}

static void check_span(struct checker *k, const struct session *s, const struct group *g, const struct request *r,
		       const struct seq *q)
{
	const struct span *p = seq_span(g, q);
	int32_t reservation = r->reservation[g->index], staged, bound;
	struct mapped m = seq_mapped(s, g, r, q);
	int64_t e = seq_endpoint(r, q);

	check_row(k, s, g, q->slot, &m);
	for (int32_t n = 0; n < p->n_reserved; n++)
		hold(k, s, g, seq_reserved(g, q)[n], PAGE_LEASED, "a reservation");
	staged = count_staged(k, s, g, r, q);
	bound = m.gap - m.lo + m.hi - m.resume;
	if (staged != p->n_staged)
		violated(k, "session %u slot %" PRId32 ": %" PRId32 " pages staged, counted %" PRId32, s->tag, q->slot,
			 p->n_staged, staged);
	if (bound + p->n_reserved + staged != reservation + p->n_extra || p->n_reserved > reservation || p->n_extra < 0)
		violated(k,
			 "session %u group %u slot %" PRId32 ": bound %" PRId32 " + reserved %" PRId32
			 " + staged %" PRId32 " is not its reservation %" PRId32 " and %" PRId32 " more",
			 s->tag, g->index, q->slot, bound, p->n_reserved, staged, reservation, p->n_extra);
	if (r->phase != PHASE_ADMITTED && r->transition != TRANSITION_PREFILL &&
	    (p->begin != window_begin(&g->window, seq_high(r, q)) || p->end != window_end(&g->window, e)))
		violated(k, "session %u group %u slot %" PRId32 ": retained range does not fit endpoint %" PRId64,
			 s->tag, g->index, q->slot, e);
	if (e < seq_high(r, q) - (int64_t)s->model.max_rewind)
		violated(k, "session %u slot %" PRId32 ": endpoint %" PRId64 " is too far below %" PRId64, s->tag,
			 q->slot, e, seq_high(r, q));
}

/* Pages that the pending step of @r has replaced. */
static void check_moved(struct checker *k, const struct session *s, const struct request *r)
{
	int32_t n = 0;

	FOR_EACH_GROUP (g, s) {
		const struct page_chain *chain =
			s->moved ? &s->moved[(size_t)(r - s->requests) * s->n_groups + g->index] : NULL;

		for (int32_t page = chain ? chain->first : -1; page >= 0; page = g->class->link[page], n++)
			hold(k, s, g, page, PAGE_LEASED, "a move");
	}
	if (n != r->n_moved || (n > 0 && r->transition != TRANSITION_STEP && r->transition != TRANSITION_EXTEND))
		violated(k, "session %u: a request has replaced %" PRId32 " pages, counted %" PRId32, s->tag,
			 r->n_moved, n);
}

static void check_sequence(struct checker *k, const struct session *s, const struct request *r, uint32_t i)
{
	const struct seq *q = request_seq(s, r, i);

	if (s->slots[q->slot].seq != q->index)
		violated(k, "session %u: slot %" PRId32 " does not know its sequence", s->tag, q->slot);
	FOR_EACH_GROUP (g, s)
		check_span(k, s, g, r, q);
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
	if (r->n_seqs > 0 && r->due != agenda_seq(s, r, 0)->due)
		violated(k, "session %u: a request does not know when its first sequence is due", s->tag);
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
			FOR_EACH_GROUP (g, s)
				check_row(k, s, g, i, &(struct mapped){ 0 });
	}
	if (used != s->n_sequences || used + s->n_free_seqs != (uint32_t)s->model.max_batch)
		violated(k, "session %u: %u slots in use, %u sequences, %u free", s->tag, used, s->n_sequences,
			 s->n_free_seqs);
}

static void check_quarantine(struct checker *k, const struct session *s, uint32_t line)
{
	FOR_EACH_GROUP (g, s) {
		const struct page_chain *chain = &s->lines[line].quarantine.of[g->index];
		int32_t n = 0;

		for (int32_t page = chain->first; page >= 0; page = g->class->link[page], n++)
			hold(k, s, g, page, PAGE_QUARANTINED, "the quarantine");
		if (n != chain->n)
			violated(k, "session %u line %u: %" PRId32 " pages in quarantine, counted %" PRId32, s->tag,
				 line, chain->n, n);
	}
}

static void check_point(struct checker *k, const struct session *s, uint32_t line, const struct point *p, uint64_t last)
{
	if (p->value < last || p->value <= s->lines[line].reached)
		violated(k, "session %u line %u: point of value %" PRIu64 " out of order", s->tag, line, p->value);
	if (p->request >= 0)
		return;
	FOR_EACH_GROUP (g, s)
		for (int32_t page = point_chain(s, p, g->index)->first; page >= 0; page = g->class->link[page])
			hold(k, s, g, page, PAGE_LEASED, "a releasing point");
}

/* Those of @r, the newest first. */
static void check_points_of(struct checker *k, const struct session *s, const struct request *r)
{
	int32_t after = -1;
	uint32_t n = 0;

	for (int32_t i = r->first_point; i >= 0 && n <= r->n_points; i = s->points[i].same_request, n++) {
		if (s->points[i].after != after || &s->requests[s->points[i].request] != r)
			violated(k, "session %u: point %" PRId32 " is not in its place among its request's", s->tag, i);
		after = i;
	}
	if (n != r->n_points)
		violated(k, "session %u: %u points of a request, counted %u", s->tag, r->n_points, n);
}

/* As how many it counts. */
static uint32_t point_weight(const struct point *p)
{
	return p->request == POINT_SHARED ? p->n_members : 1;
}

/* All that are open, in the order of their stamps. */
static void check_ages(struct checker *k, const struct session *s)
{
	int32_t last = -1;
	uint32_t n = 0;

	for (int32_t i = s->oldest_point; i >= 0 && n <= s->n_points; i = s->points[i].newer) {
		n += point_weight(&s->points[i]);
		if (s->points[i].older != last || (last >= 0 && s->points[i].stamp < s->points[last].stamp))
			violated(k, "session %u: point %" PRId32 " is not behind the one that is older", s->tag, i);
		last = i;
	}
	if (n != s->n_points || s->newest_point != last)
		violated(k, "session %u: %u points by age, counted %u", s->tag, n, s->n_points);
}

/* Those that share points of @line wait at points that are there, and no others are counted. */
static void check_shared(struct checker *k, const struct session *s, uint32_t line)
{
	const struct line *l = &s->lines[line];
	uint32_t members[SHARED_MOST] = { 0 };

	for (int32_t i = s->first_request; i >= 0; i = s->requests[i].next) {
		const struct request *r = &s->requests[i];
		uint32_t mask = r->stream == line ? shared_points_of(s, r) : 0;

		for (; mask; mask &= mask - 1)
			members[(r->shared_last - (uint64_t)__builtin_ctz(mask)) % SHARED_MOST]++;
	}
	for (uint64_t n = l->shared_reached + 1; n <= l->shared_last; n++) {
		int32_t at = l->shared[n % SHARED_MOST];
		const struct point *p = at < 0 ? NULL : &s->points[at];

		if (p &&
		    (p->request != POINT_SHARED || p->line != line || p->number != n || p->value > l->shared_value))
			violated(k, "session %u line %u: shared point %" PRIu64 " is not there", s->tag, line, n);
		if (members[n % SHARED_MOST] != (p ? p->n_members : 0))
			violated(k, "session %u line %u: %u wait at shared point %" PRIu64 ", counted %u", s->tag, line,
				 members[n % SHARED_MOST], n, p ? p->n_members : 0);
	}
}

static void check_lines(struct checker *k, const struct session *s)
{
	uint32_t points = 0;
	int64_t behind = 0;

	for (uint32_t l = 0; l < s->model.n_streams; l++) {
		uint64_t last = s->lines[l].reached;

		for (int32_t i = s->lines[l].first_point; i >= 0; i = s->points[i].next) {
			points += point_weight(&s->points[i]);
			check_point(k, s, l, &s->points[i], last);
			last = s->points[i].value;
			FOR_EACH_GROUP (g, s)
				behind += point_chain(s, &s->points[i], g->index)->n;
		}
		check_quarantine(k, s, l);
		if (!s->ended)
			check_shared(k, s, l);
	}
	if (points != s->n_points)
		violated(k, "session %u: %u points open, counted %u", s->tag, s->n_points, points);
	if (behind != s->n_behind)
		violated(k, "session %u: %" PRId64 " pages behind points, counted %" PRId64, s->tag, s->n_behind,
			 behind);
	check_ages(k, s);
}

static int64_t count_reserved(const struct session *s, const struct group *g)
{
	int64_t n = 0;

	for (int32_t i = s->first_request; i >= 0; i = s->requests[i].next)
		for (uint32_t q = 0; q < s->requests[i].n_seqs; q++)
			n += seq_span(g, request_seq(s, &s->requests[i], q))->n_reserved;
	return n;
}

static void check_managed(struct checker *k, const struct session *s)
{
	FOR_EACH_GROUP (g, s) {
		int64_t n = 0;

		for (size_t w = 0; w < managed_words(s, g); w++)
			for (uint64_t word = g->managed[w]; word; word &= word - 1, n++)
				hold(k, s, g, (int32_t)(w * 64) + __builtin_ctzll(word), PAGE_LEASED, "the worker");
		if (n != g->n_managed)
			violated(k, "session %u group %u: took %" PRId64 " pages, counted %" PRId64, s->tag, g->index,
				 g->n_managed, n);
	}
}

static void check_session(struct checker *k, const struct session *s)
{
	uint32_t requests = 0, transitions = 0;

	FOR_EACH_GROUP (g, s)
		if (s->busy)
			k->unseen[g->class_index] += g->n_held;
	if (s->busy)
		return;
	memset(k->held, 0, sizeof(k->held));
	for (int32_t i = s->first_request; i >= 0; i = s->requests[i].next, requests++) {
		const struct request *r = &s->requests[i];

		transitions += r->transition != TRANSITION_NONE;
		check_points_of(k, s, r);
		check_moved(k, s, r);
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
	check_managed(k, s);
	FOR_EACH_GROUP (g, s) {
		if (k->held[g->index] != g->n_held || g->n_promised != 0)
			violated(k, "session %u group %u: holds %" PRId64 " pages, counted %" PRId64, s->tag, g->index,
				 g->n_held, k->held[g->index]);
		if (count_reserved(s, g) != g->n_unbound)
			violated(k, "session %u group %u: %" PRId64 " reserved pages, counted %" PRId64, s->tag,
				 g->index, g->n_unbound, count_reserved(s, g));
	}
}

static void check_class(struct checker *k, const struct engine *e, int index)
{
	const struct page_class *c = e->pool.classes[index];
	int64_t unseen = c->n_owed;

	for (int32_t page = 0; page < c->num_pages; page++) {
		bool held = c->state[page] == PAGE_LEASED || c->state[page] == PAGE_QUARANTINED;

		if (held && k->leases[index][page] == 0 && k->unseen[index] > 0)
			unseen++;
		else if (held != (k->leases[index][page] == 1))
			violated(k, "class %d page %" PRId32 ": state %d with %d holders", index, page, c->state[page],
				 k->leases[index][page]);
	}
	if (unseen != k->unseen[index])
		violated(k, "class %d: %" PRId64 " pages without holder or promised, sessions at work hold %" PRId64,
			 index, unseen, k->unseen[index]);
}

bool engine_check(const struct engine *e, char *buf, size_t size)
{
	struct checker k = { .buf = buf, .size = size, .ok = true };
	const struct session *s;
	char why[160];

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
		if (!pool_check(&e->pool, why, sizeof(why)) || !wait_check(e, why, sizeof(why)) ||
		    !claims_check(e, why, sizeof(why)))
			violated(&k, "%s", why);
	}
	for (int i = 0; i < e->pool.n_classes; i++)
		free(k.leases[i]);
	return k.ok;
}
