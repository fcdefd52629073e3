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
