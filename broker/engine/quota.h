/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h - what the sessions of one model share: limits, and a queue
 *
 * Inside the engine. A model is a name; its sessions find the same quota by it.
 */
#ifndef SWAKV_QUOTA_H
#define SWAKV_QUOTA_H

#include <sys/queue.h>

#include "engine.h"
#include "pool.h"

/* A begin that waits for pages. */
struct wait {
	TAILQ_ENTRY(wait) in_quota;
	TAILQ_ENTRY(wait) in_engine;
	struct wait *next_free;
	struct session *session;
	uint64_t number; /* counts all that ever waited: a smaller one is older */
	uint64_t ticket;
	uint64_t since, deadline; /* stamps */
	uint32_t stream, n_slots;
	int32_t first_slot; /* chained by the slots */
	int64_t max_tokens;
	bool unordered;
	int64_t needs[WIRE_MAX_GROUPS]; /* pages */
	bool claims;                    /* what comes free is kept for it */
	uint32_t refusal;               /* enum fault_reason: it will not be admitted, and why; FAULT_NONE */
};
TAILQ_HEAD(wait_list, wait);

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
	struct {
		uint64_t page_bytes;
		uint64_t pages;
	} shares[WIRE_MAX_GROUPS];
	struct wait_list queue;
	uint32_t n_waiting;
};
TAILQ_HEAD(quota_list, quota);

/* Whose claims a request must respect. */
#define CLAIMS_NONE 0          /* of nobody: it runs already */
#define CLAIMS_ALL  UINT64_MAX /* of all; any other number: of those older than that wait */

/* The quota of @name, made when it is new; NULL: memory is short. */
struct quota *quota_get(struct engine *e, const char *name);
/* Frees what has neither a session nor a limit. */
void quota_drop(struct engine *e, struct quota *q);
/* Notes what a sequence of @m takes. */
void quota_learn(struct quota *q, const struct model *m, const struct geometry *g);
/* Bytes of its sessions' pages, leased and in quarantine. */
uint64_t quota_used(const struct quota *q);

/* Whether a request of @needs (pages, one a group) can ever be, as the limits are now. 0, or the code of why not. */
int session_check_never(const struct session *s, const int64_t *needs, struct fault *f);
/*
 * Makes sure that @needs[g] pages of each group's class are free, all or nothing,
 * beside what the floors of other models and the claims of those older than
 * @claims lack: 0, or the code of why not, and nothing changed. Never, when
 * @held[g] more beside them (NULL: none), which are there already, could not be.
 */
int session_provide(struct session *s, const int64_t *needs, const int64_t *held, uint64_t claims, struct fault *f);

/* ---- wait.c ---- */

/* Queues @b, which needs @needs. SWAKV_EAGAIN, or the code of why it may not wait. */
int wait_add(struct session *s, const struct begin *b, const int64_t *needs, struct fault *f);
/* All that wait in @s are gone, unanswered. */
void wait_forget(struct session *s);
bool wait_check(const struct engine *e, char *buf, size_t size);

#endif
