/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_slices.c - long work of one session, cut so that others are served in between
 *
 * The test is the driver: what it does in a pause of the engine is what other
 * workers ask for in the middle of somebody's begin, step or end.
 */
#include <unistd.h>

#include "engine_fixture.h"

enum { WORKERS = 4, BATCH = 8, PAGES = 601, SLICE = 64 };

static struct engine *engine;
static struct worker workers[WORKERS];
static void (*in_pause)(void);
static uint32_t n_pauses;
static bool bounded = true; /* false: long calls were made in pauses, where nothing is cut again */

static void on_pause(void *arg)
{
	uint32_t busy = 0;

	n_pauses++;
	engine_looked(engine);
	for (int i = 0; i < WORKERS; i++)
		busy += workers[i].s && session_busy(workers[i].s);
	cr_expect_eq(busy, 1, "%u sessions are at work", busy);
	check_all(engine);
	if (in_pause)
		in_pause();
	check_all(engine);
	engine_looked(engine);
}

/* Extents of 5 pages and a half: every other border has a page across it. */
static void setup(void)
{
	uint64_t half = (uint64_t)PAGES * 16 * TOKEN_BYTES;

	engine = engine_new(&(struct engine_config){
		.half_bytes = half, .extent_bytes = 88 * TOKEN_BYTES, .scrub = WIRE_SCRUB_OWNER_CHANGE });
	cr_assert_not_null(engine);
	for (uint32_t i = 0; i < WORKERS; i++)
		worker_open(&workers[i], engine, make_model(16 * 40, 16, BATCH, 16 * 60), half, i + 1);
	engine_on_pause(engine, SLICE, on_pause, NULL);
}

static void close_all(void)
{
	in_pause = NULL;
	for (int i = 0; i < WORKERS; i++)
		worker_close(&workers[i]);
	check_all(engine);
	cr_expect(!bounded || engine_longest(engine) <= SLICE, "%u operations without a pause", engine_longest(engine));
	engine = engine_free(engine);
}

TestSuite(slices, .init = setup, .fini = close_all);

static int64_t free_pages(void)
{
	return session_free_pages(workers[0].s, 0);
}

/* A begin of @n sequences, 60 pages each (at most what a row has), from slot 0 on. */
static int begin_n(struct worker *w, int n, uint64_t *h)
{
	static const int32_t slots[BATCH] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	return begin_on(w, 0, h, n, slots);
}

/* ---- begin --------------------------------------------------------------------------- */

static int64_t seen_free;
static uint64_t other;
static int other_code;

static void look_once(void)
{
	if (n_pauses == 1)
		seen_free = free_pages();
}

Test(slices, a_begin_takes_all_its_pages_from_the_count_before_the_first_pause)
{
	int64_t before = free_pages();
	uint64_t h;

	in_pause = look_once;
	cr_assert_eq(begin_n(&workers[0], 8, &h), 0);
	cr_expect_gt(n_pauses, 5);
	cr_expect_eq(seen_free, before - 480);
	cr_expect_eq(free_pages(), before - 480);
}

/* Takes whatever is left, for as long as there is some. */
static void take_all(void)
{
	static const int32_t slots[BATCH] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	bounded = false;
	for (int i = 1; i < WORKERS; i++)
		for (int k = 0; k < BATCH && !session_busy(workers[i].s); k++)
			request_begin(workers[i].s, 0, 16, &slots[k], 1, &other, NULL);
	for (int i = 1; i < WORKERS; i++)
		for (int k = 0; k < BATCH && !session_busy(workers[i].s); k++)
			request_begin(workers[i].s, 0, 0, &slots[k], 1, &other, NULL);
}

Test(slices, a_begin_that_was_admitted_cannot_fail_whoever_takes_the_rest)
{
	uint64_t h;

	in_pause = take_all;
	cr_assert_eq(begin_n(&workers[0], 8, &h), 0);
	cr_expect_eq(state(&workers[0], h, 7).n_reserved, 60);
}

static void begin_the_rest(void)
{
	bounded = false;
	if (n_pauses == 1)
		other_code = begin_n(&workers[1], 3, &other); /* 180 pages; 121 are left */
	else if (n_pauses == 2)
		seen_free = begin_n(&workers[2], 2, &other);
}

Test(slices, what_a_begin_was_promised_is_nobody_elses)
{
	uint64_t h;

	in_pause = begin_the_rest;
	cr_assert_eq(begin_n(&workers[0], 8, &h), 0);
	cr_expect_eq(other_code, SWAKV_ENOPAGES);
	cr_expect_eq(seen_free, 0);
}

/* ---- ends ----------------------------------------------------------------------------- */

static int64_t least_free = INT64_MAX, most_free;

static void watch_free(void)
{
	int64_t n = free_pages();

	least_free = n < least_free ? n : least_free;
	most_free = n > most_free ? n : most_free;
}

