/* SPDX-License-Identifier: Apache-2.0 */
/* ring_round.h - one turn of the ring thread: a round over all rings, and now and then what else is due */
#ifndef SWAKV_BROKER_RING_ROUND_H
#define SWAKV_BROKER_RING_ROUND_H

#include "ring_thread.h"

/*
 * In the middle of a long command (engine_on_pause()): a round over all others,
 * of what is short. @ring is a struct ring_thread.
 */
void ring_pause(void *ring);
/* Follows from the state and what t->edge says: nothing else. */
void ring_turn(struct ring_thread *t);

#endif
