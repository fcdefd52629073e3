/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - the walk over a file that finds out what its names mean */
#ifndef SWAKV_REPLAY_CHECK_H
#define SWAKV_REPLAY_CHECK_H

#include "script.h"

/* A name that has been declared: of a worker, of one of its requests, a label. */
struct name {
	const char *text;
	const char *worker; /* of a request; NULL otherwise */
	const struct script_model *model;
	int line;     /* where it was declared */
	int end_line; /* where the worker or request ended, 0: it lives */
	bool stopped;
};

struct names {
	size_t n;
	struct name *list;
};

struct walk {
	struct script *script;
	struct script_error *error;
	const struct statement *at;
	struct names workers, requests, labels, pages;
	uint32_t page_tokens; /* the broker's default for models */
};

#define FAIL(w, ...) script_fail((w)->error, (w)->at->line, __VA_ARGS__)

/* That of @worker (NULL: of none, or of any); NULL: there is none. */
struct name *name_find(struct names *names, const char *worker, const char *text);
/* Declares it, or declares it anew. NULL: out of memory. */
struct name *name_put(struct names *names, const char *worker, const char *text, int line);

/* ---- check_turn.c ---- */

/* The requests that a turn names; those that begin and end with it. 0 or -EINVAL. */
int check_turn(struct walk *w);

#endif
