/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.c - a request that may become longer: pages join its reservation */
#include "reserve.h"

#include <string.h>

#include "admission.h"
#include "agenda.h"
#include "begin.h"
#include "behind.h"
#include "moves.h"
#include "quota.h"
#include "sequence.h"
#include "slice.h"
#include "transition.h"

/* The @n ids from @ids on move up by @by places. */
static void make_room(struct session *s, int32_t *ids, int32_t n, int32_t by)
{
	while (by > 0 && n > 0) {
		int32_t part = slice_part(s, n);

		n -= part; /* the last ones first: they may overlap */
		memmove(ids + n + by, ids + n, (size_t)part * sizeof(*ids));
		slice_spend(s, part);
	}
}

/* Pages of @more (one a group) join the reservation of @q. */
static void reserve_more(struct session *s, struct request *r, struct seq *q, const int32_t *more)
{
	FOR_EACH_GROUP (g, s) {
		struct span *p = seq_span(g, q);
		int32_t n = more[g->index];

		/* Below those that it has: the next one bound stays the same. */
		make_room(s, seq_reserved(g, q), p->n_reserved, n);
		group_take(s, g, seq_reserved(g, q), n);
		if (g->movable)
			moves_note(s, g, q, seq_reserved(g, q), n);
		p->n_reserved += n;
		g->n_unbound += n;
	}
	if (r->phase == PHASE_EXECUTING)
		seq_settle(s, r, q, seq_endpoint(r, q));
	slice_spend(s, (int32_t)s->n_groups);
}

int request_reserve(struct session *s, uint64_t handle, int64_t max_tokens, struct fault *f)
{
	int32_t more[WIRE_MAX_GROUPS];
	int64_t needs[WIRE_MAX_GROUPS], held[WIRE_MAX_GROUPS];
	struct request *r;
	int code;

	if ((code = request_check_prepare(s, handle, &r, f)))
		return code;
	if (r->phase == PHASE_FINISHING)
		return fault_set(f, FAULT_FINISHING, -1, r->phase, 0);
	if (r->transition != TRANSITION_NONE)
		return fault_set(f, FAULT_TRANSITION_PENDING, -1, r->transition, 0);
	if (max_tokens < 1 || max_tokens > s->model.max_seq)
		return fault_set(f, FAULT_MAX_TOKENS, -1, max_tokens, s->model.max_seq);
	if (max_tokens < r->capacity)
		return fault_set(f, FAULT_RESERVE_TOKENS, -1, max_tokens, r->capacity);
	FOR_EACH_GROUP (g, s) {
		uint32_t i = g->index;

		more[i] = group_reservation(s, g, max_tokens, r->unordered) - r->reservation[i];
		needs[i] = (int64_t)more[i] * r->n_seqs;
		held[i] = (int64_t)r->reservation[i] * r->n_seqs;
	}
	code = session_provide(s, needs, held, CLAIMS_NONE, f);
	if (code == SWAKV_ENOPAGES)
		press_refused(s, needs);
	if (code == SWAKV_ENOPAGES && behind_suffices(s, needs))
		return fault_set(f, FAULT_BEGIN_PENDING, -1, begin_pages(s, needs), 0);
	if (code)
		return code;
	group_promise(s, needs);
	if (begin_pages(s, needs) > 0)
		press_given(s);
	r->capacity = max_tokens;
	FOR_EACH_GROUP (g, s)
		r->reservation[g->index] += more[g->index];
	for (uint32_t i = 0; i < r->n_seqs; i++)
		reserve_more(s, r, request_seq(s, r, i), more);
	if (r->phase == PHASE_EXECUTING)
		agenda_build(s, r);
	s->change++;
	return 0;
}
