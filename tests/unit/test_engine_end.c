/* SPDX-License-Identifier: Apache-2.0 */
/* Poison, quarantine and the end of a session (spec section 3). */
#include "engine_worker.h"

TestSuite(engine_end, .fini = teardown);

Test(engine_end, failed_completion_quarantines_the_request_and_poisons_its_session_only)
{
	struct worker other;
	uint64_t bad, good, h;
	int32_t slot = 3;

	open_with(64, 32, 16, 4, 64);
	worker_open(&other, e, w.m, 64 * 16 * TOKEN_BYTES, 2);
	bad = begin(&w, 0);
	good = begin(&w, 1);
	prefill(&w, good, 9);
	prefill(&w, bad, 9);
	cr_assert_eq(decode_prepare(&w, bad), 0);
	cr_assert_eq(decode_complete(&w, bad, fence_failed), SWAKV_EPOISONED);
	cr_assert_eq(counts(&w).quarantined, w.g.private_pages);
	cr_assert_eq(decode_prepare(&w, bad), SWAKV_EPOISONED);
	cr_assert_eq(decode_prepare(&w, good), SWAKV_EPOISONED);
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), SWAKV_EPOISONED);
	h = begin(&other, 0);
	prefill(&other, h, 30);
	decode(&other, h, 10);
	cr_assert_eq(finish(&w, good, fence_point), 0);
	cr_assert_eq(counts(&w).quarantined, 2 * w.g.private_pages);
	worker_close(&other);
}

Test(engine_end, shutdown_retries_and_lifts_the_poison)
{
	struct wire_fence fences[2] = { { .kind = WIRE_FENCE_FAILED }, { .kind = WIRE_FENCE_DONE } };
	uint64_t h;

	open_with(64, 32, 16, 4, 64);
	h = begin(&w, 0);
	prefill(&w, h, 9);
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EBUSY);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_failed), SWAKV_EPOISONED);
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EPOISONED);
	cr_assert_eq(counts(&w).quarantined, w.g.private_pages);
	fences[0] = fence_line(&w, 0, 2);
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EPENDING);
	reach(&w, 0, 2);
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), 0);
	check_all(e);
	cr_assert_eq(counts(&w).quarantined, 0);
	prefill(&w, begin(&w, 0), 9);
}

Test(engine_end, ended_session_holds_everything_until_reclaimed)
{
	uint64_t h;

	open_with(64, 32, 16, 4, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 9);
	cr_assert_eq(decode_prepare(&w, h), 0);
	h = begin(&w, 1);
	prefill(&w, h, 40);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	session_end(w.s);
	session_end(w.s);
	check_all(e);
	cr_assert_eq(counts(&w).leased, 0);
	cr_assert_eq(counts(&w).quarantined, 2 * w.g.private_pages);
	reach(&w, 0, 1);
	cr_assert_eq(counts(&w).quarantined, 2 * w.g.private_pages);
	cr_assert_eq(session_reclaim(w.s), 2 * w.g.private_pages);
	check_all(e);
	cr_assert_eq(counts(&w).free, counts(&w).pages);
}

Test(engine_end, rows_stay_when_a_session_ends)
{
	int32_t before[2];
	uint32_t version;
	uint64_t h;

	open_with(64, 32, 16, 4, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 32);
	memcpy(before, w.cells, sizeof(before));
	version = w.rows[0].sequence;
	session_end(w.s);
	session_reclaim(w.s);
	check_all(e);
	cr_expect_arr_eq(w.cells, before, sizeof(before), "its process may still read them");
	cr_expect_geq(before[1], 0);
	cr_expect_eq(w.rows[0].sequence, version);
}
