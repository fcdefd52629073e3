/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves.c - see moves.h
 *
 * Only pages that the request has settled are looked at: those in its rows, and
 * those that it has reserved. A reserved page holds nothing, so it is only
 * replaced, below all others: what came back from a row must be bound before what
 * was never bound (dirty.c), and both wait for the step, as an earlier one may
 * still read the old one. What a request looks at is bounded, so it remembers how
 * far it came.
 */
#include "moves.h"

#include <string.h>

#include "dirty.h"
#include "emptying.h"
#include "extents.h"
#include "floor_ceiling.h"
#include "internal.h"
#include "points.h"
#include "slice.h"

int request_pin(struct session *s, uint64_t handle, bool pinned, struct fault *f)
{
	struct request *r;
	int code = request_find(s, handle, &r, f);

	if (code)
		return code;
	r->pinned = pinned;
	s->change++;
	return 0;
}

void moves_note(const struct session *s, struct group *g, const struct seq *q, const int32_t *pages, int32_t n)
{
	uint32_t tenant = emptying_tenant(s, q);

	for (int32_t i = 0; i < n; i++)
		g->class->tenant[pages[i]] = tenant;
}

static struct page_chain *old_pages(const struct session *s, const struct request *r, const struct group *g)
{
	return &s->moved[(size_t)(r - s->requests) * s->n_groups + g->index];
}

/* What one prepare may still do, and on whose behalf. */
struct moving {
	struct session *s;
	struct request *r;
	struct delivery *d;
	int32_t looks, left;           /* pages that may be looked at, and moved */
	bool full;                     /* there is no room for another page */
	uint64_t pauses;               /* others were served so often when that was found out: */
	int64_t room[WIRE_MAX_GROUPS]; /* pages of each group's class that nobody else is to find */
	uint64_t bytes;                /* that its model may still hold */
};

/* Free pages above the floors of others and what is claimed; all of its model's ceiling. */
static void find_room(struct moving *m)
{
	const struct session *s = m->s;
	const struct quota *q = s->quota;
	struct pool_keep keep = { 0 };
	uint64_t used = q->ceiling ? quota_used(q) : 0;

	m->pauses = s->engine->slice.pauses;
	claims_restore(s->engine);
	if (s->engine->n_floors || s->engine->n_claims)
		keep_for_others(&keep, s->engine, q, true);
	FOR_EACH_GROUP (g, s)
		m->room[g->index] = g->class->n_free - keep.floors[g->class_index] - keep.claims[g->class_index];
	m->bytes = !q->ceiling ? UINT64_MAX : q->ceiling > used ? q->ceiling - used : 0;
}

/* A page in place of one of @g; -1: there is none. */
static int32_t take_other(struct moving *m, struct group *g, const struct seq *q)
{
	uint64_t whole = page_class_whole(g->class);
	int32_t page;

	if (m->pauses != m->s->engine->slice.pauses)
		find_room(m);
	if (m->room[g->index] < 1 || m->bytes < whole || !page_class_take_beside(g->class, &page)) {
		m->s->engine->emptying.unplaced += !m->full;
		m->full = true;
		return -1;
	}
	FOR_EACH_GROUP (other, m->s)
		m->room[other->index] -= other->class == g->class;
	m->bytes -= whole;
	g->n_held++;
	g->n_taken++;
	moves_note(m->s, g, q, &page, 1);
	return page;
}

/* @page, which @m's request has had until now, waits for its step. */
static void leave_page(struct moving *m, struct group *g, int32_t page)
{
	g->class->tenant[page] = TENANT_LEAVES;
	page_chain_add(g->class, old_pages(m->s, m->r, g), page, -1);
	m->s->n_moving += m->r->n_moved++ == 0;
	m->left--;
	m->s->engine->emptying.moved++;
	m->s->engine->emptying.moved_bytes += page_class_whole(g->class);
	g->class->n_moved++;
	g->n_moved++;
	slice_spend(m->s, SLICE_PLACE + SLICE_PUT);
}

