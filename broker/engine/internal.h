/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what all of the engine share */
#ifndef SWAKV_ENGINE_INTERNAL_H
#define SWAKV_ENGINE_INTERNAL_H

#include <sys/queue.h>

#include "emptying.h"
#include "engine.h"
#include "pool.h"
#include "provision.h"
#include "quota.h"
#include "session.h"

/* See slice.h. */
struct slice {
	uint32_t most;    /* operations */
	uint32_t part;    /* of these: what is done between two looks at the count */
	uint32_t spent;   /* since the driver was last called, or looked */
	uint32_t before;  /* until then, since its last look */
	uint32_t uncut;   /* of these: what could not be cut */
	uint32_t longest; /* ever spent between two looks, but for that */
	bool paused;      /* the driver is being called */
	uint64_t pauses;
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
	struct claim_list claims; /* the oldest first */
	uint32_t n_claims;
	uint64_t shifts;              /* claims that began or ended, and changes of what a session is asked for */
	uint64_t claims_paused_until; /* stamp: after some that gave nothing */
	bool claims_lifted;           /* some of them */
	void (*look)(void *arg);      /* who wants to see them, see engine_on_claims() */
	void *look_arg;
	struct wait_list waits; /* oldest first */
	struct wait_list refused;
	uint32_t n_waiting;
	uint64_t press_due;         /* stamp: when the first refusal counts no longer, 0: none does */
	struct session *press_next; /* that engine_press() looks at; NULL: none */
	struct emptying emptying;
	bool pressed;                  /* somebody was refused lately, or is asked for pages (press.h) */
	uint64_t last_wait;            /* number */
	uint64_t returned_seen;        /* of pool.returned: what changed since may help somebody */
	bool retry;                    /* so may something else */
	bool hindered;                 /* a head waits for points or entries of its own session */
	bool admitting;                /* one that waits is being tried */
	struct wait *next_try;         /* of the sweep that is going on; NULL: none is */
	struct wait *next_late;        /* of the search for those whose time is up; NULL: none goes on */
	struct wait *in_time;          /* the first that is not overdue */
	uint64_t later_due;            /* next_due of those that the search has seen */
	uint64_t next_due;             /* stamp: a begin's */
	uint64_t claims_due;           /* a claim's, 0: none */
	int32_t taken[WIRE_MAX_PAGES]; /* what a take that has waited gets */
};

/* A prepared step of @r may have pages to replace: moves_make(). Seldom so. */
static inline bool moves_are_due(const struct session *s, const struct request *r)
{
	return __builtin_expect(s->moved && s->engine->pool.n_emptying > 0, 0) && r->moves_due;
}

/* The step of @r that is completed has replaced pages: moves_release(). Seldom so. */
static inline bool moves_were_made(const struct session *s, const struct request *r)
{
	return __builtin_expect(s->n_moving > 0, 0) && r->n_moved;
}

#endif
