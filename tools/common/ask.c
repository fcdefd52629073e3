/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.c - see ask.h
 *
 * Every wait has the same deadline: a broker that is stopped must not hang its
 * administrator. What comes back is checked as if anybody had sent it: a socket
 * is found by name, and a name can be taken by others.
 */
#include "ask.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "instance.h"
#include "process_state.h"
#include "status_page.h"

enum { RETRY_MS = 10, MAX_DESCRIPTORS = 8 /* the kernel closes what finds no room */ };

struct asking {
	const struct question *q;
	struct answer *out;
	struct sockaddr_un address;
	int64_t deadline; /* ms, CLOCK_MONOTONIC */
	int socket;
};

static int64_t now_ms(void)
{
	return (int64_t)(clock_ns() / NS_PER_MS);
}

#define SAY(a, ...) snprintf((a)->out->text, sizeof((a)->out->text), __VA_ARGS__)

/* ---- where ---------------------------------------------------------------------- */

static bool set_path(struct asking *a, const char *workers)
{
	a->address.sun_family = AF_UNIX;
	return admin_socket_path(workers, a->address.sun_path, sizeof(a->address.sun_path));
}

/* Where a broker of that name listens unless it was told otherwise: below @folder. */
static bool usual_path(struct asking *a, const char *folder)
{
	char path[256];
	int n = instance_socket(path, sizeof(path), folder, a->q->broker);

	return n >= 0 && (size_t)n < sizeof(path) && set_path(a, path);
}

/* Where the live broker of that name says that it listens: its run-time folder may be another user's. */
static bool shown_path(struct asking *a)
{
	struct status_reader reader;
	char path[sizeof(reader.head.socket_path)];
	bool found = status_reader_open(&reader, a->q->broker) == 0 && status_reader_alive(&reader);

	if (found) {
		memcpy(path, reader.head.socket_path, sizeof(path));
		path[sizeof(path) - 1] = '\0';
	}
	status_reader_close(&reader);
	return found && path[0] && set_path(a, path);
}

/* ---- wait ------------------------------------------------------------------------- */

/* Of whoever listens, 0: not seen from here. */
static pid_t peer_pid(const struct asking *a)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);

	return getsockopt(a->socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
}

static enum ctl_exit no_answer(struct asking *a, const char *what)
{
	char look[64], silence[PROCESS_SILENCE];

	a->out->pid = peer_pid(a);
	snprintf(look, sizeof(look), "swakv-status -b %s", a->q->socket ? "NAME" : a->q->broker);
	process_silence(silence, a->out->pid, a->q->look ? a->q->look : look);
	if (a->q->socket)
		SAY(a, "the broker at %s %s within %u ms: %s", a->q->socket, what, a->q->timeout_ms, silence);
	else
		SAY(a, "broker '%s' %s within %u ms: %s", a->q->broker, what, a->q->timeout_ms, silence);
	return CTL_NO_ANSWER;
}

/* Wherever it was looked for: more than one place is one that may have been meant. */
static enum ctl_exit found_none(struct asking *a)
{
	const char *first = instance_folder(0), *second = instance_folder(1), *name = a->q->broker;

	if (second)
		SAY(a,
		    "no broker '%s': there is neither %s/swakv/%s.sock.ctl ($XDG_RUNTIME_DIR must be that of the "
		    "broker) nor %s/swakv/%s.sock.ctl; 'swakvd --name %s' starts one",
		    name, first, name, second, name, name);
	else
		SAY(a,
		    "no broker '%s': there is no %s/swakv/%s.sock.ctl ($XDG_RUNTIME_DIR, which is not set here, must "
		    "be that of the broker); 'swakvd --name %s' starts one",
		    name, first, name, name);
	return CTL_NO_BROKER;
}

static enum ctl_exit no_broker(struct asking *a, const char *why)
{
	if (a->q->socket)
		SAY(a, "no broker: %s: %s", a->address.sun_path, why);
	else
		SAY(a, "no broker '%s': %s: %s", a->q->broker, a->address.sun_path, why);
	return CTL_NO_BROKER;
}

