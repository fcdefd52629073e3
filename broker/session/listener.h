/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listener.h - the broker's socket in the file system
 *
 * One that listens already is taken where the process was passed it (activation.h), and
 * stays when the broker ends: it is its starter's. Otherwise it takes the place of a dead broker's
 * (takeover.h), and one that is not ours any more is never unlinked. The lock also covers a second socket beside the
 * first.
 */
#ifndef SWAKV_BROKER_LISTENER_H
#define SWAKV_BROKER_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/config.h"

struct listener {
	int fd;
	int lock;
	bool bound; /* by this process */
	dev_t dev;  /* of the bound socket's name */
	ino_t ino;
	char path[CONFIG_SOCKET];
};

/*
 * Takes the lock of @path, as takeover_lock() does, which also says what is
 * returned. @everyone: other users may connect and are judged by their credentials.
 */
int listener_lock(struct listener *l, const char *path, bool everyone, char *why, size_t size);
/* A second socket beside the first, under the same lock: "<socket><suffix>", which must fit. */
void listener_beside(struct listener *l, const struct listener *first, const char *suffix);
/*
 * Takes the socket that was passed, or replaces a stale one and listens; every message over it names its sender
 * (SO_PASSCRED). 0, or an enum exit_code with the sentence in @why.
 */
int listener_open(struct listener *l, bool everyone, char *why, size_t size);
/*
 * True when a folder above the socket is closed to others than its owner, or its group where that is none of
 * @groups: @why names it and says what to do. Whatever the socket's own mode, who is let in by it cannot reach it.
 */
bool listener_shut_in(const struct listener *l, const struct config_ids *groups, char *why, size_t size);
/* Stops listening and unlinks the socket; the lock stays. Safe to repeat. */
void listener_close(struct listener *l);
/* And the lock. Safe to repeat. */
void listener_deinit(struct listener *l);

#endif
