/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "crash/crash.h"
#include "crash/memory_guard.h"
#include "engine/bug.h"

static char text[1 << 16]; /* what the last child wrote to standard error */
static struct status_snapshot *picture;
static struct ring_trace trace;
static struct crash_subject subject;
static char file[] = "/tmp/swakv-unit-dump.XXXXXX";

static void setup(void)
{
	picture = calloc(1, sizeof(*picture));
	picture->n_sessions = 1;
	picture->n_classes = 2;
	picture->pool_total = 123456789;
	picture->sessions[0] = (struct status_session){ .id = 3,
							.generation = 7,
							.pid = 4711,
							.uid = 1000,
							.state = STATUS_ATTACHED,
							.model = "mo\ndel",
							.leased = 42 };
	picture->classes[0] = (struct status_class){ .page_bytes = 4096, .pages = 10, .free = 8, .leased = 2 };
	picture->classes[1] = (struct status_class){ .page_bytes = 4096, .joined = 1, .pages = 20, .free = 20 };
	subject = (struct crash_subject){ .picture = picture, .trace = &trace };
	for (uint32_t i = 0; i < RING_TRACE_COMMANDS + 2; i++)
		ring_trace_add(&trace, 1000 + i, i % 2 ? WIRE_OP_BEGIN : WIRE_OP_FINISH);
	close(mkstemp(file));
}

static void teardown(void)
{
	unlink(file);
	free(picture);
}

TestSuite(crash, .init = setup, .fini = teardown);

