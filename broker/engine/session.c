/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - one worker's share of the pool, from attach to reclaim
 *
 * A session that ends leaves its pages in quarantine: only the outside can
 * prove that its device work is over, and says so with session_reclaim().
 */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "admission.h"
#include "bug.h"
#include "internal.h"
#include "managed.h"
#include "quarantine.h"
#include "slice.h"

static void session_release_memory(struct session *s)
{
	groups_deinit(s);
	free(s->seqs);
	free(s->rows);
	free(s->scratch);
	free(s->slot_scratch);
	free(s->turn_scratch);
	free(s->free_seqs);
	free(s->slots);
	free(s->requests);
	free(s->order);
	free(s->agenda);
	free(s->waits);
	free(s->points);
	free(s->point_pages);
	free(s->moved);
	free(s);
}

/* As calloc(): each in cache lines of its own. */
static struct request *requests_allocate(size_t n)
{
	struct request *r = aligned_alloc(CACHELINE, n * sizeof(*r));

	return r ? memset(r, 0, n * sizeof(*r)) : NULL;
}

/* Only where a group can move. */
static bool moved_allocate(struct session *s)
{
	size_t n = (size_t)s->model.max_batch * s->n_groups;
	bool movable = false;

	FOR_EACH_GROUP (g, s)
		movable |= g->movable;
	if (!movable)
		return true;
	s->moved = calloc(n, sizeof(*s->moved));
	for (size_t i = 0; s->moved && i < n; i++)
		s->moved[i] = PAGE_CHAIN_EMPTY;
	return s->moved;
}

static bool session_allocate(struct session *s)
{
	size_t n = (size_t)s->model.max_batch;

	s->seqs = calloc(n, sizeof(*s->seqs));
	s->rows = calloc(n * s->n_groups, sizeof(*s->rows));
	s->scratch = calloc(n * (size_t)s->scratch_width, sizeof(*s->scratch));
	s->slot_scratch = calloc(n, sizeof(*s->slot_scratch));
	s->turn_scratch = calloc(n, sizeof(*s->turn_scratch));
	s->free_seqs = calloc(n, sizeof(*s->free_seqs));
	s->slots = calloc(n, sizeof(*s->slots));
	s->requests = requests_allocate(n);
	s->order = calloc(2 * n, sizeof(*s->order));
	s->agenda = calloc(2 * n, sizeof(*s->agenda));
	s->waits = calloc(ENGINE_MAX_WAITS(n), sizeof(*s->waits));
	s->max_points = engine_max_points(&s->model);
	s->points = calloc(s->max_points, sizeof(*s->points));
	s->point_pages = calloc((size_t)s->max_points * s->n_groups, sizeof(*s->point_pages));
	return moved_allocate(s) && s->seqs && s->rows && s->scratch && s->slot_scratch && s->turn_scratch &&
	       s->free_seqs && s->slots && s->requests && s->order && s->agenda && s->waits && s->points &&
	       s->point_pages;
}

static void session_fill(struct session *s)
{
	int32_t n = s->model.max_batch;

	for (int32_t i = 0; i < n; i++) {
		s->free_seqs[i] = n - 1 - i;
		s->slots[i].seq = -1;
		s->requests[i].next = i + 1 < n ? i + 1 : -1;
	}
	s->n_free_seqs = (uint32_t)n;
	s->first_request = -1;
	s->free_request = 0;
	for (uint32_t i = 0; i < s->max_points; i++)
		s->points[i].next = i + 1 < s->max_points ? (int32_t)i + 1 : -1;
	s->free_point = 0;
	s->oldest_point = s->newest_point = -1;
	for (uint32_t i = 0; i + 1 < ENGINE_MAX_WAITS(n); i++)
		s->waits[i].next_free = &s->waits[i + 1];
	s->free_wait = s->waits;
	TAILQ_INIT(&s->queued);
	for (uint32_t i = 0; i < WIRE_MAX_STREAMS; i++) {
		s->lines[i] = (struct line){ .first_point = -1, .last_point = -1, .stray = ROW_LIST_EMPTY };
		page_chains_init(&s->lines[i].quarantine, s->n_groups);
	}
}

