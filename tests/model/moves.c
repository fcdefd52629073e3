/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves.c - extents that are to come empty, and pages that move for that, in the reference model (spec section 13)
 *
 * Which extents those are, and which pages a step moves, is the engine's word,
 * checked: the extents are of the fewest live pages, and all that live in them can
 * move; a page moves out of one of them, to a free page that nobody else is to find.
 * What becomes of the old page is the model's own.
 */
#include "parts.h"

#include <string.h>

#include <swakv/error.h>

enum { IDLE_AFTER = 1000 }; /* ms, of which a stamp is one */

/* ---- what can move -------------------------------------------------------------------- */

static bool holds(const struct ref_part *t, int32_t id)
{
	for (int32_t c = 0; c < REF_WIDTH; c++)
		if (t->row[c] == id)
			return true;
	for (int32_t i = 0; i < t->n_free; i++)
		if (t->free[i] == id)
			return true;
	for (int32_t i = 0; i < t->n_staged; i++)
		if (t->staged[i].page == id)
			return true;
	return false;
}

static const struct ref_request *holder_of(const struct ref_session *s, uint32_t g, int32_t id)
{
	for (int i = 0; i < REF_REQUESTS; i++)
		for (int32_t j = 0; s->requests[i].live && j < s->requests[i].n_seqs; j++)
			if (holds(&s->requests[i].seqs[j].parts[g], id))
				return &s->requests[i];
	return NULL;
}

static bool may_move(const struct ref_session *s, const struct ref_request *r)
{
	return !s->ended && !s->poisoned && !r->pinned && !r->unordered;
}

/* Page @id of @c, which is in use, moves when its owner steps, or, unless @sure, may be on its way to its class. */
static bool can_move(const struct ref_pool *p, const struct ref_class *c, int32_t id, bool sure)
{
	const struct ref_session *s = c->user[id];

	if (c->page[id] != REF_LEASED)
		return false;
	if (c->taken[id]) /* its session may be asked for it, and is told; see see_ranges() */
		return !sure && !s->ended;
	for (uint32_t g = 0; g < s->n_groups; g++) {
		const struct ref_request *r = s->groups[g].class == c ? holder_of(s, g, id) : NULL;

		if (r)
			return s->groups[g].movable && may_move(s, r) && p->stamp - r->stepped <= IDLE_AFTER;
	}
	return !sure; /* of a request that is over, or moved already: or such as could not */
}

/* All that lives in extent @x can. */
static bool can_empty(const struct ref_pool *p, uint32_t x, bool sure)
{
	const struct ref_class *c = &p->classes[p->holder[x]];

	for (int32_t id = 0; id < c->num_pages; id++)
		if (c->first[id] <= x && x <= c->last[id] && c->page[id] != REF_FREE && !can_move(p, c, id, sure))
			return false;
	return true;
}

/* ---- extents -------------------------------------------------------------------------- */

static int64_t free_in(const struct ref_pool *p, uint32_t x)
{
	const struct ref_class *c = &p->classes[p->holder[x]];
	int64_t n = 0;

	for (int32_t id = 0; id < c->num_pages; id++)
		n += c->first[id] <= x && x <= c->last[id] && c->page[id] == REF_FREE;
	return n;
}

/* Nothing is kept for anybody. */
static bool nothing_kept(const struct ref_pool *p)
{
	for (int i = 0; i < REF_QUOTAS; i++)
		if (p->quotas[i].floor || p->quotas[i].claim.session)
			return false;
	return true;
}

/* Extent @y has fewer live pages than @x, of the same class, and there was room for what lives in it. */
static bool is_better(struct ref_pool *p, uint32_t y, uint32_t x)
{
	int64_t room, live = p->live[y];

	if (y == x || p->emptying[y] || p->holder[y] != p->holder[x] || p->live[y] == 0 || p->live[y] >= p->live[x] ||
	    y + 1 == p->n_extents)
		return false;
	room = ref_tally(p, (uint32_t)p->holder[y])->open - free_in(p, y);
	for (uint32_t z = 0; z < p->n_extents; z++)
		if (p->emptying[z] && p->holder[z] == p->holder[y]) {
			room -= free_in(p, z);
			live += p->live[z];
		}
	return room >= live && can_empty(p, y, true);
}

