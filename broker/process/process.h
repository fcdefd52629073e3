/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - the process that a broker was started as: its limits, its signals, and what they look like as errors */
#ifndef SWAKV_BROKER_PROCESS_H
#define SWAKV_BROKER_PROCESS_H

#include <signal.h>

#include "config/config.h"

/*
 * As many open files, and files as large, as the system allows, and no core: what
 * a broker knows when it crashes is in its dump. Logs a warning when that is not enough for
 * all sessions of @c.
 */
void process_set_limits(const struct config *c);

/*
 * Blocks, for this thread and those that it starts, every signal that would end
 * the process on the spot and leave socket and status page behind; they are in
 * *@set, for a signalfd. What the starter ignores (nohup) stays ignored, and
 * what somebody handles (a profiler) stays theirs. A write into a broken pipe
 * or beyond the size of a file becomes an error.
 */
void process_block_signals(sigset_t *set);

/* strerror(), and behind a limit of this process which one it is and how to raise it. */
const char *process_error(int error);

#endif
