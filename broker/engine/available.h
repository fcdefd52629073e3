/* SPDX-License-Identifier: Apache-2.0 */
/* available.h - how many pages a class could have, with the extents that it could take */
#ifndef SWAKV_ENGINE_AVAILABLE_H
#define SWAKV_ENGINE_AVAILABLE_H

#include "extents.h"

/*
 * Pages of @c that could be leased now: free ones, and those that all
 * unassigned extents and all empty ones of other classes would give.
 */
int64_t pool_available(struct pool *p, struct page_class *c);

/* Whether class @index holds extent @x or could take it; from other classes only when @others. */
bool extent_serves(const struct pool *p, int32_t x, int index, bool others);
/* The next stretch of extents that serve, from @x on: [*first, end), end returned; *first is n_extents when none. */
int32_t extents_next_stretch(struct pool *p, int32_t x, int index, bool others, int32_t *first);
/* Where @c stands in the pool; -1: nowhere. */
int pool_class_index(const struct pool *p, const struct page_class *c);

#endif
