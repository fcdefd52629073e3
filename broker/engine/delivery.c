/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery.c - which table changes travel with which answer
 *
 * A delivery carries the rows of its own requests, and on their streams the
 * rows that lost their owner (finished or dropped) since the last one: in
 * stream order behind the work that still read them.
 */
#include "delivery.h"

#include "internal.h"
#include "slice.h"

void delivery_reset(struct delivery *d)
{
	d->flags = 0;
	d->n_updates = 0;
	d->n_rows = 0;
	d->n_scrubs = 0;
	d->n_moves = 0;
}

void delivery_scrub(struct delivery *d, int32_t row, int32_t first, int32_t end)
{
	d->scrubs[d->n_scrubs++] =
		(struct wire_scrub){ .row = (uint32_t)row, .first = (uint32_t)first, .n = (uint32_t)(end - first) };
}

/* As page_table_collect(), of a row with so much to look at that others are looked at meanwhile. */
static void collect_long(struct session *s, struct page_table *t, int32_t row, struct delivery *d)
{
	struct dirty_row *dirty = &t->dirty[row];
	bool changed = false;

	for (uint32_t i = 0; i < dirty->n; i++) {
		for (int32_t lo = dirty->range[i].lo, n; lo < dirty->range[i].hi; lo += n) {
			n = slice_part(s, dirty->range[i].hi - lo);
			changed |= page_table_collect_columns(t, row, lo, lo + n, d);
			slice_spend(s, n);
		}
	}
	page_table_collected(t, row, changed, d);
}

static void collect_list(struct session *s, struct row_list *list, struct delivery *d)
{
	int32_t max_batch = s->model.max_batch, first = 0, part = slice_part(s, INT32_MAX), n = 0;
	const struct dirty_row *dirty;
	struct group *g = s->groups;

	if (list->first < 0)
		return;
	for (int32_t number = list->first; number >= 0; number = s->rows[number].next) {
		if (number < first || number >= first + max_batch) {
			g = &s->groups[number / max_batch];
			first = number / max_batch * max_batch;
		}
		s->rows[number].listed = false;
		/* It is dirty, or it would not be listed. */
		dirty = &g->table.dirty[number - first];
		if (__builtin_expect(dirty->range[(dirty->n - 1) % PAGE_TABLE_RANGES].hi - dirty->range[0].lo > part,
				     0))
			collect_long(s, &g->table, number - first, d);
		else
			n += page_table_collect(&g->table, number - first, d) + 1;
		if (n >= part) {
			slice_spend(s, n);
			n = 0;
		}
	}
	slice_spend(s, n);
	*list = ROW_LIST_EMPTY;
}

void delivery_collect(struct session *s, struct request *r, struct delivery *d)
{
	collect_list(s, &r->dirty, d);
	collect_list(s, &s->lines[r->stream].stray, d);
}
