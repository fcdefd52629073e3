/* SPDX-License-Identifier: Apache-2.0 */
/* turn.c - ends and beginnings of steps in one command, in the reference model (spec section 12) */
#include "parts.h"

#include <swakv/error.h>

static bool asks(const struct ref_turn_entry *e, uint32_t what)
{
	return e->what & what;
}

/* What one entry may ask for. */
static bool sensible(uint32_t what)
{
	switch (what) {
	case REF_COMPLETE:
	case REF_PREPARE:
	case REF_FINISH:
	case REF_BEGIN:
	case REF_COMPLETE | REF_PREPARE:
	case REF_COMPLETE | REF_FINISH:
		return true;
	default:
		return false;
	}
}

int ref_turn_check(struct ref_session *s, const struct ref_turn *t)
{
	if (s->ended)
		return SWAKV_EGONE;
	if (t->n < 1 || t->n > (uint32_t)s->max_batch)
		return SWAKV_EINVALID;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct ref_turn_entry *e = &t->entries[i];

		if (!sensible(e->what))
			return SWAKV_EINVALID;
		for (uint32_t j = 0; j < i; j++)
			if (e->what != REF_BEGIN && t->entries[j].what != REF_BEGIN &&
			    t->entries[j].step.request == e->step.request && ref_find(s, e->step.request))
				return SWAKV_EINVALID;
	}
	return t->well_formed ? SWAKV_OK : SWAKV_EINVALID;
}

/* Points that a complete gives back: those that the step was promised, but for one that it opens, and one for what has
 * moved. */
static int complete(struct ref_session *s, const struct ref_turn_entry *e, const uint64_t *armed)
{
	struct ref_request *r = ref_find(s, e->step.request);
	int32_t before = r ? r->n_points : 0, tails = s->n_tails;
	int code = ref_complete_one(s, &e->step, e->accepted, armed);

	if (code == SWAKV_OK)
		s->spare += REF_PROMISE - (r->n_points - before) - (s->n_tails > tails);
	return code;
}

/* And a finish: its request's, but for the one behind which its pages wait. */
static int finish(struct ref_session *s, const struct ref_turn_entry *e, const uint64_t *armed)
{
	const struct wire_fence point = { .kind = WIRE_FENCE_POINT };
	struct ref_request *r = ref_find(s, e->step.request);
	int32_t points = r ? r->n_points : 0, tails = s->n_tails;
	int code = ref_finish(s, e->step.request, &point, r ? armed[r->stream] : 0);

	if (code == SWAKV_OK && r)
		s->spare += points + 1 - (s->n_tails > tails);
	return code;
}

void ref_turn_ends(struct ref_session *s, const struct ref_turn *t, const uint64_t *armed, int *completed, int *result)
{
	for (uint32_t i = 0; i < t->n; i++)
		completed[i] = asks(&t->entries[i], REF_COMPLETE) ? complete(s, &t->entries[i], armed) : SWAKV_OK;
	for (uint32_t i = 0; i < t->n; i++)
		if (asks(&t->entries[i], REF_FINISH))
			result[i] = completed[i] ? SWAKV_EPHASE : finish(s, &t->entries[i], armed);
}

void ref_turn_prepares(struct ref_session *s, const struct ref_turn *t, const int *completed, int *result,
		       struct ref_delivery *d)
{
	struct ref_request *moved[REF_REQUESTS];
	uint32_t n_moved = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct ref_turn_entry *e = &t->entries[i];
		struct ref_request *r;

		if (!asks(e, REF_PREPARE))
			continue;
		if (s->poisoned)
			result[i] = SWAKV_EPOISONED;
		else if (completed[i])
			result[i] = SWAKV_EPHASE;
		else if ((result[i] = ref_prepare_one(s, &e->step, e->tokens, result[i], &r)) == SWAKV_OK)
			moved[n_moved++] = r;
	}
	ref_move(s, moved, n_moved, t->moves);
	ref_deliver(s, moved, n_moved, d);
}
