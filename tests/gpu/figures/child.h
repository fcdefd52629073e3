/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - processes beside this one that are spoken to by lines, and die with it */
#ifndef FIGURES_CHILD_H
#define FIGURES_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
	pid_t pid; /* 0: none */
	int in, out;
	char text[4096]; /* heard, but not asked for yet */
	size_t n_text;
};

/* Starts @argv (NULL at the end); its stderr goes to @log, or where this process's goes when that is NULL. */
bool child_start(struct child *c, const char *const *argv, const char *log);
bool child_say(struct child *c, const char *line);
/* The next line it writes, without its end, within @ms. False: none came, or it ended. */
bool child_hear(struct child *c, char *line, size_t size, int ms);
/* True when the next line begins with @word. */
bool child_expect(struct child *c, const char *word, int ms);
/* Microseconds from the SIGKILL until its pidfd was readable, < 0: not within 10 s. */
double child_kill(struct child *c);
/* Ends its input, or sends SIGTERM (@term), and waits; kills it after @ms. Safe to repeat. */
void child_end(struct child *c, bool term, int ms);

/* ---- a broker of one's own ------------------------------------------------------ */

struct private_broker {
	struct child child;
	char name[32];
	char folder[64]; /* run-time folder: socket and log */
	char log[96];
};

/* Starts swakvd with up to six @arguments (NULL at the end) and waits until it is ready. @why gets the sentence. */
bool private_broker_start(struct private_broker *b, const char *const *arguments, char *why, size_t why_size);
void private_broker_stop(struct private_broker *b);
/* True when its log has @text. */
bool private_broker_said(const struct private_broker *b, const char *text);

#endif
