/* SPDX-License-Identifier: Apache-2.0 */
/* test_moves.c - pages that leave extents which another class waits for (spec section 13) */
#include "engine_fixture.h"

enum { TOKENS = 16, EXTENTS = 4, EACH = 8, PAGES = EXTENTS * EACH };
#define PAGE_BYTES ((uint64_t)TOKENS * TOKEN_BYTES) /* of K */

/* Workers: one whose pages move, one with pages of its size that it manages, and one with pages of an extent each. */
static struct engine *engine;
static struct worker small, filler, large;
static uint64_t owner[EXTENTS];
static int32_t fill[PAGES];
static uint32_t n_fill;
static uint64_t now;

static struct model model_of(uint32_t tokens, uint32_t flags)
{
	struct model m = make_model(1, tokens, 16, 16 * tokens);

	m.groups[0] = make_group(0, tokens, TOKEN_BYTES);
	m.groups[0].flags = flags;
	m.n_streams = 2;
	return m;
}

static void take(struct worker *w, uint32_t n)
{
	const struct take t = { .min = n, .max = n };
	uint32_t got;

	cr_assert_eq(pages_take(w->s, &t, fill + n_fill, &got, &w->f), 0);
	n_fill += got;
}

static uint64_t begin_short(struct worker *w, int32_t slot, int64_t tokens, bool unordered)
{
	struct begin b = { .max_tokens = tokens, .slots = &slot, .n_slots = 1, .unordered = unordered };
	uint64_t h;

	cr_assert_eq(request_begin_waiting(w->s, &b, &h, &w->f), 0);
	return h;
}

/* One live page in each extent, of a request each, which is executing; the rest is free. */
static void scatter(bool unordered)
{
	struct give g = { 0 };

	for (int32_t i = 0; i < EXTENTS; i++) {
		owner[i] = begin_short(&small, i, TOKENS, unordered);
		take(&filler, EACH - 1);
	}
	g = (struct give){ .ids = fill, .n = n_fill };
	cr_assert_eq(pages_give(filler.s, &g, filler.armed, &filler.f), 0);
	n_fill = 0;
	for (int i = 0; i < EXTENTS; i++)
		prefill(&small, owner[i], 1);
	check_all(engine);
}

static void setup_with(uint32_t flags)
{
	uint64_t half = PAGES * PAGE_BYTES;

	engine = engine_new(&(struct engine_config){ .half_bytes = half,
						     .extent_bytes = half / EXTENTS,
						     .scrub = WIRE_SCRUB_OWNER_CHANGE,
						     .stamps_a_ms = 1,
						     .wait_claim = 100000 });
	cr_assert_not_null(engine);
	worker_open(&small, engine, model_of(TOKENS, flags), half, 1);
	worker_open(&filler, engine, model_of(TOKENS, 0), half, 2);
	worker_open(&large, engine, model_of(EACH * TOKENS, 0), half, 3);
	cr_assert_eq(session_join(small.s, "small"), 0);
	cr_assert_eq(session_join(filler.s, "filler"), 0);
	cr_assert_eq(session_join(large.s, "large"), 0);
	n_fill = 0;
	engine_stamp(engine, now = 5);
}

static void setup(void)
{
	setup_with(WIRE_GROUP_MOVABLE);
}

static void close_all(void)
{
	worker_close(&small);
	worker_close(&filler);
	worker_close(&large);
	engine = engine_free(engine);
}

TestSuite(moves, .init = setup, .fini = close_all);

/* The large pages are refused @n of them. */
static void lack(uint32_t n)
{
	const struct take t = { .min = n, .max = n };
	int32_t ids[EXTENTS];
	uint32_t got;

	cr_assert_eq(pages_take(large.s, &t, ids, &got, &large.f), SWAKV_ENOPAGES);
	engine_stamp(engine, now += 50);
	engine_press(engine);
	check_all(engine);
}

