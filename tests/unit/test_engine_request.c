/* SPDX-License-Identifier: Apache-2.0 */
/* A request from begin to finish: limits, refusals, slots, deliveries (spec section 3). */
#include "engine_worker.h"

TestSuite(engine_request, .fini = teardown);

/* ---- limits and refusals ---- */

Test(engine_request, decode_at_capacity_is_limit_and_no_sequence_moves)
{
	int32_t slots[] = { 0, 1 }, lengths[] = { 10, 64 };
	uint64_t h;

	open_with(64, 32, 16, 2, 64);
	cr_assert_eq(begin_on(&w, 0, &h, 2, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_ELIMIT);
	cr_assert_eq(w.f.seq, 1);
	cr_assert_eq(state(&w, h, 0).endpoint, 10);
	cr_assert_eq(request_state(&w, h).phase, PHASE_FINISHING);
	cr_assert_gt(counts(&w).leased, 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_assert_eq(counts(&w).leased, 0);
}

Test(engine_request, empty_prompt_in_a_batch_changes_nothing)
{
	int32_t slots[] = { 0, 1, 2 }, lengths[] = { 5, 0, 7 };
	uint64_t h;

	open_with(64, 32, 16, 3, 64);
	cr_assert_eq(begin_on(&w, 0, &h, 3, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 3, lengths), SWAKV_EINVALID);
	cr_assert_eq(w.f.seq, 1);
	cr_assert_eq(request_state(&w, h).phase, PHASE_ADMITTED);
	cr_assert_eq(k_id(&w, 0, 0), -1);
	lengths[1] = 64;
	cr_assert_eq(prefill_prepare(&w, h, 3, lengths), 0);
}

Test(engine_request, slots_must_be_in_range_unique_and_free)
{
	int32_t bad[] = { 0, 4 }, twice[] = { 1, 1 }, negative[] = { -1 }, used[] = { 2 };
	uint64_t h;

	open_with(64, 32, 16, 4, 64);
	cr_assert_eq(begin_on(&w, 0, &h, 2, bad), SWAKV_EINVALID);
	cr_assert_eq(w.f.seq, 1);
	cr_assert_eq(begin_on(&w, 0, &h, 2, twice), SWAKV_EINVALID);
	cr_assert_eq(begin_on(&w, 0, &h, 1, negative), SWAKV_EINVALID);
	cr_assert_eq(begin_on(&w, 2, &h, 1, used), SWAKV_EINVALID);
	begin(&w, 2);
	cr_assert_eq(begin_on(&w, 0, &h, 1, used), SWAKV_EBUSY);
	cr_assert_eq(counts(&w).leased, w.g.private_pages);
}

Test(engine_request, wrong_phase_is_refused)
{
	int32_t length = 20;
	uint64_t h;

	open_with(64, 32, 16, 1, 64);
	h = begin(&w, 0);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_EPHASE);
	cr_assert_eq(decode_complete(&w, h, fence_done), SWAKV_EPHASE);
	cr_assert_eq(prefill_complete(&w, h, fence_done), SWAKV_EPHASE);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), SWAKV_EPHASE);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_EPHASE);
	cr_assert_eq(finish(&w, h, fence_point), SWAKV_EPHASE);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
}

Test(engine_request, handles_of_others_and_of_the_past_are_refused)
{
	struct worker other;
	uint64_t h, old;

	open_with(64, 32, 16, 2, 64);
	worker_open(&other, e, w.m, 64 * 16 * TOKEN_BYTES, 2);
	old = begin(&w, 0);
	prefill(&w, old, 5);
	cr_assert_eq(decode_prepare(&other, old), SWAKV_EINVALID);
	cr_assert_eq(finish(&other, old, fence_point), SWAKV_EINVALID);
	cr_assert_eq(finish(&w, old, fence_point), 0);
	cr_assert_eq(finish(&w, old, fence_point), 0, "finishing twice is fine");
	h = begin(&w, 0);
	cr_assert_neq(h, old);
	prefill(&w, h, 5);
	cr_assert_eq(decode_prepare(&w, old), SWAKV_EINVALID);
	cr_assert_eq(finish(&w, old, fence_point), 0);
	cr_assert_eq(request_state(&w, h).phase, PHASE_EXECUTING);
	cr_assert_eq(decode_prepare(&w, h + 5), SWAKV_EINVALID);
	worker_close(&other);
}

