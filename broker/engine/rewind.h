/* SPDX-License-Identifier: Apache-2.0 */
/* rewind.h - settled tokens taken back, as far as the model's bound */
#ifndef SWAKV_ENGINE_REWIND_H
#define SWAKV_ENGINE_REWIND_H

#include <stdint.h>

#include "fault.h"

struct session;

/*
 * Takes @tokens[i] settled tokens of sequence i back. Pages behind the new endpoint
 * are the sequence's own for its next steps. 0, SWAKV_EGONE, SWAKV_EPOISONED;
 * SWAKV_EPHASE: not prefilled, finishing, or a transition is pending;
 * SWAKV_EINVALID: the handle or the counts; SWAKV_ELIMIT: further than max_rewind
 * below the highest endpoint it ever had, and nothing changed.
 */
int request_rewind(struct session *s, uint64_t handle, const int32_t *tokens, uint32_t n, struct fault *f);

#endif
