/* SPDX-License-Identifier: Apache-2.0 */
/* life_read.h - between commands and their answers */
#ifndef SWAKV_SIM_LIFE_READ_H
#define SWAKV_SIM_LIFE_READ_H

#include "worker.h"

#define SERVED_NS (4 * NS_PER_S) /* after the last fault whatever waits has been served */

/* @from says what the step that was just sent is about: it goes to the call @c that waits for its answer. */
void life_take_call(struct worker *v, struct call *c, const struct call *from, uint32_t n_entries);
/* Nothing is left of @l. */
void life_free_slots(struct worker *v, struct life *l);
/* That may not be: the run ends. */
void life_refused(struct worker *v, const struct life *l, const char *what, const struct fault *f);
/* The answer to a begin; to one request's part of a step: @f is why it was refused, NULL: it was not. */
void life_read_begin(struct worker *v, struct life *l, const struct call *c, const struct wire_reply *head,
		     const struct fault *f);
void life_read_prepared(struct worker *v, struct life *l, const struct fault *f);
void life_read_completed(struct worker *v, struct life *l, const struct call *c, const struct fault *f);
/* The complete of @l that was just sent said that its work failed, or not. */
void life_note_failed(struct worker *v, struct life *l, bool failed);

#endif
