/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quarantine.c - pages that work may still touch, and that nobody can say when
 *
 * Work that failed, and a session that ended, leave their pages in the quarantine
 * of their stream. They return when the outside proves that this work is over:
 * by session_shutdown(), with a fence for each stream, or by session_reclaim().
 */
#include "quarantine.h"

#include "bug.h"
#include "fence.h"
#include "slice.h"

void pages_quarantine(struct session *s, uint32_t line, const struct page_chains *chains)
{
	struct line *l = &s->lines[line];

	FOR_EACH_GROUP (g, s) {
		const struct page_chain *chain = &chains->of[g->index];
		int32_t left = slice_part(s, INT32_MAX);

		for (int32_t page = chain->first; page >= 0; page = g->class->link[page]) {
			page_class_quarantine(g->class, page);
			slice_step(s, &left, SLICE_PUT);
		}
		slice_rest(s, left);
		page_chain_append(g->class, &l->quarantine.of[g->index], chain);
	}
}

void line_quarantine(struct session *s, uint32_t line)
{
	struct line *l = &s->lines[line];

	while (l->first_point >= 0) {
		struct point *p = &s->points[l->first_point];
		struct page_chains chains;

		MUST(p->request < 0);
		for (uint32_t g = 0; g < s->n_groups; g++) {
			chains.of[g] = *point_chain(s, p, g);
			s->groups[g].n_leaving -= chains.of[g].n;
			s->n_behind -= chains.of[g].n;
		}
		pages_quarantine(s, line, &chains);
		point_close(s, p);
		slice_spend(s, (int32_t)s->n_groups);
	}
}

int64_t quarantine_release(struct session *s, uint32_t line)
{
	struct page_chains *q = &s->lines[line].quarantine;
	int64_t n = page_chains_count(q, s->n_groups);

	FOR_EACH_GROUP (g, s) {
		page_chain_return(s, g, &q->of[g->index]);
		q->of[g->index] = PAGE_CHAIN_EMPTY;
	}
	return n;
}

int64_t session_quarantined(const struct session *s)
{
	int64_t n = 0;

	for (uint32_t i = 0; i < s->model.n_streams; i++)
		n += page_chains_count(&s->lines[i].quarantine, s->n_groups);
	return n;
}

/* Quarantined work of @line, if any, has ended by what @fence says. 0, or the code of what it says instead. */
static int check_quarantine(const struct session *s, uint32_t line, const struct wire_fence *fence, uint64_t armed,
			    struct fault *f)
{
	bool doubtful = s->lines[line].doubtful || page_chains_count(&s->lines[line].quarantine, s->n_groups) > 0;
	struct resolved_fence p;
	int code = fence_resolve_line(s, line, fence, armed, &p, f);

	if (code || !doubtful || p.reached)
		return code;
	if (p.failed)
		return fault_set(f, FAULT_STILL_POISONED, -1, session_quarantined(s), 0);
	return fault_set(f, FAULT_SHUTDOWN_PENDING, -1, line, (int64_t)p.value);
}

int session_shutdown(struct session *s, const struct wire_fence *fences, uint32_t n, const uint64_t *armed,
		     struct fault *f)
{
	int worst = 0;

	if (s->ended)
		return fault_set(f, FAULT_SESSION_ENDED, -1, 0, 0);
	if (n != s->model.n_streams)
		return fault_set(f, FAULT_FENCE_COUNT, -1, n, s->model.n_streams);
	/*
	 * All or nothing; of several reasons the first in the order of errors is
	 * given: the codes fall in that order.
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
	for (uint32_t i = 0; i < n; i++) {
		quarantine_release(s, i);
		s->lines[i].doubtful = false;
	}
	s->poisoned = false;
	s->change++;
	return 0;
}