static bool get(uint32_t n)
{
	const struct take t = { .min = n, .max = n };
	int32_t ids[EXTENTS];
	uint32_t got;

	return pages_take(large.s, &t, ids, &got, &large.f) == 0;
}

static uint32_t emptying(void)
{
	struct emptying_counts c;

	engine_count_emptying(engine, &c);
	return c.extents;
}

static uint64_t moved(void)
{
	struct emptying_counts c;

	engine_count_emptying(engine, &c);
	return c.moved;
}

static uint32_t leased(void)
{
	return (uint32_t)counts(&small).leased;
}

static void steps(void)
{
	for (int i = 0; i < EXTENTS; i++)
		decode(&small, owner[i], 1);
}

Test(moves, the_extent_with_the_fewest_live_pages_comes_empty_for_another_class)
{
	scatter(false);
	take(&filler, 2); /* of the extent that is fullest then */
	lack(1);
	cr_assert_eq(emptying(), 1);
	steps();
	cr_expect(get(1));
	cr_expect_eq(leased(), EXTENTS + 2, "nothing is lost, and nothing is held twice");
}

Test(moves, as_many_extents_come_empty_as_are_lacking)
{
	scatter(false);
	lack(3);
	cr_assert_eq(emptying(), 3);
	steps();
	cr_expect(get(3));
	engine_stamp(engine, now += 2000);
	engine_press(engine);
	cr_expect_eq(emptying(), 0, "who lacks nothing any more leaves nothing to be emptied");
	for (int i = 0; i < EXTENTS; i++)
		cr_expect_eq(k_id(&small, i, 0) / EACH, k_id(&small, 0, 0) / EACH, "all four lie in one extent");
}

Test(moves, a_move_is_told_with_the_step_that_it_comes_with_and_the_table_says_the_same)
{
	int moved = 0;

	scatter(false);
	lack(3);
	for (int32_t i = 0; i < EXTENTS; i++) {
		int32_t before = k_id(&small, i, 0);

		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
		if (k_id(&small, i, 0) == before) {
			cr_expect_eq(small.d.n_moves, 0);
		} else {
			moved++;
			cr_assert_eq(small.d.n_moves, 1);
			cr_expect_eq(small.d.moves[0].row, (uint32_t)i);
			cr_expect_eq(small.d.moves[0].from, before);
			cr_expect_eq(small.d.moves[0].to, k_id(&small, i, 0));
			cr_expect_eq(v_id(&small, i, 0), k_id(&small, i, 0) + PAGES);
			cr_assert_eq(small.d.n_updates, 1, "its cell travels with the same answer");
			cr_expect_eq(small.d.updates[0].page, k_id(&small, i, 0));
			cr_expect_eq(small.d.n_scrubs, 0, "all of it is written over");
		}
		cr_assert_eq(decode_complete(&small, owner[i], fence_done), 0);
	}
	cr_expect_eq(moved, 3);
}

Test(moves, an_old_page_is_free_when_its_very_step_has_ended_and_not_before)
{
	scatter(false);
	lack(3);
	for (uint64_t i = 0; i < EXTENTS; i++) {
		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
		cr_expect(!get(1), "not before the complete");
		cr_assert_eq(decode_complete(&small, owner[i], fence_line(&small, 0, i + 1)), 0);
	}
	cr_expect_eq(leased(), EXTENTS + 3);
	cr_expect(!get(1), "and not before its point");
	reach(&small, 0, EXTENTS - 2);
	cr_expect_geq(leased(), EXTENTS + 1);
	reach(&small, 0, EXTENTS);
	cr_expect_eq(leased(), EXTENTS);
	cr_expect(get(3));
}

Test(moves, an_old_page_waits_for_earlier_steps_of_its_request_too)
{
	scatter(false);
	for (int i = 0; i < EXTENTS; i++) {
		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
		cr_assert_eq(decode_complete(&small, owner[i], fence_line(&small, 0, 9)), 0);
	}
	lack(3);
	for (int i = 0; i < EXTENTS; i++) {
		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
		cr_assert_eq(decode_complete(&small, owner[i], fence_line(&small, 0, 1)), 0);
	}
	reach(&small, 0, 8);
	cr_expect_eq(leased(), EXTENTS + 3);
	reach(&small, 0, 9);
	cr_expect_eq(leased(), EXTENTS);
}

