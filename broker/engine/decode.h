/* SPDX-License-Identifier: Apache-2.0 */
/* decode.h - steps over many requests: one token for every sequence, or several (extend.h) */
#ifndef SWAKV_ENGINE_DECODE_H
#define SWAKV_ENGINE_DECODE_H

#include <stdint.h>

#include "fault.h"
#include "wire.h"

struct session;
struct delivery;

/* Entries of a step, and the counts that they list (see wire_step_entry). */
struct step {
	const struct wire_step_entry *entries;
	const int32_t *counts;
	uint32_t n;
	uint32_t n_counts;
};

/*
 * A step over @n requests: atomic within one, independent between them. Fills
 * faults[0..*n_faults) with the entries that were refused, in order; returns an
 * error only when the step as a whole is malformed: then nothing happened. @faults has room for n.
 * A sequence that advances by more than max_advance takes the pages it lacks
 * from the class; what it holds beyond its reservation goes back there when the
 * last value that the request was given has been reached.
 *
 * 0, SWAKV_EGONE; SWAKV_EINVALID: no entries or too many, or other counts than
 * they list. An entry: SWAKV_EGONE, SWAKV_EPOISONED; SWAKV_EINVALID: its handle or
 * counts; SWAKV_EPHASE: not prefilled, finishing, or a transition is pending;
 * SWAKV_EPENDING: its pages or points are behind open completion points;
 * SWAKV_ELIMIT: beyond its length, and it is finishing now; SWAKV_ENEVER,
 * SWAKV_ENOPAGES: for a step of several tokens.
 */
int step_prepare(struct session *s, const struct step *step, struct wire_entry_fault *faults, uint32_t *n_faults,
		 struct delivery *d, struct fault *f);
/*
 * @armed has one value a stream. Where a part of the tokens is accepted, pages
 * behind the new endpoint leave with those that the window left. Returns what
 * step_prepare() does. An entry: SWAKV_EGONE; SWAKV_EINVALID: its handle, counts
 * or fence; SWAKV_EPHASE: no step is pending; SWAKV_EPOISONED: the fence says that
 * the work failed.
 */
int step_complete(struct session *s, const struct step *step, const uint64_t *armed, struct wire_entry_fault *faults,
		  uint32_t *n_faults, struct fault *f);

/* Inside the engine: */

/* How many counts belong to an entry's @value. */
static inline uint32_t step_listed(int32_t value)
{
	return value < 0 ? 0u - (uint32_t)value : 0;
}
/* One entry of a step, with its counts. 0, or a code as above. */
int step_entry_prepare(struct session *s, const struct wire_step_entry *entry, const int32_t *list, struct delivery *d,
		       struct fault *f);
int step_entry_complete(struct session *s, const struct wire_step_entry *entry, const int32_t *list,
			const uint64_t *armed, struct fault *f);

#endif
