/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of several tokens, acceptance of a part, and tokens taken back (end of spec section 3). */
#include "engine_fixture.h"

static struct engine *e;
static struct worker w;

enum { P = 16 };

static void open_model(int64_t pages, struct model m)
{
	e = make_engine(pages, P);
	worker_open(&w, e, m, (uint64_t)pages * P * TOKEN_BYTES, 1);
}

static struct model mapped_model(int64_t window, int64_t max_advance, uint32_t max_rewind)
{
	struct model m = make_model(window, P, 4, 4096);

	m.max_advance = max_advance;
	m.max_rewind = max_rewind;
	m.chunk_mapped = true;
	return m;
}

static void teardown(void)
{
	if (!e)
		return;
	worker_close(&w);
	engine_free(e);
}

TestSuite(extend, .fini = teardown);

/* ---- reservation ---- */

Test(extend, a_bounded_advance_reserves_fewer_pages_than_any)
{
	struct model m = make_model(1024, 128, 4, 8192);

	e = make_engine(100, 128);
	worker_open(&w, e, m, 100ull * 128 * TOKEN_BYTES, 1);
	cr_assert_eq(w.g.private_pages, 19);
	worker_close(&w);
	m.max_advance = 1;
	worker_open(&w, e, m, 100ull * 128 * TOKEN_BYTES, 2);
	cr_assert_eq(w.g.private_pages, 9); /* ceil((1024 + 1 - 1) / 128) + 1 */
	worker_close(&w);
	m.in_flight = 4; /* costs nothing */
	m.max_advance = 32;
	m.max_rewind = 98;
	worker_open(&w, e, m, 100ull * 128 * TOKEN_BYTES, 3);
	cr_assert_eq(w.g.private_pages, 11); /* ceil((1024 + 98 + 32 - 1) / 128) + 1 */
}

Test(extend, decodes_of_a_bounded_advance_never_lack_pages_with_two_in_flight)
{
	struct model m = make_model(32, P, 1, 4096);
	uint64_t h, value = 0;

	m.max_advance = 1;
	open_model(3, m); /* ceil((32 + 1 - 1) / 16) + 1 = 3: all of the pool */
	h = begin(&w, 0);
	prefill(&w, h, 1);
	for (int i = 0; i < 500; i++) {
		cr_assert_eq(decode_prepare(&w, h), 0, "step %d", i);
		cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, ++value)), 0);
		reach(&w, 0, value - 1); /* two in flight while the next is prepared: this one and its own */
	}
}

/* ---- chunk=retained ---- */

Test(extend, a_retained_chunk_binds_its_final_window_and_leaves_a_hole)
{
	uint64_t h;

	open_model(64, make_model(32, P, 4, 4096));
	h = begin(&w, 0);
	prefill(&w, h, 40); /* pages 0 to 2 */
	cr_assert_str_eq(mapped(&w, 0, 0), "0,1,2");
	cr_assert_eq(step_one(&w, h, 100, NULL), 0); /* to 140: pages 6 to 8 */
	cr_assert_str_eq(mapped(&w, 0, 0), "0,1,2,6,7,8");
	cr_assert_eq(state(&w, h, 0).pending_endpoint, 140);
	cr_assert_eq(state(&w, h, 0).n_retiring, 3);
	cr_assert_eq(state(&w, h, 0).n_new, 3);
	cr_assert_eq(state(&w, h, 0).n_bound, 3);
	cr_assert_eq(step_one_complete(&w, h, 99, NULL, fence_done), SWAKV_EINVALID, "all of it stays");
	cr_assert_eq(w.f.reason, FAULT_STEP_PART);
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_done), 0);
	cr_assert_str_eq(mapped(&w, 0, 0), "6,7,8");
	decode(&w, h, 30);
	cr_assert_eq(state(&w, h, 0).endpoint, 170);
}

Test(extend, a_listed_count_a_sequence)
{
	int32_t slots[2] = { 0, 1 }, lengths[2] = { 10, 50 }, tokens[2] = { 5, 20 };
	uint64_t h;

	open_model(64, make_model(32, P, 4, 4096));
	cr_assert_eq(begin_on(&w, 0, &h, 2, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(step_one(&w, h, -1, tokens), SWAKV_EINVALID, "one count for a batch of two");
	cr_assert_eq(w.f.reason, FAULT_STEP_LISTED);
	tokens[1] = 0;
	cr_assert_eq(step_one(&w, h, -2, tokens), SWAKV_EINVALID, "0 tokens");
	cr_assert_eq(w.f.seq, 1);
	tokens[1] = 20;
	cr_assert_eq(step_one(&w, h, -2, tokens), 0);
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_done), 0);
	cr_assert_eq(state(&w, h, 0).endpoint, 15);
	cr_assert_eq(state(&w, h, 1).endpoint, 70);
	decode(&w, h, 2);
	cr_assert_eq(state(&w, h, 0).endpoint, 17);
	cr_assert_eq(state(&w, h, 1).endpoint, 72);
}

