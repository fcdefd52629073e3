/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h - begins and takes that wait for pages */
#ifndef SWAKV_ENGINE_WAIT_H
#define SWAKV_ENGINE_WAIT_H

#include <sys/queue.h>

#include "engine.h"

struct quota;

/* A begin, or a take of pages that the session manages itself, that waits. */
struct wait {
	TAILQ_ENTRY(wait) in_quota;
	TAILQ_ENTRY(wait) in_engine;
	TAILQ_ENTRY(wait) in_session;
	TAILQ_ENTRY(wait) in_refused; /* when it has a refusal */
	struct wait *next_free;
	struct session *session;
	uint64_t number; /* counts all that ever waited: a smaller one is older */
	uint64_t ticket;
	uint64_t since, deadline; /* stamps */
	bool takes;
	struct take take;         /* then: of what; else: */
	uint32_t stream, n_slots; /* of a take: no slots */
	int32_t first_slot;       /* chained by the slots */
	int64_t max_tokens;
	bool unordered, pinned;
	int64_t needs[WIRE_MAX_GROUPS]; /* pages, at least */
	bool queued;                    /* the entry is in use */
	bool overdue;                   /* it has waited so long that it may claim, and be overtaken */
	uint64_t paused_until;          /* stamp: till then it does not claim, since nothing would do */
	uint64_t gave_up;               /* stamp: when it last held a claim in vain, 0: never */
	uint32_t refusal;               /* enum fault_reason: it will not be admitted, and why; FAULT_NONE */
};
TAILQ_HEAD(wait_list, wait);

/* Queues @b, which needs @needs. SWAKV_EAGAIN, or SWAKV_EBUSY: too many of the session wait. */
int wait_add(struct session *s, const struct begin *b, const int64_t *needs, struct fault *f);
int wait_add_take(struct session *s, const struct take *t, const int64_t *needs, struct fault *f);
/*
 * What was refused with @code for want of @needs, when it was its turn to be tried
 * or not: SWAKV_EAGAIN when it may wait for @wait stamps and is to be queued, else
 * the code of what it is told.
 */
int wait_or_not(struct session *s, int code, bool in_turn, uint64_t wait, const int64_t *needs, struct fault *f);
/* One of its model waits that none that comes later may overtake. */
bool wait_holds_up(const struct quota *q);
/* All that wait in @s are gone, unanswered. */
void wait_forget(struct session *s);
bool wait_check(const struct engine *e, char *buf, size_t size);

#endif