static bool pages_are_small(const struct ref_pool *p)
{
	for (uint32_t i = 0; i < p->n_classes; i++)
		if (2 * p->classes[i].page_bytes > p->extent)
			return false;
	return true;
}

void ref_emptying_learn(struct ref_pool *p, const bool *emptying, bool lacking)
{
	bool known[REF_EXTENTS];
	bool compares = nothing_kept(p) && pages_are_small(p);

	memcpy(known, p->emptying, sizeof known);
	memcpy(p->emptying, emptying, sizeof p->emptying);
	for (uint32_t x = 0; x < p->n_extents && !p->error[0]; x++) {
		if (!emptying[x])
			continue;
		if (!lacking || p->holder[x] < 0 || (!known[x] && p->live[x] == 0))
			ref_complain(p, "extent %u is to come empty, %s", x,
				     lacking ? "and is" : "and nobody lacks anything");
		else if (!known[x] && !can_empty(p, x, false))
			ref_complain(p, "extent %u is to come empty, and some page in it must stay", x);
		for (uint32_t y = 0; !known[x] && y < p->n_extents && compares; y++)
			if (is_better(p, y, x))
				ref_complain(p, "extent %u with %d live pages is to come empty, and not %u with %d", x,
					     p->live[x], y, p->live[y]);
	}
}

/* Some page in it has been in use since all this was looked at last: it has not been empty meanwhile. */
static bool stayed_in_use(const struct ref_pool *p, uint32_t x)
{
	for (uint32_t i = 0; i < p->n_classes; i++) {
		const struct ref_class *c = &p->classes[i];

		for (int32_t id = 0; id < c->num_pages && p->holder[x] == (int32_t)i; id++)
			if (c->first[id] <= x && x <= c->last[id] && c->page[id] != REF_FREE &&
			    c->given[id] <= p->emptying_seen)
				return true;
	}
	return false;
}

void ref_emptying_check(struct ref_pool *p, const bool *emptying)
{
	for (uint32_t x = 0; x < p->n_extents; x++) {
		if (emptying[x] && !p->emptying[x])
			ref_complain(p, "extent %u is to come empty, which nobody has decided", x);
		if (!emptying[x] && p->emptying[x] && stayed_in_use(p, x))
			ref_complain(p, "extent %u is no longer to come empty, and pages live in it", x);
		p->emptying[x] = emptying[x];
	}
	p->emptying_seen = p->command;
}

/* ---- pages ---------------------------------------------------------------------------- */

static bool touches_emptying(const struct ref_pool *p, const struct ref_class *c, int32_t id)
{
	for (uint32_t x = c->first[id]; x <= c->last[id]; x++)
		if (p->emptying[x])
			return true;
	return false;
}

/* Page @from of @r leaves, @to comes. */
static void replace(struct ref_session *s, struct ref_request *r, uint32_t g, int32_t from, int32_t to)
{
	struct ref_class *c = s->groups[g].class;
	struct ref_pool *p = s->pool;
	uint32_t x;

	if (!s->groups[g].movable || !may_move(s, r))
		ref_complain(p, "page %d moves, of a request or group that must stay", from);
	if (from < 0 || from >= c->num_pages || !touches_emptying(p, c, from))
		ref_complain(p, "page %d moves, and its extent is not to come empty", from);
	if (to < 0 || to >= c->num_pages || r->n_moved == REF_MOVED)
		ref_complain(p, "page %d moves to %d, and %d have moved", from, to, r->n_moved);
	if (p->error[0])
		return;
	x = c->first[to];
	if (x != c->last[to] || p->emptying[x] || p->chosen[x] || p->live[x] == 0)
		ref_complain(p, "page %d moves to %d in extent %u, which is chosen, to be empty, or is", from, to, x);
	ref_lease(s, g, to);
	c->wanted--; /* it brings no extent */
	r->moved[r->n_moved++] = (struct ref_moved){ g, from };
	if (s->quota->ceiling && ref_used(p, s->quota) > s->quota->ceiling)
		ref_complain(p, "page %d moves, and its model is above its ceiling", from);
	if (!ref_is_spared(s, s->groups[g].class_index))
		ref_complain(p, "page %d moves to %d, which others are to find", from, to);
}

