/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - what happened last, for the status page */
#ifndef SWAKV_BROKER_EVENTS_H
#define SWAKV_BROKER_EVENTS_H

#include "status_map.h"

struct channel;

/* The ring thread's; zeroed when it is made. */
struct event_ring {
	uint64_t ever;
	struct status_event of[STATUS_MAX_EVENTS];
};

/*
 * Something happened at @now (CLOCK_MONOTONIC ns) to the session of @c (NULL: to none). Returns the event, whose other
 * fields are 0: for the caller to fill before anything else is noted.
 */
struct status_event *event_note(struct event_ring *ring, uint64_t now, enum status_event_kind kind,
				const struct channel *c);
/* The same of the model @name, "" for all. */
struct status_event *event_note_model(struct event_ring *ring, uint64_t now, enum status_event_kind kind,
				      const char *name);
/* Brings @out, which holds the first *@ever of them, up to date. */
void events_copy(const struct event_ring *ring, struct status_event out[STATUS_MAX_EVENTS], uint64_t ever);

#endif
