/* SPDX-License-Identifier: Apache-2.0 */
/* extend.h - steps of several tokens, or of tokens that differ */
#ifndef SWAKV_ENGINE_EXTEND_H
#define SWAKV_ENGINE_EXTEND_H

#include "fence.h"

/* Counts of one entry: @of one a sequence, or NULL: @each for all. */
struct counts {
	const int32_t *of;
	int32_t each;
};
/*
 * Phase, transition and room for points have been checked. 0; SWAKV_EINVALID: a
 * count; SWAKV_ELIMIT: beyond the request's length, and it is finishing now;
 * SWAKV_EPENDING: its pages are behind open points; SWAKV_ENEVER, SWAKV_ENOPAGES.
 */
int extend_prepare(struct session *s, struct request *r, const struct counts *tokens, struct delivery *d,
		   struct fault *f);
/*
 * Completes a step or an extend; @accepted->each 0 (and no list): all. 0;
 * SWAKV_EINVALID: a count or the fence; SWAKV_EPOISONED: the fence says that the work failed.
 */
int extend_complete(struct session *s, struct request *r, const struct counts *accepted, const struct wire_fence *fence,
		    uint64_t armed, struct fault *f);

#endif
