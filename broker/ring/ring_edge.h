/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_edge.h - what the ring thread asks of the world: time, sleep, doorbells, wake-ups
 *
 * Everything else that a turn does (ring_round.h) follows from its state and
 * from the time that it was given, so a test puts edges of its own here and
 * plays the clock.
 */
#ifndef SWAKV_BROKER_RING_EDGE_H
#define SWAKV_BROKER_RING_EDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "atomics.h"

#define RING_EDGE_EVENTS 16 /* that one sleep tells of */

struct ring_edge {
	void *arg; /* of all calls */
	/* Nanoseconds, CLOCK_MONOTONIC. */
	uint64_t (*now)(void *arg);
	/* Nanoseconds that this thread has computed so far: being put aside is not among them. */
	uint64_t (*computed)(void *arg);
	/* From now on eventfd @fd tells of @who; false: memory is short. Undone with unwatch(). */
	bool (*watch)(void *arg, int fd, void *who);
	void (*unwatch)(void *arg, int fd);
	/*
	 * Sleeps until one of them rings, or @ns have passed (0: looks only). Returns
	 * how many have rung since the last look, RING_EDGE_EVENTS at most, and whom
	 * they tell of in @rung; 0: none, the time has passed; negative: interrupted.
	 */
	int (*sleep)(void *arg, uint64_t ns, void *rung[RING_EDGE_EVENTS]);
	/* Wakes one thread that sleeps on @word: a session is used by one at a time. */
	void (*wake)(void *arg, shm_u32 *word);
	/* Makes the other end of @socket readable, if it is not; never waits. */
	void (*notify)(void *arg, int socket);
	/* Offers the CPU to others. */
	void (*yield)(void *arg);
};

/* The world itself: @epoll is borrowed. */
struct ring_edge ring_edge_real(int *epoll);

#endif
