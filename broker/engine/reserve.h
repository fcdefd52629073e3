/* SPDX-License-Identifier: Apache-2.0 */
/* reserve.h - a request that may become longer */
#ifndef SWAKV_ENGINE_RESERVE_H
#define SWAKV_ENGINE_RESERVE_H

#include <stdint.h>

#include "fault.h"

struct session;

/*
 * Raises the length that the request's sequences may reach, and what is reserved
 * for it: all or nothing. 0, SWAKV_EGONE, SWAKV_EPOISONED; SWAKV_EPHASE: finishing,
 * or a transition is pending; SWAKV_EINVALID: the handle, or less than it has;
 * SWAKV_EPENDING: what it lacks is behind the session's own points; SWAKV_ENEVER,
 * SWAKV_ENOPAGES.
 */
int request_reserve(struct session *s, uint64_t handle, int64_t max_tokens, struct fault *f);

#endif
