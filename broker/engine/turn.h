/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h - one call a step: the end of the last step and the beginning of the next, of many requests */
#ifndef SWAKV_ENGINE_TURN_H
#define SWAKV_ENGINE_TURN_H

#include <stdint.h>

#include "fault.h"
#include "wire_turn.h"

struct session;
struct delivery;

/* Its entries, and what they list (wire_turn.h). */
struct turn {
	const uint64_t *entries;
	const union wire_turn_detail *details;
	const int32_t *counts;
	struct wire_fence fence; /* of completes without a detail */
	uint32_t n;
	uint32_t n_details;
	uint32_t n_counts;
	enum fault_reason closed; /* why begins are refused; FAULT_NONE: they are not */
};

/* What came of it: those that were refused, and the begins that were granted; room for one of each entry. */
struct turn_answer {
	struct wire_entry_fault *faults;
	struct wire_begun *begun;
	uint32_t n_faults;
	uint32_t n_begun;
};

/*
 * All completes, then finishes, begins and prepares, each in the order of the
 * entries and as its own call would be (step_complete(), request_finish(),
 * request_begin(), step_prepare()); @armed has one value a stream. Where a complete
 * is refused, what else its entry asks for is not tried: SWAKV_EPHASE, or of a
 * prepare SWAKV_EPOISONED when the session is poisoned by then.
 *
 * 0, SWAKV_EGONE; SWAKV_EINVALID, and nothing happened: no entries or too many, one
 * that asks for what cannot be done at once, other details or counts than they
 * list, or two that name one request.
 */
int step_turn(struct session *s, const struct turn *turn, const uint64_t *armed, struct turn_answer *answer,
	      struct delivery *d, struct fault *f);

#endif