/* Keeps the one descriptor that answers to the question; others are not asked for. */
static void take_descriptors(struct asking *a, struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		size_t n = h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS
				   ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(int)
				   : 0;

		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(fd), sizeof(fd));
			if (a->out->fd < 0 && a->q->request.op == ADMIN_STATUS)
				a->out->fd = fd;
			else
				close_fd(&fd);
		}
	}
}

/* As recv(): a message and what came with it. */
static ssize_t take_message(struct asking *a, void *buf, size_t size)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(a->socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n >= 0)
		take_descriptors(a, &m);
	return n;
}

/* One message of at most @size bytes; -1: none, with the exit code in *@e. */
static ssize_t receive(struct asking *a, void *buf, size_t size, enum ctl_exit *e)
{
	struct pollfd p = { .fd = a->socket, .events = POLLIN };
	int64_t left;
	ssize_t n;

	do {
		left = a->deadline - now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) == 0) {
			*e = no_answer(a, "did not answer");
			return -1;
		}
		n = take_message(a, buf, size);
	} while (n < 0 && (errno == EAGAIN || errno == EINTR));
	if (n <= 0) {
		*e = no_broker(a, n < 0 ? strerror(errno) : "it ended the connection without an answer");
		return -1;
	}
	return n;
}

/* A full backlog is waited for. */
static int connect_until(struct asking *a)
{
	while (connect(a->socket, (struct sockaddr *)&a->address, sizeof(a->address)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return errno;
		if (now_ms() >= a->deadline)
			return ETIMEDOUT;
		nanosleep(&(struct timespec){ .tv_nsec = RETRY_MS * 1000000 }, NULL);
	}
	return 0;
}

/* 0, or the errno of the last path that was tried; ENAMETOOLONG: it is none. */
static int connect_by_name(struct asking *a)
{
	const char *folder;
	int e = ENOENT;

	for (unsigned int i = 0; (e == ENOENT || e == ENAMETOOLONG) && (folder = instance_folder(i)); i++)
		e = usual_path(a, folder) ? connect_until(a) : ENAMETOOLONG;
	if (e && e != ETIMEDOUT && shown_path(a))
		e = connect_until(a);
	return e;
}

static enum ctl_exit open_connection(struct asking *a)
{
	int e;

	a->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->socket < 0)
		return no_broker(a, strerror(errno));
	if (!a->q->socket)
		e = connect_by_name(a);
	else
		e = set_path(a, a->q->socket) ? connect_until(a) : ENAMETOOLONG;
	if (e == ENAMETOOLONG) {
		SAY(a, "the path of the broker's socket is longer than %zu bytes",
		    sizeof(a->address.sun_path) - sizeof(ADMIN_SOCKET_SUFFIX));
		return CTL_USAGE;
	}
	if (e == EACCES || e == EPERM) {
		SAY(a, "uid %u may not open %s: only root, the broker's own user and those of its admin_uid may",
		    (unsigned)getuid(), a->address.sun_path);
		return CTL_DENIED;
	}
	if (e == ETIMEDOUT)
		return no_answer(a, "took no connection");
	if (e == ENOENT && !a->q->socket)
		return found_none(a);
	return e ? no_broker(a, strerror(e)) : CTL_DONE;
}

/* ---- what comes back ----------------------------------------------------------------- */

/* Terminates @text and replaces what a terminal should not see. */
static void make_printable(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (; *text; text++)
		if (!isprint((unsigned char)*text))
			*text = '?';
}

static enum ctl_exit take_greeting(struct asking *a)
{
	struct admin_greeting *g = &a->out->greeting;
	enum ctl_exit e = CTL_DONE;
	ssize_t n = receive(a, g, sizeof(*g), &e);

