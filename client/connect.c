/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c - see connect.h
 *
 * The socket is non-blocking and every wait has the deadline of the attach: a
 * broker that is stopped must not hang its clients. A broker that refuses does so
 * as soon as it knows, maybe before it has read or even got the hello: its answer
 * is looked for whatever became of that.
 */
#include "connect.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <swakv/error.h>

#include "cleanup.h"
#include "clock.h"
#include "descriptors.h"
#include "instance.h"
#include "process_state.h"

void connection_init(struct connection *c, uint64_t deadline)
{
	*c = (struct connection){ .sock = -1, .deadline = deadline };
	for (uint32_t i = 0; i < WIRE_MAX_FDS; i++)
		c->fds[i] = -1;
}

void connection_deinit(struct connection *c)
{
	for (uint32_t i = 0; i < WIRE_MAX_FDS; i++)
		close_fd(&c->fds[i]);
	close_fd(&c->sock);
}

/* ---- where ------------------------------------------------------------------- */

/* Only a path: whoever is there may have any name. */
static void connection_called_by_path(struct connection *c, const char *path)
{
	snprintf(c->broker, sizeof(c->broker), "%s", path);
	snprintf(c->look, sizeof(c->look), "swakv-ctl --socket %s ping", c->broker);
	snprintf(c->start, sizeof(c->start), "swakvd --socket %s", c->broker);
}

static int connection_name(struct connection *c, const char *broker, const char *path, struct text *why)
{
	bool named = broker && *broker;

	if (path && !named) {
		connection_called_by_path(c, path);
		return 0;
	}
	if (!broker || !*broker)
		broker = getenv("SWAKV_BROKER");
	if (!broker || !*broker)
		broker = "default";
	if (!instance_name_valid(broker))
		return text_set(why, SWAKV_EINVALID,
				"'%s' cannot be the name of a broker: a name has " INSTANCE_NAME_RULE, broker);
	memcpy(c->broker, broker, strlen(broker) + 1);
	snprintf(c->look, sizeof(c->look), "swakv-status --name %s", c->broker);
	snprintf(c->start, sizeof(c->start), "swakvd --name %s%s%.103s", c->broker, path ? " --socket " : "",
		 path ? path : "");
	return 0;
}

/* @n: what snprintf() said of c->path. */
static int connection_path_fits(const struct connection *c, int n, struct text *why)
{
	if (n >= 0 && (size_t)n < sizeof(c->path))
		return 0;
	return text_set(why, SWAKV_EINVALID, "the socket path '%s...' is longer than the %zu bytes allowed", c->path,
			sizeof(c->path) - 1);
}

/* ---- connect ------------------------------------------------------------------ */

static int connection_no_socket(const struct connection *c, struct text *why)
{
	if (c->given)
		return text_set(why, SWAKV_EGONE,
				"no broker: there is no socket %s, the path given by the caller; start one with "
				"'%s', or give no path",
				c->path, c->start);
	if (c->missed)
		return text_set(
			why, SWAKV_EGONE,
			"no broker '%s': there is no socket %s/swakv/%s.sock ($XDG_RUNTIME_DIR must be the same "
			"for both), and no %s; start one with '%s', or name another by $SWAKV_BROKER",
			c->broker, instance_folder(0), c->broker, c->path, c->start);
	return text_set(why, SWAKV_EGONE,
			"no broker '%s': there is no socket %s; start one with '%s', or name another by "
			"$SWAKV_BROKER ($XDG_RUNTIME_DIR, which is not set here, must be the same for both)",
			c->broker, c->path, c->start);
}

static int connection_failed(const struct connection *c, int e, struct text *why)
{
	struct stat st;

	switch (e) {
	case ENOENT:
	case ENOTDIR:
		return connection_no_socket(c, why);
	case ECONNREFUSED:
		if (stat(c->path, &st) == 0 && !S_ISSOCK(st.st_mode))
			return text_set(why, SWAKV_EGONE, "%s is not a socket: give the path of a broker's socket",
					c->path);
		return text_set(
			why, SWAKV_EGONE,
			"no broker listens on %s: the broker has died and left its socket; start it again with '%s'",
			c->path, c->start);
	case EACCES:
	case EPERM:
		return text_set(why, SWAKV_EDENIED,
				"uid %u may not open the socket %s of broker '%s'%s; the broker's access list and the "
				"socket's mode decide that",
				(unsigned)getuid(), c->path, c->broker,
				c->missed ? ", and $XDG_RUNTIME_DIR has none of that name" : "");
	case ETIMEDOUT:
		return text_set(why, SWAKV_ETIMEDOUT,
				"the broker '%s' accepted no connection on %s in time;  '%s' shows whether it is stuck",
				c->broker, c->path, c->look);
	default:
		return text_set(why, SWAKV_ESYSTEM, "connecting to %s failed: %s", c->path, strerror(e));
	}
}

