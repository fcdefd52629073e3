/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - see group.h */
#include "group.h"

#include <stdlib.h>

#include "internal.h"
#include "managed.h"
#include "sequence.h"

int32_t group_reservation(const struct session *s, const struct group *g, int64_t capacity, bool unordered)
{
	const struct model *m = &s->model;

	return window_reservation(&g->window, capacity, m->max_advance, unordered ? m->in_flight : 1);
}

static bool group_init(struct session *s, struct group *g, const struct session_tables *tables)
{
	const struct geometry *geometry = &s->geometry[g->index];
	const struct wire_group *declared = &s->model.groups[g->index];
	size_t n = (size_t)s->model.max_batch;

	g->window = window_kept(declared->window, s->model.max_rewind, declared->page_tokens);
	g->most_reserved = group_reservation(s, g, s->model.max_seq, true);
	g->key = geometry_key(geometry);
	g->spans = calloc(n, sizeof(*g->spans));
	g->reserved = calloc(n * (size_t)g->most_reserved, sizeof(*g->reserved));
	g->managed = calloc(managed_words(s, g), sizeof(*g->managed));
	return g->spans && g->reserved && g->managed &&
	       page_table_init(&g->table, tables->cells, tables->rows, s->model.max_batch, geometry->width,
			       geometry->num_pages, geometry->shape.joined) == 0;
}

bool groups_init(struct session *s, const struct session_tables *tables)
{
	uint32_t cell = 0;

	FOR_EACH_GROUP (g, s) {
		uint32_t i = (uint32_t)(g - s->groups);

		g->index = i;
		g->movable = s->model.groups[i].flags & WIRE_GROUP_MOVABLE;
		if (!group_init(s, g, &tables[i]))
			return false;
		g->spare = page_class_make(g->key, (uint64_t)s->geometry[i].num_pages);
		if (!g->spare || (g->movable && !page_class_make_tenants(g->spare)))
			return false;
		g->table.first_cell = cell;
		g->table.first_row = i * (uint32_t)s->model.max_batch;
		cell += (uint32_t)(s->model.max_batch * s->geometry[i].width);
		if (g->most_reserved > s->scratch_width)
			s->scratch_width = g->most_reserved;
	}
	return true;
}

void groups_settle(struct session *s)
{
	FOR_EACH_GROUP (g, s) {
		page_class_free(g->spare);
		g->spare = NULL;
	}
}

void groups_deinit(struct session *s)
{
	groups_settle(s);
	FOR_EACH_GROUP (g, s) {
		page_table_deinit(&g->table);
		free(g->spans);
		free(g->reserved);
		free(g->managed);
	}
}

void groups_leave(struct session *s)
{
	FOR_EACH_GROUP (g, s) {
		if (g->class)
			g->class->n_sessions--;
		g->class = NULL;
	}
}

bool groups_enter(struct session *s)
{
	int index;

	FOR_EACH_GROUP (g, s) {
		g->serial = ++s->engine->last_serial;
		g->class = pool_class(&s->engine->pool, g->key, &g->spare, &index);
		if (!g->class)
			return false;
		g->class_index = (uint32_t)index;
		if (g->movable)
			page_class_take_tenants(g->class, g->spare);
		g->class->n_sessions++; /* at once: a class without one may lose its place to the next group's */
	}
	return true;
}
