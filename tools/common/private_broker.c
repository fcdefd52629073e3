/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private_broker.c - see private_broker.h
 *
 * Everything the broker leaves behind lies in one folder, but for its status
 * page, which has a name of its own: it is unlinked when the broker did not do
 * so itself. The broker ends with the tool, whatever ends that.
 */
#include "private_broker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"

/* How long a tool waits for its own broker before it says so: no claim about speed. */
#define READY_MS 60000
#define STOP_MS  20000

#define MAX_OPTIONS 64

/* swakvd of $SWAKVD, of the build this tool lies in, or installed beside it; else by $PATH. */
static void find_program(char path[PATH_MAX])
{
	static const char *const places[] = { "/../../broker/swakvd", "/swakvd", "/../libexec/swakv/swakvd",
					      "/../libexec/swakvd", "/../sbin/swakvd" };
	const char *given = getenv("SWAKVD");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	snprintf(path, PATH_MAX, "%s", given && given[0] ? given : "swakvd");
	if ((given && given[0]) || n <= 0)
		return;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char place[PATH_MAX];

		if (snprintf(place, sizeof(place), "%s%s", self, places[i]) < (int)sizeof(place) &&
		    access(place, X_OK) == 0) {
			snprintf(path, PATH_MAX, "%s", place);
			return;
		}
	}
}

int private_broker_init(struct private_broker *b, const char *tool)
{
	const char *tmp = getenv("TMPDIR");
	static unsigned int counter;

	*b = (struct private_broker){ 0 };
	snprintf(b->name, sizeof(b->name), "%.12s-%d-%u", tool, (int)getpid(), ++counter);
	if (!tmp || !tmp[0] ||
	    snprintf(b->folder, sizeof(b->folder), "%s/swakv-%.12s.XXXXXX", tmp, tool) >= (int)sizeof(b->folder))
		snprintf(b->folder, sizeof(b->folder), "/tmp/swakv-%.12s.XXXXXX", tool);
	if (!mkdtemp(b->folder)) {
		b->folder[0] = '\0';
		return -errno;
	}
	snprintf(b->socket, sizeof(b->socket), "%s/sock", b->folder);
	snprintf(b->log, sizeof(b->log), "%s/swakvd.log", b->folder);
	return 0;
}

/* Child: becomes the broker, with its log as its output. */
static void exec_broker(const struct private_broker *b, const char *const *options, size_t n, const char *last)
{
	char name[64], socket[96], path[PATH_MAX];
	/* Pages of any size: its workers are the tool's own. */
	const char *arguments[MAX_OPTIONS + 6] = { "swakvd", name, socket, "--min-page-bytes=16" };
	int log_fd = open(b->log, O_CREAT | O_APPEND | O_WRONLY, 0600);
	sigset_t none;

	snprintf(name, sizeof(name), "--name=%s", b->name);
	snprintf(socket, sizeof(socket), "--socket=%s", b->socket);
	memcpy(arguments + 4, options, n * sizeof(*options));
	arguments[4 + n] = last;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	find_program(path);
	execvp(path, (char *const *)(uintptr_t)arguments);
	dprintf(STDERR_FILENO, "%s cannot be run: %s\n", path, strerror(errno));
	_exit(127);
}

/* Waits for @pid for at most @ms. True: it has ended, and *@status says how. */
static bool wait_for(pid_t pid, int ms, int *status)
{
	const struct timespec tick = { 0, 2000000 };

	for (int i = 0; i <= ms / 2; i++) {
		pid_t r = waitpid(pid, status, WNOHANG);

		if (r == pid || (r < 0 && errno == ECHILD))
			return true;
		nanosleep(&tick, NULL);
	}
	return false;
}

/* 0 when the broker has said that it is ready. */
static int wait_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int r = poll(&p, 1, READY_MS);
	char byte;

	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : -errno;
	return read(fd, &byte, 1) == 1 ? 0 : -ECHILD;
}

