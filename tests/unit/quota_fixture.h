/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota_fixture.h - three models on one engine, whose requests take exactly so many pages
 *
 * The pool has 8 extents. Model a has pages of 256 bytes a half, 8 an extent;
 * b of 512, 4 an extent; c as a. A request of n slots with max_tokens of one
 * page takes exactly n pages.
 */
#ifndef SWAKV_TEST_QUOTA_FIXTURE_H
#define SWAKV_TEST_QUOTA_FIXTURE_H

#include "engine_fixture.h"

enum { EXTENT = 2048, N_EXTENTS = 8, B_PAGES = 32 };
#define A_BYTES 512u /* of a page, K and V */
#define B_BYTES 1024u

static struct engine *e;
static struct worker a, b, c;

static inline void open_worker(struct worker *w, const char *name, uint32_t page_tokens, uint32_t tag)
{
	worker_open(w, e, make_model(page_tokens, page_tokens, 64, 16 * page_tokens), EXTENT * N_EXTENTS, tag);
	cr_assert_eq(session_join(w->s, name), 0);
	check_all(e);
}

/* With bounds of a claim, 0: none. */
static inline void open_engine(uint64_t hold, uint64_t most)
{
	e = engine_new(&(struct engine_config){ .half_bytes = EXTENT * N_EXTENTS,
						.extent_bytes = EXTENT,
						.stamps_a_ms = 10,
						.wait_claim = 1000,
						.claim_hold = hold,
						.claim_max = most });
	cr_assert_not_null(e);
	open_worker(&a, "a", 16, 1);
	open_worker(&b, "b", 32, 2);
	open_worker(&c, "c", 16, 3);
}

static inline void close_engine(void)
{
	worker_close(&a);
	worker_close(&b);
	worker_close(&c);
	e = engine_free(e);
}

static inline void limit(const char *name, uint64_t floor, uint64_t ceiling)
{
	struct fault f;

	cr_assert_eq(engine_limit(e, name, &floor, &ceiling, &f), 0);
	check_all(e);
}

static inline uint64_t used(const char *name)
{
	struct quota_counts n;

	cr_assert(engine_quota_of(e, name, &n));
	return n.used;
}

/* A request of @n pages in the slots from @first on. */
static inline int take(struct worker *w, int32_t first, int32_t n, uint64_t wait, uint64_t *handle)
{
	int32_t slots[66]; /* more than any batch */
	struct begin begin = { .n_slots = (uint32_t)n, .slots = slots, .wait = wait, .ticket = (uint64_t)first };
	int code;

	begin.max_tokens = w->m.groups[0].page_tokens;
	for (int32_t i = 0; i < n; i++)
		slots[i] = first + i;
	code = request_begin_waiting(w->s, &begin, handle, &w->f);
	check_all(e);
	return code;
}

static inline uint64_t taken(struct worker *w, int32_t first, int32_t n)
{
	uint64_t handle;

	cr_assert_eq(take(w, first, n, 0, &handle), 0, "reason %u: got %ld want %ld", w->f.reason, (long)w->f.got,
		     (long)w->f.want);
	return handle;
}

static inline void refused(struct worker *w, int32_t first, int32_t n, int code, enum fault_reason reason)
{
	uint64_t handle;
	int got = take(w, first, n, 0, &handle);

	cr_assert_eq(got, code, "%d instead of %d", got, code);
	cr_assert_eq(w->f.reason, (uint32_t)reason, "reason %u instead of %u", w->f.reason, (uint32_t)reason);
	cr_assert_eq(handle, 0);
}

static inline void give(struct worker *w, uint64_t handle)
{
	cr_assert_eq(finish(w, handle, fence_done), 0);
}

static inline void waits(struct worker *w, int32_t first, int32_t n, uint64_t wait)
{
	uint64_t handle;

	cr_assert_eq(take(w, first, n, wait, &handle), SWAKV_EAGAIN);
}

/* What is decided next must be this one. */
static inline uint64_t decided(struct worker *w, int32_t ticket, int code)
{
	struct admission out;

	cr_assert(engine_admit(e, &out), "nobody is admitted or refused");
	check_all(e);
	cr_assert_eq(out.session, w->s);
	cr_assert_eq(out.ticket, (uint64_t)ticket);
	cr_assert_eq(out.code, code, "%d instead of %d, reason %u", out.code, code, out.fault.reason);
	cr_assert_eq(out.slots[0], ticket);
	w->f = out.fault;
	return out.handle;
}

static inline void nothing_decided(void)
{
	struct admission out;

	cr_assert_not(engine_admit(e, &out), "ticket %lu: %d", (unsigned long)out.ticket, out.code);
}

#endif