Test(moves, a_pinned_request_stays_and_moves_when_it_is_unpinned)
{
	scatter(false);
	for (int i = 0; i < EXTENTS; i++)
		cr_assert_eq(request_pin(small.s, owner[i], true, NULL), 0);
	lack(3);
	cr_expect_eq(emptying(), 0);
	steps();
	cr_expect(!get(1));
	for (int i = 0; i < EXTENTS; i++)
		cr_assert_eq(request_pin(small.s, owner[i], false, NULL), 0);
	lack(3);
	steps();
	cr_expect(get(3));
}

Test(moves, a_request_that_is_pinned_after_its_extent_was_chosen_stays)
{
	scatter(false);
	lack(3);
	for (int i = 0; i < EXTENTS; i++)
		cr_assert_eq(request_pin(small.s, owner[i], true, NULL), 0);
	steps();
	cr_expect_eq(moved(), 0);
	cr_expect(!get(1));
}

Test(moves, idle_owners_are_not_waited_for_and_that_can_be_seen)
{
	struct emptying_counts c;

	scatter(false);
	engine_stamp(engine, now += 5000);
	lack(3);
	engine_count_emptying(engine, &c);
	cr_expect_eq(c.extents, 0);
	cr_expect_geq(c.stays[STAY_IDLE], 3U);
	steps();
	lack(3);
	steps();
	cr_expect(get(3));
}

Test(moves, requests_on_a_stream_without_order_stay)
{
	scatter(true);
	lack(3);
	cr_expect_eq(emptying(), 0);
	steps();
	cr_expect(!get(1));
}

Test(moves, a_group_that_is_not_movable_stays, .init = NULL)
{
	setup_with(0);
	scatter(false);
	lack(3);
	cr_expect_eq(emptying(), 0);
	steps();
	cr_expect_eq(moved(), 0);
	cr_expect(!get(1));
}

Test(moves, pages_that_a_worker_manages_keep_their_extent)
{
	scatter(false);
	take(&filler, PAGES - EXTENTS);
	lack(1);
	cr_expect_eq(emptying(), 0);
}

Test(moves, a_move_leaves_the_floors_of_others)
{
	uint64_t floor = 2 * PAGE_BYTES * (PAGES - EACH); /* what stays free in any three extents is less */

	scatter(false);
	cr_assert_eq(engine_limit(engine, "filler", &floor, NULL, NULL), 0);
	lack(1);
	cr_expect_eq(emptying(), 0);
	steps();
	cr_expect_eq(leased(), EXTENTS);
	cr_expect(!get(1));
}

Test(moves, a_move_stays_below_its_models_ceiling)
{
	uint64_t ceiling = 2 * PAGE_BYTES * EXTENTS;

	scatter(false);
	cr_assert_eq(engine_limit(engine, "small", NULL, &ceiling, NULL), 0);
	lack(3);
	steps();
	cr_expect_eq(moved(), 0);
	cr_expect_eq(leased(), EXTENTS);
}

/* What the step has replaced, and all else, is in quarantine once, and free once. */
Test(moves, a_failed_step_quarantines_both_pages)
{
	scatter(false);
	lack(3);
	for (int i = 0; i < EXTENTS; i++) {
		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
		if (small.d.n_moves == 0)
			continue;
		cr_assert_eq(decode_complete(&small, owner[i], fence_failed), SWAKV_EPOISONED);
		break;
	}
	cr_expect_eq(counts(&small).quarantined, 2);
	check_all(engine);
}

