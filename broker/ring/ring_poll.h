/* SPDX-License-Identifier: Apache-2.0 */
/* ring_poll.h - completion points: which timeline words have been reached, and who waits for that */
#ifndef SWAKV_BROKER_RING_POLL_H
#define SWAKV_BROKER_RING_POLL_H

#include "clock.h"
#include "ring_thread.h"

#define RING_POLL_SHORTEST (50 * NS_PER_US)

/* Reads the lines of every session with open points. True when a word moved. */
bool ring_poll(struct ring_thread *t);
/* The same, when it is time. */
void ring_poll_by_timer(struct ring_thread *t);
/* True when a point is open anywhere: t->next_poll counts. */
bool ring_any_open(const struct ring_thread *t);
/* Somebody was refused for want of pages. */
void ring_note_starved(struct ring_thread *t);
/* A point that stays open may be a kernel that never ends, or one that takes its time: it is told, never closed. */
void ring_watch_points(struct ring_thread *t);

#endif
