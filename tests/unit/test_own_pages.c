/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step leaves behind belongs to its own sequence at once, and to nobody
 * else before the last value that the request was given (spec sections 2 and 3).
 */
#include "engine_worker.h"

enum { P = 16 };

TestSuite(own_pages, .fini = teardown);

static struct model stepping_model(int64_t window, int64_t max_advance, uint32_t max_rewind, uint32_t in_flight)
{
	struct model m = make_model(window, P, 4, 4096);

	m.max_advance = max_advance;
	m.max_rewind = max_rewind;
	m.in_flight = in_flight;
	m.chunk_mapped = true;
	return m;
}

static void open_model(int64_t pages, struct model m)
{
	e = make_engine(pages, P);
	worker_open(&w, e, m, (uint64_t)pages * P * TOKEN_BYTES, 1);
}

/* A pool of exactly what one sequence of @m reserves. */
static void open_for_one(struct model m)
{
	struct geometry g[WIRE_MAX_GROUPS];

	cr_assert_eq(model_check(&m, 1ull << 30, g, NULL), 0);
	open_model(g[0].private_pages, m);
}

static uint64_t begin_unordered(int32_t slot)
{
	const struct begin b = { .n_slots = 1, .slots = &slot, .unordered = true };
	uint64_t h;

	cr_assert_eq(request_begin_waiting(w.s, &b, &h, &w.f), 0);
	check_all(e);
	return h;
}

static const int32_t none = 0;

/* ---- nothing that was declared is refused ------------------------------------------- */

Test(own_pages, a_rejected_token_takes_no_page_from_the_next_step)
{
	uint64_t h;

	open_for_one(stepping_model(17, 1, 0, 2));
	cr_assert_eq(w.g.private_pages, 3); /* ceil((17 + 1 - 1) / 16) + 1 */
	h = begin(&w, 0);
	prefill(&w, h, 32);
	cr_assert_eq(step_one(&w, h, 1, NULL), 0);
	cr_assert_eq(step_one_complete(&w, h, -1, &none, fence_line(&w, 0, 1)), 0);
	cr_assert_str_eq(mapped(&w, 0, 0), "0,1");
	cr_assert_eq(state(&w, h, 0).n_reserved, 1);
	cr_assert_eq(step_one(&w, h, 1, NULL), 0);
	cr_assert_str_eq(mapped(&w, 0, 0), "0,1,2");
}

Test(own_pages, a_rewound_token_takes_no_page_from_the_next_step)
{
	int32_t back = 1;
	uint64_t h;

	open_for_one(stepping_model(17, 1, 1, 2));
	h = begin(&w, 0);
	prefill(&w, h, 32);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(request_rewind(w.s, h, &back, 1, &w.f), 0);
	check_all(e);
	cr_assert_eq(state(&w, h, 0).n_staged, 0);
	cr_assert_eq(decode_prepare(&w, h), 0);
}

Test(own_pages, a_retired_page_is_bound_by_the_next_step_while_points_are_open)
{
	uint64_t h;
	int32_t page;

	open_for_one(stepping_model(32, 1, 0, 2)); /* 3 pages */
	h = begin(&w, 0);
	prefill(&w, h, 47);
	page = k_id(&w, 0, 0);
	cr_assert_eq(decode_prepare(&w, h), 0); /* 48: page 0 leaves */
	cr_assert_eq(k_id(&w, 0, 0), page);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(decode_prepare(&w, h), 0); /* 49: page 3 */
	cr_assert_eq(k_id(&w, 0, 3), page);
	cr_assert_eq(request_state(&w, h).open_points, 1);
}

/* Numbers from 0 to @most. */
static int64_t draw(uint64_t *seed, int64_t most)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)((*seed >> 33) % (uint64_t)(most + 1));
}

