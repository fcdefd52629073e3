/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

#define READY_MS 120000
#define STOP_MS  20000
#define READY_FD 3 /* a broker takes no lower one */

/* Between fork and exec of a process that has the driver open: system calls only. */
static _Noreturn void become(const char *const *argv, int in, int out, int log)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	if (log >= 0)
		dup2(log, STDERR_FILENO);
	dup2(STDOUT_FILENO, READY_FD);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(127);
}

bool child_start(struct child *c, const char *const *argv, const char *log)
{
	int in[2], out[2], log_fd = -1;

	*c = (struct child){ .in = -1, .out = -1 };
	if (pipe2(in, O_CLOEXEC) != 0)
		return false;
	if (pipe2(out, O_CLOEXEC) != 0) {
		close(in[0]);
		close(in[1]);
		return false;
	}
	if (log)
		log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	c->pid = fork();
	if (c->pid == 0)
		become(argv, in[0], out[1], log_fd);
	close(in[0]);
	close(out[1]);
	if (log_fd >= 0)
		close(log_fd);
	c->in = in[1];
	c->out = out[0];
	if (c->pid > 0)
		return true;
	c->pid = 0;
	child_end(c, false, 0);
	return false;
}

bool child_say(struct child *c, const char *line)
{
	size_t n = strlen(line);

	return write(c->in, line, n) == (ssize_t)n && write(c->in, "\n", 1) == 1;
}

bool child_hear(struct child *c, char *line, size_t size, int ms)
{
	double end = now_us() + ms * 1e3;
	char *newline;

	while (!(newline = memchr(c->text, '\n', c->n_text))) {
		struct pollfd p = { .fd = c->out, .events = POLLIN };
		double left = (end - now_us()) / 1e3;
		ssize_t n;

		if (left <= 0 || c->n_text == sizeof(c->text) || poll(&p, 1, (int)left + 1) <= 0)
			return false;
		n = read(c->out, c->text + c->n_text, sizeof(c->text) - c->n_text);
		if (n <= 0)
			return false;
		c->n_text += (size_t)n;
	}
	snprintf(line, size, "%.*s", (int)(newline - c->text), c->text);
	c->n_text -= (size_t)(newline + 1 - c->text);
	memmove(c->text, newline + 1, c->n_text);
	return true;
}

bool child_expect(struct child *c, const char *word, int ms)
{
	char line[sizeof(c->text)];

	return child_hear(c, line, sizeof(line), ms) && strncmp(line, word, strlen(word)) == 0;
}

static void forget(struct child *c)
{
	if (c->in >= 0)
		close(c->in);
	if (c->out >= 0)
		close(c->out);
	c->in = c->out = -1;
	c->pid = 0;
}

double child_kill(struct child *c)
{
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, c->pid, 0), .events = POLLIN };
	double from = now_us(), took = -1;

	kill(c->pid, SIGKILL);
	if (p.fd >= 0 && poll(&p, 1, 10000) == 1)
		took = now_us() - from;
	if (p.fd >= 0)
		close(p.fd);
	waitpid(c->pid, NULL, 0);
	forget(c);
	return took;
}

void child_end(struct child *c, bool term, int ms)
{
	double end = now_us() + ms * 1e3;

	if (c->pid > 0 && term)
		kill(c->pid, SIGTERM);
	if (c->in >= 0)
		close(c->in);
	c->in = -1;
	while (c->pid > 0 && waitpid(c->pid, NULL, WNOHANG) == 0) {
		if (now_us() > end) {
			kill(c->pid, SIGKILL);
			waitpid(c->pid, NULL, 0);
			break;
		}
		sleep_us(1000);
	}
	forget(c);
}

/* ---- a broker of one's own ------------------------------------------------------ */

static void last_line(const char *path, char *line, size_t size)
{
	char buf[512];
	FILE *f = fopen(path, "re");

	snprintf(line, size, "it said nothing");
	while (f && fgets(buf, sizeof(buf), f)) {
		buf[strcspn(buf, "\n")] = '\0';
		snprintf(line, size, "%s", buf);
	}
	if (f)
		fclose(f);
}

bool private_broker_start(struct private_broker *b, const char *const *arguments, char *why, size_t why_size)
{
	static int number;
	const char *argv[16] = { SWAKVD, "--name", b->name, "--backend=cuda", "--ready-fd=3" };
	int n = 5;

	*b = (struct private_broker){ 0 };
	snprintf(b->name, sizeof(b->name), "figures-%d-%d", (int)getpid(), ++number);
	snprintf(b->folder, sizeof(b->folder), "/tmp/swakv-figures.XXXXXX");
	if (!mkdtemp(b->folder)) {
		snprintf(why, why_size, "no folder in /tmp: %s", strerror(errno));
		return false;
	}
	snprintf(b->log, sizeof(b->log), "%s/log", b->folder);
	setenv("XDG_RUNTIME_DIR", b->folder, 1);
	for (; *arguments && n < 15; arguments++)
		argv[n++] = *arguments;
	if (child_start(&b->child, argv, b->log) && child_expect(&b->child, "", READY_MS))
		return true;
	last_line(b->log, why, why_size);
	private_broker_stop(b);
	return false;
}

void private_broker_stop(struct private_broker *b)
{
	char path[192];

	child_end(&b->child, true, STOP_MS);
	if (!b->folder[0])
		return;
	unlink(b->log);
	snprintf(path, sizeof(path), "%s/swakv/%s.sock", b->folder, b->name);
	unlink(path);
	snprintf(path, sizeof(path), "%s/swakv/%s.sock.lock", b->folder, b->name);
	unlink(path);
	snprintf(path, sizeof(path), "%s/swakv", b->folder);
	rmdir(path);
	rmdir(b->folder);
	snprintf(path, sizeof(path), "/dev/shm/swakv-%s", b->name);
	unlink(path);
	b->folder[0] = '\0';
}

bool private_broker_said(const struct private_broker *b, const char *text)
{
	char buf[512];
	FILE *f = fopen(b->log, "re");
	bool found = false;

	while (f && !found && fgets(buf, sizeof(buf), f))
		found = strstr(buf, text) != NULL;
	if (f)
		fclose(f);
	return found;
}
