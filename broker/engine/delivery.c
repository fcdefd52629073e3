/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delivery.c - which table changes travel with which answer
 *
 * A delivery carries the rows of its own requests, and on their streams the
 * rows that lost their owner (finished or dropped) since the last one: in
 * stream order behind the work that still read them.
 */
#include "internal.h"

void delivery_reset(struct delivery *d)
{
	d->flags = 0;
	d->n_updates = 0;
	d->n_rows = 0;
	d->n_scrubs = 0;
}

void delivery_scrub(struct delivery *d, int32_t row, int32_t first, int32_t end)
{
	d->scrubs[d->n_scrubs++] =
		(struct wire_scrub){ .row = (uint32_t)row, .first = (uint32_t)first, .n = (uint32_t)(end - first) };
}

void row_list_note(struct session *s, const struct group *g, struct row_list *list, int32_t slot)
{
	int32_t number = group_row(g, slot);
	struct row *row = &s->rows[number];

	if (row->listed || !page_table_is_dirty(&g->table, slot))
		return;
	row->listed = true;
	row->prev = list->last;
	row->next = -1;
	if (list->last < 0)
		list->first = number;
	else
		s->rows[list->last].next = number;
	list->last = number;
}

void row_list_remove(struct session *s, const struct group *g, struct row_list *list, int32_t slot)
{
	struct row *row = &s->rows[group_row(g, slot)];

	if (!row->listed)
		return;
	row->listed = false;
	if (row->prev < 0)
		list->first = row->next;
	else
		s->rows[row->prev].next = row->next;
	if (row->next < 0)
		list->last = row->prev;
	else
		s->rows[row->next].prev = row->prev;
}

static void collect_list(struct session *s, struct row_list *list, struct delivery *d)
{
	int32_t max_batch = s->model.max_batch, first = 0;
	struct group *g = s->groups;

	for (int32_t number = list->first; number >= 0; number = s->rows[number].next) {
		if (number < first || number >= first + max_batch) {
			g = &s->groups[number / max_batch];
			first = number / max_batch * max_batch;
		}
		s->rows[number].listed = false;
		page_table_collect(&g->table, number - first, d);
	}
	*list = ROW_LIST_EMPTY;
}

void delivery_collect(struct session *s, struct request *r, struct delivery *d)
{
	collect_list(s, &r->dirty, d);
	collect_list(s, &s->lines[r->stream].stray, d);
}
