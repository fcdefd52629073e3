/* SPDX-License-Identifier: Apache-2.0 */
/* fence.h - what a fence given with a call proves, and which ones are refused */
#ifndef SWAKV_ENGINE_FENCE_H
#define SWAKV_ENGINE_FENCE_H

#include "internal.h"

/* What it means for its line. */
struct resolved_fence {
	bool failed;
	bool reached;
	uint64_t value; /* when neither */
};
/* @fence, which is to be of @line, and not above its armed value @armed. 0, or SWAKV_EINVALID. */
int fence_resolve_line(const struct session *s, uint32_t line, const struct wire_fence *fence, uint64_t armed,
		       struct resolved_fence *out, struct fault *f);
/* The same for a complete of @r, whose line it is. */
int fence_resolve(const struct session *s, const struct request *r, const struct wire_fence *fence, uint64_t armed,
		  struct resolved_fence *out, struct fault *f);
/* The same for a finish or abandon, where the request's last completion point may be named, too. */
int fence_resolve_end(const struct session *s, const struct request *r, const struct wire_fence *fence, uint64_t armed,
		      struct resolved_fence *out, struct fault *f);

/* The request's work has been completed with fence @p: a point, unless it was reached. @l NULL: no pages leave. */
void fence_note(struct session *s, struct request *r, const struct resolved_fence *p, const struct leaving *l);

#endif
