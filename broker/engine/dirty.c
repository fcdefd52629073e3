/* SPDX-License-Identifier: Apache-2.0 */
/* dirty.c - see dirty.h */
#include "dirty.h"
#include "delivery.h"
#include "group.h"
#include "page_table.h"
#include "sequence.h"
#include "session.h"
#include "slice.h"

/*
 * Dirty for everybody: under the policy `always` what is given out again; and what was in quarantine, whose last work
 * has failed, the copy that was to fill a page that moved along with it.
 */
void dirty_forget_users(struct page_class *c, const int32_t *pages, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		if (c->user[pages[i]] != PAGE_FRESH)
			c->user[pages[i]] = PAGE_USED;
}

int32_t page_class_bind_strip(struct page_class *c, struct strip s, uint32_t serial, bool anew, int32_t *ids)
{
	uint32_t *user = c->user + s.first, former = user[0];
	int32_t n_dirty = 0;

	if (strip_count(user, s.n, former, 0) < s.n) { /* they had several users */
		for (int32_t i = 0; i < s.n; i++)
			if (page_is_dirty(c, c->user[ids[i]], serial, anew)) {
				ids[i] = ~ids[i];
				n_dirty++;
			}
	} else if (page_is_dirty(c, former, serial, anew)) {
		strip_invert((uint32_t *)ids, s.n);
		n_dirty = s.n;
	}
	strip_write(user, s.n, serial, 0);
	return n_dirty;
}

/*
 * Columns [first, end) have been bound: the delivery says which must be scrubbed,
 * from the first dirty one on. A page that an earlier step may still read is none
 * of them: it came back on top of the reservation, so it is bound before all
 * those that were never bound since they were leased, and is not dirty itself.
 */
void dirty_tell(struct session *s, struct group *g, const struct seq *q, int32_t first, int32_t end, struct delivery *d)
{
	int32_t dirty = end;

	for (int32_t c = first, part; c < end;) {
		part = c + slice_part(s, end - c);
		slice_spend(s, part - c);
		for (; c < part; c++)
			if (page_class_bind(g->class, page_table_get(&g->table, q->slot, c), g->serial) && c < dirty)
				dirty = c;
	}
	if (dirty == end)
		return;
	delivery_scrub(d, group_row(g, q->slot), dirty, end);
	g->n_scrubbed += (uint64_t)(end - dirty);
}
