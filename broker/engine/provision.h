/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provision.h - who gets which extents, so that pages of several classes are free at once
 */
#ifndef SWAKV_PROVISION_H
#define SWAKV_PROVISION_H

#include "available.h"
#include "extents.h"

/* So many pages of a class that are to be free. */
struct pool_need {
	struct page_class *class;
	int64_t pages;
};
/*
 * Makes sure that all of @needs are free at once (those of one class add up),
 * taking extents: unassigned ones first, then empty ones of other classes. -1
 * when done. Else nothing has changed, and it returns the index of the first
 * need that its class could not meet alone, or, when each could be met alone,
 * of the first that cannot be met beside those before it; *available is what
 * that class could have had for all its needs together.
 */
int pool_provide(struct pool *p, const struct pool_need *needs, uint32_t n, int64_t *available);

/* No page of any class is live: what cannot be provided now never can, as long as no less is to be kept. */
bool pool_is_idle(const struct pool *p);
/* True when the pool could meet all of @needs if nothing else were in it, as fit.h says. */
bool pool_could_provide(const struct pool *p, const struct pool_need *needs, uint32_t n);

/* What others are to find there after a provision. */
struct pool_keep {
	int64_t floors[POOL_MAX_CLASSES]; /* free pages of a class, as many of these as can be had */
	int64_t claims[POOL_MAX_CLASSES]; /* beside them: free ones, as many of these as there still are */
	int64_t extents;                  /* in no class or empty, as many of these as can be had */
};
enum { POOL_PROVIDED = -1, POOL_KEPT = -2 };
/*
 * As pool_provide(), beside what is kept. What is kept may get extents, too;
 * what is claimed and no longer there is taken out of @keep.
 * Returns POOL_PROVIDED; or the index of the first need that cannot be met, with
 * *@available what there is beside what is kept; POOL_KEPT: too few extents would be left.
 */
int pool_provide_beside(struct pool *p, struct pool_keep *keep, const struct pool_need *needs, uint32_t n,
			int64_t *available);

/* ---- for claims (claim.c, choice.c) ------------------------------------------- */

/* What is kept gets its extents, and is promised until pool_unpromise(). */
void pool_promise(struct pool *p, const struct pool_keep *keep);
/* Up to @pages of @c more: how many could be had. */
int64_t pool_promise_more(struct pool *p, struct page_class *c, int64_t pages);
void pool_unpromise(struct pool *p);
/* Extents in no class, and empty ones whose pages nobody was promised; too few rather than too many. */
int64_t pool_spare_extents(const struct pool *p);

#endif
