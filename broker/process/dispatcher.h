/* SPDX-License-Identifier: Apache-2.0 */
/* dispatcher.h - epoll with a callback a descriptor; one thread */
#ifndef SWAKV_BROKER_DISPATCHER_H
#define SWAKV_BROKER_DISPATCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Embedded in what it belongs to. */
struct source {
	int fd; /* borrowed; -1: not watched */
	void (*event)(void *owner, uint32_t events);
	void *owner;
};

struct dispatcher {
	int epoll;
};

int dispatcher_init(struct dispatcher *d);
void dispatcher_deinit(struct dispatcher *d);
/* Watches @fd for @events (EPOLLIN...). 0 or a negative errno. */
int dispatcher_add(struct dispatcher *d, struct source *s, int fd, uint32_t events,
		   void (*event)(void *owner, uint32_t events), void *owner);
/* Before the descriptor is closed. Safe to repeat. */
void dispatcher_remove(struct dispatcher *d, struct source *s);
/*
 * Waits at most @timeout_ms and calls back what is ready. What a callback
 * removes is not called any more, but must stay in memory until this returns.
 */
void dispatcher_run(struct dispatcher *d, int timeout_ms);

#endif
