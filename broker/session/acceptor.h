/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acceptor.h - takes connections from a listening socket, a few at each turn of the loop
 *
 * It rests while no more may connect, and for a moment when none can be accepted:
 * trying again at once would only burn time. When descriptors have run out, the
 * spare one is given up for whoever waits first. Control thread only.
 */
#ifndef SWAKV_BROKER_ACCEPTOR_H
#define SWAKV_BROKER_ACCEPTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "session_edge.h"

struct acceptor_owner {
	const char *who; /* begins the lines of the log */
	/* Takes *@fd, or leaves it to be closed. 0; or a negative errno: none can be taken now. */
	int (*take)(void *owner, int *fd, const struct peer *p);
	/* The same for the one who gets the spare descriptor. */
	int (*take_last)(void *owner, int *fd, const struct peer *p);
	/* The kernel does not say who connected. NULL: nothing to do. */
	void (*unknown)(void *owner);
	bool (*full)(const void *owner);
};

struct acceptor {
	const struct acceptor_owner *calls;
	void *owner;
	const struct session_edge *edge;
	int *spare;                /* descriptor, -1: none */
	struct listener *listener; /* NULL: not serving (any more) */
	struct source source;
	bool accepting;
	uint64_t accept_at; /* not before */
};

/* All pointers are borrowed. */
void acceptor_init(struct acceptor *a, const struct acceptor_owner *calls, void *owner, const struct session_edge *edge,
		   int *spare);
/* Takes connections from @listener, borrowed until acceptor_close(). 0 or a negative errno. */
int acceptor_serve(struct acceptor *a, struct listener *listener);
/* At the end of a turn: takes connections again, where that was over. */
void acceptor_again(struct acceptor *a, uint64_t now);
/* When to try again, 0: nothing to wait for. */
uint64_t acceptor_next_deadline(const struct acceptor *a);
/* Stops listening; the socket's name goes. Safe to repeat. */
void acceptor_close(struct acceptor *a);

/* Takes a descriptor aside, where one can be had, for the time when none can. */
void acceptor_keep_spare(const struct session_edge *e, int *spare);

#endif