/* Steps of 1 to n tokens, accepted in part where that is allowed, and rewinds: @depth of them are open at a time. */
static void walk(uint64_t *seed, struct model m, uint64_t depth, int steps)
{
	uint64_t h, value = 0;

	open_for_one(m);
	h = begin(&w, 0);
	prefill(&w, h, 1 + (int32_t)draw(seed, 100));
	for (int i = 0; i < steps; i++) {
		int32_t tokens = m.max_advance ? 1 + (int32_t)draw(seed, m.max_advance - 1) : 1;
		int32_t accepted = m.chunk_mapped ? (int32_t)draw(seed, tokens) : tokens, back = 0;
		int64_t endpoint = state(&w, h, 0).endpoint;

		if (endpoint + tokens > 4096)
			break;
		cr_assert_eq(step_one(&w, h, tokens, NULL), 0, "W %lld n %lld R %u: step %d of %d tokens: %d",
			     (long long)m.groups[0].window, (long long)m.max_advance, m.max_rewind, i, tokens,
			     w.f.reason);
		cr_assert_eq(step_one_complete(&w, h, -1, &accepted, fence_line(&w, 0, ++value)), 0);
		if (value > depth)
			reach(&w, 0, value - depth);
		if (draw(seed, 2) == 0)
			back = (int32_t)draw(seed, m.max_rewind);
		if (back < endpoint)
			(void)request_rewind(w.s, h, &back, 1, &w.f); /* or it is refused: too far */
		check_all(e);
	}
	teardown();
	e = NULL;
}

Test(own_pages, no_step_within_what_was_declared_lacks_a_page_at_any_depth)
{
	uint64_t seed = 7;

	for (int i = 0; i < 600; i++) {
		struct model m = stepping_model(1 + draw(&seed, 80), draw(&seed, 40), (uint32_t)draw(&seed, 30),
						1 + (uint32_t)draw(&seed, 30));

		m.chunk_mapped = draw(&seed, 3) > 0;
		walk(&seed, m, m.in_flight, 60);
	}
}

Test(own_pages, as_many_points_as_steps_were_declared)
{
	uint64_t h;

	open_for_one(stepping_model(32, 1, 0, 1024));
	h = begin(&w, 0);
	prefill(&w, h, 1);
	for (uint64_t i = 1; i <= 1024; i++) {
		cr_assert_eq(decode_prepare(&w, h), 0, "step %d", (int)i);
		cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, i)), 0);
	}
	cr_assert_eq(request_state(&w, h).open_points, 1024);
}

/* ---- nobody else gets them early ----------------------------------------------------- */

Test(own_pages, finish_waits_for_a_page_that_came_back_early)
{
	uint64_t h;

	open_for_one(stepping_model(32, 1, 0, 2));
	h = begin(&w, 0);
	prefill(&w, h, 47);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_done), 0); /* proves its own step only */
	cr_assert_eq(finish(&w, h, fence_done), 0);
	cr_assert_eq(counts(&w).free, 0);
	reach(&w, 0, 1);
	cr_assert_eq(counts(&w).free, 3);
}

Test(own_pages, finish_waits_for_the_greatest_value_and_not_for_the_last)
{
	uint64_t h;

	open_for_one(stepping_model(32, 1, 0, 2));
	h = begin(&w, 0);
	prefill(&w, h, 47);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 5)), 0);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 2)), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	reach(&w, 0, 4);
	cr_assert_eq(counts(&w).free, 0);
	reach(&w, 0, 5);
	cr_assert_eq(counts(&w).free, 3);
}

Test(own_pages, a_dropped_sequences_pages_wait_for_the_greatest_value)
{
	int32_t slots[] = { 0, 1 }, lengths[] = { 47, 47 }, map[] = { 0, -1 };
	uint64_t h;

	open_model(6, stepping_model(32, 1, 0, 2));
	cr_assert_eq(begin_on(&w, 0, &h, 2, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(decode_prepare(&w, h), 0); /* page 0 of both comes back early */
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 3)), 0);
	cr_assert_eq(request_compact_begin(w.s, h, map, 2, 1, 0, &w.d, &w.f), 0);
	cr_assert_eq(request_compact_complete(w.s, h, &fence_done, w.armed[0], &w.d, &w.f), 0);
	check_all(e);
	cr_assert_eq(counts(&w).free, 0);
	reach(&w, 0, 3);
	cr_assert_eq(counts(&w).free, 3);
}

