/* SPDX-License-Identifier: Apache-2.0 */
/* Completion points at which the requests of a batch wait together: who shares, who leaves, and what is counted. */
#include "engine_fixture.h"

#include "session.h"
#include "turn.h"
#include "wire_turn.h"

enum { PAGE_TOKENS = 16, BATCH = 8, BOTH = WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE };

static struct worker w;
static struct engine *engine;
static uint64_t value; /* marked last on line 0 */
static uint64_t handles[BATCH];

static void setup(void)
{
	const uint64_t half = 2 << 20;
	struct model m = make_model(8 * PAGE_TOKENS, PAGE_TOKENS, BATCH, 4096);

	m.in_flight = 64;
	engine = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 64 << 10 });
	cr_assert_not_null(engine);
	worker_open(&w, engine, m, half, 1);
	value = 0;
	for (int32_t i = 0; i < BATCH; i++) {
		handles[i] = begin(&w, i);
		prefill(&w, handles[i], 3);
	}
}

static void teardown(void)
{
	worker_close(&w);
	engine_free(engine);
}

TestSuite(shared_point, .init = setup, .fini = teardown, .timeout = 60);

/* One turn of those requests that @which has a bit for; all end with @mark. */
static void turn_of(uint32_t which, uint32_t what, struct wire_fence mark)
{
	struct wire_entry_fault faults[2 * BATCH];
	struct turn_answer answer = { .faults = faults };
	struct turn turn = { .fence = mark };
	uint64_t entries[BATCH];

	for (uint32_t i = 0; i < BATCH; i++)
		if (which >> i & 1)
			entries[turn.n++] = wire_turn_entry(handles[i], what);
	turn.entries = entries;
	cr_assert_eq(step_turn(w.s, &turn, w.armed, &answer, &w.d, &w.f), 0, "reason %d", w.f.reason);
	cr_assert_eq(answer.n_faults, 0, "reason %d", faults[0].fault.reason);
	check_all(engine);
}

static struct wire_fence next_mark(void)
{
	return fence_line(&w, 0, ++value);
}

enum { ALL = (1 << BATCH) - 1 };

/* Points that stand in line 0. */
static int in_line(void)
{
	int n = 0;

	for (int32_t i = w.s->lines[0].first_point; i >= 0; i = w.s->points[i].next)
		n++;
	return n;
}

static uint32_t open_points(void)
{
	struct session_counts n;

	session_count(w.s, &n);
	return n.open_points;
}

static uint32_t open_of(int i)
{
	return request_state(&w, handles[i]).open_points;
}

Test(shared_point, requests_of_one_turn_that_name_one_mark_wait_at_one_point)
{
	turn_of(ALL, WIRE_TURN_PREPARE, fence_done);
	turn_of(ALL, BOTH, next_mark());
	cr_expect_eq(in_line(), 1);
	turn_of(ALL, BOTH, next_mark());
	cr_expect_eq(in_line(), 2);
	cr_expect_eq(open_points(), 2 * BATCH, "each request counts as if the point were its own: %u", open_points());
	for (int i = 0; i < BATCH; i++)
		cr_expect_eq(open_of(i), 2);
	reach(&w, 0, 1);
	cr_expect_eq(in_line(), 1);
	for (int i = 0; i < BATCH; i++)
		cr_expect_eq(open_of(i), 1);
	reach(&w, 0, 2);
	cr_expect_eq(open_points(), 0);
	cr_expect(!session_has_open(w.s, 0));
}

Test(shared_point, so_do_those_of_separate_calls)
{
	for (int i = 0; i < BATCH; i++)
		cr_assert_eq(decode_prepare(&w, handles[i]), 0);
	(void)next_mark();
	for (int i = 0; i < BATCH; i++)
		cr_assert_eq(decode_complete(&w, handles[i], fence_line(&w, 0, value)), 0);
	cr_expect_eq(in_line(), 1);
	cr_expect_eq(open_points(), BATCH);
	reach(&w, 0, value);
	cr_expect_eq(open_points(), 0);
}

