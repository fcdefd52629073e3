/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that move, values and all, so that another page size finds whole extents (spec section 13); on a real broker.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "live.h"

enum { LIVE_PAGES = 64, TOKENS = 16, LARGE_TOKENS = 256, STEPS = 10 };

static struct live live;
static swakv_session *a, *b;
static swakv_request *owner[LIVE_PAGES];
static int64_t largest; /* pages of the large size that an empty pool has */

static swakv_session *attach(uint32_t tokens, uint32_t max_batch, int64_t max_seq, uint64_t flags)
{
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_FULL,
				       .page_tokens = tokens,
				       .layers = 1,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16,
				       .form = live_form,
				       .flags = flags };
	const struct swakv_model m = { .size = sizeof(m),
				       .name = tokens == TOKENS ? "small" : "large",
				       .groups = &g,
				       .n_groups = 1,
				       .max_batch = max_batch,
				       .max_seq = max_seq };
	swakv_session *s;
	char why[512] = "";

	cr_assert_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), 0, "%s", why);
	return s;
}

static void bind(swakv_session *s)
{
	if (live_is_cuda())
		LIVE_OK(s, swakv_stream_bind_cuda(s, 0, NULL));
	else
		LIVE_OK(s, swakv_stream_bind_host(s, 0, true));
}

/* A request of one page, then so many pages that they fill an extent with it, and so on: these are given back. */
static void scatter(void)
{
	int64_t all;
	uint32_t n = 0, each, got;
	int32_t *ids;

	LIVE_OK(a, swakv_session_free_pages(a, &all));
	each = (uint32_t)(all / LIVE_PAGES) - 1;
	ids = malloc((size_t)all * sizeof(*ids));
	for (int32_t i = 0; i < LIVE_PAGES; i++) {
		const struct swakv_begin_options o = { .size = sizeof(o), .slots = &i, .n_slots = 1 };

		LIVE_OK(a, swakv_request_begin(a, &o, &owner[i], NULL));
		LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, each, each, 0, ids + n, &got, NULL));
		n += got;
	}
	for (uint32_t i = 0; i < n; i += each)
		LIVE_OK(a, swakv_pages_give(a, 0, ids + i, each, &SWAKV_DONE, 1, NULL));
	free(ids);
	for (int i = 0; i < LIVE_PAGES; i++)
		live_prefill(a, owner[i], (const int32_t[]){ 1 }, 1);
	LIVE_OK(b, swakv_session_free_pages(b, &all));
	cr_assert_lt(all, largest / 4, "%d large pages are left", (int)all);
}

static void fill(void)
{
	for (int32_t i = 0; i < LIVE_PAGES; i++)
		live_fill_page(a, live_device_page(a, i, 0), (uint16_t)(0x1100 + i));
}

static void setup(void)
{
	live_start(&live, "64M");
	a = attach(TOKENS, LIVE_PAGES, TOKENS, SWAKV_GROUP_MOVABLE);
	bind(a);
	b = attach(LARGE_TOKENS, 1, (int64_t)1 << 21, 0);
	bind(b);
	LIVE_OK(b, swakv_session_free_pages(b, &largest));
}

static void teardown(void)
{
	swakv_session_close(a);
	swakv_session_close(b);
	live_stop(&live);
}

TestSuite(moves, .init = setup, .fini = teardown, .timeout = 200);

static uint64_t moved(void)
{
	struct swakv_session_counters c = { .size = sizeof(c) };

	LIVE_OK(a, swakv_session_get_counters(a, &c));
	return c.moved_pages;
}

/* One step of all owners in one command. */
static void step(void)
{
	struct swakv_step steps[LIVE_PAGES];
	struct swakv_fence fence;

	for (int i = 0; i < LIVE_PAGES; i++)
		steps[i] = (struct swakv_step){ .size = sizeof(steps[i]), .request = owner[i] };
	LIVE_OK(a, swakv_step_prepare(a, steps, LIVE_PAGES, NULL));
	LIVE_OK(a, swakv_stream_mark(a, 0, &fence));
	for (int i = 0; i < LIVE_PAGES; i++)
		steps[i].fence = fence;
	LIVE_OK(a, swakv_step_complete(a, steps, LIVE_PAGES, NULL));
	LIVE_OK(a, swakv_fence_wait(a, fence, LIVE_PATIENCE));
}

/* All that the owners had is where their tables say, and nowhere was it written over. */
static void expect_values(void)
{
	live_expect_tables_equal(a, LIVE_PAGES);
	for (int32_t i = 0; i < LIVE_PAGES; i++)
		cr_expect(live_page_is(a, live_device_page(a, i, 0), (uint16_t)(0x1100 + i)),
			  "the page of owner %d is not what it was", (int)i);
}

/* A large request of @pages waits, and the owners step until it is admitted: how many steps that moved anything. */
static int wait_and_step(int64_t pages)
{
	const int32_t slot = 0;
	const struct swakv_begin_options o = { .size = sizeof(o),
					       .slots = &slot,
					       .n_slots = 1,
					       .max_tokens = pages * LARGE_TOKENS,
					       .wait_ms = LIVE_PATIENCE };
	swakv_request *large;
	swakv_ticket t;
	int steps = 0, r;

	LIVE_OK(b, swakv_request_begin(b, &o, &large, &t));
	/* at most 15 steps fit a page: more than ten that move nothing would not help either */
	for (int i = 0; (r = swakv_wait_for(b, t, 100)) == SWAKV_ETIMEDOUT && i < TOKENS - 2; i++) {
		uint64_t before = moved();

		step();
		steps += moved() > before;
	}
	if (r == SWAKV_ETIMEDOUT)
		r = swakv_wait(b, t);
	LIVE_OK(b, r);
	return steps;
}

