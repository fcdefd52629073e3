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

void delivery_scrub(struct delivery *d, int32_t slot, int32_t first, int32_t end)
{
	d->scrubs[d->n_scrubs++] =
		(struct wire_scrub){ .row = (uint32_t)slot, .first = (uint32_t)first, .n = (uint32_t)(end - first) };
}

void row_list_note(struct session *s, struct row_list *list, int32_t slot)
{
	struct slot *t = &s->slots[slot];

	if (t->listed || !page_table_is_dirty(&s->table, slot))
		return;
	t->listed = true;
	t->list_prev = list->last;
	t->list_next = -1;
	if (list->last < 0)
		list->first = slot;
	else
		s->slots[list->last].list_next = slot;
	list->last = slot;
}

void row_list_remove(struct session *s, struct row_list *list, int32_t slot)
{
	struct slot *t = &s->slots[slot];

	if (!t->listed)
		return;
	t->listed = false;
	if (t->list_prev < 0)
		list->first = t->list_next;
	else
		s->slots[t->list_prev].list_next = t->list_next;
	if (t->list_next < 0)
		list->last = t->list_prev;
	else
		s->slots[t->list_next].list_prev = t->list_prev;
}

static void collect_list(struct session *s, struct row_list *list, struct delivery *d)
{
	for (int32_t slot = list->first; slot >= 0; slot = s->slots[slot].list_next) {
		s->slots[slot].listed = false;
		page_table_collect(&s->table, slot, d);
	}
	*list = ROW_LIST_EMPTY;
}

void delivery_collect(struct session *s, struct request *r, struct delivery *d)
{
	collect_list(s, &r->dirty, d);
	collect_list(s, &s->lines[r->stream].stray, d);
}