Test(own_pages, what_a_step_took_beyond_the_reservation_waits_for_the_greatest_value)
{
	uint64_t h;

	open_model(12, stepping_model(32, 1, 0, 2)); /* 3 pages */
	h = begin(&w, 0);
	prefill(&w, h, 32);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 4)), 0);
	cr_assert_eq(step_one(&w, h, 95, NULL), 0); /* to 128: 8 pages */
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_done), 0);
	cr_assert_str_eq(mapped(&w, 0, 0), "6,7");
	cr_assert_eq(state(&w, h, 0).n_staged, 6); /* the step before may still read them */
	cr_assert_eq(counts(&w).leased, 8);
	reach(&w, 0, 3);
	cr_assert_eq(counts(&w).leased, 8);
	reach(&w, 0, 4);
	cr_assert_eq(counts(&w).leased, 3);
	cr_assert_eq(state(&w, h, 0).n_reserved, 1);
}

Test(own_pages, while_a_sequence_holds_more_a_page_that_it_leaves_waits)
{
	int32_t back = 20;
	uint64_t h;

	open_model(12, stepping_model(32, 1, 20, 2)); /* ceil((52 + 1 - 1) / 16) + 1 = 5 pages */
	h = begin(&w, 0);
	prefill(&w, h, 32);
	cr_assert_eq(step_one(&w, h, 96, NULL), 0);                               /* to 128: 8 pages */
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_line(&w, 0, 1)), 0); /* keeps 4 to 7 */
	cr_assert_eq(state(&w, h, 0).n_staged, 4);
	cr_assert_eq(state(&w, h, 0).n_reserved, 0);
	cr_assert_eq(request_rewind(w.s, h, &back, 1, &w.f), 0); /* 108: page 7 */
	check_all(e);
	cr_assert_eq(state(&w, h, 0).n_staged, 5);
	cr_assert_eq(counts(&w).leased, 8);
	reach(&w, 0, 1);
	cr_assert_eq(counts(&w).leased, 5);
	cr_assert_eq(state(&w, h, 0).n_reserved, 2);
}

/* ---- failure and death ----------------------------------------------------------------- */

Test(own_pages, a_failed_completion_quarantines_what_had_come_back_early)
{
	uint64_t h;

	open_for_one(stepping_model(32, 1, 0, 2));
	h = begin(&w, 0);
	prefill(&w, h, 47);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(state(&w, h, 0).n_reserved, 1);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_failed), SWAKV_EPOISONED);
	cr_assert_eq(counts(&w).quarantined, 3);
	reach(&w, 0, 1);
	cr_assert_eq(counts(&w).quarantined, 3);
}

Test(own_pages, the_end_of_a_session_quarantines_what_had_come_back_early)
{
	uint64_t h;

	open_for_one(stepping_model(32, 1, 0, 2));
	h = begin(&w, 0);
	prefill(&w, h, 47);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	session_end(w.s);
	check_all(e);
	reach(&w, 0, 1);
	cr_assert_eq(counts(&w).quarantined, 3);
	cr_assert_eq(session_reclaim(w.s), 3);
}

/* ---- scrubs ------------------------------------------------------------------------------ */

static struct engine *make_scrubbing_engine(int64_t pages)
{
	uint64_t half = (uint64_t)pages * P * TOKEN_BYTES;

	return engine_new(&(struct engine_config){
		.half_bytes = half, .extent_bytes = half, .scrub = WIRE_SCRUB_ALWAYS, .fresh_is_dirty = true });
}

