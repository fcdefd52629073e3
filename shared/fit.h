/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.h - whether pages of several sizes fit an empty pool, in whole extents
 *
 * Arithmetic only: a pool need not exist. Classes lie one behind the other, each
 * in extents of its own, in the order that ends first; where that is not enough,
 * and they are few, one of them lies in two places. For up to two sizes that is
 * exact; of what fits near the limit of 8 extents, less than one in 1,000 is
 * missed with three or four sizes.
 */
#ifndef SWAKV_FIT_H
#define SWAKV_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "page_key.h"

enum {
	FIT_NEEDS = 64,  /* sizes at most */
	FIT_EXACT = 8,   /* so many are tried in every order, in 8 x 2^8 steps; more lie largest first */
	FIT_SPLIT = 4,   /* of so many, one may lie in two places; */
	FIT_EXTENTS = 32 /* the first of up to so many extents: at most 4 x 64 x 5 x 2^5 steps */
};

struct fit_need {
	struct page_key key; /* different in all */
	uint64_t pages;
};

/* Which pages lie where: of need @at[i].need so many, behind those of @at[i - 1]. */
struct fit_plan {
	uint32_t n;
	struct {
		uint32_t need;
		uint64_t pages;
	} at[FIT_NEEDS + 1];
};

/*
 * The extents of @extent_bytes that @n @needs take from the start of a half of
 * @half_bytes (joined pages of both halves); -1: they do not fit, and @plan is not filled in. @plan may be NULL.
 */
int64_t fit_extents(uint64_t half_bytes, uint64_t extent_bytes, const struct fit_need *needs, uint32_t n,
		    struct fit_plan *plan);
/* Adds @pages to the need of that key, a new one when there is none. False: there are FIT_NEEDS. */
bool fit_add(struct fit_need *needs, uint32_t *n, struct page_key key, uint64_t pages);

#endif
