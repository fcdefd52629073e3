/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import_probe.c - see import_probe.h
 *
 * A forked child cannot use its parent's driver, so it is a fresh run of this
 * program. The handle is a key: it goes through a pipe, never onto a command
 * line that others can read.
 */
#include "import_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"

enum { PROBE_WORDS = 64, PROBE_WAIT_MS = 60000 };

struct probe_order {
	uint8_t uuid[16];
	uint8_t handle[64];
	uint64_t seed;
};

extern char **environ;

/* What the broker writes; the child answers with the inverse. */
static void pattern(uint64_t seed, uint64_t words[PROBE_WORDS])
{
	for (uint64_t i = 0; i < PROBE_WORDS; i++)
		words[i] = (seed + i) * 0x9e3779b97f4a7c15ull;
}

static bool is_inverse(const uint64_t a[PROBE_WORDS], const uint64_t b[PROBE_WORDS])
{
	for (uint64_t i = 0; i < PROBE_WORDS; i++)
		if (a[i] != ~b[i])
			return false;
	return true;
}

static int put_words(struct driver *d, void *stream, uint64_t address, const uint64_t words[PROBE_WORDS])
{
	int r = driver_copy_to_device(d, stream, address, words, PROBE_WORDS * sizeof(*words));

	return r ? r : driver_stream_synchronize(d, stream);
}

static int get_words(struct driver *d, void *stream, uint64_t address, uint64_t words[PROBE_WORDS])
{
	int r = driver_copy_to_host(d, stream, words, address, PROBE_WORDS * sizeof(*words));

	return r ? r : driver_stream_synchronize(d, stream);
}

/* ---- the child ------------------------------------------------------------------ */

static int answer(struct driver *d, void *stream, uint64_t address, uint64_t seed)
{
	uint64_t want[PROBE_WORDS], got[PROBE_WORDS] = { 0 };
	int r = get_words(d, stream, address, got);

	pattern(seed, want);
	if (r == 0 && memcmp(got, want, sizeof(got)) != 0) {
		printf("the imported memory does not hold what the broker wrote there");
		return 1;
	}
	for (int i = 0; i < PROBE_WORDS; i++)
		got[i] = ~want[i];
	if (r == 0)
		r = put_words(d, stream, address, got);
	if (r)
		printf("%s", driver_why(d));
	return r != 0;
}

int import_probe_child(const char *library)
{
	struct driver *d = NULL;
	struct probe_order order;
	char why[DRIVER_WHY] = "";
	uint64_t address = 0;
	void *stream = NULL;
	int code = 1;

	prctl(PR_SET_NAME, "swakvd-probe");
	if (read(STDIN_FILENO, &order, sizeof(order)) != (ssize_t)sizeof(order)) {
		printf("no order came");
		return 1;
	}
	if (driver_open(&d, library, order.uuid, 0, why) != 0) {
		printf("%s", why);
		return 1;
	}
	if (driver_ipc_import(d, order.handle, &address) || driver_stream_create(d, &stream))
		printf("%s", driver_why(d));
	else
		code = answer(d, stream, address, order.seed);
	if (stream)
		driver_stream_destroy(d, stream);
	if (address && driver_ipc_close(d, address) && code == 0) {
		printf("%s", driver_why(d));
		code = 1;
	}
	driver_close(d);
	return code;
}

/* ---- the broker ------------------------------------------------------------------ */

/* Its standard input and output are the pipes; the signals that the broker blocks are open to it. */
static int spawn_child(pid_t *pid, int input, int output, const char *library)
{
	const char *argv[] = { "swakvd", "--import-probe", library[0] ? "--cuda-library" : NULL, library, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	r = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* Its exit code; one that does not end is killed. */
static int wait_child(pid_t pid)
{
	AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int status = 0;

	if (fd < 0 || poll(&p, 1, PROBE_WAIT_MS) <= 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* 0, or -1 with what went wrong in @said. */
static int ask_child(const struct probe_order *order, const char *library, char *said, size_t size)
{
	int to[2] = { -1, -1 }, from[2] = { -1, -1 };
	ssize_t n = 0;
	pid_t pid = 0;
	int r = -1;

	if (pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0)
		r = spawn_child(&pid, to[0], from[1], library);
	close_fd(&to[0]);
	close_fd(&from[1]);
	if (r == 0) {
		if (write(to[1], order, sizeof(*order)) != (ssize_t)sizeof(*order))
			close_fd(&to[1]); /* it sees an end, and says so */
		r = wait_child(pid);
		n = read(from[0], said, size - 1);
		said[n > 0 ? n : 0] = '\0';
		if (r < 0 && n <= 0)
			snprintf(said, size, "the process did not finish");
	} else {
		snprintf(said, size, "no process could be started: %s", strerror(r < -1 ? -r : errno));
	}
	close_fd(&to[1]);
	close_fd(&from[0]);
	return r ? -1 : 0;
}

int import_probe_run(struct driver *driver, uint64_t address, const struct backend_pool *pool, const char *library,
		     char why[BACKEND_WHY])
{
	uint64_t words[PROBE_WORDS], got[PROBE_WORDS] = { 0 };
	struct probe_order order = { .seed = (uint64_t)getpid() };
	char said[384] = "";
	void *stream = NULL;
	int r = driver_stream_create(driver, &stream);

	memcpy(order.uuid, pool->device_uuid, sizeof(order.uuid));
	memcpy(order.handle, pool->ipc_handle, sizeof(order.handle));
	pattern(order.seed, words);
	if (r == 0)
		r = put_words(driver, stream, address, words);
	if (r == 0 && ask_child(&order, library, said, sizeof(said)) < 0) {
		snprintf(why, BACKEND_WHY, "self-test: another process cannot use the pool on %s: %s", pool->device,
			 said);
		driver_stream_destroy(driver, stream);
		return SWAKV_EDEVICE;
	}
	if (r == 0)
		r = get_words(driver, stream, address, got);
	if (r)
		snprintf(why, BACKEND_WHY, "self-test on %s: %s", pool->device, driver_why(driver));
	else if (!is_inverse(got, words))
		snprintf(why, BACKEND_WHY, "self-test: what another process writes to the pool on %s does not arrive",
			 pool->device);
	if (stream)
		driver_stream_destroy(driver, stream);
	return r || !is_inverse(got, words) ? SWAKV_EDEVICE : 0;
}
