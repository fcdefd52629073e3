/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.h - what is kept for a request that has waited long, and until when
 *
 * The first of a model's queue claims when it has waited for so long: free pages
 * of its classes up to what it needs, and for the rest whole extents, chosen once
 * (choice.h). What comes free in these joins. All else is open to everybody, its
 * own model included; and what its model has not used of its floor is not
 * claimed, since that is there anyway. Claims are below the floors of others, and
 * an older one comes first.
 *
 * A claim ends with its begin; when no page has joined for some time, or when it
 * has held for long. Whenever one ends and its begin was not admitted, it has
 * kept for nothing: then nobody chooses for as long as it has held, or as it and
 * those before it have that it overlapped. So however many hold in vain, at most
 * half of the time goes by under them. Who had its turn chooses after those that
 * wait for theirs.
 */
#ifndef SWAKV_CLAIM_H
#define SWAKV_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "choice.h"
#include "wire.h"

struct engine;
struct quota;
struct wait;
struct pool_keep;

/* One a model. */
struct claim {
	TAILQ_ENTRY(claim) link; /* of the engine's, while `of` is set */
	struct wait *of;         /* whose; NULL: nothing is claimed */
	uint64_t since, moved;   /* stamps: when it chose, and when a page joined last */
	uint64_t first;          /* stamp: when the first chose of those that it overlapped and that gave nothing */
	uint64_t joined;         /* pages, as of `moved` */
	bool lifted;             /* for the moment others need not respect it; claims_restore() ends that */
	bool served;             /* its own begin is tried: it does not stand in its own way */
	struct {
		struct choice chosen;
		int64_t kept; /* free pages outside, of the group's class */
	} of_group[WIRE_MAX_GROUPS];
};
TAILQ_HEAD(claim_list, claim);

void claim_init(struct claim *c);
/* What is claimed of @q is open again; its begin was @admitted, or the claim was in vain. Safe to repeat. */
void claim_end(struct engine *e, struct quota *q, bool admitted);
/* When what is claimed, and @bytes more of its model, would exceed its ceiling, the claim ends. */
void claim_check_ceiling(struct engine *e, struct quota *q, uint64_t bytes);
/* The begin of @q's claim is about to be tried, or was and still waits. */
void claim_serve(struct engine *e, struct quota *q);
void claim_serve_end(struct engine *e, struct quota *q);

/*
 * Claims that are over end; the first of each queue that may claims, the one
 * that has waited longest first. Each costs what choice_make() does. Notes when that is to be done next.
 */
void claims_review(struct engine *e);
/* Adds the free pages that are kept to @keep. */
void claims_keep(const struct engine *e, struct pool_keep *keep);
/* No claim is in the way until claims_restore(), which comes before anything else looks at what is free. */
void claims_lift(struct engine *e);
void claims_restore(struct engine *e);
bool claims_check(const struct engine *e, char *buf, size_t size);

#endif