/* 0, or the errno with which c->path could not be connected to. */
static int connection_try(struct connection *c)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, c->path, sizeof(c->path));
	while (connect(c->sock, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		if (errno == EAGAIN && clock_ns() < c->deadline) {
			nanosleep(&pause, NULL); /* the queue of connections is full */
			continue;
		}
		if (errno != EINTR)
			return errno == EAGAIN ? ETIMEDOUT : errno;
	}
	return 0;
}

static int connection_try_path(struct connection *c, const char *path, struct text *why)
{
	int r, n = snprintf(c->path, sizeof(c->path), "%s", path);

	c->given = true;
	r = connection_path_fits(c, n, why);
	if (r < 0)
		return r;
	r = connection_try(c);
	return r ? connection_failed(c, r, why) : 0;
}

/* The first folder that has a socket of the name decides, whatever comes of that socket. */
static int connection_try_name(struct connection *c, struct text *why)
{
	const char *folder;
	int e = ENOENT;

	for (unsigned int i = 0; (e == ENOENT || e == ENOTDIR) && (folder = instance_folder(i)); i++) {
		int r = connection_path_fits(c, instance_socket(c->path, sizeof(c->path), folder, c->broker), why);

		if (r < 0)
			return r;
		c->missed = i > 0;
		e = connection_try(c);
	}
	return e ? connection_failed(c, e, why) : 0;
}

int connection_open(struct connection *c, const char *broker, const char *socket_path, struct text *why)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);
	int r = connection_name(c, broker, socket_path, why);

	if (r < 0)
		return r;
	c->sock = descriptor_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (c->sock < 0)
		return text_set(why, SWAKV_ESYSTEM, "no socket could be created: %s", strerror(errno));
	r = socket_path ? connection_try_path(c, socket_path, why) : connection_try_name(c, why);
	if (r < 0)
		return r;
	if (getsockopt(c->sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		c->broker_pid = peer.pid;
	return 0;
}

/* ---- greet ----------------------------------------------------------------------- */

#define BROKER_PROCESS 40

/* "pid 4711", or that it has none here. Returns @buf. */
static const char *broker_process(const struct connection *c, char buf[BROKER_PROCESS])
{
	if (c->broker_pid)
		snprintf(buf, BROKER_PROCESS, "pid %d", c->broker_pid);
	else
		snprintf(buf, BROKER_PROCESS, "in another pid namespace");
	return buf;
}

static int connection_wait(struct connection *c, short events, struct text *why)
{
	struct pollfd p = { .fd = c->sock, .events = events };
	char process[BROKER_PROCESS], silence[PROCESS_SILENCE];

	for (;;) {
		uint64_t now = clock_ns();
		int r = poll(&p, 1, now >= c->deadline ? 0 : (int)((c->deadline - now + 999999) / 1000000));

		if (r > 0)
			return 0;
		if (r == 0)
			return text_set(why, SWAKV_ETIMEDOUT,
					"the broker '%s' (%s) did not answer the attach in time; %s", c->broker,
					broker_process(c, process), process_silence(silence, c->broker_pid, c->look));
		if (errno != EINTR)
			return text_set(why, SWAKV_ESYSTEM, "waiting for the broker failed: %s", strerror(errno));
	}
}

/* True of the errors of a connection that the other side has ended; what it said before can still be read. */
static bool is_cut_off(int e)
{
	return e == EPIPE || e == ECONNRESET;
}

/* A broker that has ended the connection already is no failure here: it may have said why. */
static int connection_send(struct connection *c, const struct wire_hello *hello, struct text *why)
{
	AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)hello, .iov_len = sizeof(*hello) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (pidfd >= 0) { /* without one the broker finds its own, or refuses */
		m.msg_control = control.space;
		m.msg_controllen = sizeof(control.space);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &pidfd, sizeof(int));
	}
	for (;;) {
		n = sendmsg(c->sock, &m, MSG_NOSIGNAL);
		if (n == (ssize_t)sizeof(*hello) || (n < 0 && is_cut_off(errno)))
			return 0;
		if (n < 0 && errno == EPERM && m.msg_control) { /* the broker takes no descriptors, and needs none */
			m.msg_control = NULL;
			m.msg_controllen = 0;
		} else if (n < 0 && errno == EAGAIN) {
			int r = connection_wait(c, POLLOUT, why);

			if (r < 0)
				return r;
		} else if (n >= 0 || errno != EINTR) {
			return text_set(why, SWAKV_ESYSTEM, "the hello to the broker '%s' could not be sent: %s",
					c->broker, n < 0 ? strerror(errno) : "short message");
		}
	}
}