/* The page in column @column moves. */
static void move_bound(struct moving *m, struct group *g, struct seq *q, int32_t column)
{
	int32_t from = page_table_get(&g->table, q->slot, column), to = take_other(m, g, q);

	if (to < 0)
		return;
	if (g->class->scrub != WIRE_SCRUB_NEVER)
		(void)page_class_bind(g->class, to, g->serial); /* the copy is all of it */
	page_table_open(&g->table, q->slot);
	page_table_put(&g->table, q->slot, column, to);
	page_table_close(&g->table, q->slot);
	row_list_note(m->s, g, &m->r->dirty, q->slot);
	m->d->moves[m->d->n_moves++] =
		(struct wire_move){ .row = (uint32_t)group_row(g, q->slot), .from = from, .to = to };
	leave_page(m, g, from);
}

/* Another takes the place of the reserved page at @at, below all others. */
static void move_reserved(struct moving *m, struct group *g, struct seq *q, int32_t at)
{
	int32_t *reserved = seq_reserved(g, q), from = reserved[at], to = take_other(m, g, q);

	if (to < 0)
		return;
	memmove(reserved + 1, reserved, (size_t)at * sizeof(*reserved));
	reserved[0] = to;
	leave_page(m, g, from);
	slice_spend(m->s, at / SLICE_LOOKS);
}

/* Looks at the pages of @q in @g from number *@at on, those in its row first; true: it was at all of them. */
static bool move_pages(struct moving *m, struct group *g, struct seq *q, int32_t *at)
{
	const struct span *p = seq_span(g, q);
	int32_t bound = p->end - p->begin;

	for (; *at < bound + p->n_reserved && m->looks > 0 && m->left > 0 && !m->full; ++*at) {
		int32_t i = *at - bound;
		int32_t page = i < 0 ? page_table_get(&g->table, q->slot, p->begin + *at) : seq_reserved(g, q)[i];

		if (m->looks-- % SLICE_LOOKS == 0)
			slice_spend(m->s, 1);
		if (!page_must_move(g->class, page))
			continue;
		if (i < 0)
			move_bound(m, g, q, p->begin + *at);
		else
			move_reserved(m, g, q, i);
	}
	return *at >= bound + p->n_reserved;
}

void moves_make(struct session *s, struct request *r, struct delivery *d)
{
	struct moving m = { .s = s, .r = r, .d = d, .looks = MOVES_LOOKS };
	struct move_place *at = &r->move_at;

	if (r->move_round != s->engine->emptying.round)
		*at = (struct move_place){ 0 };
	r->move_round = s->engine->emptying.round;
	if (!d->moves || r->pinned || r->unordered) {
		r->moves_due = false;
		*at = (struct move_place){ 0 };
		return;
	}
	m.left = WIRE_MAX_MOVES - (int32_t)d->n_moves;
	find_room(&m);
	for (; at->seq < r->n_seqs; at->seq++, at->group = 0) {
		for (; at->group < s->n_groups; at->group++, at->page = 0) {
			struct group *g = &s->groups[at->group];

			if (g->movable && !move_pages(&m, g, request_seq(s, r, at->seq), &at->page))
				return;
		}
	}
	/* Once round: what it could not move, or got since, is found when the extents are looked at again. */
	*at = (struct move_place){ 0 };
	r->moves_due = false;
}

void moves_release(struct session *s, struct request *r, uint64_t value)
{
	struct page_chains chains;

	page_chains_init(&chains, s->n_groups);
	moves_dissolve(s, r, &chains);
	pages_release(s, r->stream, value > r->last_value ? value : r->last_value, &chains);
}

void moves_dissolve(struct session *s, struct request *r, struct page_chains *chains)
{
	FOR_EACH_GROUP (g, s) {
		struct page_chain *old = old_pages(s, r, g);

		if (chains)
			page_chain_append(g->class, &chains->of[g->index], old);
		else
			page_chain_return(s, g, old);
		*old = PAGE_CHAIN_EMPTY;
	}
	s->n_moving -= r->n_moved > 0;
	r->n_moved = 0;
}

uint64_t moves_weight(const struct session *s, const struct request *r)
{
	uint64_t reserved = 0;

	if (!r->moves_due)
		return r->n_moved ? SLICE_PUT * (uint64_t)r->n_moved + s->n_groups : 0;
	FOR_EACH_GROUP (g, s)
		reserved = g->movable && (uint64_t)g->most_reserved > reserved ? (uint64_t)g->most_reserved : reserved;
	return WIRE_MAX_MOVES * (SLICE_PLACE + SLICE_PUT + SLICE_CELL + 1 + reserved / SLICE_LOOKS) +
	       MOVES_LOOKS / SLICE_LOOKS;
}
