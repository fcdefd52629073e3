/* SPDX-License-Identifier: Apache-2.0 */
/*
 * managed.h - pages that a session manages itself: it takes and gives them (spec section 8)
 *
 * They are leased like those of requests, and in no row. A bit for each page of a
 * group says which ones they are.
 */
#ifndef SWAKV_ENGINE_MANAGED_H
#define SWAKV_ENGINE_MANAGED_H

#include <stddef.h>
#include <stdint.h>

#include "fault.h"
#include "wire.h"

struct session;
struct group;

struct take {
	uint32_t group;
	uint32_t flags;    /* WIRE_TAKE_* */
	uint32_t min, max; /* pages: 1 <= min <= max <= WIRE_MAX_PAGES */
	uint64_t wait;     /* for @min pages that are not free, in stamps; 0: not at all */
	uint64_t ticket;   /* the caller's, for the answer */
};
/*
 * Takes at least t->min pages and at most t->max, which is what @ids has room for,
 * or none. A page that must be scrubbed before its use stands there as its
 * complement. Refused like a begin, and SWAKV_EAGAIN as with request_begin_waiting().
 */
int pages_take(struct session *s, const struct take *t, int32_t *ids, uint32_t *n, struct fault *f);

struct give {
	uint32_t group;
	uint32_t n; /* pages, 1 to WIRE_MAX_PAGES */
	const int32_t *ids;
	const struct wire_fence *fences; /* of each stream that has used them */
	uint32_t n_fences;               /* at most n_streams */
};
/*
 * The pages return when all fences are reached; all or nothing. @armed has one
 * value a stream. SWAKV_EPOISONED when a fence says that work failed: then they
 * are in quarantine.
 */
int pages_give(struct session *s, const struct give *g, const uint64_t *armed, struct fault *f);

/* Pages of @group that the session has taken and not given. */
int64_t session_managed_pages(const struct session *s, uint32_t group);
/* Pages of @group that the session could take now: beside floors and claims of others, and below its ceiling. A hint.
 */
int64_t session_takeable_pages(const struct session *s, uint32_t group);
/* The floor and the ceiling of the session's model in pages of @group, as if it had no others; at most all there are.
 */
void session_limit_pages(const struct session *s, uint32_t group, int64_t *floor, int64_t *ceiling);

/* ---- inside of the engine ------------------------------------------------ */

/* Takes what can be had now; 0, or a code of pages_take(). */
int pages_admit(struct session *s, const struct take *t, int32_t *ids, uint32_t *n, struct fault *f);
/* Words of the bits of @g: its class has no more pages. */
size_t managed_words(const struct session *s, const struct group *g);
/* The session ends: all that it has taken goes to quarantine. */
void managed_dissolve(struct session *s);

#endif