Test(own_pages, a_scrub_leaves_out_pages_that_an_earlier_step_may_read)
{
	uint64_t h;
	int32_t page;

	e = make_scrubbing_engine(8);
	worker_open(&w, e, stepping_model(16, 48, 0, 2), 8ull * P * TOKEN_BYTES, 1); /* 5 pages */
	h = begin(&w, 0);
	prefill(&w, h, 31); /* pages 0 and 1 */
	page = k_id(&w, 0, 0);
	cr_assert_eq(step_one(&w, h, 1, NULL), 0);
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_line(&w, 0, 1)), 0); /* 32: page 0 comes back */
	cr_assert_eq(step_one(&w, h, 48, NULL), 0);                               /* maps 2 to 4 */
	cr_assert_eq(k_id(&w, 0, 2), page);
	cr_assert_eq(w.d.n_scrubs, 1);
	cr_assert_eq(w.d.scrubs[0].first, 3);
	cr_assert_eq(w.d.scrubs[0].n, 2);
}

/* ---- streams without order ------------------------------------------------------------------ */

Test(own_pages, without_order_a_sequence_reserves_for_the_steps_in_flight)
{
	uint64_t h, value = 0;

	open_model(8, stepping_model(16, 16, 0, 3));
	cr_assert_eq(w.g.private_pages, 3); /* ceil((16 + 16 - 1) / 16) + 1 */
	h = begin_unordered(0);
	cr_assert_eq(counts(&w).leased, 5); /* ceil((16 + 3 * 16 - 1) / 16) + 1 */
	prefill(&w, h, 16);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(step_one(&w, h, 16, NULL), 0);
		cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_line(&w, 0, ++value)), 0);
	}
	cr_assert_eq(request_reserve(w.s, h, 4096, &w.f), 0);
	cr_assert_eq(counts(&w).leased, 5);
}

Test(own_pages, without_order_pages_wait_for_their_step_and_every_earlier_one)
{
	uint64_t h;

	open_model(64, stepping_model(32, 1, 0, 2));
	h = begin_unordered(0);
	prefill(&w, h, 46);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(decode_prepare(&w, h), 0); /* endpoint 48: page 0 leaves */
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 2)), 0);
	cr_assert_eq(request_state(&w, h).open_points, 2);
	cr_assert_eq(state(&w, h, 0).n_staged, 1);
	reach(&w, 0, 1);
	cr_assert_eq(state(&w, h, 0).n_staged, 1);
	reach(&w, 0, 2);
	cr_assert_eq(state(&w, h, 0).n_staged, 0);
}

Test(own_pages, without_order_a_prepare_that_lacks_staged_pages_is_pending_and_changes_nothing)
{
	struct wire_sequence_state before, after;
	uint64_t h, value = 0;
	int r;

	open_with(64, 16, 16, 1, 8192); /* 5 pages: 2 live, the rest runs out while nothing is reached */
	h = begin_unordered(0);
	prefill(&w, h, 16);
	for (;;) {
		before = state(&w, h, 0);
		r = decode_prepare(&w, h);
		if (r)
			break;
		cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, ++value)), 0);
	}
	cr_assert_eq(r, SWAKV_EPENDING);
	cr_assert_eq(w.f.reason, FAULT_PAGES_PENDING);
	after = state(&w, h, 0);
	cr_assert_eq(memcmp(&before, &after, sizeof(before)), 0);
	cr_assert_eq(before.n_reserved, 0);
	reach(&w, 0, value);
	cr_assert_eq(decode_prepare(&w, h), 0);
}

Test(own_pages, without_order_done_proves_its_own_step_only)
{
	uint64_t h;

	open_model(64, stepping_model(32, 1, 0, 2));
	h = begin_unordered(0);
	prefill(&w, h, 46);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0); /* reads page 0 */
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_done), 0); /* page 0 leaves */
	cr_assert_eq(state(&w, h, 0).n_staged, 1);
	reach(&w, 0, 1);
	cr_assert_eq(state(&w, h, 0).n_staged, 0);
}
