/* SPDX-License-Identifier: Apache-2.0 */
/* begin.h - the admission of a request */
#ifndef SWAKV_ENGINE_BEGIN_H
#define SWAKV_ENGINE_BEGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"

struct session;

struct begin {
	uint32_t stream;
	uint32_t n_slots;
	int64_t max_tokens; /* 0: max_seq */
	const int32_t *slots;
	uint64_t wait;   /* for pages that are not free, in stamps; 0: not at all */
	uint64_t ticket; /* the caller's, for the answer */
	bool unordered;  /* the stream keeps no order between the steps of the request */
	bool pinned;     /* its pages are not to move (moves.h) */
};

/*
 * Admits a request, whose pages are its own from now on. 0, SWAKV_EGONE,
 * SWAKV_EPOISONED; SWAKV_EINVALID: the stream, the slots or max_tokens;
 * SWAKV_EBUSY: a slot is in use, or too many requests are active; SWAKV_EPENDING:
 * a slot, the points or the pages are behind the session's own open points;
 * SWAKV_ENEVER, SWAKV_ENOPAGES. As long as one of the model waits that may not be
 * overtaken, SWAKV_ENOPAGES, too.
 */
int request_begin(struct session *s, uint32_t stream, int64_t max_tokens, const int32_t *slots, uint32_t n_slots,
		  uint64_t *handle, struct fault *f);
/*
 * As request_begin(). SWAKV_EAGAIN, where that would be SWAKV_ENOPAGES or
 * SWAKV_EPENDING: it waits, its slots count as busy, and engine_admit() will say
 * what became of it, unless the session ends before. SWAKV_EBUSY, also: too many wait.
 */
int request_begin_waiting(struct session *s, const struct begin *b, uint64_t *handle, struct fault *f);

/* Inside the engine: */

/* Admits @b if that can be done now: 0, or a code of request_begin(). */
int request_admit(struct session *s, const struct begin *b, uint64_t *handle, struct fault *f);
/* True when only open points of @s itself stand in the way of @b, which needs @needs. */
bool request_waits_for_itself(struct session *s, const struct begin *b, const int64_t *needs);
/* Pages of all groups together. */
int64_t begin_pages(const struct session *s, const int64_t *needs);

#endif
