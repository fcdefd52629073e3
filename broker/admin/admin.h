/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin.h - the broker's side of swakv-ctl
 *
 * Control thread only. Every connection is greeted, asks once, is answered and
 * ends; the few that may be open at a time are no part of the workers' share.
 */
#ifndef SWAKV_BROKER_ADMIN_H
#define SWAKV_BROKER_ADMIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "ring/admin_job.h"
#include "session/acceptor.h"

#define ADMIN_MAX_CONNECTIONS 8 /* the rest wait to be accepted */

struct control;
struct admin_connection;
TAILQ_HEAD(admin_connection_list, admin_connection);

struct admin {
	struct control *control;
	struct acceptor acceptor;
	uint64_t started_ns;
	pid_t pid; /* of the broker */
	struct admin_connection_list connections;
	uint32_t n_connections;
	struct drained drained;
};

void admin_init(struct admin *a, struct control *control);
/* Takes connections from @listener, borrowed until admin_deinit(). 0 or a negative errno. */
int admin_serve(struct admin *a, struct listener *listener);
/* Takes no more; who waits for an answer may still get it. Safe to repeat. */
void admin_stop(struct admin *a);
/* After the ring thread's end. */
void admin_deinit(struct admin *a);

/* The ring thread has done @job. */
void admin_done(struct admin_job *job);
/* True when workers of @model may not attach now. */
bool admin_drained(const struct admin *a, const char *model);

/* CLOCK_MONOTONIC of the earliest deadline, 0: none. */
uint64_t admin_next_deadline(const struct admin *a);
/* Acts on what has passed; frees connections that are done. At the end of a turn of the loop. */
void admin_deadlines(struct admin *a, uint64_t now);

#endif