	if (n < 0)
		return e;
	if (n != sizeof(*g) || g->magic != ADMIN_MAGIC || g->size != sizeof(*g) || g->version != ADMIN_VERSION ||
	    g->size_request != sizeof(struct admin_request) || g->size_reply != sizeof(struct admin_reply) ||
	    g->size_session != sizeof(struct admin_session)) {
		memset(g, 0, sizeof(*g));
		SAY(a, "%s: broker and swakv-ctl are of different versions: use the broker's own", a->address.sun_path);
		return CTL_REFUSED;
	}
	make_printable(g->name, sizeof(g->name));
	make_printable(g->text, sizeof(g->text));
	if (g->code == 0)
		return CTL_DONE;
	SAY(a, "%s", g->text);
	return g->code == SWAKV_EDENIED ? CTL_DENIED : CTL_REFUSED;
}

/* All that may come: the reply, and what follows it. */
struct reply_message {
	struct admin_reply reply;
	unsigned char rest[ADMIN_MAX_SESSIONS * sizeof(struct admin_session) + ADMIN_MAX_DRAINED * WIRE_MODEL_NAME];
};

/* Splits @m of @n bytes. False: it makes no sense. */
static bool split_reply(struct answer *out, const struct reply_message *m, size_t n, uint16_t op)
{
	const struct admin_reply *r = &m->reply;
	size_t sessions, names;

	if (n < sizeof(*r) || r->magic != ADMIN_MAGIC || r->size != sizeof(*r) || r->op != op ||
	    r->n_sessions > ADMIN_MAX_SESSIONS || r->n_names > ADMIN_MAX_DRAINED)
		return false;
	sessions = r->n_sessions * sizeof(out->sessions[0]);
	names = r->n_names * sizeof(out->drained[0]);
	if (n != sizeof(*r) + sessions + names)
		return false;
	out->reply = *r;
	memcpy(out->sessions, m->rest, sessions);
	memcpy(out->drained, m->rest + sessions, names);
	return true;
}

static enum ctl_exit take_reply(struct asking *a)
{
	static struct reply_message m;
	struct admin_reply *r = &a->out->reply;
	enum ctl_exit e = CTL_DONE;
	ssize_t n = receive(a, &m, sizeof(m), &e);

	if (n < 0)
		return e;
	if (!split_reply(a->out, &m, (size_t)n, a->q->request.op)) {
		SAY(a, "%s: the answer makes no sense", a->address.sun_path);
		return CTL_REFUSED;
	}
	make_printable(r->text, sizeof(r->text));
	make_printable(r->version_text, sizeof(r->version_text));
	for (uint32_t i = 0; i < r->n_sessions; i++)
		make_printable(a->out->sessions[i].model, sizeof(a->out->sessions[i].model));
	for (uint32_t i = 0; i < r->n_names; i++)
		make_printable(a->out->drained[i], sizeof(a->out->drained[i]));
	SAY(a, "%s", r->text);
	if (r->code == 0)
		return CTL_DONE;
	return r->code == SWAKV_EDENIED ? CTL_DENIED : CTL_REFUSED;
}

enum ctl_exit ask(const struct question *q, struct answer *out)
{
	struct asking a = { .q = q, .out = out, .deadline = now_ms() + q->timeout_ms, .socket = -1 };
	struct admin_request request = q->request;
	enum ctl_exit e;

	memset(out, 0, sizeof(*out));
	out->fd = -1;
	request.magic = ADMIN_MAGIC;
	request.size = sizeof(request);
	request.version = ADMIN_VERSION;
	e = open_connection(&a);
	if (e == CTL_DONE)
		e = take_greeting(&a);
	if (e == CTL_DONE && send(a.socket, &request, sizeof(request), MSG_NOSIGNAL) != (ssize_t)sizeof(request))
		e = no_broker(&a, strerror(errno));
	if (e == CTL_DONE)
		e = take_reply(&a);
	if (e == CTL_DONE && request.op == ADMIN_STATUS && out->fd < 0) {
		SAY(&a, "%s: the answer has no status page", a.address.sun_path);
		e = CTL_REFUSED;
	}
	if (e != CTL_DONE)
		close_fd(&out->fd);
	else
		out->pid = peer_pid(&a);
	close_fd(&a.socket);
	return e;
}
