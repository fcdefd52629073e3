/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.h - the handshake: one message out, one message and its fds in
 *
 * Nothing is mapped here and nothing of the welcome is believed yet, but for
 * its version: see welcome.h.
 */
#ifndef SWAKV_CLIENT_CONNECT_H
#define SWAKV_CLIENT_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "instance.h"
#include "text.h"
#include "wire.h"

#define CONNECTION_COMMAND (SOCKET_PATH_SIZE + WIRE_NAME + 40)

struct connection {
	int sock; /* -1: none */
	int fds[WIRE_MAX_FDS];
	uint32_t n_fds;
	int broker_pid; /* as the kernel told, for texts; 0: not of this pid namespace */
	char path[SOCKET_PATH_SIZE];
	bool given;                    /* the path came from the caller, not from the name */
	bool missed;                   /* it is the second that was tried: the user's own folder has none of the name */
	char broker[SOCKET_PATH_SIZE]; /* for texts: its name, or, where only a path was given, that */
	char look[CONNECTION_COMMAND]; /* a command that tells how it is */
	char start[CONNECTION_COMMAND]; /* one that starts it */
	uint64_t deadline;              /* CLOCK_MONOTONIC, ns */
};

void connection_init(struct connection *c, uint64_t deadline);
/* Closes the socket and every fd that was not taken away. Safe to repeat. */
void connection_deinit(struct connection *c);

/* Connects to @socket, or to the socket of the instance @broker (NULL: $SWAKV_BROKER, else "default"). */
int connection_open(struct connection *c, const char *broker, const char *socket, struct text *why);
/* Sends @hello with a pidfd of this process, receives @welcome and its fds. A refusal is returned with its text. */
int connection_greet(struct connection *c, const struct wire_hello *hello, struct wire_welcome *welcome,
		     struct text *why);

#endif
