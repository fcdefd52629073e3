/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row_list.h - rows of the page tables that have something to send
 *
 * A row is in one list at most: its request's, or that of its stream when it lost
 * its owner. Lists chain rows by their numbers over all groups.
 */
#ifndef SWAKV_ENGINE_ROW_LIST_H
#define SWAKV_ENGINE_ROW_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct session;
struct group;

struct row_list {
	int32_t first, last; /* -1: empty */
};
#define ROW_LIST_EMPTY ((struct row_list){ -1, -1 })

/* Where a row stands in a list. */
struct row {
	int32_t prev, next;
	bool listed; /* in its request's dirty list, or its line's stray list */
};

/* The row of @slot in @g may have changed: when it has, it joins @list, unless it is in one. */
void row_list_note(struct session *s, const struct group *g, struct row_list *list, int32_t slot);
/* The row of @slot in @g is in no list any more; if it was in one, it was @list. */
void row_list_remove(struct session *s, const struct group *g, struct row_list *list, int32_t slot);

#endif
