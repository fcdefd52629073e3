/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - a descriptor for the caller's event loop (swakv_session_fd(), swakv_poll.3)
 *
 * It is an epoll set of three: the socket, on which the broker sends a byte when
 * it has answered or wants more pages back; an eventfd, readable while an answer
 * has been taken and not been collected, or pages are wanted of which the caller
 * was not told (wants.h); and a timer, for a begin that was granted and waits for
 * the device to leave its slots, of which nobody tells.
 *
 * Nothing is lost: the byte is read away before the event word is set, and the
 * word is set before the last look at the reply ring and the boards (events_rest()).
 */
#ifndef SWAKV_CLIENT_EVENTS_H
#define SWAKV_CLIENT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct swakv_session;
struct call;

struct events {
	bool wanted; /* the broker knows */
	int epoll;   /* -1, as the others: not asked for yet */
	int ready;
	int timer;
	uint32_t n_ready; /* answers that a ticket can collect, and 1 while pages are wanted that the caller does not
			     know of */
};

void events_init(struct events *e, bool wanted);
void events_deinit(struct events *e);
/* True when somebody may wait for the descriptor. */
static inline bool events_on(const struct events *e)
{
	return e->epoll >= 0;
}

/* What lay at the socket has been read away: sets the word, and takes what is in the ring. */
void events_rest(struct swakv_session *s);
/* Reads away what lies at the socket, notices its end, and does that. Cheap when nobody may wait. */
void events_take(struct swakv_session *s);
/* @c of a ticket has its answer. */
void events_answered(struct swakv_session *s, struct call *c);
/* It is being collected. */
void events_collected(struct swakv_session *s, struct call *c);
/* A begin is still held: look again soon. */
void events_held(struct swakv_session *s);
/* The caller has been told of all pages that are wanted. */
void events_told(struct swakv_session *s);

#endif
