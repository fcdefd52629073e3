/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - who is at the other end of a socket: credentials and a pidfd
 *
 * A number is never trusted to stay the same process: the pidfd is, so an
 * attach without one is refused.
 */
#ifndef SWAKV_BROKER_PEER_H
#define SWAKV_BROKER_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"

struct peer {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* Credentials of the time of connect(). 0 or negative errno. */
int peer_read(struct peer *p, int socket);
/* The access list: listed uids, members of listed groups; without lists, the broker's own uid. */
bool peer_allowed(const struct peer *p, int socket, const struct config *c);
/* Who may administer: root, the broker's own uid, and the listed ones. */
bool peer_administers(const struct peer *p, const struct config *c);
/*
 * A pidfd of the peer, owned by the caller: from the kernel (SO_PEERPIDFD); else
 * @sent (-1: none; borrowed), when it is a pidfd of the peer's pid; else by the
 * pid of the credentials. Negative errno: none to be had.
 */
int peer_pidfd(const struct peer *p, int socket, int sent);
/* True when @fd is a pidfd of the process that this pid namespace calls @pid. */
bool pidfd_is_of(int fd, pid_t pid);

#endif
