/* SPDX-License-Identifier: Apache-2.0 */
/* session_edge.c - see session_edge.h */
#include "session_edge.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "control.h"
#include "log/log_queue.h"
#include "process/closer.h"

void session_say(const struct session_edge *e, uint32_t uid, enum log_level level, const char *format, ...)
{
	char text[LOG_LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	e->say(e->arg, uid, level, text);
}

static uint64_t real_now(void *arg)
{
	return clock_ns();
}

static void real_say(void *arg, uint32_t uid, enum log_level level, const char *text)
{
	log_caused(uid, level, "%s", text);
}

/* ---- descriptors -------------------------------------------------------------------- */

static int real_watch(void *arg, struct source *s, int fd, uint32_t events, void (*event)(void *owner, uint32_t events),
		      void *owner)
{
	struct control *c = arg;

	return dispatcher_add(&c->dispatcher, s, fd, events, event, owner);
}

static void real_unwatch(void *arg, struct source *s)
{
	struct control *c = arg;

	dispatcher_remove(&c->dispatcher, s);
}

static void real_close(void *arg, int *fd)
{
	close_fd(fd);
}

static void real_drop(void *arg, int *fd)
{
	closer_close(fd);
}

static int real_spare(void *arg)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int real_accept(void *arg, int fd)
{
	int r = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), yes = 1;

	if (r < 0)
		return -errno;
	/* It has it from the listener, but for one who connected before the listener was ours. */
	setsockopt(r, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes));
	return r;
}

static void real_stop_listening(void *arg, struct listener *l)
{
	listener_close(l);
}

/* ---- a connection --------------------------------------------------------------------- */

static int real_peer(void *arg, struct peer *p, int socket)
{
	return peer_read(p, socket);
}

static bool real_allowed(void *arg, const struct peer *p, int socket, const struct config *c)
{
	return peer_allowed(p, socket, c);
}

static ssize_t real_receive(void *arg, int socket, void *buf, size_t size, struct packet_origin *origin)
{
	return packet_receive(socket, buf, size, origin);
}

static bool real_send(void *arg, int socket, const struct iovec *parts, uint32_t n_parts, const int *fds,
		      uint32_t n_fds)
{
	return packet_send(socket, parts, n_parts, fds, n_fds);
}

static void real_send_last(void *arg, int socket, const void *buf, size_t size)
{
	packet_send_last(socket, buf, size);
}

static void real_end_sending(void *arg, int socket)
{
	shutdown(socket, SHUT_WR);
}

/* ---- its process ------------------------------------------------------------------------ */

static int real_pidfd(void *arg, const struct peer *p, int socket, const struct packet_origin *hello, char *why,
		      size_t size)
{
	return peer_pidfd(p, socket, hello, why, size);
}

static int real_kill(void *arg, int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
}

static void real_gpu_begin(void *arg, uint32_t place, pid_t pid)
{
	struct control *c = arg;

	gpu_watch_begin(c->watch, place, pid);
}

static void real_gpu_ended(void *arg, uint32_t place)
{
	struct control *c = arg;

	gpu_watch_ended(c->watch, place);
}

static bool real_gpu_gone(void *arg, uint32_t place)
{
	const struct control *c = arg;

	return gpu_watch_gone(c->watch, place);
}

static void real_gpu_end(void *arg, uint32_t place)
{
	struct control *c = arg;

	gpu_watch_end(c->watch, place);
}

/* ---- its session -------------------------------------------------------------------------- */

static int real_make_memory(void *arg, struct session_memory *m, const struct session_layout *l)
{
	return session_memory_init(m, l);
}

static void real_free_memory(void *arg, struct session_memory *m)
{
	session_memory_deinit(m);
}

static int real_make_doorbell(void *arg)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

static int real_copy(void *arg, int socket)
{
	int fd = fcntl(socket, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return fd < 0 ? -errno : fd;
}

struct session_edge session_edge_real(struct control *c)
{
	return (struct session_edge){
		.arg = c,
		.now = real_now,
		.say = real_say,
		.watch = real_watch,
		.unwatch = real_unwatch,
		.close = real_close,
		.drop = real_drop,
		.spare = real_spare,
		.accept = real_accept,
		.stop_listening = real_stop_listening,
		.peer = real_peer,
		.allowed = real_allowed,
		.receive = real_receive,
		.send = real_send,
		.send_last = real_send_last,
		.end_sending = real_end_sending,
		.pidfd = real_pidfd,
		.kill = real_kill,
		.gpu_begin = real_gpu_begin,
		.gpu_ended = real_gpu_ended,
		.gpu_gone = real_gpu_gone,
		.gpu_end = real_gpu_end,
		.make_memory = real_make_memory,
		.free_memory = real_free_memory,
		.make_doorbell = real_make_doorbell,
		.copy = real_copy,
	};
}