Test(slices, pages_of_a_finish_can_be_had_before_all_are_back)
{
	uint64_t h;

	cr_assert_eq(begin_n(&workers[0], 8, &h), 0);
	in_pause = watch_free;
	cr_assert_eq(finish(&workers[0], h, fence_done), 0);
	cr_expect_gt(most_free, least_free);
	cr_expect_lt(most_free, PAGES);
}

static void finish_of_another(void)
{
	bounded = false;
	if (n_pauses == 3)
		other_code = finish(&workers[1], other, fence_done);
}

Test(slices, another_finishes_in_the_middle_of_a_finish)
{
	int64_t before = free_pages();
	uint64_t h;

	cr_assert_eq(begin_n(&workers[0], 7, &h), 0);
	cr_assert_eq(begin_n(&workers[1], 1, &other), 0);
	n_pauses = 0;
	other_code = -1;
	in_pause = finish_of_another;
	cr_assert_eq(finish(&workers[0], h, fence_done), 0);
	cr_expect_eq(other_code, 0);
	cr_expect_eq(free_pages(), before);
}

/* Rows, reservations, points and quarantine of a session that dies with work under way. */
Test(slices, death_and_reclaim_are_cut_too)
{
	int32_t lengths[] = { 16 * 60, 16 * 30, 16 * 45, 5, 16 * 60, 16 * 60, 16 * 60 };
	int64_t before = free_pages();
	struct worker *w = &workers[0];
	uint64_t h;
	uint32_t n;

	cr_assert_eq(begin_n(w, 7, &h), 0);
	cr_assert_eq(prefill_prepare(w, h, 7, lengths), 0);
	in_pause = take_all;
	n = n_pauses;
	session_end(w->s);
	cr_expect_gt(n_pauses, n);
	n = n_pauses;
	in_pause = watch_free;
	cr_expect_eq(session_reclaim(w->s), 7 * 60);
	cr_expect_gt(n_pauses, n);
	for (int i = 1; i < WORKERS; i++) {
		session_end(workers[i].s);
		session_reclaim(workers[i].s);
	}
	cr_expect_eq(free_pages(), before);
}

/* ---- steps ---------------------------------------------------------------------------- */

Test(slices, a_long_step_finds_the_pages_that_it_lacks_whoever_takes_the_rest)
{
	struct model m = make_model(16 * 4, 16, BATCH, 16 * 60);
	struct worker *w = &workers[0];
	int32_t lengths[] = { 16, 16, 16, 16, 16, 16 };
	uint64_t h;

	worker_close(w);
	m.max_advance = 1;
	m.chunk_mapped = true;
	worker_open(w, engine, m, (uint64_t)PAGES * 16 * TOKEN_BYTES, 9);
	cr_assert_eq(begin_n(w, 6, &h), 0);
	cr_assert_eq(prefill_prepare(w, h, 6, lengths), 0);
	cr_assert_eq(prefill_complete(w, h, fence_done), 0);
	n_pauses = 0;
	in_pause = take_all;
	cr_assert_eq(step_one(w, h, 16 * 59, NULL), 0); /* 60 pages mapped in each */
	cr_expect_gt(n_pauses, 3);
	cr_expect_eq(state(w, h, 5).n_bound, 60);
	in_pause = NULL;
	cr_assert_eq(step_one_complete(w, h, 0, NULL, fence_done), 0);
}

Test(slices, a_longer_reservation_is_promised_as_a_whole)
{
	struct worker *w = &workers[0];
	int32_t slots[] = { 0, 1, 2, 3, 4, 5 };
	uint64_t h;

	cr_assert_eq(request_begin(w->s, 0, 16, slots, 6, &h, &w->f), 0);
	n_pauses = 0;
	in_pause = take_all;
	cr_assert_eq(request_reserve(w->s, h, 16 * 60, &w->f), 0);
	cr_expect_gt(n_pauses, 3);
	cr_expect_eq(state(w, h, 5).n_reserved, 60);
}

/* Rows move whole, whatever others do meanwhile; pages of the dropped are free in the end. */
Test(slices, a_compaction_moves_rows_in_parts)
{
	int32_t lengths[] = { 16 * 60, 16 * 60, 16 * 60, 16 * 60, 16 * 60, 16 * 60, 16 * 60, 16 * 60 };
	int32_t map[] = { 2, -1, 0, -1, -1, 1, -1, -1 }, kept, last;
	struct worker *w = &workers[0];
	int64_t before = free_pages();
	uint64_t h;

	cr_assert_eq(begin_n(w, 8, &h), 0);
	cr_assert_eq(prefill_prepare(w, h, 8, lengths), 0);
	cr_assert_eq(prefill_complete(w, h, fence_done), 0);
	kept = k_id(w, 2, 59);
	last = k_id(w, 0, 20);
	cr_assert_eq(request_compact_begin(w->s, h, map, 8, 3, WIRE_COMPACT_MOVE_ROWS, &w->d, &w->f), 0);
	n_pauses = 0;
	in_pause = take_all;
	cr_assert_eq(request_compact_complete(w->s, h, &fence_done, 0, &w->d, &w->f), 0);
	check_all(engine);
	cr_expect_gt(n_pauses, 5);
	cr_expect_eq(k_id(w, 0, 59), kept);
	cr_expect_eq(k_id(w, 2, 20), last);
	cr_assert_eq(finish(w, h, fence_done), 0);
	for (int i = 1; i < WORKERS; i++) {
		session_end(workers[i].s);
		session_reclaim(workers[i].s);
	}
	cr_expect_eq(free_pages(), before);
}

