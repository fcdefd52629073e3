/* SPDX-License-Identifier: Apache-2.0 */
/* test_press.c - who is asked for pages that others lack (spec section 8) */
#include "engine_fixture.h"
#include "internal.h"

enum { PAGES = 64, TOKENS = 16, WORKERS = 4 };
#define PAGE_BYTES ((uint64_t)TOKENS * TOKEN_BYTES) /* of K */

static struct engine *engine;
static struct worker w[WORKERS]; /* the last one has pages of twice the size */
static int32_t got[WORKERS][PAGES];
static uint32_t held[WORKERS];

static void setup(void)
{
	const char *names[] = { "a", "b", "c", "d" };
	uint64_t half = PAGES * PAGE_BYTES;

	engine = engine_new(&(struct engine_config){
		.half_bytes = half, .extent_bytes = half / 16, .stamps_a_ms = 1, .wait_claim = 100000 });
	cr_assert_not_null(engine);
	for (int i = 0; i < WORKERS; i++) {
		uint32_t tokens = i == 3 ? 2 * TOKENS : TOKENS;

		worker_open(&w[i], engine, make_model(tokens, tokens, 4, 16 * tokens), half, (uint32_t)i + 1);
		cr_assert_eq(session_join(w[i].s, names[i]), 0);
		held[i] = 0;
	}
	engine_stamp(engine, 5);
}

static void close_all(void)
{
	for (int i = 0; i < WORKERS; i++)
		worker_close(&w[i]);
	engine = engine_free(engine);
}

TestSuite(press, .init = setup, .fini = close_all);

static int take(int i, uint32_t n, uint64_t wait)
{
	const struct take t = { .min = n, .max = n, .wait = wait, .ticket = n };
	uint32_t more;
	int code = pages_take(w[i].s, &t, got[i] + held[i], &more, &w[i].f);

	held[i] += more;
	check_all(engine);
	return code;
}

static void give(int i, uint32_t n)
{
	const struct give g = { .ids = got[i] + held[i] - n, .n = n };

	cr_assert_eq(pages_give(w[i].s, &g, w[i].armed, &w[i].f), 0);
	held[i] -= n;
}

static int64_t wanted(int i)
{
	uint64_t since;

	engine_press(engine);
	return session_wanted_pages(w[i].s, 0, &since);
}

static void limit(const char *name, uint64_t floor_pages, uint64_t ceiling_pages)
{
	uint64_t floor = floor_pages * 2 * PAGE_BYTES, ceiling = ceiling_pages * 2 * PAGE_BYTES;

	cr_assert_eq(engine_limit(engine, name, &floor, &ceiling, NULL), 0);
}

Test(press, nobody_is_asked_while_nobody_lacks_anything)
{
	cr_assert_eq(take(0, PAGES, 0), 0);
	cr_expect_eq(wanted(0), 0);
	cr_expect(!engine_presses(engine));
}

Test(press, what_a_take_lacks_is_asked_for_once)
{
	cr_assert_eq(take(0, 60, 0), 0);
	cr_expect_eq(take(1, 10, 1000), SWAKV_EAGAIN);
	cr_expect(engine_presses(engine));
	for (int i = 0; i < 3; i++)
		cr_expect_eq(wanted(0), 6, "4 are free");
	cr_expect_eq(wanted(1), 0, "it waits itself");
}

