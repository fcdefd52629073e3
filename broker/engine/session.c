/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - one worker's share of the pool, from attach to reclaim
 *
 * A session that ends leaves its pages in quarantine: only the outside can
 * prove that its device work is over, and says so with session_reclaim().
 */
#include <stdlib.h>
#include <string.h>

#include "bug.h"
#include "internal.h"

struct engine *engine_new(const struct engine_config *config)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e || pool_init(&e->pool, config->half_bytes, config->extent_bytes) < 0)
		return engine_free(e);
	e->pool.scrub = config->scrub;
	e->pool.fresh_is_dirty = config->fresh_is_dirty;
	LIST_INIT(&e->sessions);
	return e;
}

void engine_stamp(struct engine *e, uint64_t stamp)
{
	e->stamp = stamp;
}

struct engine *engine_free(struct engine *e)
{
	if (!e)
		return NULL;
	MUST(LIST_EMPTY(&e->sessions));
	pool_deinit(&e->pool);
	free(e);
	return NULL;
}

static void session_release_memory(struct session *s)
{
	page_table_deinit(&s->table);
	free(s->seqs);
	free(s->reserved);
	free(s->scratch);
	free(s->slot_scratch);
	free(s->free_seqs);
	free(s->slots);
	free(s->requests);
	free(s->order);
	free(s->agenda);
	free(s->points);
	free(s);
}

static bool session_allocate(struct session *s)
{
	size_t n = (size_t)s->model.max_batch, pages = n * (size_t)s->private_pages;

	s->seqs = calloc(n, sizeof(*s->seqs));
	s->reserved = calloc(pages, sizeof(*s->reserved));
	s->scratch = calloc(pages, sizeof(*s->scratch));
	s->slot_scratch = calloc(n, sizeof(*s->slot_scratch));
	s->free_seqs = calloc(n, sizeof(*s->free_seqs));
	s->slots = calloc(n, sizeof(*s->slots));
	s->requests = calloc(n, sizeof(*s->requests));
	s->order = calloc(2 * n, sizeof(*s->order));
	s->agenda = calloc(2 * n, sizeof(*s->agenda));
	s->max_points = ENGINE_MAX_POINTS(n);
	s->points = calloc(s->max_points, sizeof(*s->points));
	return s->seqs && s->reserved && s->scratch && s->slot_scratch && s->free_seqs && s->slots && s->requests &&
	       s->order && s->agenda && s->points;
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
	for (uint32_t i = 0; i < WIRE_MAX_STREAMS; i++)
		s->lines[i] = (struct line){ 0, -1, -1, ROW_LIST_EMPTY, PAGE_CHAIN_EMPTY };
}

struct session *session_new(struct engine *e, const struct model *m, const struct session_tables tables[], uint32_t tag)
{
	struct geometry g[WIRE_MAX_GROUPS];
	struct session *s;
	int index;

	if (tag > UINT16_MAX || model_check(m, e->pool.half_bytes, g, NULL) != 0)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->engine = e;
	s->model = *m;
	s->tag = tag;
	s->serial = ++e->last_serial;
	s->window = window_make(m->groups[0].window, m->groups[0].page_tokens);
	s->private_pages = g[0].private_pages;
	s->class = pool_class(&e->pool, g[0].page_bytes, &index);
	if (!s->class || !session_allocate(s) ||
	    page_table_init(&s->table, tables[0].cells, tables[0].rows, m->max_batch, g[0].width, g[0].num_pages) < 0) {
		session_release_memory(s);
		return NULL;
	}
	s->class_index = (uint32_t)index;
	s->class->n_sessions++;
	session_fill(s);
	LIST_INSERT_HEAD(&e->sessions, s, siblings);
	return s;
}

struct session *session_free(struct session *s)
{
	if (!s)
		return NULL;
	MUST(s->ended && s->n_requests == 0 && s->n_points == 0 && session_quarantined(s) == 0);
	s->class->n_sessions--;
	LIST_REMOVE(s, siblings);
	session_release_memory(s);
	return NULL;
}

/* Pages of ended requests that still wait behind a point join the quarantine. */
static void quarantine_points(struct session *s, uint32_t line)
{
	struct line *l = &s->lines[line];

	while (l->first_point >= 0) {
		struct point *p = &s->points[l->first_point];

		MUST(p->request < 0);
		pages_quarantine(s, line, &p->pages);
		l->first_point = p->next;
		p->next = s->free_point;
		s->free_point = (int32_t)(p - s->points);
		s->n_points--;
	}
	l->last_point = -1;
}

void session_end(struct session *s)
{
	if (s->ended)
		return;
	s->ended = true;
	while (s->first_request >= 0) {
		struct request *r = &s->requests[s->first_request];
		struct page_chain chain = PAGE_CHAIN_EMPTY;
		uint32_t line = r->stream;

		request_dissolve(s, r, UINT64_MAX, &chain);
		pages_quarantine(s, line, &chain);
	}
	for (uint32_t i = 0; i < s->model.n_streams; i++)
		quarantine_points(s, i);
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

/* Quarantined work of @line, if any, has ended by what @fence says. 0, or the code of what it says instead. */
static int check_quarantine(const struct session *s, uint32_t line, const struct wire_fence *fence, uint64_t armed,
			    struct fault *f)
{
	bool doubtful = s->lines[line].quarantine.n > 0;

	if (fence->kind == WIRE_FENCE_FAILED)
		return doubtful ? fault_set(f, FAULT_STILL_POISONED, -1, session_quarantined(s), 0) : 0;
	if (fence->kind == WIRE_FENCE_DONE)
		return 0;
	if (fence->kind != WIRE_FENCE_LINE)
		return fault_set(f, FAULT_FENCE_KIND, -1, fence->kind, 0);
	if (fence->line != line)
		return fault_set(f, FAULT_FENCE_LINE, -1, fence->line, line);
	if (fence->value > armed)
		return fault_set(f, FAULT_FENCE_NOT_ARMED, -1, (int64_t)fence->value, (int64_t)armed);
	if (doubtful && fence->value > s->lines[line].reached)
		return fault_set(f, FAULT_SHUTDOWN_PENDING, -1, line, (int64_t)fence->value);
	return 0;
}

int session_shutdown(struct session *s, const struct wire_fence *fences, uint32_t n, const uint64_t *armed,
		     struct fault *f)
{
	int worst = 0;

	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (n != s->model.n_streams)
		return fault_set(f, FAULT_FENCE_COUNT, -1, n, s->model.n_streams);
	/* All or nothing; of several reasons the first in the order of errors is given: the codes fall in that order.
	 */
	for (uint32_t i = 0; i < n; i++) {
		struct fault one;
		int r = check_quarantine(s, i, &fences[i], armed[i], &one);

		if (r && (!worst || r > worst)) {
			worst = r;
			if (f)
				*f = one;
		}
	}
	if (worst)
		return worst;
	if (!s->poisoned)
		return s->n_requests ? fault_set(f, FAULT_ACTIVE_REQUESTS, -1, s->n_requests, 0) : 0;
	for (uint32_t i = 0; i < n; i++)
		quarantine_release(s, i);
	s->poisoned = false;
	s->change++;
	return 0;
}
