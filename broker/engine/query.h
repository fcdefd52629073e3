/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - the state of a request and of a sequence, as spec section 4 has it */
#ifndef SWAKV_ENGINE_QUERY_H
#define SWAKV_ENGINE_QUERY_H

#include <stdint.h>

#include "fault.h"
#include "wire.h"

struct session;

/* 0, SWAKV_EGONE, or SWAKV_EINVALID: the handle. */
int request_query(const struct session *s, uint64_t handle, struct wire_request_state *out, struct fault *f);
/*
 * Writes at most @cap bindings from index q->first on; *n says how many were
 * written. 0, SWAKV_EGONE, or SWAKV_EINVALID: the handle, the sequence, the group, or the
 * slot's generation has changed.
 */
int sequence_query(const struct session *s, uint64_t handle, const struct wire_query_state *q,
		   struct wire_sequence_state *out, struct wire_binding *bindings, uint32_t cap, uint32_t *n,
		   struct fault *f);

#endif
