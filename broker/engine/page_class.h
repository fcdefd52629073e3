/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_class.h - the pages of one form and size: which are free, and who had them last
 *
 * A page class is all groups with pages of the same form and bytes. It holds
 * extents of the pool (pool.h); a page is usable when all its bytes lie in
 * extents that its class holds. Where K and V halves mirror each other, one id
 * and one account stand for both. Joined pages count both halves as one run of
 * bytes: an extent has a run of them in each half, and the page that lies over
 * the middle is never used.
 */
#ifndef SWAKV_PAGE_CLASS_H
#define SWAKV_PAGE_CLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page_key.h"
#include "stay.h"
#include "wire.h"

struct pool;
struct extent;

enum page_state {
	PAGE_ABSENT, /* not usable; as PAGE_FREE, if it lies in one extent: that one's `fresh` tells which it is */
	PAGE_FREE,
	PAGE_LEASED,
	PAGE_QUARANTINED,
};

/* What an extent of a class has: live pages (leased or quarantined) that touch it, free ones that start in it. */
enum extent_kind {
	EXTENT_EMPTY,   /* none live, some free: may leave the class */
	EXTENT_BARE,    /* neither: may leave the class, too */
	EXTENT_FULL,    /* none free */
	EXTENT_PARTIAL, /* both; and so on, by the bits that the number of free ones has beyond the first */
	EXTENT_EMPTYING = EXTENT_PARTIAL + 31, /* both, and it is to come empty */
	EXTENT_N_KINDS,
};

struct extent_list {
	int32_t first, last; /* extents, -1: none */
};

struct page_class {
	struct page_key key;
	uint64_t page_bytes; /* the key's */
	int32_t num_pages;   /* ids below it are its own; those in neither run are never used */
	int n_runs;          /* 2: joined */
	struct {
		uint64_t from;      /* first byte of the half, as the ids count them */
		int32_t first, end; /* pages that lie wholly in it */
	} runs[2];
	int32_t n_usable; /* free + withheld + leased + quarantined */
	int32_t n_free;
	int32_t n_withheld; /* free, too, but in extents that are chosen, as far as they touch one */
	int32_t n_leased;
	int32_t n_quarantined;
	int32_t n_owed; /* of n_leased: promised, and in no state of their own yet */
	int32_t n_extents;
	int32_t n_empty; /* of these: no live page touches them, and they are not chosen */
	int32_t n_sessions;
	int32_t *link;  /* [num_pages], chains leased pages in lists of their holder, and free ones */
	int32_t *owner; /* [num_pages], the holder's mark while a page is chained; of a strip of free ones: extents.h */
	int32_t *place; /* [num_pages], the extent it starts in, its complement when it ends in another */
	uint8_t *state; /* [num_pages], enum page_state */
	/* [num_pages], to whom it was leased last: see emptying.h; 0: it must stay. NULL: no group had pages that can
	 * move. */
	uint32_t *tenant;
	uint32_t *user; /* [num_pages], who bound the page last: see dirty.h */
	uint32_t scrub; /* as the pool's */
	bool fresh_is_dirty;
	struct extent *extents; /* the pool's */
	struct pool *pool;
	struct extent_list lists[EXTENT_N_KINDS];
	uint32_t partial;              /* a bit for each list from EXTENT_PARTIAL on that is not empty */
	int32_t first_owed, last_owed; /* extents that owe pages, in the order in which they promised; -1: none */
	int32_t n_emptying;            /* extents of it that are to come empty (emptying.h), */
	uint32_t stays[STAY_COUNT];    /* and that were passed over for that, by enum stay */
	uint64_t n_moved;              /* pages of it that were moved, ever */
	int64_t promised;              /* free pages that no other class may take while a provision is made */
	uint64_t turns;                /* counts how often an extent of it became empty or ceased to be */
	uint64_t cached_at;            /* pool_epoch() of the next */
	int64_t cached_available;
};

/*
 * A class of @n pages without extents, the caller's, for page_class_join(). NULL:
 * out of memory, or no page, or more than ids can name. Its arrays may be large,
 * so they are made and freed by threads that nobody waits for.
 */
struct page_class *page_class_make(struct page_key key, uint64_t n);
/* Also notes to whom each page is leased, which moves want. False: out of memory. For those same threads. */
bool page_class_make_tenants(struct page_class *c);
/* The same of @c, which is in use, with what @spare, of its key, has for it; what is leased by now stays. NULL: @c has
 * it. */
void page_class_take_tenants(struct page_class *c, struct page_class *spare);
/* @c is one of @p from now on. */
void page_class_join(struct page_class *c, struct pool *p);
/* NULL is ignored. */
void page_class_free(struct page_class *c);
/* Bytes of a page of @c, K and V. */
static inline uint64_t page_class_whole(const struct page_class *c)
{
	return page_key_whole(c->key);
}

/* Pages that it could have if all of the pool were its own: all ids but that of the page over the middle. */
static inline int32_t page_class_most(const struct page_class *c)
{
	return c->runs[0].end - c->runs[0].first + (c->n_runs > 1 ? c->runs[1].end - c->runs[1].first : 0);
}

/* Takes a free page (there must be one). */
int32_t page_class_take(struct page_class *c);
/* Takes @n free pages: @out[n - 1] is what page_class_take() would take first. */
void page_class_take_many(struct page_class *c, int32_t *out, int32_t n);
/*
 * Takes a free page that lies in one extent, which is in use, and not to come
 * empty. False: none was found.
 */
bool page_class_take_beside(struct page_class *c, int32_t *page);
/*
 * Counts @n free pages as leased: each extent that will give some knows how many,
 * so it is neither empty nor has them for others. Which pages those are is left
 * to page_class_place(), which takes time.
 */
void page_class_promise(struct page_class *c, int32_t n);
/* Takes @n promised pages, the first one to @out[n - 1]. */
void page_class_place(struct page_class *c, int32_t *out, int32_t n);
/* Gives a leased or quarantined page back. A page in any other state is a bug and ends the process. */
void page_class_put(struct page_class *c, int32_t page);
/* Gives @n leased pages back, in order. */
void page_class_put_many(struct page_class *c, const int32_t *pages, int32_t n);
/* A leased page becomes quarantined. */
void page_class_quarantine(struct page_class *c, int32_t page);

#endif
