/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.h - pages that a worker manages itself: it takes, uses, offers and gives them, and is asked for some
 *
 * What it has taken and not given is noted in the memory, grain by grain, so that
 * it shows at once when somebody else gets a part of it.
 */
#ifndef SWAKV_SIM_HOLD_H
#define SWAKV_SIM_HOLD_H

#include "sim.h"

struct call;
struct message;

enum { HOLD_PAGES = 192, HOLD_ASKS = 48, HOLD_GIVES = 8 };

struct hold_page {
	uint32_t group;
	int32_t page;
	bool clean;                  /* there was nothing but zeroes in it */
	uint32_t uid;                /* it was written as, 0: not yet */
	uint64_t until[SIM_STREAMS]; /* the values that prove that its uses are over */
};

struct hold {
	bool manages;
	bool alone;    /* it begins no request */
	uint32_t most; /* pages that it wants to have */
	bool yields;   /* it gives when it is asked */
	bool keeps;    /* it closes its session with pages in its hands */
	bool let_go;   /* the first process: nothing but other processes of it is waited for */
	uint32_t n;
	struct hold_page pages[HOLD_PAGES + 16 * HOLD_GIVES]; /* with gives under way, which may be refused */
	uint32_t n_takes;                                     /* under way */
};

/* What a take or a give under way is about. */
struct hold_call {
	uint32_t group, stream, flags, min, max;
	uint64_t room_since; /* so long there has been room for it beyond all doubt, 0: there is none */
	uint64_t wait_ns;
	bool misuse; /* it must be refused */
	uint32_t n;  /* given; they are its own again when that is refused */
	struct hold_page pages[HOLD_GIVES];
};

/* A worker begins: it manages pages, or not. */
void hold_start(struct worker *v);
/* One thing that comes to mind. */
void hold_act(struct worker *v);
/* It has given all that it is going to give. */
bool hold_is_over(const struct worker *v);
/* The answer to a take or a give; @f: it was refused. */
void hold_read_take(struct worker *v, const struct call *c, const struct message *m, const struct fault *f);
void hold_read_give(struct worker *v, const struct call *c, const struct fault *f);
/*
 * Its first process proves nothing any more by living: when no other process of it
 * may run, what it holds may be anybody's.
 */
void hold_let_go(struct worker *v);
/* Another process of it has ended. */
void hold_member_ended(struct worker *v);
/* Its incarnation is over. */
void hold_end(struct worker *v);
/* A request of @v gets the page: nobody may have taken it. */
void hold_check_bound(struct worker *v, uint32_t group, int32_t page);

#endif
