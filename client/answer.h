/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.h - the answer to a prepare, a complete or a compaction, checked as a whole
 *
 * Only when all of it is possible does anything of it take effect.
 */
#ifndef SWAKV_CLIENT_ANSWER_H
#define SWAKV_CLIENT_ANSWER_H

#include "session.h"
#include "wire_turn.h"

/* Its parts, in the private copy of the payload. */
struct answer {
	struct wire_delivery head;
	const struct wire_entry_fault *faults;
	const struct wire_update *updates;
	const struct wire_row *rows;
	const struct wire_scrub *scrubs;
	const struct wire_begun *begun;
	const struct wire_move *moves;
	uint32_t n_moves;
};

/*
 * Finds the parts of @len bytes at @payload, which lies behind a header of 32 bytes
 * in malloc'd memory: all parts have multiples of 8 bytes. 0, or SWAKV_EGONE with
 * the session broken; so do the others.
 */
int answer_parse(struct swakv_session *s, const struct call *c, const unsigned char *payload, size_t len,
		 struct answer *a);
/* Rows, cells and pages that exist; marks the rows that it names. */
int answer_check(struct swakv_session *s, const struct answer *a);
/* Gives the faults of single entries, and the handles of those that have begun, to @c. */
int answer_entries(struct swakv_session *s, struct call *c, const struct answer *a);

static inline bool page_is_possible(int32_t num_pages, int32_t page)
{
	return page >= -1 && page < num_pages;
}

/* One row of one table, by its cells. */
struct place {
	struct table *t; /* NULL: of no table */
	uint32_t slot;
	uint32_t first; /* cell */
	uint32_t width; /* cells */
	bool marked;    /* by the delivery being taken */
	int32_t num_pages;
	int32_t *mirror; /* of the row */
};

static inline __attribute__((always_inline)) struct place place_find(struct swakv_session *s, uint32_t cell)
{
	uint32_t i = s->welcome.n_groups - 1, slot;
	struct table *t;

	while (s->tables[i].first_cell > cell)
		i--;
	t = &s->tables[i];
	slot = (cell - t->first_cell) / t->width;
	if (slot >= s->max_batch)
		return (struct place){ .slot = slot };
	return (struct place){ .t = t,
			       .slot = slot,
			       .first = t->first_cell + slot * t->width,
			       .width = t->width,
			       .marked = t->state[slot].mark == s->mark,
			       .num_pages = t->target->num_pages,
			       .mirror = t->mirror + (size_t)slot * t->width };
}

/* Most updates are of the row of the one before: *@p, all zero at first. */
static inline void place_move(struct swakv_session *s, struct place *p, uint32_t cell)
{
	if (cell - p->first >= p->width)
		*p = place_find(s, cell);
}

#endif
