/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps.c - see mps.h
 *
 * The control program reads orders from its standard input and writes an answer;
 * it finds its daemon by $CUDA_MPS_PIPE_DIRECTORY, as the driver does. An order
 * that it cannot carry out is answered with a sentence and a good exit code, so
 * a client that is to be ended is looked up before and after.
 */
#include "mps.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "mps_list.h"
#include "process/subprocess.h"

#define PROGRAM "nvidia-cuda-mps-control"

enum { ANSWER_MS = 1000, ANSWER_BYTES = 4096, MOST_SERVERS = 16, MOST_CLIENTS = 256 };

/* Starts the program with @end as its standard input and output. 0 or an errno. */
static int start(int end, pid_t *pid)
{
	char name[] = PROGRAM;
	char *argv[] = { name, NULL };

	return subprocess_start(PROGRAM, argv, end, true, pid);
}

/* Reads until the program has closed its end: the bytes, or -1 when it does not in time. */
static int read_all(int fd, char *answer)
{
	size_t n = 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int ready = poll(&p, 1, ANSWER_MS);
		ssize_t got;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return -1;
		got = recv(fd, answer + n, ANSWER_BYTES - 1 - n, 0);
		if (got <= 0) {
			answer[n] = '\0';
			return got == 0 ? (int)n : -1;
		}
		n += (size_t)got;
		if (n == ANSWER_BYTES - 1)
			return -1;
	}
}

/* Gives one order. 0 with the program's words in @answer, or -1 with the reason in @why. */
static int give_order(const char *order, char answer[ANSWER_BYTES], char *why)
{
	AUTO_CLOSE int ours = -1;
	AUTO_CLOSE int theirs = -1;
	int pair[2], status = 0, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		snprintf(why, MPS_WHY, "no socket pair: %s", strerror(errno));
		return -1;
	}
	ours = pair[0];
	theirs = pair[1];
	r = start(theirs, &pid);
	if (r) {
		snprintf(why, MPS_WHY, PROGRAM " was not started: %s", strerror(r));
		return -1;
	}
	close_fd(&theirs);
	(void)send(ours, order, strlen(order), MSG_NOSIGNAL); /* who does not read it says nothing, either */
	shutdown(ours, SHUT_WR);
	r = read_all(ours, answer);
	if (r < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (r >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	snprintf(why, MPS_WHY, PROGRAM " gave no answer to \"%.*s\"", (int)strcspn(order, "\n"), order);
	return -1;
}

/* The pids that an order lists, a line each; -1 with the reason in @why. */
static int give_list_order(const char *order, uint32_t *pids, int most, char *why)
{
	char answer[ANSWER_BYTES];
	int n;

	if (give_order(order, answer, why) < 0)
		return -1;
	n = mps_list_parse(answer, pids, most);
	if (n < 0)
		snprintf(why, MPS_WHY, PROGRAM " gave no list to \"%.*s\" but \"%.60s\"", (int)strcspn(order, "\n"),
			 order, answer);
	return n;
}

/* 1: @server knows @pid; 0: it does not; -1 with the reason in @why. */
static int is_client(uint32_t server, uint32_t pid, char *why)
{
	uint32_t clients[MOST_CLIENTS];
	char order[64];
	int n;

	snprintf(order, sizeof(order), "get_client_list %u\n", server);
	n = give_list_order(order, clients, MOST_CLIENTS, why);
	for (int i = 0; i < n; i++)
		if (clients[i] == pid)
			return 1;
	return n < 0 ? -1 : 0;
}

/* As mps_terminate_client(), on one server. */
static int terminate_on(uint32_t server, uint32_t pid, char *why)
{
	char order[64], answer[ANSWER_BYTES];
	int known = is_client(server, pid, why);

	if (known <= 0)
		return known;
	snprintf(order, sizeof(order), "terminate_client %u %u\n", server, pid);
	if (give_order(order, answer, why) < 0)
		return -1;
	known = is_client(server, pid, why);
	if (known > 0)
		snprintf(why, MPS_WHY, "server %u still lists it; it was told: %.80s", server, answer);
	return known == 0 ? 1 : -1;
}

int mps_terminate_client(uint32_t pid, char *why)
{
	uint32_t servers[MOST_SERVERS];
	int n = give_list_order("get_server_list\n", servers, MOST_SERVERS, why), ended = 0;

	for (int i = 0; i < n; i++) {
		int r = terminate_on(servers[i], pid, why);

		if (r < 0)
			return -1;
		ended += r;
	}
	return n < 0 ? -1 : ended;
}
