/* SPDX-License-Identifier: Apache-2.0 */
/* admission.h - whether pages can be had, beside what is kept for others */
#ifndef SWAKV_ADMISSION_H
#define SWAKV_ADMISSION_H

#include <stdint.h>

struct engine;
struct session;
struct fault;

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

#endif
