/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - see sandbox.h
 *
 * A list of what is allowed. The pool is there, the socket listens and all files
 * are open by then, so a broker that serves needs little. ENOSYS, since a C
 * library that is newer than the list takes it for an older kernel and goes on with the call
 * that was there before. Paths cannot be told apart here: that is the unit's part (ProtectSystem).
 */
#include "sandbox.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

void sandbox_no_new_privileges(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

#ifdef HAVE_SECCOMP

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Names that this machine's architecture does not have are left out. */
static const char *const always[] = {
	/* descriptors that are there, and sockets of workers */
	"read",
	"write",
	"readv",
	"writev",
	"pread64",
	"pwrite64",
	"lseek",
	"close",
	"fcntl",
	"dup",
	"dup3",
	"poll",
	"ppoll",
	"epoll_create1",
	"epoll_ctl",
	"epoll_wait",
	"epoll_pwait",
	"epoll_pwait2",
	"eventfd2",
	"accept",
	"accept4",
	"connect",
	"shutdown",
	"sendmsg",
	"sendto",
	"recvmsg",
	"recvfrom",
	"getsockopt",
	"setsockopt",
	"getsockname",
	"getpeername",
	/* the status page when it was removed, names at the end, what /proc says of a process */
	"open",
	"openat",
	"newfstatat",
	"fstat",
	"stat",
	"lstat",
	"statx",
	"access",
	"faccessat",
	"faccessat2",
	"readlink",
	"readlinkat",
	"getdents64",
	"ftruncate",
	"fsync",
	"fallocate",
	"flock",
	"fchmod",
	"fchown",
	"link",
	"linkat",
	"rename",
	"renameat",
	"renameat2",
	"unlink",
	"unlinkat",
	"umask",
	/* memory of sessions */
	"brk",
	"memfd_create",
	"munmap",
	"mremap",
	"madvise",
	"mlock",
	"munlock",
	/* processes of workers */
	"pidfd_open",
	"pidfd_send_signal",
	/* itself */
	"futex",
	"futex_time64",
	"sched_yield",
	"sched_getaffinity",
	"getcpu",
	"clock_gettime",
	"clock_gettime64",
	"clock_nanosleep",
	"clock_nanosleep_time64",
	"nanosleep",
	"gettimeofday",
	"time",
	"getrandom",
	"getpid",
	"getppid",
	"gettid",
	"getuid",
	"geteuid",
	"getgid",
	"getegid",
	"getrlimit",
	"prlimit64",
	"sysinfo",
	"uname",
	"pause",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"rt_sigtimedwait",
	"sigaltstack",
	"restart_syscall",
	"rseq",
	"set_robust_list",
	"set_tid_address",
	"exit",
	"exit_group",
};

/* The driver's library: its ioctls, threads and caches. */
static const char *const of_cuda[] = {
	"ioctl",
	"mmap",
	"mprotect",
	"mincore",
	"msync",
	"mbind",
	"get_mempolicy",
	"set_mempolicy",
	"membarrier",
	"pipe",
	"pipe2",
	"socketpair",
	"sched_setaffinity",
	"sched_getscheduler",
	"sched_getparam",
	"sched_get_priority_max",
	"sched_get_priority_min",
	"getrusage",
	"times",
	"clock_getres",
	"statfs",
	"fstatfs",
	"mkdir",
	"mkdirat",
	"inotify_init1",
	"inotify_add_watch",
	"inotify_rm_watch",
	"timerfd_create",
	"timerfd_settime",
	"signalfd4",
	"getcwd",
	"prctl",
};

struct filter {
	scmp_filter_ctx context;
	int error; /* negative, the first */
};

/* SCMP_A0() and its like leave out fields, of which clang warns. */
static struct scmp_arg_cmp equals(unsigned int argument, scmp_datum_t value)
{
	return (struct scmp_arg_cmp){ .arg = argument, .op = SCMP_CMP_EQ, .datum_a = value };
}

static struct scmp_arg_cmp has_bits(unsigned int argument, scmp_datum_t mask, scmp_datum_t bits)
{
	return (struct scmp_arg_cmp){ .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = bits };
}

static void allow(struct filter *f, const char *name, unsigned int n, struct scmp_arg_cmp compare)
{
	int call = seccomp_syscall_resolve_name(name), r;

	if (call == __NR_SCMP_ERROR || f->error)
		return;
	r = seccomp_rule_add_array(f->context, SCMP_ACT_ALLOW, call, n, &compare);
	if (r < 0 && r != -EDOM) /* not of this architecture */
		f->error = r;
}

static void allow_all(struct filter *f, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		allow(f, names[i], 0, equals(0, 0));
}

/* Calls that are allowed for what they are given. */
static void allow_some(struct filter *f, enum sandbox_device device)
{
	allow(f, "socket", 1, equals(0, AF_UNIX));
	/* A crash stops its own threads. */
	allow(f, "tgkill", 1, equals(0, (scmp_datum_t)getpid()));
	/* A thread, and never a process. */
	allow(f, "clone", 1, has_bits(0, CLONE_THREAD, CLONE_THREAD));
	if (device == SANDBOX_CUDA) /* which has code of its own to map */
		return;
	allow(f, "mmap", 1, has_bits(2, PROT_EXEC, 0));
	allow(f, "mprotect", 1, has_bits(2, PROT_EXEC, 0));
	allow(f, "prctl", 1, equals(0, PR_SET_NAME));
	allow(f, "prctl", 1, equals(0, PR_SET_NO_NEW_PRIVS)); /* a thread of a busy machine that begins only now */
	allow(f, "prctl", 1, equals(0, PR_SET_TIMERSLACK));
}

static int load(struct filter *f, enum sandbox_device device, bool trap)
{
	/* Its flags lie in memory, where no filter can read them: the C library takes clone() then. */
	if (trap)
		f->error = seccomp_rule_add(f->context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	allow_all(f, always, sizeof(always) / sizeof(always[0]));
	if (device == SANDBOX_CUDA)
		allow_all(f, of_cuda, sizeof(of_cuda) / sizeof(of_cuda[0]));
	allow_some(f, device);
	if (!f->error)
		f->error = seccomp_attr_set(f->context, SCMP_FLTATR_CTL_TSYNC, 1);
	return f->error ? f->error : seccomp_load(f->context);
}

int sandbox_enter(enum sandbox_device device, bool trap, char *why, size_t size)
{
	struct filter f = { .context = seccomp_init(trap ? SCMP_ACT_TRAP : SCMP_ACT_ERRNO(ENOSYS)) };
	int r = f.context ? load(&f, device, trap) : -ENOMEM;

	seccomp_release(f.context);
	if (r == 0)
		return 0;
	snprintf(why, size, "sandbox: the kernel takes no filter of system calls: %s; set sandbox = no", strerror(-r));
	return -1;
}

#else

int sandbox_enter(enum sandbox_device device, bool trap, char *why, size_t size)
{
	snprintf(why, size,
		 "sandbox: this swakvd was built without libseccomp: build it with -Dseccomp=enabled, or set "
		 "sandbox = no");
	return -1;
}

#endif