struct session *session_make(const struct model *m, const struct geometry g[], const struct session_tables *tables,
			     uint32_t tag)
{
	struct session *s = tag <= UINT16_MAX ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return NULL;
	s->model = *m;
	memcpy(s->geometry, g, m->n_groups * sizeof(g[0]));
	s->n_groups = m->n_groups;
	s->groups_end = s->groups + m->n_groups;
	if (s->model.in_flight == 0)
		s->model.in_flight = MODEL_IN_FLIGHT;
	s->tag = tag;
	if (!groups_init(s, tables) || !session_allocate(s))
		return session_discard(s);
	session_fill(s);
	return s;
}

bool session_enlist(struct session *s, struct engine *e)
{
	s->engine = e;
	if (groups_enter(s) && session_join(s, "") == 0) {
		LIST_INSERT_HEAD(&e->sessions, s, siblings);
		return true;
	}
	groups_leave(s);
	s->engine = NULL;
	return false;
}

struct session *session_new(struct engine *e, const struct model *m, const struct session_tables *tables, uint32_t tag)
{
	struct geometry g[WIRE_MAX_GROUPS];
	struct session *s = NULL;

	if (model_check(m, e->pool.half_bytes, g, NULL) == 0)
		s = session_make(m, g, tables, tag);
	if (!s || !session_enlist(s, e))
		return session_discard(s);
	session_settle(s);
	return s;
}

void session_settle(struct session *s)
{
	groups_settle(s);
}

void session_leave(struct session *s)
{
	MUST(s->ended && s->n_requests == 0 && s->n_points == 0);
	FOR_EACH_GROUP (g, s)
		MUST(g->n_held == 0);
	groups_leave(s);
	press_left(s);
	LIST_REMOVE(s, siblings);
	LIST_REMOVE(s, sharers);
	s->quota->n_sessions--;
	quota_drop(s->engine, s->quota);
	s->engine = NULL;
}

struct session *session_discard(struct session *s)
{
	if (s) {
		MUST(!s->engine);
		session_release_memory(s);
	}
	return NULL;
}

struct session *session_free(struct session *s)
{
	if (s)
		session_leave(s);
	return session_discard(s);
}

bool session_enlisted(const struct session *s)
{
	return s->engine != NULL;
}

bool session_at_work(const struct session *s)
{
	for (uint32_t i = 0; i < s->n_groups; i++)
		if (session_managed_pages(s, i) > 0)
			return true;
	return s->n_transitions > 0;
}

void session_end(struct session *s)
{
	if (s->ended)
		return;
	s->ended = true;
	wait_forget(s);
	while (s->first_request >= 0) {
		struct request *r = &s->requests[s->first_request];
		uint32_t line = r->stream;
		struct page_chains chains;

		page_chains_init(&chains, s->n_groups);
		request_dissolve(s, r, UINT64_MAX, &chains);
		pages_quarantine(s, line, &chains);
	}
	managed_dissolve(s);
	for (uint32_t i = 0; i < s->model.n_streams; i++)
		line_quarantine(s, i);
	s->change++;
}

int64_t session_reclaim(struct session *s)
{
	int64_t n = 0;

	MUST(s->ended);
	for (uint32_t i = 0; i < s->model.n_streams; i++)
		n += quarantine_release(s, i);
	return n;
}

/* ---- what is seen of it -------------------------------------------------------- */

int64_t session_free_pages(const struct session *s, uint32_t group)
{
	return group < s->n_groups ? engine_available(s->engine, s->groups[group].class_index) : 0;
}

uint32_t session_class(const struct session *s, uint32_t group)
{
	return s->groups[group].class_index;
}

int64_t session_held_pages(const struct session *s, uint32_t group)
{
	return s->groups[group].n_held;
}

int64_t session_quarantined_pages(const struct session *s, uint32_t group)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < s->model.n_streams; i++)
		n += s->lines[i].quarantine.of[group].n;
	return n;
}

int64_t session_unbound_pages(const struct session *s, uint32_t group)
{
	return s->groups[group].n_unbound;
}

void session_count(const struct session *s, struct session_counts *out)
{
	*out = (struct session_counts){ .quarantined = session_quarantined(s),
					.requests = s->n_requests,
					.sequences = s->n_sequences,
					.open_points = s->n_points,
					.behind_points = s->n_behind,
					.poisoned = s->poisoned,
					.ended = s->ended };
	FOR_EACH_GROUP (g, s) {
		out->leased += g->n_held;
		out->unbound += g->n_unbound;
		out->bytes += (uint64_t)g->n_held * page_class_whole(g->class);
	}
	out->leased -= out->quarantined;
}
