/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h */
#include "plan.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t plan_mix(uint32_t a, uint32_t b)
{
	uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (uint32_t)(x >> 32) | 1;
}

uint32_t plan_draw(struct plan *e, uint32_t n)
{
	e->seed = plan_mix(e->seed, 77);
	return (e->seed >> 1) % n;
}

_Noreturn void plan_fail(const char *what, const char *why)
{
	fprintf(stderr, "block_engine: %s: %s\n", what, why);
	exit(1);
}

void plan_must(struct plan *e, int code, const char *what)
{
	if (code)
		plan_fail(what, swakv_session_error(e->session));
}

/* ---- the other process ----------------------------------------------------------------- */

/* It keeps its session, and so its pages: nobody knows yet what the dead one still does to them. */
_Noreturn void plan_hands_gone(const struct plan *e)
{
	char byte;

	printf("hands gone %" PRIu64 "\n", e->n_taken - e->n_given);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	exit(1);
}

void plan_order(struct plan *e, enum hands_order what, uint32_t n)
{
	const struct hands_head head = { .order = what, .n = n, .after = e->scrubbed };
	struct hands_answer a;

	if (!pipe_write(e->orders, &head, sizeof(head)) || !pipe_write(e->orders, e->batch, n * sizeof(e->batch[0])))
		plan_hands_gone(e);
	if (what == HANDS_LEAVE)
		return;
	if (!pipe_read(e->answers, &a, sizeof(a)))
		plan_hands_gone(e);
	if (a.n_wrong) {
		fprintf(stderr, "block_engine: MISMATCH: %u pages of %u do not hold what was written, page %d is one\n",
			a.n_wrong, n, a.wrong);
		exit(5);
	}
	e->used = a.fence;
}

void plan_start_hands(struct plan *e)
{
	int down[2], up[2];

	if (pipe(down) || pipe(up))
		plan_fail("pipe", strerror(errno));
	e->hands = fork();
	if (e->hands < 0)
		plan_fail("fork", strerror(errno));
	if (e->hands == 0) {
		close(down[1]);
		close(up[0]);
		close(STDIN_FILENO);
		hands_live(&e->setup, down[0], up[1]);
	}
	close(down[0]);
	close(up[1]);
	e->orders = down[1];
	e->answers = up[0];
}

/* ---- pages ------------------------------------------------------------------------------- */

void plan_offer(struct plan *e)
{
	plan_must(e, swakv_pages_offer(e->session, 0, e->pool.n_idle), "offer");
}

void plan_add_pages(struct plan *e, uint32_t n)
{
	e->n_taken += n;
	plan_must(e, swakv_stream_mark(e->session, PLAN_STREAM, &e->scrubbed), "mark");
	for (uint32_t i = 0; i < n; i++)
		if (!block_pool_add(&e->pool, e->ids[i]))
			plan_fail("take", "more pages than there are places");
	plan_offer(e);
}

bool plan_take_free(struct plan *e, uint32_t max)
{
	uint32_t n, flags = plan_draw(e, 2) ? SWAKV_TAKE_OVERWRITES : 0;
	int r = swakv_pages_take(e->session, 0, PLAN_STREAM, flags, 1, max, 0, e->ids, &n, NULL);

	if (r == SWAKV_ENOPAGES || r == SWAKV_EPENDING) /* what it has given itself is not free yet */
		return false;
	plan_must(e, r, "take");
	plan_add_pages(e, n);
	return true;
}

/*
 * Of what is wanted, what nothing refers to: of the pages that help most as long as there are any, and only
 * then of all. As soon as others are told it is woken again.
 */
static uint32_t choose(struct plan *e, uint32_t most)
{
	struct swakv_page_range r[SWAKV_MAX_RANGES];
	uint32_t n_ranges = swakv_pages_wanted_ranges(e->session, 0, r, SWAKV_MAX_RANGES), n = 0;
	bool kept = false;

	for (uint32_t i = 0; i < n_ranges; i++)
		n += block_pool_yield_range(&e->pool, r[i].first, r[i].end, most - n, e->ids + n);
	e->n_first += n;
	/* It has given all that it had there: others are told soon. What is referred to there does not come by waiting.
	 */
	for (uint32_t i = 0; i < n_ranges; i++)
		kept |= block_pool_has_range(&e->pool, r[i].first, r[i].end);
	return n || (n_ranges && !kept) ? n : block_pool_yield(&e->pool, most, e->ids);
}

void plan_yield(struct plan *e)
{
	int64_t want = swakv_pages_wanted(e->session, 0, NULL);
	uint32_t n = want < SWAKV_MAX_PAGES ? (uint32_t)want : SWAKV_MAX_PAGES;

	n = n ? choose(e, n) : 0;
	if (n == 0)
		return;
	plan_offer(e);
	plan_give(e, n);
}

void plan_give(struct plan *e, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		e->batch[i] = (struct hands_page){ e->ids[i], 0 };
	plan_order(e, HANDS_FORGET, n);
	plan_must(e, swakv_pages_give(e->session, 0, e->ids, n, &e->used, 1, NULL), "give");
	e->n_given += n;
}

uint32_t plan_new_content(struct plan *e)
{
	uint32_t hash;

	do /* so that a block is found by it */
		hash = plan_mix(plan_mix((uint32_t)getpid(), 1), ++e->unique);
	while (block_find(&e->pool, hash));
	return hash;
}

bool plan_line_waits(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}