Test(press, who_lacks_pages_itself_is_not_asked_for_what_it_holds)
{
	cr_assert_eq(take(0, 30, 0), 0);
	cr_assert_eq(take(1, 15, 0), 0);
	cr_assert_eq(take(2, 15, 0), 0);
	cr_expect_eq(take(1, 20, 0), SWAKV_ENOPAGES);
	cr_expect_eq(take(2, 12, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 28, "20 and 12 are lacking, 4 are free");
	cr_expect_eq(wanted(1), 0, "it was refused");
	cr_expect_eq(wanted(2), 0, "it waits");
}

/* Two that cache all they can try for more again and again: what they say they could give, others still get. */
Test(press, who_was_refused_is_asked_for_what_it_offers_and_others_lack)
{
	cr_assert_eq(take(0, 40, 0), 0);
	cr_assert_eq(take(1, 24, 0), 0);
	session_set_spare(w[0].s, 0, 30);
	session_set_spare(w[1].s, 0, 5);
	cr_expect_eq(take(0, 4, 0), SWAKV_ENOPAGES);
	cr_expect_eq(wanted(0), 0, "its own lack");
	cr_expect_eq(wanted(1), 4);
	cr_expect_eq(take(1, 9, 0), SWAKV_ENOPAGES);
	cr_expect_eq(wanted(0), 9, "13 are lacking, 4 of them are its own");
	cr_expect_eq(wanted(1), 4, "and 9 the other's");
	cr_expect_eq(take(2, 20, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 28, "9 and 20 are lacking, the other has 5");
	cr_expect_eq(wanted(1), 5);
	cr_expect_eq(wanted(2), 0, "it waits");
	session_set_spare(w[0].s, 0, 0);
	cr_expect_eq(wanted(0), 0, "it was refused, and uses what it has");
}

Test(press, a_want_ends_with_its_cause)
{
	struct admission d;
	uint64_t since;

	cr_assert_eq(take(0, 60, 0), 0);
	cr_expect_eq(take(1, 10, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 6);
	engine_stamp(engine, 9);
	give(0, 2);
	cr_expect_eq(wanted(0), 4);
	cr_expect_eq(session_wanted_pages(w[0].s, 0, &since), 4);
	cr_expect_eq(since, 5, "asked since then");
	give(0, 4);
	cr_expect_eq(wanted(0), 0);
	cr_assert(engine_admit(engine, &d));
	cr_expect_eq(d.n_pages, 10);
	cr_expect_eq(wanted(0), 0);
	cr_expect(!engine_presses(engine));
}

static uint64_t rises(int i)
{
	engine_press(engine);
	return session_want_rises(w[i].s, 0);
}

/* It is told when it must do more than it knows: not when less is wanted, but also when what it gave was not enough. */
Test(press, a_want_rises_above_what_was_asked_and_not_given_since)
{
	cr_assert_eq(take(0, PAGES, 0), 0);
	cr_expect_eq(take(1, 10, 1000), SWAKV_EAGAIN);
	cr_expect_eq(rises(0), 1);
	cr_expect_eq(rises(0), 1);
	give(0, 4);
	cr_expect_eq(rises(0), 1, "6 of the 10 are left");
	cr_expect_eq(take(2, 5, 1000), SWAKV_EAGAIN);
	cr_expect_eq(rises(0), 2);
	give(0, 11);
	cr_expect_eq(take(2, 2, 1000), SWAKV_EAGAIN, "before anybody has looked");
	cr_expect_eq(rises(0), 3, "it has given what it was asked for");
	session_end(w[1].s);
	session_end(w[2].s);
	cr_expect_eq(rises(0), 3);
}

Test(press, a_want_ends_when_the_one_that_waits_is_gone)
{
	cr_assert_eq(take(0, 60, 0), 0);
	cr_expect_eq(take(1, 10, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 6);
	session_end(w[1].s);
	cr_expect_eq(wanted(0), 0);
}

Test(press, a_refusal_counts_for_a_second)
{
	cr_assert_eq(take(0, 60, 0), 0);
	cr_expect_eq(take(1, 10, 0), SWAKV_ENOPAGES);
	cr_expect_eq(wanted(0), 6);
	engine_stamp(engine, 5 + PRESS_REFUSED_MS - 1);
	cr_expect_eq(wanted(0), 6);
	engine_stamp(engine, 5 + PRESS_REFUSED_MS);
	cr_expect_eq(wanted(0), 0);
	cr_expect(!engine_presses(engine));
}

Test(press, a_refusal_is_over_when_pages_were_given_since)
{
	cr_assert_eq(take(0, 60, 0), 0);
	cr_expect_eq(take(1, 10, 0), SWAKV_ENOPAGES);
	cr_assert_eq(take(1, 4, 0), 0);
	cr_expect_eq(wanted(0), 0);
}

Test(press, a_reserve_that_came_at_last_is_no_lack_any_more)
{
	const struct begin b = { .n_slots = 1, .slots = (int32_t[]){ 0 }, .max_tokens = 2 * TOKENS };
	uint64_t request;

	cr_assert_eq(request_begin_waiting(w[1].s, &b, &request, &w[1].f), 0);
	cr_assert_eq(take(0, 62, 0), 0);
	cr_expect_eq(request_reserve(w[1].s, request, 3 * TOKENS, &w[1].f), SWAKV_ENOPAGES);
	cr_expect_eq(wanted(0), 1);
	cr_assert_eq(take(2, 1, 0), SWAKV_ENOPAGES);
	give(0, 2);
	cr_expect_eq(request_reserve(w[1].s, request, 3 * TOKENS, &w[1].f), 0);
	cr_expect_eq(take(2, 1, 0), 0);
	cr_expect_eq(wanted(0), 0);
	cr_expect(!engine_presses(engine));
}

Test(press, begins_lack_pages_too)
{
	int32_t slot = 0;
	uint64_t h;

	cr_assert_eq(take(0, PAGES, 0), 0);
	cr_expect_eq(begin_on(&w[1], 0, &h, 1, &slot), SWAKV_ENOPAGES);
	cr_expect_eq(wanted(0), w[1].g.private_pages);
}

Test(press, what_is_offered_is_asked_for_first)
{
	cr_assert_eq(take(0, 30, 0), 0);
	cr_assert_eq(take(1, 34, 0), 0);
	session_set_spare(w[1].s, 0, 8);
	cr_expect_eq(take(2, 6, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 0);
	cr_expect_eq(wanted(1), 6);
	cr_expect_eq(take(2, 12, 1000), SWAKV_EAGAIN);
	cr_expect_geq(wanted(1), 8, "18 are lacking, 8 are offered");
	cr_expect_eq(wanted(0) + wanted(1), 18);
	session_set_spare(w[1].s, 0, UINT64_MAX);
	cr_expect_eq(wanted(1), 18, "what it says is no more than it has");
	cr_expect_eq(wanted(0), 0);
}

static struct {
	int n, at, who; /* pauses so far; in that one this worker leaves */
} pauses;

static void on_pause(void *arg)
{
	uint32_t spent = engine_spent(engine) - engine->slice.uncut; /* a search for extents counts when it is over */

	cr_expect(spent <= 32 || pauses.n >= pauses.at, "%u", spent);
	engine_looked(engine);
	if (++pauses.n == pauses.at)
		worker_close(&w[pauses.who]);
}

/* Worker 2 was refused 12 pages; in pause @at of the press worker @who leaves. False: there were not so many. */
static bool leaves_in_pause(int who, int at)
{
	int64_t all = 0;

	cr_assert_eq(take(0, 20, 0), 0);
	cr_assert_eq(take(1, 20, 0), 0);
	cr_assert_eq(take(3, 8, 0), 0);
	session_set_spare(w[1].s, 0, 5);
	cr_expect_eq(take(2, 12, 0), SWAKV_ENOPAGES);
	engine_on_pause(engine, 32, on_pause, NULL);
	pauses.n = 0;
	pauses.at = at;
	pauses.who = who;
	engine_looked(engine);
	engine_press(engine);
	engine_on_pause(engine, 0, NULL, NULL);
	check_all(engine);
	for (int i = 0; i < WORKERS; i++) {
		uint64_t since;

		all += w[i].s ? session_wanted_pages(w[i].s, 0, &since) : 0;
	}
	cr_expect_leq(all, 12 - 8, "worker %d left in pause %d", who, at);
	return pauses.n >= at;
}

/* Others are served in between, and any of those who are looked at may leave then, the next one, too. */
Test(press, it_is_cut_and_sessions_may_leave_in_its_middle)
{
	int most = 0;

	for (int who = 0; who < WORKERS; who++) {
		for (int at = 1; leaves_in_pause(who, at); at++) {
			for (int i = 0; i < WORKERS; i++)
				if (w[i].s)
					worker_close(&w[i]);
			engine = engine_free(engine);
			setup();
			most = at;
		}
		close_all();
		setup();
	}
	cr_expect_geq(most, 3);
}

static void give_in_pause(void *arg)
{
	engine_looked(engine);
	if (++pauses.n == pauses.at)
		give(0, 4);
}

/* Whoever answers with what it has given since that was decided must not be asked for the same again. */
Test(press, what_is_given_in_its_middle_is_given_since)
{
	for (int at = 1; pauses.n >= pauses.at; at++) {
		uint64_t since, seen;
		int64_t left, given;

		cr_assert_eq(take(0, PAGES, 0), 0);
		cr_expect_eq(take(1, 10, 1000), SWAKV_EAGAIN);
		engine_on_pause(engine, 16, give_in_pause, NULL);
		pauses.n = 0;
		pauses.at = at;
		engine_looked(engine);
		engine_press(engine);
		engine_on_pause(engine, 0, NULL, NULL);
		check_all(engine);
		seen = session_given_pages(w[0].s, 0);
		given = pauses.n >= at ? 4 : 0;
		left = session_wanted_pages(w[0].s, 0, &since) - (given - (int64_t)seen);
		cr_expect_leq(left, 10 - given, "%lld pages are left to give, in pause %d", (long long)left, at);
		close_all();
		setup();
	}
	cr_expect_geq(pauses.at, 3);
}

Test(press, asked_in_proportion_to_what_is_held_above_the_floor)
{
	limit("a", 20, 0);
	cr_assert_eq(take(0, 30, 0), 0);
	cr_assert_eq(take(1, 30, 0), 0);
	cr_expect_eq(take(2, 12, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0) + wanted(1), 8);
	cr_expect_eq(wanted(0), 2, "10 above its floor, the other 30");
}

Test(press, the_floor_is_not_asked_for)
{
	limit("a", 30, 0);
	cr_assert_eq(take(0, 30, 0), 0);
	cr_assert_eq(take(1, 30, 0), 0);
	session_set_spare(w[0].s, 0, 30);
	cr_expect_eq(take(2, 12, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 0);
	cr_expect_eq(wanted(1), 8);
}

Test(press, a_ceiling_is_no_lack)
{
	limit("b", 0, 10);
	cr_assert_eq(take(0, 50, 0), 0);
	cr_assert_eq(take(1, 8, 0), 0);
	cr_expect_eq(take(1, 3, 0), SWAKV_ENOPAGES);
	cr_expect_eq(wanted(0), 0);
}

Test(press, pages_on_their_way_are_not_asked_for)
{
	const struct wire_fence fence = fence_line(&w[0], 0, 1);
	const struct give g = { .ids = got[0], .n = 5, .fences = &fence, .n_fences = 1 };

	cr_assert_eq(take(0, PAGES, 0), 0);
	cr_expect_eq(take(1, 8, 1000), SWAKV_EAGAIN);
	cr_assert_eq(pages_give(w[0].s, &g, w[0].armed, &w[0].f), 0);
	cr_expect_eq(wanted(0), 3);
}

Test(press, other_page_sizes_are_asked_when_those_of_the_same_have_no_more)
{
	cr_assert_eq(take(3, 22, 0), 0); /* 44 of the others */
	cr_assert_eq(take(0, 20, 0), 0);
	cr_expect_eq(take(1, 8, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 8);
	cr_expect_eq(wanted(3), 0);
	cr_expect_eq(take(1, 20, 1000), SWAKV_EAGAIN);
	cr_expect_eq(wanted(0), 20);
	cr_expect_eq(wanted(3), 4);
}
