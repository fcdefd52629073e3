/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - the process of a block engine that plans: its session, its pool of blocks, and the other process
 *
 * Whatever fails ends it, with exit code 1; 5: a page did not hold its content.
 */
#ifndef SWAKV_TESTS_PLAN_H
#define SWAKV_TESTS_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "block_pool.h"
#include "page_hands.h"

enum {
	LANES = 6,    /* sequences at a time */
	LONGEST = 24, /* blocks of a sequence */
	PATIENCE_MS = 60000,
};

struct lane {
	struct block *blocks[LONGEST];
	uint32_t n;
};

struct plan {
	struct engine_setup setup;
	uint32_t most; /* pages that it holds while it runs */
	swakv_session *session;
	int32_t num_pages;
	int orders, answers; /* of the other process */
	pid_t hands;
	struct block_pool pool;
	struct lane lanes[LANES];
	struct swakv_fence used, scrubbed; /* behind all that the other process, and takes, have done */
	uint32_t seed, unique;
	uint64_t n_steps, n_found, n_written, n_taken, n_given, n_first; /* of the given: that helped most */
	struct hands_page batch[SWAKV_MAX_PAGES];
	int32_t ids[SWAKV_MAX_PAGES];
};

_Noreturn void plan_fail(const char *what, const char *why);
/* Ends it with the session's sentence when @code is none. */
void plan_must(struct plan *e, int code, const char *what);
/* Below @n. */
uint32_t plan_draw(struct plan *e, uint32_t n);
/* Never 0. */
uint32_t plan_mix(uint32_t a, uint32_t b);
/* Content that nobody has had before. */
uint32_t plan_new_content(struct plan *e);

/* The other process is gone: says so, and keeps the session until stdin ends. */
_Noreturn void plan_hands_gone(const struct plan *e);
/* Forks it; before the session is attached. */
void plan_start_hands(struct plan *e);
/* It does this to the @n pages of e->batch, and has answered. */
void plan_order(struct plan *e, enum hands_order what, uint32_t n);

/* Says how many pages could be given. */
void plan_offer(struct plan *e);
/* @n pages of e->ids are its own. */
void plan_add_pages(struct plan *e, uint32_t n);
/* Up to @max pages that are free. False: there are none. */
bool plan_take_free(struct plan *e, uint32_t max);
/* Gives what others want, as far as nothing refers to it. */
void plan_yield(struct plan *e);
/* Gives the first @n pages of its list, which have left the pool. */
void plan_give(struct plan *e, uint32_t n);

/* True when there is something to read from stdin, or its end. */
bool plan_line_waits(void);
/* sequences.c: sequences that share beginnings, until a line waits; calls @began after the first. */
void sequences_run(struct plan *e, void (*began)(void));

#endif
