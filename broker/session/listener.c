/* SPDX-License-Identifier: Apache-2.0 */
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "activation.h"
#include "cleanup.h"
#include "peer.h"
#include "process/closer.h"
#include "process/process.h"
#include "takeover.h"

#ifndef SO_PASSRIGHTS /* Linux 6.16 */
#define SO_PASSRIGHTS 83
#endif

enum { BACKLOG = 128 };

int listener_lock(struct listener *l, const char *path, bool everyone, char *why, size_t size)
{
	*l = (struct listener){ .fd = -1, .lock = -1 };
	snprintf(l->path, sizeof(l->path), "%s", path);
	return takeover_lock(&l->lock, path, everyone, why, size);
}

void listener_beside(struct listener *l, const struct listener *first, const char *suffix)
{
	*l = (struct listener){ .fd = -1, .lock = -1 };
	snprintf(l->path, sizeof(l->path), "%.*s%s", (int)(sizeof(l->path) - 1 - strlen(suffix)), first->path, suffix);
}

/*
 * Whatever a client sends, the broker has to close. Where no hello needs a
 * descriptor, none can be sent: what is accepted inherits it. Kernels before
 * Linux 6.16 cannot do that, and threads close what comes. 0 or -1.
 */
static int refuse_descriptors(int fd)
{
	int no = 0, r;

	if (peer_pidfd_is_told() && setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no)) == 0)
		return 0;
	r = closer_start();
	errno = -r;
	return r < 0 ? -1 : 0;
}

static int bind_socket(struct listener *l, bool everyone)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	int yes = 1;

	strcpy(address.sun_path, l->path);
	/* The mode that bind() gives the socket, so that it is never wider than it should be. */
	if (fchmod(l->fd, 0600) < 0 || bind(l->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	if (lstat(l->path, &st) < 0)
		return -1;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	l->bound = true;
	if (everyone && chmod(l->path, 0666) < 0)
		return -1;
	if (setsockopt(l->fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0) /* what is accepted inherits it */
		return -1;
	return refuse_descriptors(l->fd) < 0 ? -1 : listen(l->fd, BACKLOG);
}

/* One that was passed listens already. Again, so that those who connect see who this process is (SO_PEERCRED). */
static int adopt(struct listener *l)
{
	int yes = 1, flags = fcntl(l->fd, F_GETFL), r;

	if (flags < 0 || fcntl(l->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    setsockopt(l->fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0)
		return -1;
	r = closer_start(); /* for those that connected before: they may have sent some */
	if (r == 0)
		return refuse_descriptors(l->fd) < 0 ? -1 : listen(l->fd, BACKLOG);
	errno = -r;
	return -1;
}

int listener_open(struct listener *l, bool everyone, char *why, size_t size)
{
	int r;

	l->fd = activation_take(l->path);
	if (l->fd >= 0) {
		if (adopt(l) == 0)
			return 0;
		snprintf(why, size, "cannot listen on the socket %s, which was passed: %s", l->path,
			 process_error(errno));
		return EXIT_CODE_FAILURE;
	}
	r = takeover_socket(l->path, why, size);
	if (r)
		return r;
	l->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || bind_socket(l, everyone) < 0) {
		snprintf(why, size, "cannot listen on %s: %s", l->path, process_error(errno));
		return EXIT_CODE_FAILURE;
	}
	return 0;
}

static bool may_enter(const struct stat *st, const struct config_ids *groups)
{
	if (st->st_mode & S_IXOTH)
		return true;
	for (uint32_t i = 0; i < groups->n && st->st_mode & S_IXGRP; i++)
		if (groups->ids[i] == st->st_gid)
			return true;
	return false;
}

bool listener_shut_in(const struct listener *l, const struct config_ids *groups, char *why, size_t size)
{
	char folder[CONFIG_SOCKET];
	struct stat st;

	snprintf(folder, sizeof(folder), "%s", l->path);
	do {
		const char *above = dirname(folder); /* in place, or static: "/" and "." */

		if (above != folder)
			snprintf(folder, sizeof(folder), "%s", above);
		if (stat(folder, &st) < 0 || may_enter(&st, groups))
			continue;
		snprintf(why, size,
			 "%s has mode %04o, which keeps them from the socket: set socket to a path in a folder that "
			 "they may enter, or open that one",
			 folder, (unsigned)st.st_mode & 07777);
		return true;
	} while (folder[1]); /* neither "/" nor "." */
	return false;
}

void listener_close(struct listener *l)
{
	struct stat st;

	if (l->fd >= 0 && l->bound)
		shutdown(l->fd, SHUT_RDWR); /* whoever waits to be accepted is closed with it */
	closer_close(&l->fd);
	if (l->bound && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
	l->bound = false;
}

void listener_deinit(struct listener *l)
{
	listener_close(l);
	close_fd(&l->lock);
}