/* Takes over the fds that came with @m; what does not fit is closed. False: the kernel had to drop some. */
static bool connection_take_fds(struct connection *c, struct msghdr *m)
{
	bool whole = !(m->msg_flags & MSG_CTRUNC);

	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
			fd = descriptor_raise(fd);
			if (fd >= 0 && c->n_fds < WIRE_MAX_FDS) {
				c->fds[c->n_fds++] = fd;
			} else {
				close_fd(&fd);
				whole = false;
			}
		}
	}
	return whole;
}

/* What can be said of a welcome before anything else: is it one, of this version, and not a refusal? */
static int welcome_judge(const struct connection *c, struct wire_welcome *w, size_t n, struct text *why)
{
	bool has_text = n >= offsetof(struct wire_welcome, n_pools);
	char process[BROKER_PROCESS];

	if (n < offsetof(struct wire_welcome, version) + sizeof(w->version) || w->magic != WIRE_MAGIC)
		return text_set(why, SWAKV_EVERSION, "what listens on %s is not a swakv broker", c->path);
	w->text[sizeof(w->text) - 1] = '\0';
	if (has_text && w->code != 0 && w->code >= SWAKV_EUNSUPPORTED && w->code < 0)
		return text_set(why, w->code, "the broker '%s' (%s) refused: %s", c->broker, broker_process(c, process),
				w->text[0] ? w->text : swakv_error_text(w->code));
	if (w->version < WIRE_VERSION_MIN || w->version > WIRE_VERSION_MAX)
		return text_set(why, SWAKV_EVERSION,
				"the broker '%s' speaks protocol version %u, this library (%s) speaks %u to %u: "
				"upgrade the older of them",
				c->broker, w->version, SWAKV_VERSION, WIRE_VERSION_MIN, WIRE_VERSION_MAX);
	if (n != sizeof(*w) || w->size != sizeof(*w))
		return text_set(why, SWAKV_EVERSION,
				"the broker's welcome has %" PRIu32 " bytes (%zu came), this library (%s) expects %zu: "
				"they were built from different versions",
				w->size, n, SWAKV_VERSION, sizeof(*w));
	return has_text && w->code == 0
		       ? 0
		       : text_set(why, SWAKV_EVERSION, "the broker '%s' refused with the unknown code %d", c->broker,
				  w->code);
}

int connection_greet(struct connection *c, const struct wire_hello *hello, struct wire_welcome *w, struct text *why)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(WIRE_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = w, .iov_len = sizeof(*w) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space };
	ssize_t n;
	int r = connection_send(c, hello, why);

	if (r < 0)
		return r;
	do {
		r = connection_wait(c, POLLIN, why);
		if (r < 0)
			return r;
		m.msg_controllen = sizeof(control.space);
		n = recvmsg(c->sock, &m, MSG_CMSG_CLOEXEC);
		if (n < 0 && is_cut_off(errno)) /* told once, and then comes what it had said */
			n = recvmsg(c->sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	if (n <= 0)
		return text_set(why, SWAKV_EGONE, "the broker '%s' closed the connection without an answer%s%s",
				c->broker, n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
	if (!connection_take_fds(c, &m))
		return text_set(why, SWAKV_ESYSTEM,
				"not all file descriptors of the broker's welcome arrived: this process is near its "
				"limit of open files (ulimit -n)");
	return welcome_judge(c, w, (size_t)n, why);
}
