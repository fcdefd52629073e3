/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cleanup.h"
#include "old_kernel.h"
#include "process/process.h"
#include "session/peer.h"

static int pair[2];
static char why[256];

static void setup(void)
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

TestSuite(peer, .init = setup);

static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* or a test that fails is waited for */
		for (;;)
			pause();
	}
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

/* What the broker makes of a hello that came with @fd, sent by @sender over @socket of @peer. -1: refused. */
static int judge(const struct peer *p, pid_t sender, int fd)
{
	struct packet_origin hello = { .pid = sender, .fd = fd };

	why[0] = '\0';
	return peer_pidfd(p, pair[0], &hello, why, sizeof(why));
}

#define REFUSED(p, sender, fd, words)                                                                                  \
	do {                                                                                                           \
		cr_assert_eq(judge(p, sender, fd), -1);                                                                \
		cr_assert(strstr(why, words), "\"%s\" lacks \"%s\"", why, words);                                      \
		cr_assert_lt(strlen(why), sizeof(((struct wire_welcome *)0)->text));                                   \
	} while (0)

Test(peer, the_pidfd_got_is_the_peers)
{
	struct peer p;
	AUTO_CLOSE int fd = -1;

	cr_assert_eq(peer_read(&p, pair[0]), 0);
	cr_assert_eq(p.pid, getpid());
	cr_assert_eq(p.uid, geteuid());
	fd = judge(&p, getpid(), -1);
	cr_assert_geq(fd, 0, "%s", why);
	cr_assert(pidfd_is_of(fd, getpid()));
}

/* A number can be another process's by the time it is looked up: whatever the kernel, none is ever opened. */
Test(peer, an_old_kernel_needs_the_pidfd_in_the_hello)
{
	AUTO_CLOSE int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct packet_origin lost = { .pid = getpid(), .fd = -1, .lost = true };
	struct peer p = { .pid = getpid() };
	AUTO_CLOSE int got = -1;

	peerpidfd_error = ENOPROTOOPT;
	got = judge(&p, getpid(), own);
	cr_assert_geq(got, 0, "%s", why);
	cr_assert_neq(got, own, "it is the sender's to close");
	cr_assert(pidfd_is_of(got, getpid()));
	REFUSED(&p, getpid(), -1, "came without its pidfd");
	cr_assert_eq(peer_pidfd(&p, pair[0], &lost, why, sizeof(why)), -1);
	cr_assert(strstr(why, "open files"), "%s", why);
}

Test(peer, an_old_kernel_believes_no_other_descriptor)
{
	pid_t child = sleeper();
	AUTO_CLOSE int childs = (int)syscall(SYS_pidfd_open, child, 0);
	AUTO_CLOSE int counter = eventfd(0, EFD_CLOEXEC);
	AUTO_CLOSE int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int folder = open("/proc/self", O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int thread = (int)syscall(SYS_pidfd_open, getpid(), O_EXCL); /* PIDFD_THREAD, Linux 6.9 */
	struct peer p = { .pid = getpid() };

	peerpidfd_error = ENOPROTOOPT;
	REFUSED(&p, getpid(), childs, "not a pidfd of the process that sent it");
	REFUSED(&p, getpid(), counter, "not a pidfd of the process that sent it");
	REFUSED(&p, getpid(), file, "not a pidfd of the process that sent it");
	REFUSED(&p, getpid(), folder, "not a pidfd of the process that sent it");
	REFUSED(&p, getpid(), pair[1], "not a pidfd of the process that sent it");
	if (thread >= 0) /* it would tell the end of one thread */
		REFUSED(&p, getpid(), thread, "not a pidfd of the process that sent it");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Not waited for, it still has its number. */
Test(peer, an_old_kernel_takes_no_process_that_has_ended)
{
	pid_t child = sleeper();
	AUTO_CLOSE int childs = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd ended = { .fd = childs, .events = POLLIN };
	struct peer p = { .pid = child };

	peerpidfd_error = ENOPROTOOPT;
	kill(child, SIGKILL);
	cr_assert_eq(poll(&ended, 1, 60000), 1);
	REFUSED(&p, child, childs, "has ended");
	waitpid(child, NULL, 0);
	REFUSED(&p, child, childs, "not a pidfd of the process that sent it");
}

Test(peer, an_old_kernel_cannot_tell_another_pid_namespace)
{
	AUTO_CLOSE int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct peer p = { .pid = 0 };

	peerpidfd_error = ENOPROTOOPT;
	REFUSED(&p, 0, own, "pid namespace");
	peerpidfd_error = 0;
	own = judge(&p, 0, -1); /* a newer one can */
	cr_assert_geq(own, 0, "%s", why);
}

/* The death of the process that connected says nothing of the one that would get the memory, or the other way round. */
Test(peer, whoever_says_hello_must_have_connected)
{
	AUTO_CLOSE int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	const int errors[] = { 0, ENOPROTOOPT };
	struct peer p = { .pid = getpid() }, unseen = { .pid = 0 };

	for (int i = 0; i < 2; i++) {
		peerpidfd_error = errors[i];
		REFUSED(&p, getppid(), own, "whoever attaches must connect itself");
		REFUSED(&p, 0, own, "from a process of another pid namespace");
		REFUSED(&unseen, getpid(), own, "from a process of another pid namespace");
	}
}

Test(peer, a_kernel_that_fails_to_say_is_no_old_one)
{
	AUTO_CLOSE int own = (int)syscall(SYS_pidfd_open, getpid(), 0);
	const int errors[] = { ENODATA, ESRCH, EINVAL, EMFILE, ENOMEM, EOPNOTSUPP, EPERM };
	struct peer p = { .pid = getpid() };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		peerpidfd_error = errors[i];
		REFUSED(&p, getpid(), own, process_error(errors[i]));
	}
}

Test(peer, a_process_without_a_number_is_named_so)
{
	char name[PEER_NAME];

	cr_assert_str_eq(peer_name(&(struct peer){ .pid = 4711 }, name), "pid 4711");
	cr_assert_str_eq(peer_name(&(struct peer){ .pid = 0 }, name), "a process of another pid namespace");
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

Test(peer, lists_let_others_come_and_shut_neither_root_nor_the_brokers_own_user_out)
{
	struct peer p = { .pid = getpid(), .uid = geteuid(), .gid = 4710 };
	static struct config c;

	config_init(&c);
	cr_assert(peer_allowed(&p, pair[0], &c));
	p.uid = geteuid() + 4000;
	cr_assert_not(peer_allowed(&p, pair[0], &c));
	c.allow_uid = (struct config_ids){ .n = 1, .ids = { p.uid } };
	cr_assert(peer_allowed(&p, pair[0], &c));
	p.uid++;
	cr_assert_not(peer_allowed(&p, pair[0], &c), "not on the list");
	p.uid = geteuid();
	cr_assert(peer_allowed(&p, pair[0], &c), "the broker's own user is shut out");
	p.uid = 0;
	cr_assert(peer_allowed(&p, pair[0], &c), "root is shut out");
	p.uid = geteuid() + 4001;
	p.gid = 4711;
	c.allow_gid = (struct config_ids){ .n = 1, .ids = { 4711 } };
	cr_assert(peer_allowed(&p, pair[0], &c));
}
