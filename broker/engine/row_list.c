/* SPDX-License-Identifier: Apache-2.0 */
/* row_list.c - see row_list.h */
#include "row_list.h"

#include "internal.h"

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