static void move_bound(struct ref_session *s, struct ref_request *const requests[], uint32_t n,
		       const struct wire_move *m)
{
	uint32_t g = m->row / (uint32_t)s->max_batch;
	int32_t slot = (int32_t)(m->row % (uint32_t)s->max_batch);

	for (uint32_t i = 0; i < n && g < s->n_groups; i++) {
		struct ref_request *r = requests[i];

		for (int32_t j = 0; j < r->n_seqs; j++) {
			struct ref_seq *q = &r->seqs[j];
			int32_t *row = q->parts[g].row;

			for (int64_t c = 0; q->slot == slot && c < ref_end_of(s, g, q->endpoint); c++) {
				if (row[c] != m->from)
					continue;
				replace(s, r, g, m->from, m->to);
				row[c] = m->to;
				s->groups[g].class->writer[m->to] = s->groups[g].name;
				s->groups[g].class->written[m->to] = true;
				return;
			}
		}
	}
	ref_complain(s->pool, "page %d of row %u moves to %d, and is not there", m->from, m->row, m->to);
}

/* The engine shows @pages as reserved, next to be bound first. */
static void move_reserved(struct ref_session *s, struct ref_request *r, struct ref_seq *q, uint32_t g,
			  const int32_t *pages, int32_t n)
{
	struct ref_part *t = &q->parts[g];
	int32_t now[REF_HELD], old[REF_HELD], n_old = 0, kept = n;

	if (n != t->n_free) {
		ref_complain(s->pool, "slot %d, group %u: %d pages are reserved, and were %d", q->slot, g, n,
			     t->n_free);
		return;
	}
	for (int32_t i = 0; i < n; i++)
		now[n - 1 - i] = pages[i];
	/* those that are left keep their order, and stand above all that came */
	for (int32_t i = n - 1; i >= 0; i--) {
		if (t->free[i] == now[kept - 1])
			kept--;
		else
			old[n_old++] = t->free[i];
	}
	if (n_old != kept) {
		ref_complain(s->pool, "slot %d, group %u: reserved pages have changed their places", q->slot, g);
		return;
	}
	for (int32_t i = 0; i < n_old && !s->pool->error[0]; i++)
		replace(s, r, g, old[i], now[n_old - 1 - i]);
	memcpy(t->free, now, (size_t)n * sizeof *now);
}

void ref_move(struct ref_session *s, struct ref_request *const requests[], uint32_t n, const struct ref_moves *m)
{
	for (uint32_t i = 0; i < m->n && !s->pool->error[0]; i++)
		move_bound(s, requests, n, &m->list[i]);
	for (uint32_t i = 0; m->some && i < n; i++)
		for (int32_t j = 0; j < requests[i]->n_seqs; j++)
			for (uint32_t g = 0; g < s->n_groups && !s->pool->error[0]; g++) {
				int32_t pages[REF_HELD];
				int32_t n_pages = m->reserved(m->arg, requests[i], j, g, pages);

				move_reserved(s, requests[i], &requests[i]->seqs[j], g, pages, n_pages);
			}
}

int ref_pin(struct ref_session *s, uint64_t handle, bool pinned)
{
	struct ref_request *r;

	if (s->ended)
		return SWAKV_EGONE;
	r = ref_find(s, handle);
	if (!r)
		return SWAKV_EINVALID;
	r->pinned = pinned;
	return SWAKV_OK;
}