/* The exit code of a child that runs @broken() as a broker would; what it says is in `text`. */
static int end_of(void (*broken)(void))
{
	int ends[2], status;
	size_t n = 0;
	ssize_t r;
	pid_t child;

	cr_assert_eq(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		if (crash_init(&subject, file) < 0)
			_exit(99);
		crash_thread("control", true);
		broken();
		_exit(98);
	}
	close(ends[1]);
	while ((r = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)r;
	text[n] = '\0';
	close(ends[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "it was ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

static void expect(const char *words)
{
	cr_expect(strstr(text, words), "\"%s\" is missing in:\n%s", words, text);
}

static void expect_state(void)
{
	expect("swakvd " SWAKV_VERSION ", build ");
	expect("123456789 bytes");
	expect("class 0: 4096 bytes a page, 10 pages");
	expect("class 1: 4096 bytes a joined page, 20 pages");
	expect("session 3.7: pid 4711 uid 1000 attached");
	expect("42 leased");
	expect("model mo?del");
	expect("last command: session 1017, begin");
	expect("before it session 1002, finish");
	cr_expect_null(strstr(text, "session 1001,"), "a command older than are kept:\n%s", text);
}

static volatile uintptr_t nowhere = 16;

static void touch_nowhere(void)
{
	*(volatile int *)nowhere = 1;
}

Test(crash, a_fault_says_where_and_what_was_there)
{
	cr_assert_eq(end_of(touch_nowhere), EXIT_CODE_CRASH);
	expect("signal 11 (SIGSEGV) at address 0x10, code 1");
	expect("thread control");
	expect(", pc 0x");
	expect_state();
	expect("ends with exit code 6");
}

static void break_invariant(void)
{
	int pages = 3;

	MUST(pages == 4);
}

Test(crash, a_broken_invariant_says_which_and_has_a_code_of_its_own)
{
	cr_assert_eq(end_of(break_invariant), EXIT_CODE_BROKEN);
	expect("broken invariant at ");
	expect("test_crash.c:");
	expect(": pages == 4");
	expect_state();
	expect("ends with exit code 7");
}

Test(crash, the_dump_file_gets_the_same)
{
	FILE *f;

	cr_assert_eq(end_of(break_invariant), EXIT_CODE_BROKEN);
	cr_assert_eq(end_of(touch_nowhere), EXIT_CODE_CRASH);
	f = fopen(file, "re");
	cr_assert_not_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	expect("broken invariant at ");
	expect("(SIGSEGV)");
	expect_state();
}

static void raise_each(void)
{
	raise(trace.last[0].session ? SIGILL : SIGFPE);
}

static void call_abort(void)
{
	abort();
}

Test(crash, every_fatal_signal_comes_here)
{
	cr_assert_eq(end_of(raise_each), EXIT_CODE_CRASH);
	expect("(SIGILL), sent by pid ");
	trace.last[0].session = 0;
	cr_assert_eq(end_of(raise_each), EXIT_CODE_CRASH);
	expect("(SIGFPE)");
	cr_assert_eq(end_of(call_abort), EXIT_CODE_CRASH);
	expect("(SIGABRT)");
}

static int sink;

__attribute__((noinline)) static int deeper(int n)
{
	volatile char frame[4096];

	frame[n % 4096] = (char)n;
	return n < 0 ? 0 : deeper(n + 1) + frame[n % 4096];
}

static void overflow_stack(void)
{
	sink = deeper(1);
}

Test(crash, a_stack_that_overflows_has_another_for_the_dump)
{
	cr_assert_eq(end_of(overflow_stack), EXIT_CODE_CRASH);
	expect("(SIGSEGV)");
	expect_state();
}

static void point_nowhere(void)
{
	subject.picture = (struct status_snapshot *)8;
	touch_nowhere();
}

Test(crash, a_fault_in_the_dump_ends_it_with_the_same_code)
{
	cr_assert_eq(end_of(point_nowhere), EXIT_CODE_CRASH);
	expect("signal 11 (SIGSEGV) at address 0x10");
	cr_expect_null(strstr(text, "ends with"), "%s", text);
}

/* ---- other threads ------------------------------------------------------------------ */

static volatile uint64_t *counter; /* shared with the parent */

static void *count_on(void *arg)
{
	crash_thread("ring", true);
	for (;;)
		++*counter;
	return arg;
}

static void fault_beside_a_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, count_on, NULL);
	while (*counter == 0)
		sched_yield();
	touch_nowhere();
}

/* The dump file is a pipe of one page: while its first line has not been read the dump gets no further. */
Test(crash, other_threads_stop_before_the_state_is_read)
{
	struct pollfd p = { .events = POLLIN };
	uint64_t before;
	int status;
	pid_t child;

	counter = mmap(NULL, sizeof(*counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(unlink(file) == 0 && mkfifo(file, 0600) == 0);
	p.fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	cr_assert_geq(fcntl(p.fd, F_SETPIPE_SZ, 4096), 0);
	child = fork();
	if (child == 0) {
		dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
		crash_init(&subject, file);
		crash_thread("control", true);
		fault_beside_a_thread();
		_exit(98);
	}
	cr_assert_eq(poll(&p, 1, -1), 1);
	before = *counter;
	do { /* line by line: the dump takes as long as this */
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		cr_assert_eq(*counter, before, "the other thread goes on beside the dump");
	} while (read(p.fd, text, sizeof(text)) > 0 && poll(&p, 1, -1) == 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CODE_CRASH);
	close(p.fd);
}

static void fault_with_a_full_pipe(void)
{
	static char block[4096];
	int ends[2];

	if (pipe(ends) < 0 || fcntl(ends[1], F_SETPIPE_SZ, 4096) < 0 || write(ends[1], block, 4096) != 4096)
		_exit(97);
	dup2(ends[1], STDERR_FILENO);
	touch_nowhere();
}

/* ---- threads that begin side by side ---- */

static pthread_barrier_t together;
static void *stack_of[4];
static bool given_back[4];

static void *begin_and_end(void *index)
{
	size_t i = (size_t)index;
	stack_t before, own, after;

	sigaltstack(NULL, &before);
	pthread_barrier_wait(&together);
	crash_thread("test", false);
	sigaltstack(NULL, &own);
	stack_of[i] = own.ss_sp;
	pthread_barrier_wait(&together);
	crash_thread_end();
	sigaltstack(NULL, &after);
	given_back[i] = after.ss_sp == before.ss_sp && after.ss_flags == before.ss_flags;
	return NULL;
}

Test(crash, threads_that_begin_at_once_have_a_stack_each)
{
	pthread_t t[4];

	for (int round = 0; round < 500; round++) {
		pthread_barrier_init(&together, NULL, 4);
		for (size_t i = 0; i < 4; i++)
			cr_assert_eq(pthread_create(&t[i], NULL, begin_and_end, (void *)i), 0);
		for (size_t i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		pthread_barrier_destroy(&together);
		for (size_t i = 0; i < 4; i++) {
			cr_assert(given_back[i], "round %d: a thread ended with the stack of the handler", round);
			for (size_t k = 0; k < i; k++)
				cr_assert_neq(stack_of[i], stack_of[k], "round %d: two threads have one stack", round);
		}
	}
}

Test(crash, nobody_who_reads_the_dump_is_waited_for)
{
	FILE *f;

	cr_assert_eq(end_of(fault_with_a_full_pipe), EXIT_CODE_CRASH);
	f = fopen(file, "re");
	cr_assert_not_null(f);
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	expect_state();
	expect("ends with exit code 6");
}

/* ---- memory that is guarded ---------------------------------------------------------------- */

static shm_u32 lost;

static void cut_guarded(void)
{
	int fd = memfd_create("unit", MFD_CLOEXEC);
	unsigned char *p;

	if (ftruncate(fd, 3 * 4096) < 0)
		_exit(97);
	p = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(p, 7, 3 * 4096);
	memory_guard_add(p, 3 * 4096, &lost);
	if (ftruncate(fd, 4096) < 0)
		_exit(97);
	if (p[0] != 7 || load_relaxed(&lost))
		_exit(96);
	p[4096 + 10] = 1;
	if (p[4096] != 0 || p[4096 + 10] != 1 || !load_relaxed(&lost) || p[0] != 7)
		_exit(95);
	if (p[2 * 4096] != 0)
		_exit(94);
	memory_guard_remove(p);
	_exit(0);
}

static void cut_unguarded(void)
{
	int fd = memfd_create("unit", MFD_CLOEXEC);
	unsigned char *p;

	if (ftruncate(fd, 2 * 4096) < 0)
		_exit(97);
	p = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memory_guard_add(p, 4096, &lost);
	if (ftruncate(fd, 0) < 0)
		_exit(97);
	p[4096] = 1;
}

static void cut_no_more_guarded(void)
{
	int fd = memfd_create("unit", MFD_CLOEXEC);
	unsigned char *p;

	if (ftruncate(fd, 4096) < 0)
		_exit(97);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memory_guard_add(p, 4096, &lost);
	memory_guard_remove(p);
	if (ftruncate(fd, 0) < 0)
		_exit(97);
	p[0] = 1;
}

Test(crash, guarded_memory_that_is_lost_becomes_zeroes_and_is_flagged)
{
	cr_assert_eq(end_of(cut_guarded), 0, "%s", text);
}

Test(crash, any_other_memory_that_is_lost_is_a_crash)
{
	cr_assert_eq(end_of(cut_unguarded), EXIT_CODE_CRASH);
	expect("(SIGBUS) at address 0x");
	cr_assert_eq(end_of(cut_no_more_guarded), EXIT_CODE_CRASH);
	expect("(SIGBUS)");
}
