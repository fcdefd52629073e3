/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash.c - see crash.h
 *
 * The first thread that comes here writes the dump; it stops the others first,
 * by SIGABRT, and they come here, too, and stay. A fault while it writes ends
 * the process with what was written so far.
 */
#include "crash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "atomics.h"
#include "config/config.h"
#include "engine/bug.h"
#include "log/log.h"
#include "memory_guard.h"

enum { THREADS = 8, STACK_BYTES = 65536, DRAIN_MS = 100, STOP_MS = 100 };

static struct {
	shm_u32 taken; /* by a thread; threads begin side by side */
	shm_u32 tid;   /* 0: nothing is known of it yet */
	bool stops;
	const char *name;
	stack_t before; /* what stack the handler had */
	_Alignas(16) unsigned char stack[STACK_BYTES];
} threads[THREADS];

static const struct crash_subject *subject;
static int dump_fd = -1;
static shm_u32 n_stopped;                   /* threads that have come here to stay */
static shm_u32 owner;                       /* tid of the thread that writes the dump, 0: none does */
static shm_u32 exit_code = EXIT_CODE_CRASH; /* that it will end with */

static uint32_t own_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static const char *thread_name(uint32_t tid)
{
	for (int i = 0; i < THREADS; i++)
		if (load_acquire(&threads[i].tid) == tid) /* pairs with crash_thread() */
			return threads[i].name;
	return "of a library";
}

/* Returns only to the one thread that is to write the dump. */
static void claim(uint32_t code)
{
	uint32_t nobody = 0, tid = own_tid();

	while (!replace_relaxed(&owner, &nobody, tid)) {
		if (nobody == tid)
			_exit((int)load_relaxed(&exit_code)); /* the dump itself failed */
		if (!nobody)
			continue;
		add_relaxed(&n_stopped, 1);
		for (;;)
			pause();
	}
	store_relaxed(&exit_code, code);
}

/* And waits a moment until they have: one may hang in a driver. */
static void stop_others(void)
{
	const struct timespec pause_ms = { .tv_nsec = 1000000 };
	uint32_t self = own_tid(), n = 0;

	for (int i = 0; i < THREADS; i++) {
		uint32_t tid = load_relaxed(&threads[i].tid);

		if (tid && tid != self && threads[i].stops)
			n += syscall(SYS_tgkill, getpid(), (pid_t)tid, SIGABRT) == 0;
	}
	for (int i = 0; i < STOP_MS && load_relaxed(&n_stopped) < n; i++)
		nanosleep(&pause_ms, NULL);
}

static _Noreturn void end(struct crash_event *e, uint32_t code)
{
	struct dump d = { .fds = { STDERR_FILENO, dump_fd }, .prefix = { log_prefix() } };

	e->tid = (int)own_tid();
	e->thread = thread_name((uint32_t)e->tid);
	stop_others();
	log_drain(DRAIN_MS); /* what was logged before, if its reader takes it */
	crash_report(&d, e, subject);
	dump_count(&d, "ends with exit code ", code, "");
	dump_line(&d);
	_exit((int)code);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	struct crash_event e = { .info = info };
	int saved = errno;

	if (number == SIGBUS && info->si_code > 0 && memory_guard_catch(info->si_addr)) {
		errno = saved;
		return;
	}
	claim(EXIT_CODE_CRASH);
#if defined(__x86_64__)
	e.pc = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
	e.sp = (uint64_t)u->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
	e.pc = u->uc_mcontext.pc;
	e.sp = u->uc_mcontext.sp;
#else
	(void)u;
#endif
	end(&e, EXIT_CODE_CRASH);
}

static _Noreturn void on_bug(const char *file, int line, const char *what)
{
	struct crash_event e = { .what = what, .file = file, .line = line };

	claim(EXIT_CODE_BROKEN);
	end(&e, EXIT_CODE_BROKEN);
}

void crash_thread(const char *name, bool stops)
{
	for (int i = 0; i < THREADS; i++) {
		stack_t stack = { .ss_sp = threads[i].stack, .ss_size = STACK_BYTES };
		uint32_t nobody = 0;

		if (!replace_relaxed(&threads[i].taken, &nobody, 1))
			continue;
		threads[i].name = name;
		threads[i].stops = stops;
		sigaltstack(&stack, &threads[i].before);
		store_release(&threads[i].tid, own_tid()); /* pairs with thread_name() */
		return;
	}
}

void crash_thread_end(void)
{
	uint32_t tid = own_tid();

	for (int i = 0; i < THREADS; i++) {
		if (load_relaxed(&threads[i].tid) != tid)
			continue;
		sigaltstack(&threads[i].before, NULL);
		store_relaxed(&threads[i].tid, 0);
		store_release(&threads[i].taken, 0);
	}
}

int crash_init(const struct crash_subject *s, const char *dump_file)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
	/* Not blocked while it is handled: a fault in the handler comes back to it and not to the kernel. */
	struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	subject = s;
	if (dump_file && dump_file[0]) {
		dump_fd = open(dump_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
		if (dump_fd < 0)
			return -errno;
	}
	crash_report_init();
	engine_on_bug(on_bug);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigaction(faults[i], &a, NULL);
	return 0;
}