Test(engine_request, fence_that_was_never_armed_or_is_anothers_is_refused)
{
	struct wire_fence far = { .kind = WIRE_FENCE_LINE, .line = 0, .value = 9 }, wrong = far, odd = { .kind = 77 };
	int32_t length = 20;
	uint64_t h;

	open_with(64, 32, 16, 1, 64);
	h = begin(&w, 0);
	wrong.line = 1;
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_assert_eq(prefill_complete(&w, h, far), SWAKV_EINVALID);
	w.armed[1] = 9;
	cr_assert_eq(prefill_complete(&w, h, wrong), SWAKV_EINVALID);
	cr_assert_eq(prefill_complete(&w, h, odd), SWAKV_EINVALID);
	cr_assert_eq(request_state(&w, h).transition, TRANSITION_PREFILL);
	cr_assert_eq(prefill_complete(&w, h, fence_line(&w, 0, 9)), 0);
}

Test(engine_request, max_tokens_caps_reservation_and_length)
{
	int32_t slot = 0;
	uint64_t h;

	open_with(64, 1024, 128, 1, 8192);
	cr_assert_eq(request_begin(w.s, 0, 300, &slot, 1, &h, &w.f), 0);
	cr_assert_eq(counts(&w).leased, 3);
	prefill(&w, h, 300);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_ELIMIT);
}

/* ---- finish, abandon, slots ---- */

Test(engine_request, finish_during_an_open_point_waits_for_it)
{
	uint64_t h;

	open_with(64, 32, 16, 2, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 40);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 7)), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_assert_eq(k_id(&w, 0, 2), -1);
	cr_assert_eq(counts(&w).leased, w.g.private_pages);
	reach(&w, 0, 6);
	cr_assert_eq(counts(&w).leased, w.g.private_pages);
	reach(&w, 0, 7);
	cr_assert_eq(counts(&w).leased, 0);
}

Test(engine_request, finished_slot_is_free_at_once_on_its_stream_only)
{
	int32_t slot = 0;
	uint64_t h;

	open_with(64, 32, 16, 2, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 40);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 3)), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_assert_eq(begin_on(&w, 1, &h, 1, &slot), SWAKV_EPENDING);
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	reach(&w, 0, 3);
	cr_assert_eq(begin_on(&w, 1, &h, 1, &slot), 0);
}

Test(engine_request, abandon_in_a_step_waits_for_everything_armed)
{
	uint64_t h;

	open_with(64, 32, 16, 2, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 40);
	cr_assert_eq(decode_prepare(&w, h), 0);
	w.armed[0] = 5;
	cr_assert_eq(abandon(&w, h, fence_point), 0);
	cr_assert_eq(counts(&w).leased, w.g.private_pages);
	reach(&w, 0, 4);
	cr_assert_eq(counts(&w).leased, w.g.private_pages);
	reach(&w, 0, 5);
	cr_assert_eq(counts(&w).leased, 0);
}

Test(engine_request, cleared_row_of_a_finished_request_goes_out_with_the_next_prepare)
{
	int32_t length = 20;
	uint64_t h;

	open_with(64, 32, 16, 2, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 40); /* endpoint 40: pages 0, 1, 2 */
	cr_assert_eq(finish(&w, h, fence_point), 0);
	h = begin(&w, 1);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_assert_eq(entries(&w), 2 * (2 + 3));
}

Test(engine_request, reused_slot_sends_only_the_difference)
{
	int32_t length = 40, before[3];
	uint64_t h;

	open_with(64, 32, 16, 2, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 40);
	for (int32_t c = 0; c < 3; c++)
		before[c] = k_id(&w, 0, c);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	h = begin(&w, 0);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	for (int32_t c = 0; c < 3; c++) {
		bool sent = false;

		for (uint32_t i = 0; i < w.d.n_updates; i++)
			sent = sent || w.d.updates[i].cell == (uint32_t)c;
		cr_assert_eq(sent, k_id(&w, 0, c) != before[c]);
	}
}

Test(engine_request, more_than_500_updates_come_by_reference)
{
	int32_t slots[40], lengths[40];
	uint64_t h;

	open_with(4000, 512, 16, 40, 8192);
	for (int32_t i = 0; i < 40; i++) {
		slots[i] = i;
		lengths[i] = 500;
	}
	cr_assert_eq(begin_on(&w, 0, &h, 40, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 40, lengths), 0);
	cr_assert(w.d.flags & WIRE_DELIVERY_BY_REFERENCE);
	cr_assert_eq(w.d.n_updates, 0);
	cr_assert_eq(w.d.n_rows, 40);
	cr_assert_eq(w.d.rows[0].version, 1);
	cr_assert_eq(load_relaxed(&w.rows[0].version), 1);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(w.d.n_updates, 0, "nothing is sent twice");
}