/* Two batches in turn on one stream, the marks of both open. */
Test(shared_point, requests_of_every_second_turn_share_too)
{
	enum { EVEN = 0x55, ODD = 0xaa };

	turn_of(ALL, WIRE_TURN_PREPARE, fence_done);
	for (int i = 0; i < 4; i++) {
		turn_of(EVEN, BOTH, next_mark());
		turn_of(ODD, BOTH, next_mark());
	}
	cr_expect_eq(in_line(), 8);
	cr_expect_eq(open_of(0), 4);
	cr_expect_eq(open_of(1), 4);
	reach(&w, 0, 5);
	cr_expect_eq(open_of(0), 1);
	cr_expect_eq(open_of(1), 2);
	reach(&w, 0, value);
	cr_expect_eq(open_points(), 0);
}

Test(shared_point, more_marks_open_than_a_request_can_note_are_points_of_its_own)
{
	enum { MARKS = SHARED_MOST + 5 };

	turn_of(3, WIRE_TURN_PREPARE, fence_done);
	for (int i = 0; i < MARKS; i++)
		turn_of(3, BOTH, next_mark());
	cr_expect_eq(open_of(0), MARKS);
	cr_expect_eq(in_line(), SHARED_MOST + 2 * 5);
	for (uint64_t word = 1; word <= MARKS; word++) {
		reach(&w, 0, word);
		cr_expect_eq(open_of(1), MARKS - word, "%u at %d", open_of(1), (int)word);
	}
	turn_of(3, BOTH, next_mark());
	cr_expect_eq(in_line(), 1, "they share again");
}

Test(shared_point, one_that_ends_leaves_it_to_the_others)
{
	int64_t leased = counts(&w).leased;

	turn_of(ALL, WIRE_TURN_PREPARE, fence_done);
	turn_of(ALL, WIRE_TURN_COMPLETE, next_mark());
	cr_assert_eq(finish(&w, handles[0], fence_point), 0);
	cr_expect_eq(counts(&w).leased, leased, "its pages wait for the mark");
	cr_expect_eq(open_points(), BATCH, "%u: the others', and the one behind which its pages wait", open_points());
	reach(&w, 0, value);
	cr_expect_lt(counts(&w).leased, leased);
	cr_expect_eq(open_points(), 0);
}

Test(shared_point, one_that_all_have_left_is_closed)
{
	turn_of(ALL, WIRE_TURN_PREPARE, fence_done);
	turn_of(ALL, WIRE_TURN_COMPLETE, next_mark());
	for (int i = 0; i < BATCH; i++)
		cr_assert_eq(finish(&w, handles[i], fence_point), 0);
	for (int32_t i = w.s->lines[0].first_point; i >= 0; i = w.s->points[i].next)
		cr_expect_eq(w.s->points[i].request, -1, "only those that pages wait behind are left");
	reach(&w, 0, value);
	cr_expect_eq(counts(&w).leased, 0);
}

/* A line that shares as many as it can, and whose requests all end before one is reached, is not short of them for
 * ever. */
Test(shared_point, those_that_are_closed_make_room_for_new_ones)
{
	turn_of(3, WIRE_TURN_PREPARE, fence_done);
	for (int i = 0; i < SHARED_MOST; i++)
		turn_of(3, BOTH, next_mark());
	turn_of(3, WIRE_TURN_COMPLETE, fence_done);
	cr_assert_eq(finish(&w, handles[0], fence_point), 0);
	cr_assert_eq(finish(&w, handles[1], fence_point), 0);
	turn_of(0xc, WIRE_TURN_PREPARE, fence_done);
	(void)next_mark();
	turn_of(0xc, BOTH, fence_line(&w, 0, value));
	cr_expect_eq(open_of(2), 1);
	cr_expect_eq(in_line(), 2 + 1, "%d: what the two have left behind, and one", in_line());
}