/* The copy may not have been enqueued: what is in the new page is another's, and the session goes on. */
Test(moves, what_a_failed_step_was_to_copy_is_scrubbed_when_its_session_binds_the_page_again)
{
	const struct wire_fence idle[] = { fence_done, fence_done };
	int32_t to = -1;

	scatter(false);
	lack(3);
	for (int i = 0; i < EXTENTS && to < 0; i++) {
		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
		if (small.d.n_moves == 0)
			continue;
		to = small.d.moves[0].to;
		cr_assert_eq(decode_complete(&small, owner[i], fence_failed), SWAKV_EPOISONED);
	}
	for (int i = 0; i < EXTENTS; i++)
		abandon(&small, owner[i], fence_line(&small, 0, 1));
	reach(&small, 0, 1);
	cr_assert_eq(session_shutdown(small.s, idle, 2, small.armed, &small.f), 0);
	for (int32_t i = 0; i < PAGES; i++) {
		uint64_t h = begin_short(&small, 0, TOKENS, false);

		prefill(&small, h, 1);
		if (k_id(&small, 0, 0) == to)
			break;
		abandon(&small, h, fence_done);
		take(&filler, 1);
	}
	cr_assert_eq(k_id(&small, 0, 0), to);
	cr_expect_eq(small.d.n_scrubs, 1);
}

Test(moves, abandon_in_the_middle_of_a_step_frees_both_pages)
{
	scatter(false);
	lack(3);
	for (int i = 0; i < EXTENTS; i++) {
		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
		cr_assert_eq(abandon(&small, owner[i], fence_line(&small, 0, 3)), 0);
	}
	cr_expect_eq(leased(), EXTENTS + 3);
	reach(&small, 0, 3);
	cr_expect_eq(leased(), 0);
}

Test(moves, a_session_that_ends_in_the_middle_of_a_step_frees_both_pages)
{
	scatter(false);
	lack(3);
	for (int i = 0; i < EXTENTS; i++)
		cr_assert_eq(decode_prepare(&small, owner[i]), 0);
	session_end(small.s);
	check_all(engine);
	cr_expect_eq(counts(&small).quarantined, EXTENTS + 3);
	cr_expect_eq(session_reclaim(small.s), EXTENTS + 3);
	cr_expect_eq(leased(), 0);
}

/* It holds nothing: another is reserved in its place, and it waits for the step, as an earlier one may read it. */
Test(moves, a_reserved_page_moves_without_a_copy)
{
	struct give g = { .ids = fill };

	take(&filler, EACH - 1);
	owner[0] =
		begin_short(&small, 0, 2 * TOKENS, false); /* the last page of one extent, and the first of the next */
	for (int32_t i = 1; i < EXTENTS; i++) {
		if (i > 1)
			owner[i] = begin_short(&small, i, TOKENS, false);
		take(&filler, EACH - 1);
	}
	g.n = n_fill;
	cr_assert_eq(pages_give(filler.s, &g, filler.armed, &filler.f), 0);
	for (int i = 0; i < EXTENTS; i++)
		if (i != 1)
			prefill(&small, owner[i], 1);
	lack(3);
	cr_assert_eq(decode_prepare(&small, owner[0]), 0);
	cr_expect_eq(small.d.n_moves, 1, "of two pages, one is in the row");
	cr_assert_eq(decode_complete(&small, owner[0], fence_line(&small, 0, 1)), 0);
	cr_expect_eq(leased(), EXTENTS + 2);
	reach(&small, 0, 1);
	decode(&small, owner[2], 1);
	decode(&small, owner[3], 1);
	cr_expect(get(3));
	decode(&small, owner[0], TOKENS);
	cr_expect_eq(k_id(&small, 0, 1) / EACH, EXTENTS - 1);
	cr_expect_eq(leased(), EXTENTS);
}

Test(moves, a_delivery_without_room_for_moves_moves_nothing)
{
	struct wire_move *moves = small.d.moves;

	scatter(false);
	lack(3);
	small.d.moves = NULL;
	steps();
	small.d.moves = moves;
	cr_expect(!get(1));
	cr_expect_eq(leased(), EXTENTS);
}
