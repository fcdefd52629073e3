/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - who is at the other end of a socket: credentials and a pidfd
 *
 * A number is never trusted to stay the same process, and never opened: the
 * pidfd is the identity, and an attach without one is refused. A process of a
 * pid namespace that this one does not see has no number at all.
 */
#ifndef SWAKV_BROKER_PEER_H
#define SWAKV_BROKER_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"
#include "packet.h"

struct peer {
	pid_t pid; /* 0: of a pid namespace that this one does not see */
	uid_t uid;
	gid_t gid;
};

/* Credentials of the time of connect(). 0 or negative errno. */
int peer_read(struct peer *p, int socket);
/* "pid 4711", or that it has none here. @buf has PEER_NAME bytes; returns it. */
#define PEER_NAME 48
const char *peer_name(const struct peer *p, char buf[PEER_NAME]);
/* The access list: listed uids, members of listed groups; without lists, the broker's own uid. */
bool peer_allowed(const struct peer *p, int socket, const struct config *c);
/* Who may administer: root, the broker's own uid, and the listed ones. */
bool peer_administers(const struct peer *p, const struct config *c);
/*
 * A pidfd of the peer, owned by the caller: from the kernel (SO_PEERPIDFD, Linux
 * 6.5), which must know the sender of the hello, @hello, as the process that
 * connected. On older kernels the hello's own descriptor, when it is a pidfd of a
 * process that lives, and the process that sent it, the one that connected and
 * that of the pidfd are one. -1: none that is certain, with the sentence in @why
 * (@size bytes).
 */
int peer_pidfd(const struct peer *p, int socket, const struct packet_origin *hello, char *why, size_t size);
/* True when @fd is a pidfd of the process that this pid namespace calls @pid. */
bool pidfd_is_of(int fd, pid_t pid);

/* True where the kernel gives the pidfd of whoever connected (Linux 6.5): then none need come with a hello. */
bool peer_pidfd_is_told(void);

#endif
