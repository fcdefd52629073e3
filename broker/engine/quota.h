/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h - what the sessions of one model share: limits, and a queue
 *
 * Inside the engine. A model is a name; its sessions find the same quota by it.
 */
#ifndef SWAKV_QUOTA_H
#define SWAKV_QUOTA_H

#include <sys/queue.h>

#include "claim.h"
#include "engine.h"
#include "floor.h"
#include "pool.h"
#include "wait.h"

struct pool_keep;

struct quota {
	TAILQ_ENTRY(quota) link;
	char name[WIRE_MODEL_NAME];
	uint64_t floor;   /* bytes, K and V */
	uint64_t ceiling; /* 0: none */
	LIST_HEAD(sharer_list, session) sessions;
	uint32_t n_sessions;
	/* One sequence of max_seq, as the last session declared it: how a floor is split over page sizes. */
	uint32_t n_shares;
	struct wire_group groups[WIRE_MAX_GROUPS]; /* what that session declared */
	struct floor_share shares[WIRE_MAX_GROUPS];
	struct wait_list queue;
	uint32_t n_waiting;
	struct claim claim; /* of the first in the queue */
};
TAILQ_HEAD(quota_list, quota);

/* Whose claims a request must respect: nobody's when it runs already. */
enum claims { CLAIMS_NONE, CLAIMS_ALL };

/* The quota of @name; NULL: there is none. */
struct quota *quota_find(const struct engine *e, const char *name);
/* Frees what has neither a session nor a limit. */
void quota_drop(struct engine *e, struct quota *q);
/* Bytes of its sessions' pages, leased and in quarantine. */
uint64_t quota_used(const struct quota *q);

/* Whether a request of @needs (pages, one a group) can ever be, as the limits are now. 0, or the code of why not. */
int session_check_never(const struct session *s, const int64_t *needs, struct fault *f);
/*
 * Makes sure that @needs[g] pages of each group's class are free, all or nothing,
 * beside what the floors of other models lack and what is claimed: 0, or the
 * code of why not, and nothing changed. Never, when @held[g] more beside them
 * (NULL: none), which are there already, could not be. The pages are taken
 * before anything else happens in the engine.
 */
int session_provide(struct session *s, const int64_t *needs, const int64_t *held, enum claims claims, struct fault *f);
/* Pages of class @index that could be admitted now: beside what is claimed. */
int64_t engine_available(struct engine *e, uint32_t index);
/* Bytes of K and V. */
uint64_t needs_bytes(const struct session *s, const int64_t *needs);
/* What is to be left to others than @own (NULL: to all): the floors, and, with @claims, the free pages that are
 * claimed. */
void keep_for_others(struct pool_keep *keep, const struct engine *e, const struct quota *own, bool claims);
/* What @q has not used of its floor. */
void keep_floor(struct pool_keep *keep, const struct engine *e, const struct quota *q);

#endif
