/* SPDX-License-Identifier: Apache-2.0 */
/* Compaction (spec section 3). */
#include "engine_worker.h"

TestSuite(engine_compact, .fini = teardown);

static uint64_t batch_of_three(void)
{
	int32_t slots[] = { 4, 2, 7 }, lengths[] = { 20, 40, 60 };
	uint64_t h;

	open_with(128, 32, 16, 8, 8192);
	cr_assert_eq(begin_on(&w, 0, &h, 3, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 3, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	return h;
}

static int compact(uint64_t h, int n, const int32_t *map, int32_t new_batch, uint32_t flags, struct wire_fence fence)
{
	int r = request_compact_begin(w.s, h, map, (uint32_t)n, new_batch, flags, &w.d, &w.f);

	check_all(e);
	if (r)
		return r;
	r = request_compact_complete(w.s, h, &fence, w.armed[0], &w.d, &w.f);
	check_all(e);
	return r;
}

Test(engine_compact, compaction_keeps_rows_and_reorders)
{
	int32_t map[] = { 1, -1, 0 };
	uint64_t h = batch_of_three();
	int32_t page = k_id(&w, 4, 1);

	cr_assert_eq(compact(h, 3, map, 2, 0, fence_done), 0);
	cr_assert_eq(state(&w, h, 0).slot, 7);
	cr_assert_eq(state(&w, h, 0).endpoint, 60);
	cr_assert_eq(state(&w, h, 1).slot, 4);
	cr_assert_eq(k_id(&w, 4, 1), page);
	cr_assert_eq(k_id(&w, 2, 1), -1);
	cr_assert_eq(counts(&w).leased, 2 * w.g.private_pages);
	decode(&w, h, 40);
}

Test(engine_compact, compaction_moves_rows_on_request)
{
	int32_t map[] = { 1, -1, 0 }, pages[2];
	uint64_t h = batch_of_three(), other;
	int32_t last = 7;

	pages[0] = k_id(&w, 7, 3);
	pages[1] = k_id(&w, 4, 1);
	cr_assert_eq(compact(h, 3, map, 2, WIRE_COMPACT_MOVE_ROWS, fence_done), 0);
	cr_assert_eq(state(&w, h, 0).slot, 4);
	cr_assert_eq(state(&w, h, 1).slot, 2);
	cr_assert_eq(k_id(&w, 4, 3), pages[0]);
	cr_assert_eq(k_id(&w, 2, 1), pages[1]);
	cr_assert_eq(k_id(&w, 7, 3), -1);
	cr_assert_eq(begin_on(&w, 0, &other, 1, &last), 0);
	decode(&w, h, 40);
}

Test(engine_compact, dropped_pages_wait_for_the_compaction_point)
{
	int32_t map[] = { 0, -1, 1 };
	uint64_t h = batch_of_three();

	cr_assert_eq(compact(h, 3, map, 2, 0, fence_line(&w, 0, 4)), 0);
	cr_assert_eq(counts(&w).leased, 3 * w.g.private_pages);
	reach(&w, 0, 4);
	cr_assert_eq(counts(&w).leased, 2 * w.g.private_pages);
}

Test(engine_compact, compaction_to_nothing_is_finishing)
{
	int32_t map[] = { -1, -1, -1 };
	uint64_t h = batch_of_three();

	cr_assert_eq(compact(h, 3, map, 0, 0, fence_done), 0);
	cr_assert_eq(request_state(&w, h).phase, PHASE_FINISHING);
	cr_assert_eq(counts(&w).leased, 0);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_EPHASE);
	cr_assert_eq(finish(&w, h, fence_point), 0);
}

Test(engine_compact, bad_mappings_are_refused_without_change)
{
	static const struct {
		int32_t map[3];
		int n;
		int32_t new_batch;
	} bad[] = {
		{ { 0, -1, 1 }, 3, 1 }, { { 0, -1, 1 }, 3, 3 }, { { 0, -1, 2 }, 3, 3 }, { { 0, 0, 1 }, 3, 2 },
		{ { 0, 1, 2 }, 2, 2 },  { { 0, 1, 2 }, 3, 4 },  { { 0, 1, 2 }, 3, -1 }, { { 0, -2, 1 }, 3, 2 },
	};
	uint64_t h = batch_of_three();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(compact(h, bad[i].n, bad[i].map, bad[i].new_batch, 0, fence_done), SWAKV_EINVALID,
			     "map %zu", i);
		cr_assert_eq(request_state(&w, h).transition, TRANSITION_NONE);
		cr_assert_eq(request_state(&w, h).pending_batch, -1);
	}
	decode(&w, h, 3);
}