int private_broker_start(struct private_broker *b, const char *const *options, size_t n, char *why, size_t size)
{
	char last[32];
	int ready[2], r = 0;

	if (n > MAX_OPTIONS) {
		snprintf(why, size, "%zu options are too many for a broker, at most %d are allowed", n, MAX_OPTIONS);
		return -E2BIG;
	}
	if (pipe2(ready, O_CLOEXEC) < 0) {
		snprintf(why, size, "no pipe for the broker: %s", strerror(errno));
		return -errno;
	}
	snprintf(last, sizeof(last), "--ready-fd=%d", ready[1]);
	b->pid = fork();
	if (b->pid == 0) {
		fcntl(ready[1], F_SETFD, 0);
		exec_broker(b, options, n, last);
	}
	if (b->pid < 0) {
		b->pid = 0;
		r = -errno;
	}
	close(ready[1]);
	if (r == 0)
		r = wait_ready(ready[0]);
	close(ready[0]);
	if (r < 0)
		snprintf(why, size, "the broker did not start: %s", r == -ECHILD ? "it ended" : strerror(-r));
	return r;
}

/* What swakvd wrote, as one line, behind the level and its name as in "<3>swakvd: ". */
static void read_log(const struct private_broker *b, char *buf, size_t size)
{
	AUTO_FCLOSE FILE *f = fopen(b->log, "re");
	size_t n = f ? fread(buf, 1, size - 1, f) : 0, head;

	buf[n] = '\0';
	for (char *c = buf; *c; c++)
		if (*c == '\n')
			*c = c[1] ? ';' : '\0';
	head = buf[0] == '<' ? strcspn(buf, " ") : 0;
	if (buf[head] == ' ')
		memmove(buf, buf + head + 1, strlen(buf + head + 1) + 1);
}

int private_broker_check(struct private_broker *b, const char *const *options, size_t n, char *why, size_t size)
{
	int status = 0;
	pid_t pid;

	if (n > MAX_OPTIONS) {
		snprintf(why, size, "%zu options are too many for a broker, at most %d are allowed", n, MAX_OPTIONS);
		return -E2BIG;
	}
	pid = fork();
	if (pid == 0)
		exec_broker(b, options, n, "--check-config");
	if (pid < 0) {
		snprintf(why, size, "no process for swakvd: %s", strerror(errno));
		return -errno;
	}
	if (!wait_for(pid, READY_MS, &status)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		snprintf(why, size, "swakvd --check-config did not end");
		return -ETIMEDOUT;
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		read_log(b, why, size);
		return -EINVAL;
	}
	unlink(b->log); /* the broker's begins anew */
	return 0;
}

bool private_broker_stop(struct private_broker *b)
{
	int status = 0;
	bool ended;

	if (b->pid == 0)
		return true;
	kill(b->pid, SIGTERM);
	ended = wait_for(b->pid, STOP_MS, &status);
	if (!ended) {
		kill(b->pid, SIGKILL);
		waitpid(b->pid, &status, 0);
	}
	b->pid = 0;
	return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void private_broker_deinit(struct private_broker *b, bool keep)
{
	static const char *const files[] = { "sock", "sock.lock", "sock.ctl", "limits.ini", "swakvd.log" };
	char path[128];

	private_broker_stop(b);
	if (!b->folder[0])
		return;
	snprintf(path, sizeof(path), "/swakv-%s", b->name);
	shm_unlink(path);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !keep; i++) {
		snprintf(path, sizeof(path), "%s/%s", b->folder, files[i]);
		unlink(path);
	}
	if (!keep)
		rmdir(b->folder);
	b->folder[0] = '\0';
}

void private_broker_print_log(const struct private_broker *b, FILE *out)
{
	AUTO_FCLOSE FILE *f = b->folder[0] ? fopen(b->log, "re") : NULL;
	char line[1024];

	while (f && fgets(line, sizeof(line), f))
		fprintf(out, "%s%s", line + (line[0] == '<' ? strcspn(line, ">") + 1 : 0),
			strchr(line, '\n') ? "" : "\n");
}