/* What is proven to have failed takes its own request only; the others' mark still counts. */
Test(shared_point, one_that_is_poisoned_leaves_it_to_the_others)
{
	turn_of(ALL, WIRE_TURN_PREPARE, fence_done);
	turn_of(ALL, BOTH, next_mark());
	cr_assert_eq(decode_complete(&w, handles[0], fence_failed), SWAKV_EPOISONED);
	cr_expect_eq(in_line(), 1);
	cr_expect_eq(open_points(), BATCH - 1);
	cr_expect_gt(counts(&w).quarantined, 0);
	reach(&w, 0, value);
	cr_expect_eq(open_points(), 0);
	cr_expect_gt(counts(&w).quarantined, 0, "no mark proves that failed work is over");
}

Test(shared_point, a_session_that_ends_keeps_all_pages_whatever_was_shared)
{
	int64_t leased = counts(&w).leased;

	turn_of(ALL, WIRE_TURN_PREPARE, fence_done);
	turn_of(ALL, BOTH, next_mark());
	turn_of(0xf, BOTH, next_mark());
	session_end(w.s);
	check_all(engine);
	cr_expect_eq(counts(&w).quarantined, leased, "%ld of %ld", (long)counts(&w).quarantined, (long)leased);
	cr_expect_eq(open_points(), 0);
}

/* A value below one that was shared before has a point of its own; one that is named again has none. */
Test(shared_point, values_that_fall_are_not_shared)
{
	turn_of(7, WIRE_TURN_PREPARE, fence_done);
	turn_of(1, BOTH, fence_line(&w, 0, 9));
	turn_of(2, BOTH, fence_line(&w, 0, 5));
	turn_of(4, BOTH, fence_line(&w, 0, 5));
	cr_expect_eq(in_line(), 3);
	turn_of(2, BOTH, fence_line(&w, 0, 9));
	cr_expect_eq(in_line(), 3);
	cr_expect_eq(open_of(1), 2);
	turn_of(2, BOTH, fence_line(&w, 0, 9));
	turn_of(1, BOTH, fence_line(&w, 0, 9));
	cr_expect_eq(open_of(1), 2);
	cr_expect_eq(open_of(0), 1);
	reach(&w, 0, 5);
	cr_expect_eq(open_of(1), 1);
	cr_expect_eq(open_of(2), 0);
	reach(&w, 0, 9);
	cr_expect_eq(open_points(), 0);
}

/* A request of an unordered stream, whose pages wait behind marks, in the place of the first; two steps before one
 * leaves. */
static void begin_unordered(void)
{
	const int32_t slot = 0;
	struct begin b = { .slots = &slot, .n_slots = 1, .unordered = true };

	cr_assert_eq(finish(&w, handles[0], fence_done), 0);
	cr_assert_eq(request_begin_waiting(w.s, &b, &handles[0], &w.f), 0);
	prefill(&w, handles[0], 9 * PAGE_TOKENS - 2);
}

/* They come back to their own sequence at that mark, as from a point of its own. */
Test(shared_point, one_with_pages_behind_the_mark_has_its_own)
{
	begin_unordered();
	turn_of(3, WIRE_TURN_PREPARE, fence_done);
	turn_of(3, BOTH, next_mark());
	turn_of(3, BOTH, next_mark());
	cr_assert_eq(state(&w, handles[0], 0).n_staged, 1);
	cr_expect_eq(open_of(0), 2);
	cr_expect_eq(open_of(1), 2);
	cr_expect_eq(in_line(), 3);
	reach(&w, 0, value);
	cr_expect_eq(state(&w, handles[0], 0).n_staged, 0);
}

/* The first entry's pages take it away from where it waited alone, and the second still finds where to wait. */
Test(shared_point, one_that_is_left_by_its_last_in_the_middle_of_a_turn_is_not_joined)
{
	begin_unordered();
	cr_assert_eq(decode_prepare(&w, handles[0]), 0);
	cr_assert_eq(decode_complete(&w, handles[0], next_mark()), 0);
	turn_of(3, WIRE_TURN_PREPARE, fence_done);
	turn_of(3, BOTH, fence_line(&w, 0, value));
	cr_expect_eq(state(&w, handles[0], 0).n_staged, 1);
	cr_expect_eq(open_of(0), 1);
	cr_expect_eq(open_of(1), 1);
	cr_expect_eq(open_points(), 2);
	reach(&w, 0, value);
	cr_expect_eq(open_points(), 0);
}
