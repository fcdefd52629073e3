/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what all of the engine share */
#ifndef SWAKV_ENGINE_INTERNAL_H
#define SWAKV_ENGINE_INTERNAL_H

#include <sys/queue.h>

#include "engine.h"
#include "pool.h"
#include "provision.h"
#include "quota.h"
#include "session.h"

/* See slice.h. */
struct slice {
	uint32_t most;    /* operations */
	uint32_t part;    /* of these: what is done between two looks at the count */
	uint32_t spent;   /* since the driver's last look */
	uint32_t longest; /* ever spent */
	bool paused;      /* the driver is being called */
	uint64_t total, pauses;
	void (*pause)(void *arg);
	void *arg;
};

struct engine {
	struct pool pool;
	struct slice slice;
	uint32_t last_serial;
	uint64_t stamp; /* of what happens now */
	LIST_HEAD(, session) sessions;

	struct quota_list quotas;
	uint32_t n_floors; /* of them */
	uint64_t stamps_a_ms, wait_claim, claim_hold, claim_max;
	uint32_t n_claims;
	bool claims_lifted;     /* some of them */
	struct wait_list waits; /* oldest first */
	uint32_t n_waiting;
	uint64_t last_wait;     /* number */
	uint64_t returned_seen; /* of pool.returned: what changed since may help somebody */
	bool retry;             /* so may something else */
	bool hindered;          /* a head waits for points or entries of its own session */
	bool doomed;            /* somebody's refusal is set */
	bool admitting;         /* one that waits is being tried */
	struct wait *next_try;  /* of the sweep that is going on; NULL: none is */
	uint64_t next_due;      /* stamp: a begin's */
	uint64_t claims_due;    /* a claim's, 0: none */
};

/* A complete may open two points (the request's own, and one of dropped sequences), a finish one. */
#define POINTS_PER_TRANSITION 2
static inline uint32_t points_spare(const struct session *s)
{
	return s->max_points - s->n_points - POINTS_PER_TRANSITION * s->n_transitions - s->n_requests;
}

/* ---- step.c, extend.c ---- */

void transition_begin(struct session *s, struct request *r, enum transition t);
void transition_end(struct session *s, struct request *r);
int transition_check(const struct request *r, enum transition t, struct fault *f);
struct resolved_fence;
/* The request's work has been completed with fence @p: a point, unless it was reached. @l NULL: no pages leave. */
void note_fence(struct session *s, struct request *r, const struct resolved_fence *p, const struct leaving *l);

/* Counts of one entry: @of one a sequence, or NULL: @each for all. */
struct counts {
	const int32_t *of;
	int32_t each;
};
/* A step of more than one token, or of tokens that differ. Phase, transition and room for points have been checked. */
int extend_prepare(struct session *s, struct request *r, const struct counts *tokens, struct delivery *d,
		   struct fault *f);
/* Completes a step or an extend; @accepted->each 0 (and no list): all. */
int extend_complete(struct session *s, struct request *r, const struct counts *accepted, const struct wire_fence *fence,
		    uint64_t armed, struct fault *f);

#endif
