/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h - requests that wait for pages */
#ifndef SWAKV_ENGINE_WAIT_H
#define SWAKV_ENGINE_WAIT_H

#include <sys/queue.h>

#include "engine.h"

struct quota;

/* A begin that waits. */
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
	uint32_t stream, n_slots;
	int32_t first_slot; /* chained by the slots */
	int64_t max_tokens;
	bool unordered;
	int64_t needs[WIRE_MAX_GROUPS]; /* pages */
	bool queued;                    /* the entry is in use */
	bool overdue;                   /* it has waited so long that it may claim, and be overtaken */
	uint64_t paused_until;          /* stamp: till then it does not claim */
	uint32_t refusal;               /* enum fault_reason: it will not be admitted, and why; FAULT_NONE */
};
TAILQ_HEAD(wait_list, wait);

/* Queues @b, which needs @needs. SWAKV_EAGAIN, or the code of why it may not wait. */
int wait_add(struct session *s, const struct begin *b, const int64_t *needs, struct fault *f);
/* One of its model waits that none that comes later may overtake. */
bool wait_holds_up(const struct quota *q);
/* All that wait in @s are gone, unanswered. */
void wait_forget(struct session *s);
bool wait_check(const struct engine *e, char *buf, size_t size);

#endif
