/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extents.h - the extents of the pool, and how one changes hands
 *
 * Extents can be chosen (choice.h): then their free pages are withheld from their
 * class, also those that come free, and they change hands no more.
 */
#ifndef SWAKV_ENGINE_EXTENTS_H
#define SWAKV_ENGINE_EXTENTS_H

#include "pool.h"
#include "split_joined.h"
#include "strip.h"

struct choice;

/* The pages of an extent that lie in one half of the pool; at most one of them starts in it and ends beyond it. */
struct extent_run {
	int32_t fresh, end;  /* pages [fresh, end) lie in it and were not taken since it came: free, too */
	int32_t unknown;     /* pages from this one on may hold what another class wrote, and were not taken since */
	int32_t straddler;   /* the page that ends beyond it, when it is usable; else -1 */
	bool straddler_owed; /* it is among the owed ones, as nothing else may be left for them */
};

/* An extent as its class sees it: with one run of pages, or, of joined ones, with two. */
struct extent {
	struct choice *choice; /* that it is part of; NULL: none */
	int32_t next_chosen;
	int32_t n_quarantined; /* of the live pages */
	int32_t n_live;        /* live pages that touch it */
	int32_t n_free;        /* free pages that start in it, but for one that ends in a chosen one */
	struct strip back;     /* free pages that came back last; none: n is 0 */
	int32_t rest;          /* first page of the strip before it, chained by the class's link; -1: none */
	int32_t n_owed;        /* of n_live: promised, and still among the free pages as far as these can be seen */
	int32_t next_owed;     /* extent of the class that owes, too; -1: none */
	int32_t prev, next;    /* in the list of its kind */
	uint8_t kind;          /* enum extent_kind */
	bool emptying;         /* what lives in it is to move: new pages come from it last (emptying.h) */
	uint8_t stay;          /* enum stay: why it is not, as far as anybody asked */
	int32_t n_places;      /* of n_live: pages that need a place elsewhere, as a choice found (choice.h) */
	bool moved;            /* by the provision that is being made: */
	int16_t was;           /* then: the class that held it before, -1: none */
	int16_t former;        /* 1 + the class that held it last; 0: none ever, EXTENT_OF_MANY: one that is gone */
	int32_t next_moved;    /* -1: none */
	uint64_t waited;       /* stamp at which a claim last gave it up with pages in it; 0: none did */
	struct extent_run runs[2];
};
#define EXTENT_OF_MANY INT16_MAX

/* Extent @x joins the list of @kind of its class @c, or leaves the one it is in; the counts stay. */
void extent_enlist(struct page_class *c, int32_t x, enum extent_kind kind);
void extent_unlist(struct page_class *c, int32_t x);
/* True when an extent of @kind may leave its class. */
bool extent_kind_is_empty(enum extent_kind kind);
/* Puts extent @x of @c at the head of the list of @kind. */
void extent_move(struct page_class *c, int32_t x, enum extent_kind kind);

/* What the counts of @e make it. */
static inline enum extent_kind extent_kind(const struct extent *e)
{
	if (e->n_live > 0 && e->n_free > 0)
		return e->emptying ? EXTENT_EMPTYING
				   : (enum extent_kind)(EXTENT_PARTIAL + 31 - __builtin_clz((unsigned)e->n_free));
	if (e->n_live > 0)
		return EXTENT_FULL;
	return e->n_free > 0 ? EXTENT_EMPTY : EXTENT_BARE;
}

/* The counts of extent @x of @c have changed, and now make it @kind. */
static inline void extent_file(struct page_class *c, int32_t x, enum extent_kind kind)
{
	if (c->extents[x].kind != kind)
		extent_move(c, x, kind);
}

/* Page @page, which starts in extent @first, ends in a chosen one: it does not count there. */
bool page_is_hidden(const struct pool *p, const struct page_class *c, int32_t page);
/* Page @page, which was taken some time, touches an extent that is to come empty. */
static inline bool page_must_move(const struct page_class *c, int32_t page)
{
	int32_t x = c->place[page], last = x;

	if (x < 0)
		page_extents(c->pool, c, page, &x, &last);
	for (; x <= last; x++)
		if (c->extents[x].emptying)
			return true;
	return false;
}
/* Gives extent @x to class @c: every page that it completes becomes free. */
void extent_assign(struct pool *p, struct page_class *c, int index, int32_t x);
/* Takes the empty extent @x from its class: no page that touches it is usable any more. */
void extent_return(struct pool *p, int32_t x);
/* Pages in extent @x may hold what another class wrote since this one had them. */
void extent_forget(struct pool *p, struct page_class *c, int32_t x);

#endif
