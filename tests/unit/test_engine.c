/* SPDX-License-Identifier: Apache-2.0 */
/* Lifecycle of a request in the page engine: one fact of the specification a test. */
#include "engine_fixture.h"

static struct engine *e;
static struct worker w;

static void open_with(int64_t pages, int64_t window, uint32_t p, int32_t batch, int64_t max_seq)
{
	e = make_engine(pages, p);
	worker_open(&w, e, make_model(window, p, batch, max_seq), (uint64_t)pages * p * TOKEN_BYTES, 1);
}

static void teardown(void)
{
	if (!e)
		return;
	worker_close(&w);
	engine_free(e);
}

TestSuite(engine, .fini = teardown);

/* ---- window arithmetic (section 2) ---- */

Test(engine, prefill_4000_with_window_1024_retains_nine_pages)
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

Test(engine, decode_4096_maps_one_page_and_4224_stages_one)
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
Test(engine, page_zero_leaves_exactly_when_no_query_reads_it)
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

Test(engine, capacity_below_window_costs_its_width_only)
{
	open_with(16, 512, 128, 1, 256);
	cr_assert_eq(w.g.private_pages, 2);
	prefill(&w, begin(&w, 0), 200);
	cr_assert_eq(counts(&w).leased, 2);
}

Test(engine, window_longer_than_the_sequence_starts_at_zero)
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

Test(engine, one_sequence_moves_without_the_other)
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

Test(engine, live_pages_stay_bounded_over_long_sequences)
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

/* ---- reservation and reuse (sections 3 and 7) ---- */

Test(engine, begin_is_all_or_nothing)
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

Test(engine, retired_page_is_the_next_one_bound)
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

Test(engine, pages_given_back_are_the_first_given_out)
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

Test(engine, pages_given_back_at_a_point_come_in_the_same_order)
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

Test(engine, window_multiple_of_page_carries_the_old_clear)
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

Test(engine, leaving_page_stays_leased_and_mapped_during_the_step)
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
	cr_assert_eq(state(&w, h, 0).n_staged, 1);
	cr_assert_eq(request_state(&w, h).open_points, 1);
	reach(&w, 0, 1);
	cr_assert_eq(state(&w, h, 0).n_staged, 0);
	cr_assert_eq(request_state(&w, h).open_points, 0);
}

Test(engine, v_id_is_k_id_plus_num_pages)
{
	uint64_t h;

	open_with(17, 256, 128, 1, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 300);
	for (int32_t c = 0; c < 3; c++)
		cr_assert_eq(v_id(&w, 0, c), k_id(&w, 0, c) + 17);
	cr_assert_eq(v_id(&w, 0, 3), -1);
}

Test(engine, staged_page_waits_for_its_own_step_and_every_earlier_one)
{
	uint64_t h;

	open_with(64, 32, 16, 1, 8192);
	h = begin(&w, 0);
	prefill(&w, h, 46);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(decode_prepare(&w, h), 0); /* endpoint 48: page 0 leaves */
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 2)), 0);
	cr_assert_eq(request_state(&w, h).open_points, 2);
	reach(&w, 0, 1);
	cr_assert_eq(state(&w, h, 0).n_staged, 1);
	reach(&w, 0, 2);
	cr_assert_eq(state(&w, h, 0).n_staged, 0);
}

Test(engine, prepare_that_lacks_staged_pages_is_pending_and_changes_nothing)
{
	struct wire_sequence_state before, after;
	uint64_t h, value = 0;
	int r;

	open_with(64, 16, 16, 1, 8192); /* 5 pages: 2 live, the rest runs out while nothing is reached */
	h = begin(&w, 0);
	prefill(&w, h, 16);
	for (;;) {
		before = state(&w, h, 0);
		r = decode_prepare(&w, h);
		if (r)
			break;
		cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, ++value)), 0);
	}
	cr_assert_eq(r, SWAKV_EPENDING);
	after = state(&w, h, 0);
	cr_assert_eq(memcmp(&before, &after, sizeof(before)), 0);
	cr_assert_eq(before.n_reserved, 0);
	reach(&w, 0, value);
	cr_assert_eq(decode_prepare(&w, h), 0);
}

/* ---- limits and refusals ---- */

Test(engine, decode_at_capacity_is_limit_and_no_sequence_moves)
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

Test(engine, empty_prompt_in_a_batch_changes_nothing)
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

Test(engine, slots_must_be_in_range_unique_and_free)
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

Test(engine, wrong_phase_is_refused)
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

Test(engine, handles_of_others_and_of_the_past_are_refused)
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

Test(engine, fence_that_was_never_armed_or_is_anothers_is_refused)
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

Test(engine, max_tokens_caps_reservation_and_length)
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

Test(engine, finish_during_an_open_point_waits_for_it)
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

Test(engine, finished_slot_is_free_at_once_on_its_stream_only)
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

Test(engine, abandon_in_a_step_waits_for_everything_armed)
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

Test(engine, cleared_row_of_a_finished_request_goes_out_with_the_next_prepare)
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

