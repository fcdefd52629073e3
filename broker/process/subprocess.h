/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subprocess.h - starts a program that is spoken to by its standard input
 */
#ifndef SWAKV_BROKER_SUBPROCESS_H
#define SWAKV_BROKER_SUBPROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Starts @file (looked for in PATH when it has no slash) with @argv, @end as its
 * standard input, as its standard output too if @answers, and no signal blocked.
 * @end stays the caller's. 0 with *@pid, which the caller waits for; or an errno.
 */
int subprocess_start(const char *file, char *const argv[], int end, bool answers, pid_t *pid);

#endif
