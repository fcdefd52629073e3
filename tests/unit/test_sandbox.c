/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandboxed broker cannot do any more. Criterion runs each test in a process of its own, which the filter ends
 * with. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/sandbox.h"

static void enter(enum sandbox_device device)
{
	char why[256] = "";

#ifdef HAVE_SECCOMP
	cr_assert_eq(sandbox_enter(device, false, why, sizeof(why)), 0, "%s", why);
#else
	cr_assert_eq(sandbox_enter(device, false, why, sizeof(why)), -1);
	cr_expect_neq(why[0], '\0');
	cr_skip_test("this build has no libseccomp");
#endif
}

#define REFUSED(call)                                                                                                  \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		cr_expect(((call) == -1 && errno == ENOSYS), "%s: errno %d", #call, errno);                            \
	} while (0)

Test(sandbox, no_other_program_is_started)
{
	char *const argv[] = { NULL };

	enter(SANDBOX_CUDA);
	REFUSED(execve("/bin/true", argv, argv));
	REFUSED(fork());
	REFUSED(kill(getppid(), 0));
}

Test(sandbox, no_network_and_no_process_is_reached)
{
	char byte;
	struct iovec there = { &byte, 1 };
	int local;

	enter(SANDBOX_CUDA);
	REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
	REFUSED((int)ptrace(PTRACE_ATTACH, getppid(), 0, 0));
	REFUSED((int)process_vm_readv(getppid(), &there, 1, &there, 1, 0));
	local = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	cr_expect_geq(local, 0, "the takeover of a name needs one");
	close(local);
}

Test(sandbox, no_file_changes_its_mode_by_name_and_no_user_is_taken)
{
	enter(SANDBOX_CUDA);
	REFUSED(chmod("/dev/null", 0666));
	REFUSED(chown("/dev/null", 0, 0));
	REFUSED(setuid(getuid()));
	REFUSED(chroot("/"));
}

Test(sandbox, on_the_host_backend_no_code_is_mapped_and_no_driver_is_asked)
{
	void *page;

	enter(SANDBOX_HOST);
	cr_expect_eq(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(page, MAP_FAILED);
	REFUSED(mprotect(page, 4096, PROT_READ | PROT_EXEC));
	munmap(page, 4096);
	cr_expect(!isatty(STDERR_FILENO) && errno == ENOSYS);
}

static void *wait_and_try(void *arg)
{
	pthread_barrier_t *entered = arg;

	pthread_barrier_wait(entered);
	errno = 0;
	return (void *)(intptr_t)(socket(AF_INET, SOCK_STREAM, 0) == -1 ? errno : 0);
}

Test(sandbox, threads_that_are_there_already_are_in_it_and_new_ones_can_be_made)
{
	pthread_barrier_t entered;
	pthread_t before, after;
	void *found;

	pthread_barrier_init(&entered, NULL, 2);
	cr_assert_eq(pthread_create(&before, NULL, wait_and_try, &entered), 0);
	enter(SANDBOX_HOST);
	pthread_barrier_wait(&entered);
	pthread_join(before, &found);
	cr_expect_eq((intptr_t)found, ENOSYS);
	pthread_barrier_destroy(&entered);
	pthread_barrier_init(&entered, NULL, 1);
	cr_assert_eq(pthread_create(&after, NULL, wait_and_try, &entered), 0);
	pthread_join(after, &found);
	cr_expect_eq((intptr_t)found, ENOSYS);
	cr_expect_eq(prctl(PR_SET_NAME, "named"), 0);
}

/* The log's thread gives up privileges as the first thing it does, and on a busy machine it begins when all else is
 * there. */
Test(sandbox, a_thread_that_begins_late_may_give_up_privileges)
{
	enter(SANDBOX_HOST);
	cr_expect_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
}

#ifdef HAVE_SECCOMP
Test(sandbox, with_trap_what_is_not_allowed_ends_the_process, .signal = SIGSYS)
{
	char why[256];

	cr_assert_eq(sandbox_enter(SANDBOX_HOST, true, why, sizeof(why)), 0, "%s", why);
	cr_expect_geq(getppid(), 0);
	(void)!chroot("/");
}
#endif