Test(engine, reused_slot_sends_only_the_difference)
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

Test(engine, more_than_500_updates_come_by_reference)
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

/* ---- compaction ---- */

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

Test(engine, compaction_keeps_rows_and_reorders)
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

Test(engine, compaction_moves_rows_on_request)
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

Test(engine, dropped_pages_wait_for_the_compaction_point)
{
	int32_t map[] = { 0, -1, 1 };
	uint64_t h = batch_of_three();

	cr_assert_eq(compact(h, 3, map, 2, 0, fence_line(&w, 0, 4)), 0);
	cr_assert_eq(counts(&w).leased, 3 * w.g.private_pages);
	reach(&w, 0, 4);
	cr_assert_eq(counts(&w).leased, 2 * w.g.private_pages);
}

Test(engine, compaction_to_nothing_is_finishing)
{
	int32_t map[] = { -1, -1, -1 };
	uint64_t h = batch_of_three();

	cr_assert_eq(compact(h, 3, map, 0, 0, fence_done), 0);
	cr_assert_eq(request_state(&w, h).phase, PHASE_FINISHING);
	cr_assert_eq(counts(&w).leased, 0);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_EPHASE);
	cr_assert_eq(finish(&w, h, fence_point), 0);
}

Test(engine, bad_mappings_are_refused_without_change)
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

/* ---- poison, quarantine, death ---- */

Test(engine, failed_completion_quarantines_the_request_and_poisons_its_session_only)
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

Test(engine, shutdown_retries_and_lifts_the_poison)
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

Test(engine, ended_session_holds_everything_until_reclaimed)
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

Test(engine, rows_stay_when_a_session_ends)
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

/* ---- extents and classes ---- */

Test(engine, two_page_sizes_share_one_pool_without_overlap)
{
	struct model small = make_model(32, 16, 4, 8192), large = make_model(64, 64, 4, 8192);
	uint64_t half = 1 << 18;
	struct worker a, b;

	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 3000 });
	worker_open(&a, e, small, half, 1);
	worker_open(&b, e, large, half, 2);
	for (int32_t i = 0; i < 4; i++) {
		prefill(&a, begin(&a, i), 100);
		prefill(&b, begin(&b, i), 100);
	}
	for (int32_t i = 0; i < 4; i++) {
		for (int32_t c = 0; c < a.g.width; c++) {
			int64_t from = (int64_t)k_id(&a, i, c) * (int64_t)a.g.page_bytes;

			for (int32_t j = 0; from >= 0 && j < 4 * b.g.width; j++) {
				int64_t to = (int64_t)k_id(&b, j / b.g.width, j % b.g.width) * (int64_t)b.g.page_bytes;

				cr_assert(to < 0 || from + (int64_t)a.g.page_bytes <= to ||
					  to + (int64_t)b.g.page_bytes <= from);
			}
		}
	}
	worker_close(&a);
	worker_close(&b);
	e = engine_free(e);
}

Test(engine, one_class_alone_gets_the_whole_pool)
{
	uint64_t half = (uint64_t)100 * 16 * TOKEN_BYTES;
	int32_t slots[14], i;
	uint64_t h;

	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 1000 });
	worker_open(&w, e, make_model(32, 16, 14, 8192), half, 1);
	cr_assert_eq(session_free_pages(w.s, 0), 100);
	for (i = 0; i < 14; i++)
		slots[i] = i;
	cr_assert_eq(begin_on(&w, 0, &h, 14, slots), 0); /* 98 pages */
	cr_assert_eq(session_free_pages(w.s, 0), 2);
}

/* Attaching with ever new page sizes does not use the classes up. */
Test(engine, class_that_nobody_uses_makes_room_for_another)
{
	uint64_t half = (uint64_t)1 << 20;

	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = half / 16 });
	for (uint32_t layers = 1; layers <= 200; layers++) {
		struct model m = make_model(32, 16, 4, 8192);

		m.groups[0].layers = layers;
		worker_open(&w, e, m, half, 1);
		worker_close(&w);
	}
	e = engine_free(e);
}

/* ---- models ---- */

Test(engine, impossible_models_are_refused_with_a_reason)
{
	struct geometry g[WIRE_MAX_GROUPS];
	struct fault f;
	struct model m = make_model(0, 16, 1, 64);

	e = NULL;
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 24, 1, 64);
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 16, 0, 64);
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 16, 1, 0);
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 16, 1, 64);
	cr_assert_eq(model_check(&m, 16 * TOKEN_BYTES - 1, g, &f), SWAKV_ENEVER);
	cr_assert_eq(model_check(&m, 16 * TOKEN_BYTES, g, &f), 0);
	/* the most pages whose V ids fit 32 bits, and one more */
	cr_assert_eq(model_check(&m, (uint64_t)(INT32_MAX / 2) * 16 * TOKEN_BYTES, g, &f), 0);
	cr_assert_eq(model_check(&m, (uint64_t)(INT32_MAX / 2 + 1) * 16 * TOKEN_BYTES, g, &f), SWAKV_EINVALID);
}
