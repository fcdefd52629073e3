/* SPDX-License-Identifier: Apache-2.0 */
/* player.c - worker processes: this program again, in its other role, at the far end of a socket pair */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "interrupt.h"
#include "run.h"

#define PATIENCE_MS 120000

/* Child: what the worker prints goes where the broker's log is. */
static void exec_worker(const struct run *r, int fd)
{
	char argument[32], name[] = "swakv-replay";
	char *const arguments[] = { name, argument, NULL };
	int log_fd = open(r->broker.process.log, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);

	interrupt_reset();
	signal(SIGINT, SIG_IGN); /* of a terminal: the tool ends its workers itself */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (log_fd >= 0) {
		dup2(log_fd, STDOUT_FILENO);
		dup2(log_fd, STDERR_FILENO);
	}
	fcntl(fd, F_SETFD, 0);
	snprintf(argument, sizeof(argument), "--worker-fd=%d", fd);
	execv("/proc/self/exe", arguments);
	_exit(127);
}

int player_start(struct run *r, struct player *p)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return run_broken(r, "socketpair: %s", strerror(errno));
	p->pid = fork();
	if (p->pid == 0)
		exec_worker(r, fds[1]);
	close(fds[1]);
	p->fd = fds[0];
	if (p->pid < 0) {
		p->pid = 0;
		p->fd = close_fd(&p->fd);
		return run_broken(r, "fork: %s", strerror(errno));
	}
	return 0;
}

/* Its process has ended, so nothing stands in the way: pages, tables and memory go back, then its name. */
static int wait_reclaimed(struct run *r, const struct player *p)
{
	const struct timespec tick = { 0, 500000 };

	for (int i = 0; i < PATIENCE_MS * 2; i++) {
		int e = run_fresh_status(r);

		if (e)
			return e;
		if (!broker_session(&r->broker, p->session, p->generation))
			return 0;
		nanosleep(&tick, NULL);
	}
	return run_difference(r, "the broker to take back the worker's pages", "they are still held");
}

int player_end(struct run *r, struct player *p, int signal, bool proven)
{
	if (p->pid == 0)
		return 0;
	if (p->pages) /* stopped: its end must be able to run */
		kill(p->pid, SIGCONT);
	json_decref(p->pages);
	p->pages = NULL;
	if (signal)
		kill(p->pid, signal);
	p->fd = close_fd(&p->fd);
	while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	p->pid = 0;
	p->end_line = r->at ? r->at->line : 0;
	return proven ? wait_reclaimed(r, p) : 0;
}

int player_stop(struct run *r, struct player *p)
{
	json_t *answer;
	int status;

	/* Once it is stopped it can tell nothing: its pages are asked for now, and do not change until then. */
	if (run_ask(r, p, json_pack("{s:s}", "op", "pages"), &answer))
		return -1;
	p->pages = answer;
	kill(p->pid, SIGSTOP);
	while (waitpid(p->pid, &status, WUNTRACED) < 0 && errno == EINTR)
		continue;
	return 0;
}

int player_continue(struct run *r, struct player *p)
{
	(void)r;
	kill(p->pid, SIGCONT);
	json_decref(p->pages);
	p->pages = NULL;
	return 0;
}