Test(moves, of_64_mib_with_64_scattered_pages_of_256_bytes_95_percent_come_back_within_ten_steps)
{
	int steps;

	scatter();
	fill();
	steps = wait_and_step(largest * 95 / 100);
	cr_expect_leq(steps, STEPS, "%d steps have moved pages", steps);
	cr_expect_geq(moved(), 1);
	expect_values();
}

Test(moves, joined_pages_move_as_well)
{
	teardown();
	live_form = SWAKV_JOINED;
	setup();
	scatter();
	fill();
	cr_expect_leq(wait_and_step(largest * 95 / 100), STEPS);
	cr_expect_geq(moved(), 1);
	expect_values();
}

Test(moves, pinned_requests_keep_their_pages)
{
	const int32_t slot = 0;
	const struct swakv_begin_options o = { .size = sizeof(o),
					       .slots = &slot,
					       .n_slots = 1,
					       .max_tokens = largest / 2 * LARGE_TOKENS,
					       .wait_ms = 500 };
	swakv_request *large;
	swakv_ticket t;

	scatter();
	fill();
	for (int i = 0; i < LIVE_PAGES; i++)
		LIVE_OK(a, swakv_request_pin(owner[i], NULL));
	LIVE_OK(b, swakv_request_begin(b, &o, &large, &t));
	for (int i = 0; i < 4; i++)
		step();
	cr_expect_eq(swakv_wait(b, t), SWAKV_ENOPAGES);
	cr_expect_eq(moved(), 0);
	for (int i = 0; i < LIVE_PAGES; i++)
		LIVE_OK(a, swakv_request_unpin(owner[i], NULL));
	wait_and_step(largest / 2);
	expect_values();
}

/* The copy is refused from the first one on. */
static int refuse(void *arg, uint64_t dst, uint64_t src, size_t bytes)
{
	(*(int *)arg)++;
	return -1;
}

static void attach_custom(int (*move)(void *, uint64_t, uint64_t, size_t), void *arg)
{
	const struct swakv_stream_ops ops = {
		sizeof(ops), live_forget_updates, live_write_word, live_synchronize_nothing, NULL, move
	};

	swakv_session_close(a);
	a = attach(TOKENS, LIVE_PAGES, TOKENS, SWAKV_GROUP_MOVABLE);
	LIVE_OK(a, swakv_stream_bind_custom(a, 0, &ops, arg));
}

Test(moves, on_a_custom_stream_without_the_operation_nothing_moves)
{
	attach_custom(NULL, NULL);
	scatter();
	for (int i = 0; i < 4; i++)
		step();
	cr_expect_eq(moved(), 0);
	cr_expect_eq(swakv_request_unpin(owner[0], NULL), SWAKV_EUNSUPPORTED);
}

/* The owners step until a copy is refused: whose it was. */
static swakv_request *refused_copy(int *refused)
{
	const int32_t slot = 0;
	const struct swakv_begin_options o = { .size = sizeof(o),
					       .slots = &slot,
					       .n_slots = 1,
					       .max_tokens = largest / 2 * LARGE_TOKENS,
					       .wait_ms = LIVE_PATIENCE };
	swakv_request *large;
	swakv_ticket t;

	attach_custom(refuse, refused);
	scatter();
	LIVE_OK(b, swakv_request_begin(b, &o, &large, &t));
	for (int i = 0; i < TOKENS - 2; i++) {
		(void)swakv_wait_for(b, t, 100);
		for (int k = 0; k < LIVE_PAGES; k++) {
			int r = swakv_decode_prepare(owner[k], NULL);

			if (*refused) {
				cr_expect_eq(r, SWAKV_EDEVICE);
				return owner[k];
			}
			LIVE_OK(a, r);
			LIVE_OK(a, swakv_decode_complete(owner[k], SWAKV_DONE, NULL));
		}
	}
	cr_assert_fail("no copy was refused");
	return NULL;
}

/* Once refused, it is not tried again; and the session goes on. */
static void expect_poisoned(const swakv_request *r, int refused)
{
	cr_expect(!swakv_request_valid(r));
	cr_expect_eq(refused, 1);
	LIVE_OK(a, swakv_session_shutdown(a));
}

Test(moves, a_copy_that_fails_poisons_the_request_whose_page_it_was)
{
	int refused = 0;
	swakv_request *r = refused_copy(&refused);

	cr_expect_eq(swakv_decode_complete(r, SWAKV_DONE, NULL), SWAKV_EPOISONED);
	expect_poisoned(r, refused);
}

/* What was not copied is not known to be zeroes, or this session's, though the stream is in order again. */
Test(moves, a_request_that_is_abandoned_behind_a_copy_that_failed_is_poisoned)
{
	int refused = 0;
	swakv_request *r = refused_copy(&refused);

	LIVE_OK(a, swakv_stream_synchronize(a, 0));
	cr_expect_eq(swakv_request_abandon(r, NULL), SWAKV_EPOISONED);
	expect_poisoned(r, refused);
}
