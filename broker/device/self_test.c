/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_test.c - see self_test.h
 *
 * A forked child cannot use the driver, so each child is this program again,
 * from exec() on. The request, which may hold the key to the pool, goes over a
 * socket and is never seen by anybody else. Two children, so that what is read
 * is what another process wrote. They touch the first and the last bytes of the
 * pool: the table area, which each worker clears at attach, and the end of the
 * last page, which is cleared here.
 */
#include "self_test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "driver.h"
#include "process/subprocess.h"

enum { CHILD_WAIT_MS = 120000, PATCH = 4096 };

enum task { TASK_WRITE, TASK_CHECK };

struct request {
	uint32_t task;
	uint32_t export_kind;
	uint8_t device_uuid[16];
	uint8_t ipc_handle[64];
	uint64_t bytes;
	uint8_t pattern[PATCH];
	char cuda_library[CONFIG_PATH];
};

struct result {
	int32_t code;
	char what[64]; /* was attempted */
	char why[DRIVER_WHY];
};

/* ---- the child ------------------------------------------------------------------- */

static int import(struct driver *d, const struct request *q, int fd, uint64_t *mapped, uint64_t *address)
{
	*mapped = q->bytes;
	return q->export_kind == WIRE_EXPORT_CUDA_FD ? driver_share_map(d, fd, mapped, address)
						     : driver_ipc_import(d, q->ipc_handle, address);
}

static int unimport(struct driver *d, const struct request *q, uint64_t mapped, uint64_t address)
{
	return q->export_kind == WIRE_EXPORT_CUDA_FD ? driver_share_unmap(d, address, mapped)
						     : driver_ipc_close(d, address);
}

static int read_back(struct driver *d, uint64_t from, const struct request *q, struct result *r)
{
	unsigned char found[PATCH] = { 0 };
	int code = driver_copy_to_host(d, NULL, found, from, PATCH);

	snprintf(r->what, sizeof(r->what), "reading the pool in a child process");
	if (code == 0)
		code = driver_stream_synchronize(d, NULL);
	if (code == 0 && memcmp(found, q->pattern, PATCH) != 0) {
		snprintf(r->why, sizeof(r->why), "the bytes are not those that %s wrote",
			 q->task == TASK_CHECK ? "another process" : "it");
		return SWAKV_EDEVICE;
	}
	return code;
}

static int try_patch(struct driver *d, uint64_t address, const struct request *q, struct result *r)
{
	int code = 0;

	if (q->task == TASK_WRITE) {
		snprintf(r->what, sizeof(r->what), "writing the pool in a child process");
		code = driver_copy_to_device(d, NULL, address, q->pattern, PATCH);
	}
	if (code == 0)
		code = read_back(d, address, q, r);
	if (code == 0 && q->task == TASK_CHECK)
		code = driver_fill32(d, NULL, address, 0, PATCH / sizeof(uint32_t));
	return code ? code : driver_stream_synchronize(d, NULL);
}

static int try_import(struct driver *d, const struct request *q, int fd, struct result *r)
{
	uint64_t mapped, address;
	int code;

	snprintf(r->what, sizeof(r->what), "importing the pool in a child process");
	code = import(d, q, fd, &mapped, &address);
	if (code)
		return code;
	code = try_patch(d, address, q, r);
	if (code == 0)
		code = try_patch(d, address + q->bytes - PATCH, q, r);
	if (code)
		return code;
	snprintf(r->what, sizeof(r->what), "unmapping the pool in a child process");
	return unimport(d, q, mapped, address);
}

static void try_all(const struct request *q, int fd, struct result *r)
{
	struct driver *d = NULL;

	snprintf(r->what, sizeof(r->what), "opening the device in a child process");
	r->code = driver_open(&d, q->cuda_library[0] ? q->cuda_library : NULL, q->device_uuid, 0, r->why);
	if (r->code)
		return;
	r->code = try_import(d, q, fd, r);
	if (r->code && !r->why[0])
		snprintf(r->why, sizeof(r->why), "%s", driver_why(d));
	driver_close(d);
}

static ssize_t receive_request(struct request *q, int *fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = q, .iov_len = sizeof(*q) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control)
	};
	ssize_t n = recvmsg(STDIN_FILENO, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *h = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(h), sizeof(*fd));
	return n;
}

