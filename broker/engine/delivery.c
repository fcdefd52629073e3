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
}

void stray_add(struct session *s, int32_t slot, uint32_t line)
{
	struct slot *t = &s->slots[slot];
	int32_t *first = &s->lines[line].first_stray;

	if (!page_table_is_dirty(&s->table, slot))
		return;
	t->stray = true;
	t->stray_prev = -1;
	t->stray_next = *first;
	if (*first >= 0)
		s->slots[*first].stray_prev = slot;
	*first = slot;
}

void stray_remove(struct session *s, int32_t slot)
{
	struct slot *t = &s->slots[slot];

	if (!t->stray)
		return;
	t->stray = false;
	if (t->stray_prev < 0)
		s->lines[t->line].first_stray = t->stray_next;
	else
		s->slots[t->stray_prev].stray_next = t->stray_next;
	if (t->stray_next >= 0)
		s->slots[t->stray_next].stray_prev = t->stray_prev;
}

void delivery_collect(struct session *s, struct request *r, struct delivery *d)
{
	struct line *l = &s->lines[r->stream];

	if (r->dirty) {
		r->dirty = false;
		for (uint32_t i = 0; i < r->n_seqs; i++)
			page_table_collect(&s->table, request_seq(s, r, i)->slot, d);
	}
	while (l->first_stray >= 0) {
		int32_t slot = l->first_stray;

		stray_remove(s, slot);
		page_table_collect(&s->table, slot, d);
	}
}
