/* SPDX-License-Identifier: Apache-2.0 */
/* Pages between reservation, row and completion point (spec sections 3 and 7). */
#include "engine_worker.h"

TestSuite(engine_reuse, .fini = teardown);

Test(engine_reuse, begin_is_all_or_nothing)
{
	int32_t slots[] = { 0, 1 };
	uint64_t h;

	open_with(9, 128, 128, 2, 8192); /* 5 pages a sequence */
	cr_assert_eq(begin_on(&w, 0, &h, 2, slots), SWAKV_ENEVER);
	cr_assert_eq(h, 0);
	cr_assert_eq(counts(&w).leased, 0);
	begin(&w, 0);
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slots[1]), SWAKV_ENOPAGES);
	cr_assert_eq(h, 0);
	cr_assert_eq(counts(&w).leased, 5);
	cr_assert_eq(session_free_pages(w.s, 0), 4);
}

Test(engine_reuse, retired_page_is_the_next_one_bound)
{
	uint64_t h;
	int32_t page;

	open_with(16, 129, 128, 1, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 384);
	page = k_id(&w, 0, 1);
	decode(&w, h, 513 - 384);
	cr_assert_eq(k_id(&w, 0, 4), page);
}

/* The columns [0, n) of the row of @slot hold the ids first, first + 1, ... */
static void expect_row(int32_t slot, int32_t first, int32_t n)
{
	for (int32_t c = 0; c < n; c++)
		cr_expect_eq(k_id(&w, slot, c), first + c, "slot %d column %d: page %d", slot, c, k_id(&w, slot, c));
}

Test(engine_reuse, pages_given_back_are_the_first_given_out)
{
	uint64_t a, b;

	open_with(64, 256, 128, 2, 8192);
	cr_assert_eq(w.g.private_pages, 7);
	a = begin(&w, 0);
	prefill(&w, a, 256);
	expect_row(0, 0, 2); /* a fresh extent goes out from its lowest id on, and is bound in that order */
	cr_assert_eq(finish(&w, a, fence_done), 0);
	b = begin(&w, 1);
	prefill(&w, b, 256);
	expect_row(1, 2, 2); /* what was never bound was taken last: it is on top, in the order it would have come */
	cr_assert_eq(finish(&w, b, fence_done), 0);
	a = begin(&w, 0);
	b = begin(&w, 1);
	prefill(&w, b, 256);
	for (int32_t c = 0; c < 2; c++)
		cr_expect_geq(k_id(&w, 1, c), 7, "the second request gets pages that nobody had");
	cr_assert_eq(finish(&w, a, fence_done), 0);
	cr_assert_eq(finish(&w, b, fence_done), 0);
}

Test(engine_reuse, pages_given_back_at_a_point_come_in_the_same_order)
{
	int32_t length = 256;
	uint64_t h;

	open_with(64, 256, 128, 2, 8192);
	h = begin(&w, 0);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	reach(&w, 0, 1);
	h = begin(&w, 1);
	prefill(&w, h, 256);
	expect_row(1, 2, 2);
}

Test(engine_reuse, window_multiple_of_page_carries_the_old_clear)
{
	uint64_t h;

	open_with(64, 256, 128, 1, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 511);
	decode(&w, h, 1); /* 512: page 1 leaves, cleared on the host at complete */
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(entries(&w), 4);
	cr_assert_eq(decode_complete(&w, h, fence_done), 0);
}

Test(engine_reuse, leaving_page_stays_leased_and_mapped_during_the_step)
{
	uint64_t h;
	int32_t page;

	open_with(64, 256, 128, 1, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 511);
	page = k_id(&w, 0, 1);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(k_id(&w, 0, 1), page);
	cr_assert_eq(state(&w, h, 0).n_retiring, 1);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(k_id(&w, 0, 1), -1);
	cr_assert_eq(counts(&w).leased, w.g.private_pages);
	cr_assert_eq((int64_t)state(&w, h, 0).n_reserved, w.g.private_pages - 2);
	cr_assert_eq(request_state(&w, h).open_points, 1);
	reach(&w, 0, 1);
	cr_assert_eq(request_state(&w, h).open_points, 0);
}

Test(engine_reuse, v_id_is_k_id_plus_num_pages)
{
	uint64_t h;

	open_with(17, 256, 128, 1, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 300);
	for (int32_t c = 0; c < 3; c++)
		cr_assert_eq(v_id(&w, 0, c), k_id(&w, 0, c) + 17);
	cr_assert_eq(v_id(&w, 0, 3), -1);
}
