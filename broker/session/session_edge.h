/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_edge.h - what the control thread asks of the world about connections, processes and memory
 *
 * Everything else that happens to a connection follows from its state and from
 * the events that it is told of (client.h, acceptor.h, admin.h), so a test puts
 * edges of its own here, and plays kernel, clock and GPU.
 */
#ifndef SWAKV_BROKER_SESSION_EDGE_H
#define SWAKV_BROKER_SESSION_EDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "config/config.h"
#include "listener.h"
#include "log/log.h"
#include "packet.h"
#include "peer.h"
#include "process/dispatcher.h"
#include "ring/session_memory.h"

struct control;

struct session_edge {
	void *arg; /* of all calls */
	/* Nanoseconds, CLOCK_MONOTONIC. */
	uint64_t (*now)(void *arg);
	/* A line for the log, as log_caused(). */
	void (*say)(void *arg, uint32_t uid, enum log_level level, const char *text);

	/* ---- descriptors ---- */

	/* As dispatcher_add() and dispatcher_remove(). */
	int (*watch)(void *arg, struct source *s, int fd, uint32_t events, void (*event)(void *owner, uint32_t events),
		     void *owner);
	void (*unwatch)(void *arg, struct source *s);
	/* *@fd becomes -1; safe to repeat. */
	void (*close)(void *arg, int *fd);
	/* The same of what a client has had in its hands: a connection, what came over it. Never waits. */
	void (*drop)(void *arg, int *fd);
	/* One that can be given up when none is left; -1: there is none now. */
	int (*spare)(void *arg);
	/* The next connection of the listening socket @fd, or a negative errno; -EAGAIN: none is waiting. */
	int (*accept)(void *arg, int fd);
	/* Nobody can connect any more; the socket's name goes. */
	void (*stop_listening)(void *arg, struct listener *l);

	/* ---- a connection ---- */

	/* As peer_read() and peer_allowed(). */
	int (*peer)(void *arg, struct peer *p, int socket);
	bool (*allowed)(void *arg, const struct peer *p, int socket, const struct config *c);
	/* As packet_receive(), packet_send() and packet_send_last(). */
	ssize_t (*receive)(void *arg, int socket, void *buf, size_t size, struct packet_origin *origin);
	bool (*send)(void *arg, int socket, const struct iovec *parts, uint32_t n_parts, const int *fds,
		     uint32_t n_fds);
	void (*send_last)(void *arg, int socket, const void *buf, size_t size);
	/* Nothing more is sent; its own end is still seen. */
	void (*end_sending)(void *arg, int socket);

	/* ---- its process ---- */

	/* As peer_pidfd(). */
	int (*pidfd)(void *arg, const struct peer *p, int socket, const struct packet_origin *hello, char *why,
		     size_t size);
	/* SIGKILL, by @pidfd. 0 or a negative errno. */
	int (*kill)(void *arg, int pidfd);
	/* As gpu_watch_begin(), _ended(), _gone() and _end(): @place is the session's number, less 1. */
	void (*gpu_begin)(void *arg, uint32_t place, pid_t pid);
	void (*gpu_ended)(void *arg, uint32_t place);
	bool (*gpu_gone)(void *arg, uint32_t place);
	void (*gpu_end)(void *arg, uint32_t place);

	/* ---- its session ---- */

	/* As session_memory_init() and session_memory_deinit(). */
	int (*make_memory)(void *arg, struct session_memory *m, const struct session_layout *l);
	void (*free_memory)(void *arg, struct session_memory *m);
	/* What its worker rings, or a negative errno. */
	int (*make_doorbell)(void *arg);
	/* A second descriptor of the connection @socket, or a negative errno. */
	int (*copy)(void *arg, int socket);
};

/* The world itself: @c has the dispatcher and the watch over the GPU. */
struct session_edge session_edge_real(struct control *c);

/* Formats the line that edge.say() takes. */
void session_say(const struct session_edge *e, uint32_t uid, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