/* ---- what cannot be cut ----------------------------------------------------------------- */

/* Entries that find no pages, each after it has looked at all extents: others are looked at between two of them. */
Test(slices, a_search_for_extents_counts)
{
	int32_t slots[BATCH] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	uint64_t h;

	engine_looked(engine);
	cr_assert_eq(request_begin(workers[0].s, 0, 16, slots, 1, &h, NULL), 0);
	cr_expect_geq(engine_spent(engine), 110 / 16, "%u: the pool has 110 extents", engine_spent(engine));
	engine_looked(engine);
	cr_assert_eq(request_begin(workers[0].s, 0, 16, slots + 1, 1, &h, NULL), 0);
	cr_expect_lt(engine_spent(engine), 110 / 16, "%u: there are free pages", engine_spent(engine));
}

/* ---- everybody at random ---------------------------------------------------------------- */

struct request_known {
	uint64_t h;
	int n; /* sequences, 0: none */
	bool executing;
};
static struct request_known known[WORKERS];
static uint64_t random_state = 88172645463325252ull;
static uint64_t n_nested;

static uint32_t draw(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % n;
}

static struct wire_fence some_fence(struct worker *w)
{
	uint32_t what = draw(4);

	if (what == 0)
		return fence_done;
	return fence_line(w, 0, w->armed[0] + (what > 1));
}

static void end_and_come_back(int i)
{
	struct worker *w = &workers[i];

	worker_close(w);
	worker_open(w, engine, w->m, (uint64_t)PAGES * 16 * TOKEN_BYTES, 10 + draw(1000));
	known[i].n = 0;
}

static void run_step(int i)
{
	struct request_known *k = &known[i];
	struct worker *w = &workers[i];

	if (step_one(w, k->h, (int32_t)(1 + draw(draw(3) ? 30 : 300)), NULL) == 0 && draw(10))
		step_one_complete(w, k->h, 0, NULL, some_fence(w));
	else if (draw(2) || w->f.code == SWAKV_ELIMIT) {
		abandon(w, k->h, some_fence(w));
		k->n = 0;
	}
}

static void run_life(int i)
{
	struct request_known *k = &known[i];
	int32_t lengths[BATCH], n = k->n;
	struct worker *w = &workers[i];

	if (n == 0) {
		n = 1 + (int)draw(BATCH);
		k->n = begin_n(w, n, &k->h) == 0 ? n : 0;
		k->executing = false;
	} else if (!k->executing) {
		for (int q = 0; q < n; q++)
			lengths[q] = 1 + (int32_t)draw(500);
		cr_assert_eq(prefill_prepare(w, k->h, n, lengths), 0);
		cr_assert_eq(prefill_complete(w, k->h, some_fence(w)), 0);
		k->executing = true;
	} else if (draw(4)) {
		run_step(i);
	} else {
		finish(w, k->h, some_fence(w));
		k->n = 0;
	}
}

/* One thing that worker @i does, or that befalls it. */
static void run_one(int i)
{
	struct worker *w = &workers[i];

	if (session_busy(w->s))
		return;
	switch (draw(12)) {
	case 0:
		reach(w, 0, w->armed[0]);
		break;
	case 1:
		if (draw(8) == 0)
			end_and_come_back(i);
		break;
	case 2:
		engine_trim(engine, 4);
		break;
	default:
		run_life(i);
	}
}

static void others_go_on(void)
{
	for (uint32_t n = draw(3); n > 0; n--, n_nested++)
		run_one((int)draw(WORKERS));
}

/* fixture.h checks every account after each call, and on_pause() before and after what is done in a pause. */
Test(slices, accounts_hold_between_slices_of_whatever_everybody_does)
{
	in_pause = others_go_on;
	for (int i = 0; i < 4000; i++) {
		run_one((int)draw(WORKERS));
		engine_looked(engine);
	}
	cr_expect_gt(n_nested, 1000);
	cr_expect_gt(engine_pauses(engine), 1000);
	in_pause = NULL;
	for (int i = 0; i < WORKERS; i++)
		if (known[i].n)
			cr_expect_eq(abandon(&workers[i], known[i].h, fence_point), 0);
	bounded = false;
}
