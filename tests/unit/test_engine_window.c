/* SPDX-License-Identifier: Apache-2.0 */
/* The window of a sequence moves (spec sections 1 and 2): one fact a test. */
#include "engine_worker.h"

TestSuite(engine_window, .fini = teardown);

Test(engine_window, prefill_4000_with_window_1024_retains_nine_pages)
{
	struct wire_sequence_state st;
	int32_t length = 4000;
	uint64_t h;

	open_with(100, 1024, 128, 4, 8192);
	cr_assert_eq(w.g.private_pages, 19);
	h = begin(&w, 0);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_assert_eq(entries(&w), 18);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	st = state(&w, h, 0);
	cr_assert_eq(st.retained_begin, 23);
	cr_assert_eq(st.retained_end, 32);
	for (int32_t c = 0; c < w.g.width; c++)
		cr_assert_eq(k_id(&w, 0, c) >= 0, c >= 23 && c < 32, "column %d", c);
}

Test(engine_window, decode_4096_maps_one_page_and_4224_stages_one)
{
	uint64_t h;

	open_with(100, 1024, 128, 4, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 4096);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(entries(&w), 2);
	cr_assert_eq(state(&w, h, 0).n_new, 1);
	cr_assert_eq(state(&w, h, 0).n_retiring, 0);
	cr_assert_eq(decode_complete(&w, h, fence_done), 0);
	cr_assert_eq(state(&w, h, 0).retained_begin, 24);
	for (int64_t at = 4097; at < 4223; at++) {
		cr_assert_eq(decode_prepare(&w, h), 0);
		cr_assert_eq(entries(&w), 0, "at %ld", (long)at);
		cr_assert_eq(decode_complete(&w, h, fence_done), 0);
	}
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(state(&w, h, 0).n_new, 0);
	cr_assert_eq(state(&w, h, 0).n_retiring, 1);
	cr_assert_eq(state(&w, h, 0).retained_begin, 25);
	cr_assert_eq(state(&w, h, 0).retained_end, 33);
	cr_assert_eq(decode_complete(&w, h, fence_done), 0);
	cr_assert_eq(state(&w, h, 0).retained_begin, 25);
}

struct edge {
	int64_t window;
	uint32_t p;
	int64_t needed, leaves; /* page 0: last endpoint that needs it, first that does not */
	int64_t m;
};

/* Page 0 at both sides of the endpoint where it leaves. */
Test(engine_window, page_zero_leaves_exactly_when_no_query_reads_it)
{
	static const struct edge edges[] = {
		{ 32, 16, 47, 48, 3 },     { 128, 32, 159, 160, 5 },     { 64, 128, 191, 192, 2 },
		{ 128, 128, 255, 256, 2 }, { 129, 128, 256, 257, 3 },    { 130, 128, 257, 258, 3 },
		{ 512, 128, 639, 640, 5 }, { 1024, 128, 1151, 1152, 9 }, { 2047, 128, 2174, 2175, 17 },
		{ 1, 128, 128, 129, 2 },
	};

	for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		const struct edge *x = &edges[i];
		uint64_t h;

		open_with(64, x->window, x->p, 1, 8192);
		cr_assert_eq(w.g.private_pages, 2 * x->m + 1);
		h = begin(&w, 0);
		prefill(&w, h, (int32_t)x->needed - 1);
		decode(&w, h, 1);
		cr_assert_geq(k_id(&w, 0, 0), 0, "W=%ld P=%u", (long)x->window, x->p);
		cr_assert_eq(state(&w, h, 0).endpoint, x->needed);
		decode(&w, h, 1);
		cr_assert_eq(k_id(&w, 0, 0), -1, "W=%ld P=%u", (long)x->window, x->p);
		teardown();
	}
	e = NULL;
}

Test(engine_window, capacity_below_window_costs_its_width_only)
{
	open_with(16, 512, 128, 1, 256);
	cr_assert_eq(w.g.private_pages, 2);
	prefill(&w, begin(&w, 0), 200);
	cr_assert_eq(counts(&w).leased, 2);
}

Test(engine_window, window_longer_than_the_sequence_starts_at_zero)
{
	uint64_t h;

	open_with(16, INT32_MAX, 128, 1, 1024);
	h = begin(&w, 0);
	prefill(&w, h, 277);
	cr_assert_eq(state(&w, h, 0).retained_begin, 0);
	cr_assert_eq(state(&w, h, 0).retained_end, 3);
	decode(&w, h, 1024 - 277);
	cr_assert_eq(state(&w, h, 0).retained_begin, 0);
	cr_assert_eq(state(&w, h, 0).retained_end, 8);
}

Test(engine_window, one_sequence_moves_without_the_other)
{
	int32_t slots[] = { 0, 1 }, lengths[] = { 10, 5000 };
	uint64_t h;

	open_with(64, 128, 32, 2, 8192);
	cr_assert_eq(begin_on(&w, 0, &h, 2, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(state(&w, h, 0).retained_begin, 0);
	cr_assert_eq(state(&w, h, 1).retained_begin, (5000 - 128) / 32);
	cr_assert_geq(k_id(&w, 0, 0), 0);
}

Test(engine_window, live_pages_stay_bounded_over_long_sequences)
{
	uint64_t h;

	open_with(16, 100, 64, 1, 100000);
	h = begin(&w, 0);
	prefill(&w, h, 600);
	for (int i = 0; i < 20; i++) {
		decode(&w, h, 600);
		cr_assert_leq(state(&w, h, 0).n_bound, 3);
		cr_assert_eq(counts(&w).leased, w.g.private_pages);
	}
}
