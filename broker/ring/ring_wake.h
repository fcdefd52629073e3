/* SPDX-License-Identifier: Apache-2.0 */
/* ring_wake.h - workers that sleep: all answers of a round first, then a few wake-ups, then the rings again */
#ifndef SWAKV_BROKER_RING_WAKE_H
#define SWAKV_BROKER_RING_WAKE_H

#include "ring_thread.h"

#define RING_WAKES_A_ROUND 8

/* In this round @c got replies or slots back. */
void ring_wake_note(struct ring_thread *t, struct channel *c);
/* After a round: those noted that sleep are to be woken; wakes the first RING_WAKES_A_ROUND of all who are. */
void ring_wake_round(struct ring_thread *t);
/*
 * In a glance @c got something: it is woken now if it is seen to sleep, and
 * noted if not, since without a fence that says little. Wakes one.
 */
void ring_wake_glance(struct ring_thread *t, struct channel *c);
/* True while there are more. */
bool ring_wake_due(const struct ring_thread *t);
/* @c is about to be forgotten. */
void ring_wake_forget(struct ring_thread *t, struct channel *c);

#endif
