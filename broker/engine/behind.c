/* SPDX-License-Identifier: Apache-2.0 */
/*
 * behind.c - pages that come free when a session's own open points are reached
 *
 * A begin that lacks no more than these only waits for itself: it is `pending`,
 * and nobody else has to end first. Counted class by class, beside the floors of
 * others; claims, which end soon, are left out. Where several classes want the
 * same extents, the begin is told when it comes again.
 */
#include "behind.h"

#include <string.h>

#include "floor_ceiling.h"
#include "internal.h"
#include "slice.h"

/* Pages of each group that go back to its class then. */
static void count_behind(struct session *s, int64_t *pages)
{
	int32_t left = slice_part(s, INT32_MAX);

	FOR_EACH_GROUP (g, s)
		pages[g->index] = g->n_leaving;
	for (int32_t i = s->first_request; i >= 0; i = s->requests[i].next) {
		for (uint32_t k = 0; k < s->requests[i].n_seqs; k++) {
			FOR_EACH_GROUP (g, s) {
				const struct span *p = seq_span(g, request_seq(s, &s->requests[i], k));

				pages[g->index] += p->n_extra < p->n_staged ? p->n_extra : p->n_staged;
			}
			slice_step(s, &left, (int32_t)s->n_groups);
		}
	}
	slice_rest(s, left);
}

/* Of all groups of the class of @one. */
static int64_t of_class(const struct session *s, const struct group *one, const int64_t *pages)
{
	int64_t n = 0;

	FOR_EACH_GROUP (g, s)
		n += g->class == one->class ? pages[g->index] : 0;
	return n;
}

bool behind_suffices(struct session *s, const int64_t *needs)
{
	const struct quota *q = s->quota;
	uint64_t used = quota_used(q), bytes = needs_bytes(s, needs);
	int64_t behind[WIRE_MAX_GROUPS];
	struct engine *e = s->engine;
	struct pool_keep keep;
	bool enough = true;

	count_behind(s, behind);
	if (needs_bytes(s, behind) == 0)
		return false;
	used -= needs_bytes(s, behind);
	if (q->ceiling && used + bytes > q->ceiling)
		return false;
	keep_for_others(&keep, e, q, false);
	claims_lift(e);
	FOR_EACH_GROUP (g, s)
		enough &= of_class(s, g, needs) == 0 ||
			  of_class(s, g, needs) + keep.floors[g->class_index] <=
				  pool_available(&e->pool, g->class) + of_class(s, g, behind);
	claims_restore(e);
	return enough;
}
