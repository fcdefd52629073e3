/* SPDX-License-Identifier: Apache-2.0 */
/* test_givers.c - who manages pages in extents that others lack is told which (spec section 13) */
#include "engine_fixture.h"

enum { TOKENS = 16, EXTENTS = 8, EACH = 8, PAGES = EXTENTS * EACH };
#define PAGE_BYTES ((uint64_t)TOKENS * TOKEN_BYTES) /* of K */

/* Workers: two with small pages that they manage, and one with pages of an extent each. */
static struct engine *engine;
static struct worker keeper, other, large;
static uint64_t now;

static struct model model_of(uint32_t tokens, uint32_t form)
{
	struct model m = make_model(1, tokens, 4, 16 * tokens);

	m.groups[0] = make_group(0, tokens, TOKEN_BYTES);
	m.groups[0].form = form;
	return m;
}

static void setup_with(uint32_t form)
{
	uint64_t half = PAGES * PAGE_BYTES;

	engine = engine_new(&(struct engine_config){
		.half_bytes = half, .extent_bytes = half / EXTENTS, .stamps_a_ms = 1, .wait_claim = 100000 });
	cr_assert_not_null(engine);
	worker_open(&keeper, engine, model_of(TOKENS, form), half, 1);
	worker_open(&other, engine, model_of(TOKENS, form), half, 2);
	worker_open(&large, engine, model_of(EACH * TOKENS, WIRE_SPLIT), half, 3);
	cr_assert_eq(session_join(keeper.s, "keeper"), 0);
	cr_assert_eq(session_join(other.s, "other"), 0);
	cr_assert_eq(session_join(large.s, "large"), 0);
	engine_stamp(engine, now = 5);
}

static void setup(void)
{
	setup_with(WIRE_SPLIT);
}

static void close_all(void)
{
	worker_close(&keeper);
	worker_close(&other);
	worker_close(&large);
	engine = engine_free(engine);
}

TestSuite(givers, .init = setup, .fini = close_all);

static int take(struct worker *w, uint32_t n, int32_t *ids)
{
	const struct take t = { .min = n, .max = n };
	uint32_t got;

	return pages_take(w->s, &t, ids, &got, &w->f);
}

static void give(struct worker *w, const int32_t *ids, uint32_t n)
{
	const struct give g = { .ids = ids, .n = n };

	cr_assert_eq(pages_give(w->s, &g, w->armed, &w->f), 0);
}

/* Of all pages, @w keeps page @at of each extent of its class; the others are free. */
static void keep_one_of_each(struct worker *w, int32_t at)
{
	int32_t all[PAGES], back[PAGES];
	uint32_t n = 0;

	cr_assert_eq(take(w, PAGES, all), 0);
	for (uint32_t i = 0; i < PAGES; i++)
		if (all[i] % EACH != at)
			back[n++] = all[i];
	give(w, back, n);
	check_all(engine);
}

/* The large pages are refused @n of them, and it is decided what is asked. */
static void lack(uint32_t n)
{
	int32_t ids[EXTENTS];

	cr_assert_eq(take(&large, n, ids), SWAKV_ENOPAGES);
	engine_stamp(engine, now += 50);
	engine_press(engine);
	check_all(engine);
}

static uint32_t told(const struct worker *w, struct page_range *out)
{
	return session_give_ranges(w->s, 0, out);
}

static struct emptying_counts seen(void)
{
	struct emptying_counts c;

	engine_count_emptying(engine, &c);
	return c;
}

Test(givers, whose_pages_keep_extents_from_others_is_told_which_and_no_more)
{
	struct page_range r[WIRE_RANGES];
	int32_t ids[EXTENTS], n = 0;
	uint64_t since;

	keep_one_of_each(&keeper, 3);
	lack(3);
	cr_expect_eq(seen().extents, 3U);
	cr_assert_eq(told(&keeper, r), 1U, "they are neighbours");
	cr_expect(r[0].first == 0 && r[0].end == 3 * EACH);
	cr_expect_eq(told(&other, r), 0U, "it has none");
	cr_expect_eq(told(&large, r), 0U);
	cr_expect_gt(session_wanted_pages(keeper.s, 0, &since), 0);
	for (int32_t x = 0; x < 3; x++)
		ids[n++] = x * EACH + 3;
	give(&keeper, ids, (uint32_t)n);
	cr_expect_eq(take(&large, 3, ids), 0, "three pages were enough");
	engine_stamp(engine, now += 50);
	engine_press(engine);
	cr_expect_eq(told(&keeper, r), 0U, "nothing is lacking any more");
	cr_expect_eq(seen().extents, 0U);
}

