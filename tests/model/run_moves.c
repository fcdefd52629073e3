/* SPDX-License-Identifier: Apache-2.0 */
/* run_moves.c - pages that the engine moves, and requests that keep theirs, given to the model */
#include <string.h>

#include "world.h"

void see_emptying(const struct world *w, bool *emptying)
{
	memset(emptying, 0, REF_EXTENTS * sizeof *emptying);
	for (uint32_t x = 0; x < w->pool.n_extents; x++)
		emptying[x] = engine_extent_emptying(w->engine, x);
}

/* Page @id of @c lies, at least in part, in an extent that is to come empty. */
static bool touches_emptying(const struct ref_pool *p, const struct ref_class *c, int32_t id, const bool *emptying)
{
	for (uint32_t x = c->first[id]; x <= c->last[id]; x++)
		if (emptying[x] && p->holder[x] == (int32_t)(c - p->classes))
			return true;
	return false;
}

static bool is_within(int32_t id, const struct page_range *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].first <= id && id < list[i].end)
			return true;
	return false;
}

/* What session @i is told of group @g: only pages in extents that are to come empty, and all that it has in such. */
static void see_ranges_of(struct world *w, uint32_t i, uint32_t g, const bool *emptying)
{
	const struct ref_session *s = &w->sessions[i];
	const struct ref_class *c = s->groups[g].class;
	struct page_range list[WIRE_RANGES];
	uint32_t n = session_give_ranges(w->sides[i].session, g, list);

	for (uint32_t k = 0; k < n; k++)
		if (list[k].first < (k ? list[k - 1].end : 0) + (k > 0) || list[k].first >= list[k].end ||
		    list[k].end > c->num_pages)
			ref_complain(&w->pool, "session %u, group %u: range %u is [%d, %d)", i, g, k, list[k].first,
				     list[k].end);
	for (int32_t id = 0; id < c->num_pages && !w->pool.error[0]; id++) {
		bool lies = touches_emptying(&w->pool, c, id, emptying);
		bool mine = c->page[id] == REF_LEASED && c->user[id] == s && c->taken[id] == 1 + g;

		if (is_within(id, list, n) && !lies)
			ref_complain(&w->pool, "session %u, group %u: page %d is told, its extent stays", i, g, id);
		if (lies && mine && n < WIRE_RANGES && !is_within(id, list, n))
			ref_complain(&w->pool,
				     "session %u, group %u: page %d lies in an extent to be empty, and is not told", i,
				     g, id);
	}
	w->n_told += n;
}

void see_ranges(struct world *w, const bool *emptying)
{
	struct emptying_counts c;

	engine_count_emptying(w->engine, &c);
	if (c.decisions == w->decisions) /* they are as old as the last */
		return;
	w->decisions = c.decisions;
	for (uint32_t i = 0; i < REF_SESSIONS; i++)
		for (uint32_t g = 0; w->sessions[i].attached && !w->sessions[i].ended && w->sides[i].session &&
				     g < w->sessions[i].n_groups && !w->pool.error[0];
		     g++)
			see_ranges_of(w, i, g, emptying);
}

void run_pin(struct world *w, const struct command *c)
{
	uint64_t handle = handle_of(w, c->request);
	struct fault f;
	int got = request_pin(w->sides[c->session].session, handle, c->flags, &f);

	compare_code(w, "request_pin", got, ref_pin(&w->sessions[c->session], handle, c->flags), &f);
}

/* What the engine has reserved for a sequence, next to be bound first; how many. */
static int32_t reserved_now(void *arg, const struct ref_request *r, int32_t seq, uint32_t g, int32_t *pages)
{
	const struct moves_seen *m = arg;
	struct wire_query_state q = { .seq = seq, .group = g };
	struct wire_binding b[2 * REF_HELD];
	struct wire_sequence_state state = { 0 };
	uint32_t n = 0;
	struct fault f;

	if (sequence_query(m->w->sides[m->session].session, r->handle, &q, &state, b, 2 * REF_HELD, &n, &f) ||
	    state.n_reserved > REF_HELD || n < state.n_bound + state.n_reserved) {
		ref_complain(&m->w->pool, "sequence %d, group %u: what is reserved cannot be read", seq, g);
		return 0;
	}
	for (uint32_t i = 0; i < state.n_reserved; i++)
		pages[i] = b[state.n_bound + i].page;
	return (int32_t)state.n_reserved;
}

static uint64_t moved_ever(const struct world *w)
{
	struct emptying_counts c;

	engine_count_emptying(w->engine, &c);
	return c.moved;
}

void moves_before(struct world *w, uint32_t session, struct moves_seen *m)
{
	*m = (struct moves_seen){ .w = w, .session = session, .before = moved_ever(w) };
}

const struct ref_moves *moves_after(struct world *w, struct moves_seen *m, const struct delivery *d)
{
	uint64_t n = moved_ever(w) - m->before;

	m->ref = (struct ref_moves){
		.some = n > 0, .n = d ? d->n_moves : 0, .list = w->moves, .reserved = reserved_now, .arg = m
	};
	w->n_page_moves += n;
	return &m->ref;
}