Test(extend, counts_that_do_not_belong_to_the_step_refuse_it_as_a_whole)
{
	struct wire_step_entry entry = { .tokens = 1 };
	int32_t count = 1;
	struct step step = { &entry, &count, 1, 1 };
	struct wire_entry_fault fault;
	uint32_t n;

	open_model(64, make_model(32, P, 4, 4096));
	entry.request = begin(&w, 0);
	prefill(&w, entry.request, 10);
	cr_assert_eq(step_prepare(w.s, &step, &fault, &n, &w.d, &w.f), SWAKV_EINVALID);
	entry.tokens = INT32_MIN;
	cr_assert_eq(step_prepare(w.s, &step, &fault, &n, &w.d, &w.f), SWAKV_EINVALID);
	cr_assert_eq(request_state(&w, entry.request).transition, TRANSITION_NONE);
}

Test(extend, beyond_the_limit_turns_the_request_to_finishing)
{
	uint64_t h;

	open_model(300, make_model(32, P, 4, 4096));
	h = begin(&w, 0);
	prefill(&w, h, 4000);
	cr_assert_eq(step_one(&w, h, 97, NULL), SWAKV_ELIMIT);
	cr_assert_eq(request_state(&w, h).phase, PHASE_FINISHING);
}

/* ---- chunk=mapped ---- */

Test(extend, a_mapped_chunk_binds_every_page_and_stages_nothing_at_prepare)
{
	uint64_t h;

	open_model(64, mapped_model(32, 100, 0));
	h = begin(&w, 0);
	prefill(&w, h, 40);
	cr_assert_eq(step_one(&w, h, 100, NULL), 0);
	cr_assert_str_eq(mapped(&w, 0, 0), "0,1,2,3,4,5,6,7,8");
	cr_assert_eq(state(&w, h, 0).n_retiring, 0);
	cr_assert_eq(state(&w, h, 0).n_bound, 9);
	cr_assert_eq(state(&w, h, 0).n_new, 6);
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_done), 0);
	cr_assert_str_eq(mapped(&w, 0, 0), "6,7,8");
}

Test(extend, a_part_is_accepted_and_the_rest_is_there_for_the_next_step)
{
	int32_t none = 0;
	uint64_t h;

	open_model(64, mapped_model(32, 100, 0));
	h = begin(&w, 0);
	prefill(&w, h, 40);
	cr_assert_eq(step_one(&w, h, 100, NULL), 0);
	cr_assert_eq(step_one_complete(&w, h, 101, NULL, fence_done), SWAKV_EINVALID);
	cr_assert_eq(step_one_complete(&w, h, 10, NULL, fence_line(&w, 0, 1)), 0); /* to 50 */
	cr_assert_str_eq(mapped(&w, 0, 0), "1,2,3");
	cr_assert_eq(state(&w, h, 0).endpoint, 50);
	cr_assert_eq((int64_t)state(&w, h, 0).n_reserved, w.g.private_pages - 3);
	cr_assert_eq(step_one(&w, h, 1, NULL), 0);
	cr_assert_eq(step_one_complete(&w, h, -1, &none, fence_done), 0); /* a rejected decode */
	cr_assert_eq(state(&w, h, 0).endpoint, 50);
	decode(&w, h, 14);
	cr_assert_eq(state(&w, h, 0).endpoint, 64);
	cr_assert_eq(step_one(&w, h, 1, NULL), 0); /* maps page 4 */
	cr_assert_str_eq(mapped(&w, 0, 0), "2,3,4");
	cr_assert_eq(step_one_complete(&w, h, -1, &none, fence_done), 0);
	cr_assert_str_eq(mapped(&w, 0, 0), "2,3");
}

Test(extend, a_larger_extend_takes_what_it_lacks_and_gives_it_back_at_its_point)
{
	uint64_t h;

	open_model(20, mapped_model(32, 1, 0)); /* reserves 3 */
	h = begin(&w, 0);
	prefill(&w, h, 40);
	cr_assert_eq(counts(&w).leased, 3);
	cr_assert_eq(step_one(&w, h, 200, NULL), 0); /* to 240: 15 pages */
	cr_assert_eq(counts(&w).leased, 15);
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(counts(&w).leased, 15);
	reach(&w, 0, 1);
	cr_assert_eq(counts(&w).leased, 3);
	cr_assert_str_eq(mapped(&w, 0, 0), "13,14");
}

