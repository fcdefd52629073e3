/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cleanup.h"

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif

enum { MAX_PEER_GROUPS = 256 };

int peer_read(struct peer *p, int socket)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	if (cred.pid <= 0) /* a process of a pid namespace that this one does not see */
		return -ESRCH;
	*p = (struct peer){ .pid = cred.pid, .uid = cred.uid, .gid = cred.gid };
	return 0;
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

	if (c->allow_uid.n == 0 && c->allow_gid.n == 0)
		return p->uid == geteuid();
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
			return n == pid;
	return false;
}

int peer_pidfd(const struct peer *p, int socket, int sent)
{
	int fd = -1;
	socklen_t len = sizeof(fd);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &len) == 0)
		return fd;
	if (sent >= 0 && pidfd_is_of(sent, p->pid))
		fd = fcntl(sent, F_DUPFD_CLOEXEC, 3);
	else
		fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	return fd < 0 ? -errno : fd;
}
