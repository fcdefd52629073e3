/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h - one call a step: the end of the last step and the beginning of the next (step.h) */
#ifndef SWAKV_CLIENT_TURN_H
#define SWAKV_CLIENT_TURN_H

#include "call.h"
#include "wire.h"

/* All that the entry asked for has failed with @code. */
void turn_entry_fail(struct call_entry *e, int code);
/* The broker refused it with @f. False: it did not ask for that. */
bool turn_entry_refused(struct call_entry *e, const struct wire_entry_fault *f);
/* The caller's list gets the results, and the requests that have begun. */
void turns_collect(struct call *c);

#endif
