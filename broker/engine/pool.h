/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - who owns which bytes of the pool: extents, lent to page classes
 *
 * A pool half is cut into extents. A class is given extents when it needs
 * pages. An extent that no live (leased or quarantined) page touches is empty:
 * it goes to another class when that one needs it, or back to the pool when
 * there is time (pool_trim()).
 *
 * Extents can be chosen (claim.h): then their free pages are withheld from their
 * class, also those that come free, and they change hands no more.
 */
#ifndef SWAKV_POOL_H
#define SWAKV_POOL_H

#include "engine.h"
#include "page_class.h"

#define POOL_MAX_CLASSES ENGINE_MAX_CLASSES

/* Extents that were chosen together. */
struct choice {
	int32_t first;   /* chained by their next_chosen; -1: none */
	int32_t n;       /* of them */
	uint64_t joined; /* counts pages that came free in them */
};

/* An extent as its class sees it; at most one page starts in it and ends beyond it. */
struct extent {
	struct choice *choice; /* that it is part of; NULL: none */
	int32_t next_chosen;
	int32_t n_quarantined; /* of the live pages */
	int32_t n_live;        /* live pages that touch it */
	int32_t n_free;        /* free pages that start in it, but for one that ends in a chosen one */
	int32_t top;           /* free page that came back last, chained by the class's link; -1: none */
	int32_t fresh, end;    /* pages [fresh, end) lie in it and were not taken since it came: free, too */
	int32_t unknown;       /* pages from this one on may hold what another class wrote, and were not taken since */
	int32_t straddler;     /* the page that ends beyond it, when it is usable; else -1 */
	int32_t n_owed;        /* of n_live: promised, and still among the free pages as far as these can be seen */
	int32_t next_owed;     /* extent of the class that owes, too; -1: none */
	bool straddler_owed;   /* it is among the owed ones, as nothing else may be left for them */
	int32_t prev, next;    /* in the list of its kind */
	uint8_t kind;          /* enum extent_kind */
	bool moved;            /* by the provision that is being made: */
	int16_t was;           /* then: the class that held it before, -1: none */
	int16_t former;        /* 1 + the class that held it last; 0: none ever, EXTENT_OF_MANY: one that is gone */
	int32_t next_moved;    /* -1: none */
};
#define EXTENT_OF_MANY INT16_MAX

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
	int16_t *extent_class; /* [n_extents], index of the class, -1: unassigned */
	struct extent *extents;
	uint64_t *candidates; /* [2 * n_extents + 1], scratch of choice_make() */
	int32_t first_moved;
	bool apart;        /* the provision that is being made puts a class that begins away from others */
	bool afresh;       /* it also takes all empty extents from their classes first */
	uint64_t hands;    /* counts how often an extent changed hands */
	uint64_t turns;    /* the sum of the classes' turns, of those that are gone, too */
	uint64_t returned; /* counts how often pages came back to a class */
	int n_classes;
	struct page_class *classes[POOL_MAX_CLASSES];
};

/* 0 or -ENOMEM, -EINVAL. Scrubs never, until told otherwise. The pool must not move from then on. */
int pool_init(struct pool *p, uint64_t half_bytes, uint64_t extent_bytes);
void pool_deinit(struct pool *p);

/*
 * The class of pages of @page_bytes, made when it is new. NULL: out of memory, or
 * POOL_MAX_CLASSES have sessions or live pages.
 */
struct page_class *pool_class(struct pool *p, uint64_t page_bytes, int *index);

/*
 * Extent @x joins @k: its free pages, and those that come free in it, are
 * withheld, and nobody can take it. It may be unassigned; it is in no choice.
 */
void extent_choose(struct pool *p, int32_t x, struct choice *k);
/* Extent @x is as others again. It is no longer, or will soon not be, in its choice's chain. */
void extent_lift(struct pool *p, int32_t x);
/* All extents of @k are as others again; they stay chained, for choice_restore(). */
void choice_lift(struct pool *p, struct choice *k);
/* After choice_lift(): they are chosen again. */
void choice_restore(struct pool *p, struct choice *k);

/* Returns at most @budget empty extents to the pool, those longest empty first; how many. */
int32_t pool_trim(struct pool *p, int32_t budget);

/* Checks the account of the extents and every class; false, with a sentence, when anything is wrong. */
bool pool_check(const struct pool *p, char *buf, size_t size);

/* ---- for page_class.c and provision.c ------------------------------------------ */

/* Puts extent @x of @c at the head of the list of @kind. */
void extent_move(struct page_class *c, int32_t x, enum extent_kind kind);

static inline enum extent_kind extent_kind(const struct extent *e)
{
	if (e->n_live > 0)
		return e->n_free > 0 ? EXTENT_PARTIAL : EXTENT_FULL;
	return e->n_free > 0 ? EXTENT_EMPTY : EXTENT_BARE;
}

/* The counts of extent @x of @c have changed, and now make it @kind. */
static inline void extent_file(struct page_class *c, int32_t x, enum extent_kind kind)
{
	if (c->extents[x].kind != kind)
		extent_move(c, x, kind);
}

/* First byte of extent @x; the end of the half for one past the last. */
static inline uint64_t extent_start(const struct pool *p, int32_t x)
{
	return x >= p->n_extents ? p->half_bytes : (uint64_t)x * p->extent_bytes;
}

/* Ids of class @c that lie wholly in the extents [first, last): [*lo, *hi), empty when none. */
void pages_within(const struct pool *p, const struct page_class *c, int32_t first, int32_t last, int32_t *lo,
		  int32_t *hi);
/* The extents that page @page touches: [*first, *last]. */
void page_extents(const struct pool *p, const struct page_class *c, int32_t page, int32_t *first, int32_t *last);
/* True when every extent that page @page touches belongs to class @index. */
bool page_is_whole(const struct pool *p, const struct page_class *c, int index, int32_t page);

/* Pages that touch extent @x, but do not lie within it: at most one at each end. Returns how many. */
int border_pages(const struct pool *p, const struct page_class *c, int32_t x, int32_t pages[2]);
/* Page @page, which starts in extent @first, ends in a chosen one: it does not count there. */
bool page_is_hidden(const struct pool *p, const struct page_class *c, int32_t page);
/* Gives extent @x to class @c: every page that it completes becomes free. */
void extent_assign(struct pool *p, struct page_class *c, int index, int32_t x);
/* Takes the empty extent @x from its class: no page that touches it is usable any more. */
void extent_return(struct pool *p, int32_t x);
/* Pages in extent @x may hold what another class wrote since this one had them. */
void extent_forget(struct pool *p, struct page_class *c, int32_t x);

#endif
