/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subprocess.c - see subprocess.h
 *
 * The broker blocks the signals that end it; a child must not inherit that.
 */
#include "subprocess.h"

#include <signal.h>
#include <spawn.h>
#include <unistd.h>

int subprocess_start(const char *file, char *const argv[], int end, bool answers, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
	if (answers)
		posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	r = posix_spawnp(pid, file, &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}