int self_test_child(void)
{
	static struct request q;
	struct result r = { 0 };
	AUTO_CLOSE int fd = -1;

	if (receive_request(&q, &fd) != (ssize_t)sizeof(q)) {
		fprintf(stderr, "swakvd: " SELF_TEST_ARGUMENT " is for swakvd itself\n");
		return EXIT_CODE_CONFIG;
	}
	try_all(&q, fd, &r);
	explicit_bzero(&q, sizeof(q));
	return send(STDIN_FILENO, &r, sizeof(r), MSG_NOSIGNAL) == (ssize_t)sizeof(r) ? EXIT_CODE_OK : EXIT_CODE_FAILURE;
}

/* ---- the broker ------------------------------------------------------------------ */

/* Starts this program with @end as its standard input and no signal blocked. 0 or an errno. */
static int start_child(int end, pid_t *pid)
{
	char name[] = "swakvd", argument[] = SELF_TEST_ARGUMENT;
	char *argv[] = { name, argument, NULL };

	return subprocess_start("/proc/self/exe", argv, end, false, pid);
}

static bool send_request(int socket, const struct request *q, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)q, .iov_len = sizeof(*q) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *h = &control.align;

	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		*h = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS,
				       .cmsg_len = CMSG_LEN(sizeof(fd)) };
		memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	}
	return sendmsg(socket, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(*q);
}

static void await_result(int socket, pid_t pid, struct result *r)
{
	struct pollfd p = { .fd = socket, .events = POLLIN };
	int status = 0, n;

	do
		n = poll(&p, 1, CHILD_WAIT_MS);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		kill(pid, SIGKILL);
	if (n <= 0 || recv(socket, r, sizeof(*r), MSG_DONTWAIT) != (ssize_t)sizeof(*r))
		*r = (struct result){ .code = SWAKV_EDEVICE };
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (r->what[0])
		return;
	snprintf(r->what, sizeof(r->what), "importing the pool in a child process");
	if (n == 0)
		snprintf(r->why, sizeof(r->why), "the child did not end within %d s", CHILD_WAIT_MS / 1000);
	else if (WIFSIGNALED(status))
		snprintf(r->why, sizeof(r->why), "the child was ended by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(r->why, sizeof(r->why), "the child ended with exit code %d", WEXITSTATUS(status));
}

static void run_child(const struct request *q, int fd, struct result *r)
{
	AUTO_CLOSE int ours = -1;
	AUTO_CLOSE int theirs = -1;
	int pair[2], e;
	pid_t pid = 0;

	*r = (struct result){ .code = SWAKV_ESYSTEM };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		snprintf(r->what, sizeof(r->what), "a socket pair");
		snprintf(r->why, sizeof(r->why), "%s", strerror(errno));
		return;
	}
	ours = pair[0];
	theirs = pair[1];
	e = start_child(theirs, &pid);
	if (e) {
		snprintf(r->what, sizeof(r->what), "starting a child process");
		snprintf(r->why, sizeof(r->why), "%s", strerror(e));
		return;
	}
	close_fd(&theirs);               /* or the end of the child would not be seen */
	(void)send_request(ours, q, fd); /* a child that has ended already shows below */
	await_result(ours, pid, r);
}

int self_test_run(const struct config *c, const struct backend_pool *pool, const struct platform *platform,
		  char why[BACKEND_WHY])
{
	struct request q = { .export_kind = pool->export_kind, .bytes = pool->bytes };
	bool by_fd = pool->export_kind == WIRE_EXPORT_CUDA_FD;
	struct result r = { 0 };
	char cause[256];

	if (pool->bytes < 2 * PATCH || getrandom(q.pattern, PATCH, 0) != PATCH)
		return 0;
	memcpy(q.device_uuid, pool->device_uuid, sizeof(q.device_uuid));
	memcpy(q.ipc_handle, pool->ipc_handle, sizeof(q.ipc_handle));
	memcpy(q.cuda_library, c->cuda_library, sizeof(q.cuda_library));
	for (q.task = TASK_WRITE; q.task <= TASK_CHECK && r.code == 0; q.task++)
		run_child(&q, by_fd ? pool->fd : -1, &r);
	explicit_bzero(&q, sizeof(q));
	if (r.code == 0)
		return 0;
	snprintf(why, BACKEND_WHY,
		 "self-test: another process cannot use the pool on %s (export %s): %s failed: %s. Likely cause: %s",
		 pool->device, export_name(pool->export_kind), r.what, r.why,
		 platform_cause(platform, by_fd, cause, sizeof(cause)));
	return EXIT_CODE_BACKEND;
}
