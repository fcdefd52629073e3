/* SPDX-License-Identifier: Apache-2.0 */
/* deliver.h - what answers change in the tables of the device, as the library does it */
#ifndef SWAKV_SIM_DELIVER_H
#define SWAKV_SIM_DELIVER_H

#include "worker.h"

/* @m holds a delivery, @d; where it begins to list the faults of entries. */
const struct wire_entry_fault *deliver(struct worker *v, const struct message *m, struct wire_delivery *d);
/* Before the first piece of work behind the last mark. */
void deliver_arm(struct worker *v, uint32_t stream);
/* A mark behind all that the stream has; its value. */
uint64_t deliver_mark(struct worker *v, uint32_t stream);
/* Marks what was enqueued and belongs to no step. */
void deliver_mark_clears(struct worker *v);
/* @l has been admitted: its slots are its stream's. @l->early: another stream is not through with one of them. */
void deliver_take_slots(struct worker *v, struct life *l);

#endif
