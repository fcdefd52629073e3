/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - who owns which bytes of the pool: extents, lent to page classes
 *
 * A pool half is cut into extents. A class is given extents when it needs
 * pages. An extent that no live (leased or quarantined) page touches is empty:
 * it goes to another class when that one needs it (provision.h), or back to the
 * pool when there is time (pool_trim()).
 */
#ifndef SWAKV_POOL_H
#define SWAKV_POOL_H

#include "engine.h"
#include "page_class.h"

#define POOL_MAX_CLASSES ENGINE_MAX_CLASSES

struct extent;

struct pool {
	uint64_t half_bytes;
	uint64_t extent_bytes;
	uint32_t scrub; /* enum wire_scrub_policy */
	bool fresh_is_dirty;
	int32_t n_extents; /* the last one may be short */
	int32_t n_unassigned;
	int32_t n_empty;       /* held by a class, but empty, and not chosen */
	int32_t n_chosen;      /* extents that are chosen, */
	int32_t n_chosen_free; /* and of these, unassigned */
	int32_t n_emptying;    /* extents that are to come empty */
	int16_t *extent_class; /* [n_extents], index of the class, -1: unassigned */
	struct extent *extents;
	uint64_t *candidates; /* [4 * n_extents + 2], scratch of choice_make() */
	int32_t first_moved;
	uint64_t hands;    /* counts how often an extent changed hands */
	uint64_t turns;    /* the sum of the classes' turns, of those that are gone, too */
	uint64_t returned; /* counts how often pages came back to a class */
	uint64_t looked;   /* counts looks at extents in searches over all of them */
	int n_classes;
	struct page_class *classes[POOL_MAX_CLASSES];
};

/* 0 or -ENOMEM, -EINVAL. Scrubs never, until told otherwise. The pool must not move from then on. */
int pool_init(struct pool *p, uint64_t half_bytes, uint64_t extent_bytes);
void pool_deinit(struct pool *p);

/*
 * The class of the pages of @key. When it is new, *@spare becomes it, or, if
 * that is NULL, it is made here. From then on *@spare, if not NULL, is one that
 * nobody needs, for the caller to free: the same, or the one whose place the new
 * one took. NULL: out of memory, or POOL_MAX_CLASSES have sessions or live pages.
 */
struct page_class *pool_class(struct pool *p, struct page_key key, struct page_class **spare, int *index);

/* Returns at most @budget empty extents to the pool, those longest empty first; how many. */
int32_t pool_trim(struct pool *p, int32_t budget);

/* First byte of extent @x; the end of the half for one past the last. */
static inline uint64_t extent_start(const struct pool *p, int32_t x)
{
	return x >= p->n_extents ? p->half_bytes : (uint64_t)x * p->extent_bytes;
}

#endif
