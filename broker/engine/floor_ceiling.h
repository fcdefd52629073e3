/* SPDX-License-Identifier: Apache-2.0 */
/* floor_ceiling.h - floors and ceilings of models, and what is to be kept for others */
#ifndef SWAKV_FLOOR_CEILING_H
#define SWAKV_FLOOR_CEILING_H

#include "provision.h"
#include "quota.h"

/* All of them but that of @but (NULL: all), bytes of K and V. */
uint64_t floors_but(const struct engine *e, const struct quota *but);
/* Of so many bytes of K, or of V. */
int64_t extents_of(const struct pool *p, uint64_t half_bytes);
/* Bytes of K and V. */
uint64_t needs_bytes(const struct session *s, const int64_t *needs);
/* What is to be left to others than @own (NULL: to all): the floors, and, with @claims, the free pages that are
 * claimed. */
void keep_for_others(struct pool_keep *keep, const struct engine *e, const struct quota *own, bool claims);
/* What @q has not used of its floor. */
void keep_floor(struct pool_keep *keep, const struct engine *e, const struct quota *q);

#endif
