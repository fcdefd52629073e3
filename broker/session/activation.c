/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.c - see activation.h
 *
 * The protocol is two variables and descriptors from 3 on: it needs no library, and whoever else
 * supervises brokers can speak it.
 */
#include "activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST = 3, MOST = 8 };

static struct {
	int fd; /* -1: taken */
	struct sockaddr_un address;
} passed[MOST];
static int n_passed;

static bool number(const char *name, long *value)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !text[0])
		return false;
	errno = 0;
	*value = strtol(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static int get(int fd, int option)
{
	socklen_t len = sizeof(int);
	int value;

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

static bool listens(int fd, struct sockaddr_un *address)
{
	socklen_t len = sizeof(*address);

	memset(address, 0, sizeof(*address)); /* a path may fill it, without a 0 behind */
	return get(fd, SO_TYPE) == SOCK_SEQPACKET && get(fd, SO_ACCEPTCONN) == 1 &&
	       getsockname(fd, (struct sockaddr *)address, &len) == 0 && address->sun_family == AF_UNIX &&
	       address->sun_path[0] && !address->sun_path[sizeof(address->sun_path) - 1];
}

int activation_begin(char *why, size_t size)
{
	long pid, n = 0;
	bool ours = number("LISTEN_PID", &pid) && pid == getpid() && number("LISTEN_FDS", &n);

	n_passed = 0;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (!ours || n <= 0)
		return 0;
	if (n > MOST) {
		snprintf(why, size, "LISTEN_FDS=%ld: a broker has two sockets: lower the number of Listen lines", n);
		return -1;
	}
	for (int i = 0; i < n; i++) {
		passed[i].fd = FIRST + i;
		fcntl(passed[i].fd, F_SETFD, FD_CLOEXEC);
		if (!listens(passed[i].fd, &passed[i].address)) {
			snprintf(why, size,
				 "LISTEN_FDS: descriptor %d is no Unix socket of type SOCK_SEQPACKET that listens on a "
				 "path: write ListenSequentialPacket=PATH in the socket unit",
				 passed[i].fd);
			return -1;
		}
	}
	n_passed = (int)n;
	return 0;
}

static int find(const char *path)
{
	for (int i = 0; i < n_passed; i++)
		if (passed[i].fd >= 0 && !strcmp(passed[i].address.sun_path, path))
			return i;
	return -1;
}

bool activation_has(const char *path)
{
	return find(path) >= 0;
}

int activation_take(const char *path)
{
	int i = find(path), fd = -1;

	if (i >= 0) {
		fd = passed[i].fd;
		passed[i].fd = -1;
	}
	return fd;
}

const char *activation_left(void)
{
	for (int i = 0; i < n_passed; i++)
		if (passed[i].fd >= 0)
			return passed[i].address.sun_path;
	return NULL;
}
