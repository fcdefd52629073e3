/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - see fence.h */
#include "fence.h"

#include "points.h"
#include "sequence.h"

int fence_resolve_line(const struct session *s, uint32_t line, const struct wire_fence *fence, uint64_t armed,
		       struct resolved_fence *out, struct fault *f)
{
	*out = (struct resolved_fence){ 0 };
	switch (fence->kind) {
	case WIRE_FENCE_FAILED:
		out->failed = true;
		return 0;
	case WIRE_FENCE_DONE:
		out->reached = true;
		return 0;
	case WIRE_FENCE_LINE:
		if (fence->line != line)
			return fault_set(f, FAULT_FENCE_LINE, -1, fence->line, line);
		if (fence->value > armed)
			return fault_set(f, FAULT_FENCE_NOT_ARMED, -1, (int64_t)fence->value, (int64_t)armed);
		out->value = fence->value;
		break;
	default:
		return fault_set(f, FAULT_FENCE_KIND, -1, fence->kind, 0);
	}
	out->reached = out->value <= s->lines[line].reached;
	return 0;
}

int fence_resolve(const struct session *s, const struct request *r, const struct wire_fence *fence, uint64_t armed,
		  struct resolved_fence *out, struct fault *f)
{
	return fence_resolve_line(s, r->stream, fence, armed, out, f);
}

int fence_resolve_end(const struct session *s, const struct request *r, const struct wire_fence *fence, uint64_t armed,
		      struct resolved_fence *out, struct fault *f)
{
	if (fence->kind != WIRE_FENCE_POINT)
		return fence_resolve(s, r, fence, armed, out, f);
	*out = (struct resolved_fence){ 0 };
	/* Work of a pending transition was never given a value: everything armed so far must have ended. */
	out->value = r->transition == TRANSITION_NONE ? r->last_value : armed;
	out->reached = out->value <= s->lines[r->stream].reached;
	return 0;
}

void fence_note(struct session *s, struct request *r, const struct resolved_fence *p, const struct leaving *l)
{
	bool staged = l && page_chains_count(&l->staged, s->n_groups) > 0;

	if (!p->reached && !(staged && p->value >= r->last_value)) /* else it comes with the pages */
		point_wait(s, r, p->value); /* before last_value, which says that it is a new one */
	if (p->value > r->last_value)
		r->last_value = p->value;
	if (staged) /* takes no more room: the request has, or would have, a point of that value */
		point_open(s, r->stream, r->last_value, r, &l->staged);
}
