/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - what is due when, in virtual time */
#ifndef SWAKV_SIM_EVENTS_H
#define SWAKV_SIM_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Something that can be due once: the date of an earlier event_at() is forgotten. Zeroed: not due. */
struct event {
	void (*run)(void *arg);
	void *arg;
	uint64_t token; /* of the entry that counts, 0: not due */
};

struct events {
	struct event_entry {
		uint64_t at, token;
		struct event *event;
	} * heap;
	uint32_t n, cap;
	uint64_t tokens;
};

void events_free(struct events *e);
/* @event is due at @at; of those due at the same time the one that was set first comes first. */
void event_at(struct events *e, struct event *event, uint64_t at);
void event_cancel(struct event *event);
/* Takes the next event that is due at @until or before; NULL: none. *@now becomes its date. */
struct event *events_next(struct events *e, uint64_t until, uint64_t *now);
/* Forgets all entries about @event: it may be freed. */
void events_forget(struct events *e, const struct event *event);

#endif
