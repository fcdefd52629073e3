/* SPDX-License-Identifier: Apache-2.0 */
/* private_broker.h - a broker of a tool's own: a child process with a name, a folder, a socket and a log */
#ifndef SWAKV_PRIVATE_BROKER_H
#define SWAKV_PRIVATE_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct private_broker {
	char name[32];
	char folder[64]; /* empty: none */
	char socket[80];
	char log[80];
	pid_t pid; /* 0: not started, or stopped */
};

/* Chooses a name that begins with @tool and makes the folder. 0 or a negative errno. */
int private_broker_init(struct private_broker *b, const char *tool);
/*
 * Starts it with the @n options of @options (as "--backend=host", "--size=1G") and
 * waits until it is ready, or until a signal was handled (-EINTR). 0, or a
 * negative errno with a sentence in @why.
 */
int private_broker_start(struct private_broker *b, const char *const *options, size_t n, char *why, size_t size);
/*
 * Asks swakvd what it thinks of such options, without starting it. 0; -EINVAL with what it says, in one line, in @why;
 * or another negative errno with a sentence.
 */
int private_broker_check(struct private_broker *b, const char *const *options, size_t n, char *why, size_t size);
/* Orderly stop; by force when it takes too long. False when it did not end by itself with code 0. Safe to repeat. */
bool private_broker_stop(struct private_broker *b);
/*
 * Stops it and removes its folder (unless @keep: for a look at the log), and the status page that a broker that died
 * left behind. Safe to repeat.
 */
void private_broker_deinit(struct private_broker *b, bool keep);
/* Copies the log to @out. */
void private_broker_print_log(const struct private_broker *b, FILE *out);

#endif