Test(givers, only_those_are_told_that_have_pages_there)
{
	struct page_range r[WIRE_RANGES];
	int32_t ids[PAGES], mine[EACH], n = 0;

	cr_assert_eq(take(&keeper, PAGES, ids), 0);
	for (int32_t i = 0; i < PAGES; i++)
		if (ids[i] / EACH == 5)
			mine[n++] = ids[i];
	give(&keeper, mine, (uint32_t)n);
	cr_assert_eq(take(&other, 2, mine), 0);
	lack(1);
	cr_assert_eq(told(&other, r), 1U);
	cr_expect(r[0].first == 5 * EACH && r[0].end == 6 * EACH);
	cr_expect_eq(told(&keeper, r), 0U, "the extent with the fewest is enough");
}

Test(givers, a_joined_class_has_ranges_in_both_halves, .init = NULL)
{
	struct page_range r[WIRE_RANGES];
	int32_t ids[2 * PAGES];
	uint32_t n = 0;

	setup_with(WIRE_JOINED);
	cr_assert_eq(take(&keeper, PAGES - 1, ids), 0);
	lack(1);
	n = told(&keeper, r);
	cr_assert_eq(n, 2U, "%u", n);
	cr_expect_leq(r[0].end, r[1].first);
	cr_expect_leq(r[0].end, PAGES / 2);
	cr_expect_geq(r[1].first, PAGES / 2);
}

Test(givers, who_holds_no_more_than_its_floor_is_passed_over_and_status_says_so)
{
	struct page_range r[WIRE_RANGES];
	struct due_counts due;
	uint64_t floor = 2 * PAGE_BYTES * EXTENTS;
	int32_t ids[1];

	keep_one_of_each(&keeper, 0);
	cr_assert_eq(engine_limit(engine, "keeper", &floor, NULL, NULL), 0);
	cr_assert_eq(take(&other, 1, ids), 0); /* so that there is somebody to ask */
	lack(1);
	cr_expect_eq(told(&keeper, r), 0U);
	session_count_due(keeper.s, &due);
	cr_expect_gt(due.stays[STAY_MANAGED], 0U);
	cr_expect_eq(seen().stays[STAY_MANAGED], due.stays[STAY_MANAGED]);
}

Test(givers, no_more_ranges_are_told_than_there_is_room_for, .init = NULL)
{
	struct page_range r[WIRE_RANGES];
	uint64_t half = 4 * PAGES * PAGE_BYTES;
	int32_t ids[4 * PAGES];
	uint32_t n;

	engine = engine_new(&(struct engine_config){
		.half_bytes = half, .extent_bytes = 2 * PAGE_BYTES, .stamps_a_ms = 1, .wait_claim = 100000 });
	worker_open(&keeper, engine, model_of(TOKENS, WIRE_SPLIT), half, 1);
	worker_open(&other, engine, model_of(TOKENS, WIRE_SPLIT), half, 2);
	worker_open(&large, engine, model_of(2 * TOKENS, WIRE_SPLIT), half, 3);
	cr_assert_eq(session_join(keeper.s, "keeper"), 0);
	cr_assert_eq(session_join(other.s, "other"), 0);
	cr_assert_eq(session_join(large.s, "large"), 0);
	engine_stamp(engine, now = 5);
	cr_assert_eq(take(&keeper, 4 * PAGES, ids), 0);
	for (int32_t i = 0; i < 4 * PAGES; i++) /* of every other extent, one of its two pages */
		if (ids[i] % 4 == 0)
			give(&keeper, &ids[i], 1);
	lack(2 * WIRE_RANGES + 4);
	n = told(&keeper, r);
	cr_expect_eq(n, (uint32_t)WIRE_RANGES);
	for (uint32_t i = 1; i < n; i++)
		cr_expect_gt(r[i].first, r[i - 1].end);
}
