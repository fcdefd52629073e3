/* SPDX-License-Identifier: Apache-2.0 */
/* shown.c - see shown.h */
#include "shown.h"

#include <inttypes.h>

#include "clock.h"
#include "sim.h"

/* Both are written some milliseconds after a change, at most 1 % of the time. */
#define SOON_NS (50 * NS_PER_MS)

static void check(struct world *w, const char *what, uint32_t i, int64_t shown, int64_t is)
{
	if (shown != is)
		world_break(w, "the broker sleeps, and shows %" PRId64 " as %s %u, which is %" PRId64, shown, what, i,
			    is);
}

static void check_pool(struct world *w, const struct status_snapshot *s)
{
	struct engine_counts e;
	struct class_counts c;

	engine_count(w->ring->engine, &e);
	check(w, "bytes held of pool", 0, (int64_t)s->pool_held, (int64_t)e.held);
	check(w, "commands of pool", 0, (int64_t)s->commands, (int64_t)w->ring->counters.commands);
	for (uint32_t i = 0; i < s->n_classes && engine_class_count(w->ring->engine, i, &c); i++) {
		check(w, "free pages of class", i, s->classes[i].free, c.free);
		check(w, "leased pages of class", i, s->classes[i].leased, c.leased);
		check(w, "quarantined pages of class", i, s->classes[i].quarantined, c.quarantined);
	}
}

static void check_models(struct world *w, const struct status_snapshot *s)
{
	struct quota_counts q;

	for (uint32_t i = 0; i < s->n_models && engine_quota_count(w->ring->engine, i, &q); i++) {
		check(w, "use of model", i, (int64_t)s->models[i].used, (int64_t)q.used);
		check(w, "floor of model", i, (int64_t)s->models[i].floor, (int64_t)q.floor);
		check(w, "ceiling of model", i, (int64_t)s->models[i].ceiling, (int64_t)q.ceiling);
		check(w, "begins waiting of model", i, s->models[i].waiting, q.waiting);
	}
}

static void check_session(struct world *w, const struct status_session *s, const struct channel *c)
{
	struct session_counts n;
	uint64_t since;

	session_count(c->session, &n);
	check(w, "requests of session", c->id, s->n_requests, n.requests);
	check(w, "leased pages of session", c->id, s->leased, n.leased);
	check(w, "quarantined pages of session", c->id, s->quarantined, n.quarantined);
	check(w, "begins waiting of session", c->id, s->waiting, c->n_waiting);
	for (uint32_t g = 0; g < s->n_groups; g++) {
		check(w, "pages held in a group by session", c->id, s->groups[g].held,
		      session_held_pages(c->session, g));
		check(w, "pages asked for of session", c->id, s->groups[g].wanted,
		      session_wanted_pages(c->session, g, &since));
	}
}

static void check_board(struct world *w, const struct channel *c, uint32_t group)
{
	const struct wire_board *b = &c->boards[group];
	int64_t floor, ceiling;
	uint64_t since;

	session_limit_pages(c->session, group, &floor, &ceiling);
	check(w, "pages asked for on the board of session", c->id, (int64_t)load_relaxed(&b->wanted),
	      session_wanted_pages(c->session, group, &since));
	check(w, "pages to be had on the board of session", c->id, (int64_t)load_relaxed(&b->takeable),
	      session_takeable_pages(c->session, group));
	check(w, "floor on the board of session", c->id, (int64_t)load_relaxed(&b->floor), floor);
	check(w, "ceiling on the board of session", c->id, (int64_t)load_relaxed(&b->ceiling), ceiling + 1);
}

void shown_check(struct world *w, uint64_t ns)
{
	const struct status_snapshot *s = w->status->draft; /* as it was shown last */
	const struct channel *c;
	uint32_t n = 0;

	if (ns < SOON_NS)
		return;
	check_pool(w, s);
	check_models(w, s);
	TAILQ_FOREACH (c, &w->ring->channels, link) {
		if (c->state == CHANNEL_RECLAIMED)
			continue;
		check(w, "session at place", n, n < s->n_sessions ? s->sessions[n].id : 0, c->id);
		if (!w->broken[0])
			check_session(w, &s->sessions[n++], c);
		for (uint32_t g = 0; g < c->memory.layout.n_groups && c->state == CHANNEL_ATTACHED; g++)
			check_board(w, c, g);
	}
	check(w, "sessions in all, of which are left", 0, s->n_sessions, n);
}
