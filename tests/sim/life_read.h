/* SPDX-License-Identifier: Apache-2.0 */
/* life_read.h - between commands and their answers */
#ifndef SWAKV_SIM_LIFE_READ_H
#define SWAKV_SIM_LIFE_READ_H

#include "worker.h"

#define SERVED_NS (4 * NS_PER_S) /* after the last fault whatever waits has been served */

/* @from says what the step that was just sent is about: it goes to the call @c that waits for its answer. */
void life_take_call(struct worker *v, struct call *c, const struct call *from, uint32_t n_entries);
/* The complete of @l that was just sent said that its work failed, or not. */
void life_note_failed(struct worker *v, struct life *l, bool failed);

#endif
