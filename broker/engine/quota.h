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
#include "floor_extents.h"
#include "pool.h"
#include "wait.h"

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
	struct claim claim;         /* of the first in the queue */
	uint64_t above, above_left; /* scratch of engine_press(): bytes above the floor */
};
TAILQ_HEAD(quota_list, quota);

/* The quota of @name; NULL: there is none. */
struct quota *quota_find(const struct engine *e, const char *name);
/* The same, made when it is new; NULL: memory is short. */
struct quota *quota_get(struct engine *e, const char *name);
/* Frees what has neither a session nor a limit. */
void quota_drop(struct engine *e, struct quota *q);
/* Bytes of its sessions' pages, leased and in quarantine. */
uint64_t quota_used(const struct quota *q);

#endif
