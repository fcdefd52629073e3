/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admin_job.h - what an administrator asks of the ring thread, and its answer
 *
 * The control thread makes a job; from the mail that carries it to the mail that
 * brings it back it belongs to the ring thread.
 */
#ifndef SWAKV_BROKER_ADMIN_JOB_H
#define SWAKV_BROKER_ADMIN_JOB_H

#include "admin_wire.h"
#include "drained.h"

struct ring_thread;

struct admin_job {
	struct admin_request request; /* checked */
	struct drained drained;       /* DRAIN: as it is from now on */
	void *owner;                  /* the control thread's object */
	struct admin_reply reply;     /* as it is sent; the sessions follow */
	struct admin_session sessions[ADMIN_MAX_SESSIONS];
};
_Static_assert(offsetof(struct admin_job, sessions) == offsetof(struct admin_job, reply) + sizeof(struct admin_reply),
	       "reply and sessions are one message");

/* Ring thread: does the job and fills in its part of the reply. */
void admin_job_run(struct admin_job *job, struct ring_thread *t);

#endif
