/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.h - the tool's other self: one attached process, told what to do over
 * a socket
 *
 * A command is {"op": ..., ...}; its answer {"code": of <swakv/error.h>,
 * "error": sentence, "calls": how many calls of the library succeeded, "lost":
 * the request has ended, "commands": sent to the broker so far} and what the
 * command asks for. "fault" says what is wrong with the device table.
 */
#ifndef SWAKV_REPLAY_WORKER_H
#define SWAKV_REPLAY_WORKER_H

#include <jansson.h>

#include "device.h"
#include "script.h"

struct worker_request {
	const char *name;       /* owned */
	swakv_request *request; /* NULL: its begin was refused */
	uint64_t entries;       /* delivered by its last prepare or compaction */
};

/* A call that waits for pages. */
struct worker_call {
	swakv_ticket ticket;
	int code; /* not 0: it has waited in vain, and its ticket has been collected */
};

/* A begin that waits for pages. */
struct worker_waiting {
	struct worker_waiting *next;
	char *name;
	struct worker_call call;
	swakv_request *request; /* once it has been collected */
};

/* Pages that the worker has taken, or is waiting for. */
struct worker_pages {
	struct worker_pages *next;
	char *name;
	uint32_t group;
	uint32_t n, n_given; /* the first ones have been given */
	int32_t *ids;
	struct worker_call call; /* while it waits */
};

struct worker {
	swakv_session *session; /* NULL: not attached, or detached */
	struct device device;
	uint32_t n_groups;
	struct swakv_layout layouts[SCRIPT_MAX_GROUPS];
	uint64_t pool; /* address of the pool */
	size_t n_requests;
	struct worker_request *requests;
	struct worker_waiting *waiting;
	struct worker_pages *pages, *taking;
	char fault[256]; /* what a delivery left wrong in the device table; empty: nothing */
};

/* Serves commands from @fd until its other end closes. Returns the exit code. */
int worker_main(int fd);

/* NULL when no such request was begun. */
struct worker_request *worker_request_find(struct worker *w, const char *name);
/* The request that @command names; NULL: there is none, or its begin was refused. */
swakv_request *worker_request_of(struct worker *w, const json_t *command);

/* ---- inspect.c: commands that only look; each fills @answer and returns a code ---- */

int inspect_row(struct worker *w, const json_t *command, json_t *answer);
int inspect_state(struct worker *w, const json_t *command, json_t *answer);
int inspect_request(struct worker *w, const json_t *command, json_t *answer);
/* Of each group where its pages lie, and the ids that every sequence has there. */
int inspect_pages(struct worker *w, const json_t *command, json_t *answer);
/* Everything that can be seen, as lines of text. */
int inspect_dump(struct worker *w, const json_t *command, json_t *answer);
/* After a delivery: rows of @r and rows without owner must be on the device as they are on the host. */
void inspect_delivered(struct worker *w, const swakv_request *r);

#endif
