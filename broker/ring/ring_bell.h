/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_bell.h - work that is there although nobody rang
 *
 * A sleep ends by time, and a session has a command (or room that its command
 * waits for) that it did not ring for. Most of the time the worker was put aside
 * between the two, and is only late. A bell that is still silent after 100 ms
 * counts as a wake-up that was lost: that must never happen.
 */
#ifndef SWAKV_BROKER_RING_BELL_H
#define SWAKV_BROKER_RING_BELL_H

#include "ring_thread.h"

/* A sleep has ended by time: from now on those whose work is there are expected to ring. */
void ring_bell_expect(struct ring_thread *t);
/* These have rung, as of t->now. */
void ring_bell_rang(struct ring_thread *t, void *const rung[], int n);
/* Looks who has rung, while somebody is expected to, and counts those who are too late. */
void ring_bell_look(struct ring_thread *t);
/* When that is to be done at the latest; UINT64_MAX: nobody is expected to ring. */
uint64_t ring_bell_deadline(const struct ring_thread *t);

#endif
