/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member.h - further processes of a worker's session
 *
 * Each joins, may run on the session's pages for as long as it likes, also when
 * the first process is no more, and leaves or dies. Until then the broker may not
 * let go of the session. Some have no right to join.
 */
#ifndef SWAKV_SIM_MEMBER_H
#define SWAKV_SIM_MEMBER_H

#include "sim.h"

enum { SIM_MEMBERS = 2 }; /* of a worker */

enum member_state {
	MEMBER_OUT,
	MEMBER_JOINING,
	MEMBER_LIVE,
	MEMBER_LEFT, /* nothing of it runs; its process ends soon */
	MEMBER_DEAD, /* its device may not have noticed yet */
};

struct member {
	struct worker *first;
	enum member_state state;
	bool stranger; /* it may not join */
	struct process *process;
	struct connection *connection;
	struct wire_hello hello;
	struct event say, news, step, exit, gone;
};

/* The session of @v may be joined from now on: some will. */
void members_come(struct worker *v);
/* True when none is there. */
bool members_out(const struct worker *v);
/* True when one may run on the session's pages. */
bool members_may_run(const struct worker *v);
/* Before the next incarnation of @v: none is there. */
void members_forget(struct worker *v);
/* SIGKILL to process @p, if it is one of @v's. */
void members_kill_process(struct worker *v, const struct process *p);
/* The broker lets go of the memory @s: none of @v's may run with it. */
void members_check_forgotten(struct worker *v, const struct shared *s);

#endif
