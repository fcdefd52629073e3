/* SPDX-License-Identifier: Apache-2.0 */
/* ring_publish.c - see ring_publish.h */
#include "ring_publish.h"

#include "clock.h"
#include "engine/bug.h"
#include "status/status.h"
#include "status_sums.h"

#define SNAPSHOT_EVERY (10 * NS_PER_MS)
#define SNAPSHOT_SHARE 100 /* of its cost: not more than 1 % of the time */

void ring_publish(struct ring_thread *t)
{
	uint64_t before = t->edge.computed(t->edge.arg), share;
	struct status_snapshot *s = status_writer_begin(t->status);
	char why[160];

	t->snapshot_due = false; /* now: what others do in the middle of it may be missing */
	status_fill(s, t);
	if (!status_sums_hold(s, why, sizeof(why)))
		engine_bug(__FILE__, __LINE__, why); /* and no page of it is given out again */
	status_writer_commit(t->status);
	share = (t->edge.computed(t->edge.arg) - before) * SNAPSHOT_SHARE;
	t->next_snapshot = t->now + (share > SNAPSHOT_EVERY ? share : SNAPSHOT_EVERY);
}