Test(extend, pages_that_are_not_there_refuse_it_and_change_nothing)
{
	uint64_t h;

	open_model(14, mapped_model(32, 1, 0));
	h = begin(&w, 0);
	prefill(&w, h, 40);
	cr_assert_eq(step_one(&w, h, 300, NULL), SWAKV_ENEVER); /* 22 pages */
	cr_assert_eq(w.f.reason, FAULT_STEP_NEVER);
	cr_assert_eq(begin(&w, 1) != 0, true);
	cr_assert_eq(step_one(&w, h, 170, NULL), SWAKV_ENOPAGES); /* 14 pages, 11 are left */
	cr_assert_eq(w.f.reason, FAULT_STEP_NO_PAGES);
	cr_assert_eq(counts(&w).leased, 6);
	cr_assert_str_eq(mapped(&w, 0, 0), "0,1,2");
	cr_assert_eq(step_one(&w, h, 100, NULL), 0);
}

Test(extend, what_a_longer_step_took_and_left_waits_and_so_may_the_next_step)
{
	uint64_t h;

	open_model(64, mapped_model(32, 16, 0)); /* ceil((32 + 16 - 1) / 16) + 1 = 4 */
	h = begin(&w, 0);
	prefill(&w, h, 33);
	cr_assert_eq(step_one(&w, h, 95, NULL), 0); /* to 128: 8 pages */
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(state(&w, h, 0).n_staged, 6);
	cr_assert_eq(step_one(&w, h, 16, NULL), SWAKV_EPENDING);
	reach(&w, 0, 1);
	cr_assert_eq(counts(&w).leased, 4);
	cr_assert_eq(step_one(&w, h, 16, NULL), 0);
}

/* ---- rewind ---- */

Test(extend, rewind_goes_back_from_the_highest_endpoint_and_no_further)
{
	int32_t back = 5;
	uint64_t h;

	open_model(64, mapped_model(32, 4, 8));
	h = begin(&w, 0);
	prefill(&w, h, 100);
	cr_assert_eq(request_rewind(w.s, h, &back, 1, &w.f), 0);
	check_all(e);
	cr_assert_eq(state(&w, h, 0).endpoint, 95);
	cr_assert_str_eq(mapped(&w, 0, 0), "3,4,5");
	back = 4;
	cr_assert_eq(request_rewind(w.s, h, &back, 1, &w.f), SWAKV_ELIMIT, "8 below the highest, not 8 a call");
	cr_assert_eq(state(&w, h, 0).endpoint, 95);
	cr_assert_eq(request_state(&w, h).phase, PHASE_EXECUTING);
	back = 3;
	cr_assert_eq(request_rewind(w.s, h, &back, 1, &w.f), 0);
	check_all(e);
	cr_assert_eq(state(&w, h, 0).retained_begin, 3, "it never falls");
	decode(&w, h, 40);
	cr_assert_eq(state(&w, h, 0).endpoint, 132);
}

Test(extend, rewound_pages_are_there_for_the_next_step)
{
	int32_t back = 8;
	uint64_t h;

	open_model(64, mapped_model(32, 16, 8));
	h = begin(&w, 0);
	prefill(&w, h, 60);
	cr_assert_eq(step_one(&w, h, 8, NULL), 0); /* to 68: maps page 4 */
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(request_rewind(w.s, h, &back, 1, &w.f), 0);
	check_all(e);
	cr_assert_str_eq(mapped(&w, 0, 0), "1,2,3");
	cr_assert_eq((int64_t)state(&w, h, 0).n_reserved, w.g.private_pages - 3); /* page 4 */
	cr_assert_eq(request_state(&w, h).open_points, 1);
}

Test(extend, rewind_needs_an_idle_request_and_counts_for_all)
{
	int32_t back[2] = { 1, 101 };
	uint64_t h;

	open_model(64, mapped_model(32, 16, 200));
	h = begin(&w, 0);
	cr_assert_eq(request_rewind(w.s, h, back, 1, &w.f), SWAKV_EPHASE);
	prefill(&w, h, 100);
	cr_assert_eq(request_rewind(w.s, h, back, 2, &w.f), SWAKV_EINVALID);
	cr_assert_eq(request_rewind(w.s, h, back + 1, 1, &w.f), SWAKV_EINVALID);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(request_rewind(w.s, h, back, 1, &w.f), SWAKV_EPHASE);
	cr_assert_eq(decode_complete(&w, h, fence_done), 0);
	cr_assert_eq(request_rewind(w.s, h, back, 1, &w.f), 0);
}
