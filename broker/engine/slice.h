/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice.h - how much the engine has done since its driver last looked at others
 *
 * A command may move millions of pages. After so many operations (a page that
 * changes hands, a cell that is written or compared, a row that is visited) the
 * engine calls its driver in between (engine_on_pause()), which may serve other
 * sessions: never the one whose command it is. So a loop counts what it does,
 * where pool and classes are whole, and what it will still take was promised to
 * it before (group_promise()).
 *
 * Slices of all kinds are to take about the same time, so what takes longer
 * counts for more than one. Two things are not cut. A call's arguments, 4,096
 * numbers at most, are read in one go and not counted. A search for extents counts
 * when it is over: what it finds must be taken before others look. So a pool has
 * EXTENT_MOST of them at most.
 */
#ifndef SWAKV_ENGINE_SLICE_H
#define SWAKV_ENGINE_SLICE_H

#include "internal.h"

enum {
	SLICE_CELL = 2,  /* a cell of a row that is read, written and told of one by one */
	SLICE_PLACE = 2, /* a page that is found along its extent's chain */
	SLICE_PUT = 3,   /* one that goes to its class, or to quarantine, one by one */
	SLICE_LOOKS = 16 /* looks at extents, one after the other, are one */
};

void slice_init(struct slice *w, uint32_t most);
/* Calls the driver. */
void slice_pause(struct session *s);

/* @n operations of a command of @s are done: at most two parts (slice_part()) since the last call. */
static inline void slice_spend(struct session *s, int32_t n)
{
	struct slice *w = &s->engine->slice;

	w->spent += (uint32_t)n;
	if (__builtin_expect(w->spent > w->most - 2 * w->part, 0))
		slice_pause(s);
}

/* The same of what could not be cut: the driver is called at the next occasion. */
static inline void slice_count(struct engine *e, uint64_t n)
{
	e->slice.spent += (uint32_t)n;
	e->slice.uncut += (uint32_t)n;
}

/* As many of @n pages, rows or cells as may be done before they are spent: at least one. */
static inline int32_t slice_part(const struct session *s, int32_t n)
{
	int32_t part = (int32_t)s->engine->slice.part;

	return n <= part ? n : part;
}

/* The same in a walk whose length nobody knows: @n operations (few) are done, and *@left were before the next spending.
 */
static inline void slice_step(struct session *s, int32_t *left, int32_t n)
{
	int32_t part = (int32_t)s->engine->slice.part;

	*left -= n;
	if (__builtin_expect(*left > 0, 1))
		return;
	slice_spend(s, part - *left);
	*left = part;
}

/* At its end. */
static inline void slice_rest(struct session *s, int32_t left)
{
	slice_spend(s, (int32_t)s->engine->slice.part - left);
}

/* True when a call that does no more than @n operations will not be paused. */
static inline bool slice_holds(const struct session *s, int64_t n)
{
	const struct slice *w = &s->engine->slice;

	return w->spent + (uint64_t)n <= w->most - 2 * w->part;
}

/* As slice_part(), where nothing else is unspent: then it may be all of them. */
static inline int32_t slice_share(const struct session *s, int32_t n)
{
	return slice_holds(s, n) ? n : slice_part(s, n);
}

/*
 * @needs (one a group) are free in their classes, and the call may be paused
 * before it has taken them all: they count as leased from now on, so nobody else
 * gets them meanwhile, and group_take() finds them.
 */
void group_promise(struct session *s, const int64_t *needs);
/* Takes @n pages as page_class_take_many() does, of those that were promised to it if some were; the group holds them.
 */
void group_take_promised(struct session *s, struct group *g, int32_t *out, int32_t n);
static inline void group_take(struct session *s, struct group *g, int32_t *out, int32_t n)
{
	if (g->n_promised > 0) {
		group_take_promised(s, g, out, n);
		return;
	}
	page_class_take_many(g->class, out, n);
	g->n_held += n;
	g->n_taken += (uint64_t)n;
	slice_spend(s, SLICE_PLACE * n);
}

#endif
