/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "peer.h"

static int pair[2];

static void setup(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

TestSuite(peer, .init = setup);

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

Test(peer, a_pidfd_is_matched_with_its_process_only)
{
	pid_t child = sleeper();
	AUTO_CLOSE int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	AUTO_CLOSE int childs = (int)syscall(SYS_pidfd_open, child, 0);
	AUTO_CLOSE int other = eventfd(0, EFD_CLOEXEC);

	cr_assert(pidfd_is_of(own, getpid()));
	cr_assert(pidfd_is_of(childs, child));
	cr_assert_not(pidfd_is_of(childs, getpid()));
	cr_assert_not(pidfd_is_of(other, getpid()));
	cr_assert_not(pidfd_is_of(pair[0], getpid()));
	cr_assert_not(pidfd_is_of(-1, getpid()));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_assert_not(pidfd_is_of(childs, child), "a process that is gone has no pid");
}

Test(peer, the_pidfd_got_is_the_peers)
{
	struct peer p;
	AUTO_CLOSE int fd = -1;

	cr_assert_eq(peer_read(&p, pair[0]), 0);
	cr_assert_eq(p.pid, getpid());
	cr_assert_eq(p.uid, geteuid());
	fd = peer_pidfd(&p, pair[0], -1);
	cr_assert_geq(fd, 0);
	cr_assert(pidfd_is_of(fd, getpid()));
}

/* Where the kernel does not say, as on something that is no Unix socket, a foreign pidfd is not believed. */
Test(peer, a_foreign_pidfd_is_not_believed)
{
	pid_t child = sleeper();
	AUTO_CLOSE int childs = (int)syscall(SYS_pidfd_open, child, 0);
	AUTO_CLOSE int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct peer p = { .pid = getpid() };
	AUTO_CLOSE int got = peer_pidfd(&p, childs, childs);
	AUTO_CLOSE int good = peer_pidfd(&p, childs, own);

	cr_assert_geq(got, 0);
	cr_assert(pidfd_is_of(got, getpid()));
	cr_assert(pidfd_is_of(good, getpid()));
	cr_assert_neq(good, own);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	p.pid = child;
	cr_assert_lt(peer_pidfd(&p, childs, -1), 0, "nobody is there to be watched");
}

/* A zombie has ended: its pidfd says so before its parent has waited for it. */
Test(peer, the_pidfd_of_a_zombie_is_readable)
{
	pid_t child = sleeper();
	AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };

	cr_assert_eq(poll(&p, 1, 0), 0);
	kill(child, SIGKILL);
	cr_assert_eq(poll(&p, 1, 60000), 1);
	waitpid(child, NULL, 0);
}

Test(peer, without_lists_only_the_brokers_own_user_is_allowed)
{
	struct peer p = { .pid = getpid(), .uid = geteuid(), .gid = getegid() };
	static struct config c;

	config_init(&c);
	cr_assert(peer_allowed(&p, pair[0], &c));
	p.uid++;
	cr_assert_not(peer_allowed(&p, pair[0], &c));
	c.allow_uid = (struct config_ids){ .n = 1, .ids = { p.uid } };
	cr_assert(peer_allowed(&p, pair[0], &c));
	p.uid = geteuid();
	cr_assert_not(peer_allowed(&p, pair[0], &c), "a list replaces the default");
	p.gid = 4711;
	c.allow_gid = (struct config_ids){ .n = 1, .ids = { 4711 } };
	cr_assert(peer_allowed(&p, pair[0], &c));
}
