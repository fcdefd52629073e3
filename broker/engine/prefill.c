/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefill.c - the first chunk of a request: its final window is bound
 */
#include "prefill.h"

#include "agenda.h"
#include "delivery.h"
#include "fence.h"
#include "slice.h"
#include "transition.h"

static int check_prefill(struct session *s, const struct request *r, const int32_t *lengths, uint32_t n,
			 struct fault *f)
{
	if (r->phase != PHASE_ADMITTED)
		return fault_set(f, r->phase == PHASE_FINISHING ? FAULT_FINISHING : FAULT_NOT_ADMITTED, -1, r->phase,
				 0);
	if (n != r->n_seqs)
		return fault_set(f, FAULT_LENGTH_COUNT, -1, n, r->n_seqs);
	for (uint32_t i = 0; i < n; i++)
		if (lengths[i] < 1 || lengths[i] > r->capacity)
			return fault_set(f, FAULT_LENGTH_RANGE, (int32_t)i, lengths[i], r->capacity);
	if (points_spare(s) < POINTS_PER_TRANSITION)
		return fault_set(f, FAULT_POINTS_FULL, -1, s->n_points, 0);
	return 0;
}

int request_prefill_prepare(struct session *s, uint64_t handle, const int32_t *lengths, uint32_t n, struct delivery *d,
			    struct fault *f)
{
	struct request *r;
	int code;

	delivery_reset(d);
	if ((code = request_check_prepare(s, handle, &r, f)) || (code = check_prefill(s, r, lengths, n, f)))
		return code;
	for (uint32_t i = 0; i < n; i++) {
		struct seq *q = request_seq(s, r, i);

		q->length = lengths[i];
		FOR_EACH_GROUP (g, s)
			seq_bind(s, g, r, q, window_begin(&g->window, lengths[i]), window_end(&g->window, lengths[i]),
				 d);
	}
	r->phase = PHASE_EXECUTING;
	transition_begin(s, r, TRANSITION_PREFILL);
	delivery_collect(s, r, d);
	return 0;
}

int request_prefill_complete(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed,
			     struct fault *f)
{
	int32_t left = slice_part(s, INT32_MAX);
	struct resolved_fence p;
	struct request *r;
	int code;

	if ((code = request_find(s, handle, &r, f)) || (code = transition_check(r, TRANSITION_PREFILL, f)) ||
	    (code = fence_resolve(s, r, fence, armed, &p, f)))
		return code;
	if (p.failed)
		return request_poison(s, r, f);
	transition_end(s, r);
	for (uint32_t i = 0; i < r->n_seqs; i++) {
		struct seq *q = request_seq(s, r, i);

		seq_settle(s, r, q, q->length);
		s->n_prefilled += (uint64_t)q->length;
		slice_step(s, &left, (int32_t)s->n_groups);
	}
	slice_rest(s, left);
	agenda_build(s, r);
	fence_note(s, r, &p, NULL);
	return 0;
}
