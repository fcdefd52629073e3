/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - plays a checked script: one broker, one process a worker, statement after statement */
#ifndef SWAKV_REPLAY_RUN_H
#define SWAKV_REPLAY_RUN_H

#include <jansson.h>

#include "broker.h"
#include "script.h"

enum run_result {
	RUN_OK = 0,
	RUN_DIFFERENCE = 1, /* an expectation did not hold, or a command was answered otherwise */
	RUN_UNREADABLE = 2, /* not a scenario */
	RUN_BROKEN = 3,     /* it could not be played: no broker, interrupted */
	RUN_RESULT_COUNT
};
#define RUN_RESULT_NAMES "ok", "difference", "unreadable", "broken"

/* What came of a file. */
struct outcome {
	enum run_result result;
	int line;             /* 0: of no statement */
	size_t n_statements;  /* that were played */
	char *expected, *got; /* of a difference; owned */
	char *message;        /* otherwise; owned */
};

struct run_options {
	bool trace; /* every command and answer to `out` */
	bool keep;  /* leave the folder with the log */
	FILE *out;  /* for trace and, on failure, the broker's log */
};

/* A worker process. Entries stay when it has ended: the name may be attached again. */
struct player {
	const char *name;
	const struct script_model *model;
	pid_t pid; /* 0: no process */
	int fd;
	uint32_t session, generation;
	uint64_t commands; /* it has sent so far */
	json_t *pages;     /* of its sequences, while it is stopped; NULL otherwise */
	int end_line;      /* where it was detached or killed */
};

struct label {
	const char *name;
	json_t *mapped;
};

struct run {
	const struct script *script;
	const struct run_options *options;
	const struct statement *at;
	struct broker broker;
	size_t n_players, n_labels;
	struct player *players;
	struct label *labels;
	struct outcome *outcome;
};

/* Plays @s. *@outcome is filled in; free it with outcome_clear(). */
void run_script(const struct script *s, const struct run_options *options, struct outcome *outcome);
void outcome_clear(struct outcome *o);

/* ---- shared by the files of the player; all return 0, or -1 with the outcome filled in ---- */

int run_difference(struct run *r, const char *expected, const char *format, ...) __attribute__((format(printf, 3, 4)));
int run_broken(struct run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The worker of that name, NULL: none was ever attached. */
struct player *run_player(struct run *r, const char *name);
/* Sends @command (its reference is taken over) to the worker; *@answer is a new reference. */
int run_ask(struct run *r, struct player *p, json_t *command, json_t **answer);
/* Reads status until it shows everything that has been answered so far. */
int run_fresh_status(struct run *r);

/* ---- player.c ---- */

/* Starts a process for @p. */
int player_start(struct run *r, struct player *p);
/*
 * Ends it (@signal 0: by closing its socket) and reaps it; when @proven waits
 * until the broker has taken back its pages.
 */
int player_end(struct run *r, struct player *p, int signal, bool proven);
int player_stop(struct run *r, struct player *p);
int player_continue(struct run *r, struct player *p);

/* ---- expect.c ---- */

int expect_run(struct run *r);
int expect_remember(struct run *r);

/* ---- disjoint.c ---- */

int expect_disjoint(struct run *r);

/* ---- unchanged.c ---- */

/* Everything that can be seen of workers and broker, as lines; a new reference. */
int unchanged_look(struct run *r, json_t **lines);
/* Holds what can be seen now against @before; with `limit` the request has turned to finishing. */
int unchanged_check(struct run *r, const json_t *before);

#endif
