/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "process/process.h"

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif
#ifndef PIDFD_THREAD /* Linux 6.9: readable when one thread has ended, while others live on */
#define PIDFD_THREAD O_EXCL
#endif

enum { MAX_PEER_GROUPS = 256 };

int peer_read(struct peer *p, int socket)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*p = (struct peer){ .pid = cred.pid, .uid = cred.uid, .gid = cred.gid };
	return 0;
}

const char *peer_name(const struct peer *p, char buf[PEER_NAME])
{
	if (p->pid > 0)
		snprintf(buf, PEER_NAME, "pid %d", p->pid);
	else
		snprintf(buf, PEER_NAME, "a process of another pid namespace");
	return buf;
}

static bool listed(const struct config_ids *ids, uint32_t id)
{
	for (uint32_t i = 0; i < ids->n; i++)
		if (ids->ids[i] == id)
			return true;
	return false;
}

bool peer_allowed(const struct peer *p, int socket, const struct config *c)
{
	gid_t groups[MAX_PEER_GROUPS];
	socklen_t len = sizeof(groups);

	if (p->uid == 0 || p->uid == geteuid()) /* nothing keeps these from the pool anyway */
		return true;
	if (listed(&c->allow_uid, p->uid) || listed(&c->allow_gid, p->gid))
		return true;
	if (c->allow_gid.n == 0 || getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
		return false;
	for (size_t i = 0; i < len / sizeof(groups[0]); i++)
		if (listed(&c->allow_gid, groups[i]))
			return true;
	return false;
}

bool peer_administers(const struct peer *p, const struct config *c)
{
	return p->uid == 0 || p->uid == geteuid() || listed(&c->admin_uid, p->uid);
}

bool pidfd_is_of(int fd, pid_t pid)
{
	AUTO_FCLOSE FILE *info = NULL;
	char path[48], line[128];
	int64_t n = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "re");
	while (info && fgets(line, sizeof(line), info)) /* only a pidfd has this line */
		if (sscanf(line, "Pid: %" SCNd64, &n) == 1)
			return n > 0 && n == pid;
	return false;
}

/* False where /proc counts processes otherwise than this process does, or is not there. */
static bool proc_is_ours(void)
{
	char link[24];
	ssize_t n = readlink("/proc/self", link, sizeof(link) - 1);

	link[n > 0 ? n : 0] = '\0';
	return strtol(link, NULL, 10) == getpid();
}

/* A pidfd is readable once its process has ended. */
static bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

__attribute__((format(printf, 3, 4))) static int doubt(char *why, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, size, format, args);
	va_end(args);
	return -1;
}

/* For kernels that do not say: is what came with the hello the pidfd of its sender? */
static int sent_pidfd(const struct peer *p, const struct packet_origin *hello, char *why, size_t size)
{
	int fd, flags;

	if (p->pid == 0)
		return doubt(why, size,
			     "the worker is in a pid namespace that the broker cannot see, and a kernel before Linux "
			     "6.5 says no more about it: run both in one");
	if (hello->lost)
		return doubt(why, size, "the pidfd in the hello could not be taken: %s", process_error(EMFILE));
	if (hello->fd < 0)
		return doubt(why, size,
			     "this kernel (before Linux 6.5) does not say which process connected, and the hello came "
			     "without its pidfd: does a sandbox forbid pidfd_open()?");
	if (!proc_is_ours())
		return doubt(why, size,
			     "before Linux 6.5 the broker needs the /proc of its own pid namespace to identify a "
			     "worker, and /proc is another's");
	flags = fcntl(hello->fd, F_GETFL);
	if (flags < 0 || flags & PIDFD_THREAD || !pidfd_is_of(hello->fd, p->pid))
		return doubt(why, size, "the descriptor in the hello is not a pidfd of the process that sent it, %d",
			     p->pid);
	if (has_ended(hello->fd))
		return doubt(why, size, "process %d has ended", p->pid);
	fd = fcntl(hello->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? doubt(why, size, "the pidfd of process %d: %s", p->pid, process_error(errno)) : fd;
}

bool peer_pidfd_is_told(void)
{
	AUTO_CLOSE int pidfd = -1;
	AUTO_CLOSE int one = -1;
	AUTO_CLOSE int other = -1;
	socklen_t len = sizeof(pidfd);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	one = pair[0];
	other = pair[1];
	return getsockopt(one, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0;
}

int peer_pidfd(const struct peer *p, int socket, const struct packet_origin *hello, char *why, size_t size)
{
	AUTO_CLOSE int fd = -1;
	socklen_t len = sizeof(fd);
	char sender[PEER_NAME], connected[PEER_NAME];

	if (hello->pid != p->pid)
		return doubt(why, size,
			     "the hello came from %s, and the connection from %s: whoever attaches must connect itself",
			     peer_name(&(struct peer){ .pid = hello->pid }, sender), peer_name(p, connected));
	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0)
		return steal_fd(&fd);
	if (errno != ENOPROTOOPT)
		return doubt(why, size, "the kernel gives no pidfd of %s, so the broker would not notice its death: %s",
			     peer_name(p, connected), process_error(errno));
	return sent_pidfd(p, hello, why, size);
}
