/* SPDX-License-Identifier: Apache-2.0 */
/* prefill.h - the first chunk of a request */
#ifndef SWAKV_ENGINE_PREFILL_H
#define SWAKV_ENGINE_PREFILL_H

#include <stdint.h>

#include "fault.h"
#include "wire.h"

struct session;
struct delivery;

/*
 * Binds the pages that remain of @lengths[i] tokens of sequence i. 0, SWAKV_EGONE,
 * SWAKV_EPOISONED; SWAKV_EINVALID: the handle, the number of lengths or one of
 * them; SWAKV_EPHASE: it was prefilled before; SWAKV_EPENDING: too many open points.
 */
int request_prefill_prepare(struct session *s, uint64_t handle, const int32_t *lengths, uint32_t n, struct delivery *d,
			    struct fault *f);
/*
 * A fence of kind LINE with a value that the line has reached acts as DONE;
 * @armed is the armed value of the request's line, read by the caller. 0,
 * SWAKV_EGONE; SWAKV_EPHASE: no prefill is pending; SWAKV_EINVALID: the handle or
 * the fence; SWAKV_EPOISONED: the fence says that the work failed.
 */
int request_prefill_complete(struct session *s, uint64_t handle, const struct wire_fence *fence, uint64_t armed,
			     struct fault *f);

#endif
