/* SPDX-License-Identifier: Apache-2.0 */
/* floor_ceiling.h - floors and ceilings of models, and what an admission must leave to others */
#ifndef SWAKV_FLOOR_CEILING_H
#define SWAKV_FLOOR_CEILING_H

#include "provision.h"
#include "quota.h"

/* Whose claims a request must respect: nobody's when it runs already. */
enum claims { CLAIMS_NONE, CLAIMS_ALL };

/* Whether a request of @needs (pages, one a group) can ever be, as the limits are now: 0, or SWAKV_ENEVER. */
int session_check_never(const struct session *s, const int64_t *needs, struct fault *f);
/*
 * Makes sure that @needs[g] pages of each group's class are free, all or nothing,
 * beside what the floors of other models lack and what is claimed: 0, or
 * SWAKV_ENOPAGES, and nothing changed. SWAKV_ENEVER, when they could not be even
 * in an empty pool with @held[g] more beside them (NULL: none), which are there
 * already. The pages are taken before anything else happens in the engine.
 */
int session_provide(struct session *s, const int64_t *needs, const int64_t *held, enum claims claims, struct fault *f);
/* Pages of class @index that could be admitted now: beside what is claimed. */
int64_t engine_available(struct engine *e, uint32_t index);
/* Bytes of K and V. */
uint64_t needs_bytes(const struct session *s, const int64_t *needs);
/* What is to be left to others than @own (NULL: to all): the floors, and, with @claims, the free pages that are
 * claimed. */
void keep_for_others(struct pool_keep *keep, const struct engine *e, const struct quota *own, bool claims);
/* What @q has not used of its floor. */
void keep_floor(struct pool_keep *keep, const struct engine *e, const struct quota *q);

#endif
