/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.c - see map.h
 *
 * How full an extent is the engine knows. Whose pages are in it is asked of a few
 * of them: each names the group that bound it last by a serial, and the groups of
 * the sessions that are shown are looked up by theirs. Serials rise, and so do
 * they along the list of sessions, but for what attached at the same time.
 */
#include "map.h"

#include <stdlib.h>

#include "ring/ring_thread.h"

enum {
	LOOKS = 16,      /* at pages of an extent, in each run */
	LOOKED_AT = 256, /* extents in one picture */
	SLICE = ENGINE_SLICE / 8
};

struct extent_map *extent_map_new(uint32_t n_extents)
{
	struct extent_map *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->n = n_extents < STATUS_MAX_EXTENTS ? n_extents : STATUS_MAX_EXTENTS;
	m->users = calloc(m->n, sizeof(*m->users));
	return m->users ? m : extent_map_free(m);
}

struct extent_map *extent_map_free(struct extent_map *m)
{
	if (m)
		free(m->users);
	free(m);
	return NULL;
}

static void name_session(struct extent_map *m, const struct channel *c)
{
	for (uint32_t g = 0; g < c->model.n_groups; g++) {
		const struct extent_map_name x = { session_serial(c->session, g), (uint16_t)c->id };
		uint32_t at = m->n_names++;

		for (; at > 0 && m->names[at - 1].serial > x.serial; at--)
			m->names[at] = m->names[at - 1];
		m->names[at] = x;
	}
}

void extent_map_name_sessions(struct extent_map *m, const struct ring_thread *t)
{
	const struct channel *c;

	m->n_names = 0;
	TAILQ_FOREACH (c, &t->channels, link)
		if (c->shown >= 0)
			name_session(m, c);
}

/* Id of the session whose group @serial is, 0: it is none that is shown. */
static uint16_t session_of(const struct extent_map *m, uint32_t serial)
{
	uint32_t lo = 0, hi = m->n_names;

	while (lo < hi) {
		uint32_t middle = lo + (hi - lo) / 2;

		if (m->names[middle].serial < serial)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo < m->n_names && m->names[lo].serial == serial ? m->names[lo].id : 0;
}

/* Looks at the next extents, whose they are. */
static void look_at_some(struct extent_map *m, struct ring_thread *t)
{
	uint32_t n = m->n < LOOKED_AT ? m->n : LOOKED_AT;

	for (uint32_t i = 0; i < n; i++) {
		struct extent_users users = engine_extent_users(t->engine, m->next, LOOKS, m->turn);

		if (users.most)
			m->users[m->next] = users;
		m->next = m->next + 1 < m->n ? m->next + 1 : 0;
		m->turn += m->next == 0;
		engine_spend(t->engine, LOOKS);
	}
}

static void show_extent(struct extent_map *m, struct status_snapshot *s, const struct ring_thread *t, uint32_t x)
{
	struct status_extent *out = &s->extents[x];
	struct extent_view v;

	engine_extent_view(t->engine, x, &v);
	*out = (struct status_extent){
		.live = v.live,
		.quarantined = v.quarantined,
		.free = v.free,
		/* one that came while others were served is in the next picture */
		.page_class = v.page_class >= 0 && v.page_class < (int32_t)s->n_classes ? (uint8_t)v.page_class
											: STATUS_NO_CLASS,
		.flags = (uint8_t)((v.emptying ? STATUS_EXTENT_EMPTYING : 0) | (v.claimed ? STATUS_EXTENT_CLAIMED : 0)),
	};
	if (v.live == 0)
		m->users[x] = (struct extent_users){ 0 };
	out->session = session_of(m, m->users[x].most);
	if (out->session && session_of(m, m->users[x].lowest) != session_of(m, m->users[x].highest))
		out->flags |= STATUS_EXTENT_SHARED;
}

void extent_map_fill(struct extent_map *m, struct status_snapshot *s, struct ring_thread *t)
{
	look_at_some(m, t);
	s->pool_extents = engine_extents(t->engine);
	s->n_extents = m->n;
	for (uint32_t x = 0; x < m->n; x++) {
		show_extent(m, s, t, x);
		if (x % SLICE == SLICE - 1)
			engine_spend(t->engine, SLICE);
	}
}
