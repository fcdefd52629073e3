/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wait_many.c - more wait than one call of the engine looks at
 *
 * A call of engine_admit() looks at a few hundred of however many wait, and the
 * next one goes on: whoever has his turn, is late or is refused is found all the
 * same, once, and the oldest first.
 */
#include "engine_fixture.h"
#include "internal.h"

enum { WORKERS = 5, BATCH = 256, WAITS = (WORKERS - 1) * BATCH, PAGES = 64, CLAIM = 500, PATIENCE = 2000 };

static struct engine *e;
static struct worker w[WORKERS]; /* the first has all pages */
static uint64_t held;
static uint32_t n_calls; /* that found nobody, though not all have been looked at */

static void setup(void)
{
	uint64_t half = (uint64_t)PAGES * 16 * TOKEN_BYTES, last;

	e = engine_new(&(struct engine_config){
		.half_bytes = half, .extent_bytes = half, .stamps_a_ms = 1, .wait_claim = CLAIM, .claim_hold = 10 });
	cr_assert_not_null(e);
	engine_stamp(e, 1000);
	for (uint32_t i = 0; i < WORKERS; i++) {
		char name[] = { (char)('a' + i), '\0' };

		worker_open(&w[i], e, make_model(16, 16, BATCH, 16 * PAGES), half, i + 1);
		cr_assert_eq(session_join(w[i].s, name), 0);
	}
	for (int32_t slot = 0; request_begin(w[0].s, 0, 16, &slot, 1, &last, &w[0].f) == 0; slot++)
		held = last;
}

static void teardown(void)
{
	for (int i = 0; i < WORKERS; i++)
		worker_close(&w[i]);
	check_all(e);
	e = engine_free(e);
}

TestSuite(wait_many, .init = setup, .fini = teardown);

/* The ticket says who it is, and counts. */
static void all_wait(void)
{
	for (int32_t slot = 0; slot < BATCH; slot++)
		for (uint32_t i = 1; i < WORKERS; i++) {
			struct begin b = { .n_slots = 1,
					   .max_tokens = 16,
					   .slots = &slot,
					   .wait = PATIENCE,
					   .ticket = (uint64_t)slot * WORKERS + i };
			uint64_t handle;

			cr_assert_eq(request_begin_waiting(w[i].s, &b, &handle, &w[i].f), SWAKV_EAGAIN);
		}
	check_all(e);
}

/* The next answer, however many calls it takes; false: there is none now. */
static bool next_answer(struct admission *out)
{
	while (!engine_admit(e, out)) {
		uint64_t due = engine_due(e);

		if (due == 0 || due > e->stamp)
			return false;
		n_calls++;
	}
	return true;
}

Test(wait_many, all_that_are_late_are_answered_once_and_the_oldest_first)
{
	struct admission out;
	uint64_t last = 0;
	uint32_t n = 0;

	all_wait();
	cr_assert_not(next_answer(&out), "nobody is late, nobody has a page");
	cr_expect_eq(engine_due(e), 1000 + CLAIM);
	engine_stamp(e, 3000);
	for (; next_answer(&out); n++) {
		cr_assert_eq(out.code, SWAKV_ENOPAGES);
		cr_assert_gt(out.ticket, last);
		last = out.ticket;
	}
	cr_expect_eq(n, WAITS);
	cr_expect_eq(engine_waiting(e), 0);
	cr_expect_gt(n_calls, 1, "one call looked at all %d", WAITS);
	check_all(e);
}

/* Pages for two are there when all are overdue: behind hundreds that cannot be had by, too. */
Test(wait_many, whoever_can_be_admitted_is_found_behind_hundreds)
{
	struct admission out;

	all_wait();
	engine_stamp(e, 1000 + CLAIM);
	while (next_answer(&out))
		cr_assert_fail("there are no pages");
	check_all(e);
	cr_assert_eq(finish(&w[0], held, fence_done), 0);
	cr_assert(next_answer(&out));
	cr_expect_eq(out.code, 0);
	cr_expect_eq(out.ticket, 1, "the oldest");
	check_all(e);
}

Test(wait_many, refused_ones_of_one_session_are_answered_wherever_they_stand)
{
	struct admission out;
	uint64_t last = 0;
	uint32_t n = 0;

	all_wait();
	session_refuse_waiting(w[WORKERS - 1].s, FAULT_POISONED);
	for (; next_answer(&out); n++) {
		cr_assert_eq(out.session, w[WORKERS - 1].s);
		cr_assert_gt(out.ticket, last);
		last = out.ticket;
		check_all(e);
	}
	cr_expect_eq(n, BATCH);
	cr_expect_eq(engine_waiting(e), WAITS - BATCH);
}

Test(wait_many, a_session_that_ends_in_the_middle_of_a_search_takes_its_own_along)
{
	struct admission out;
	uint32_t n = 0;

	all_wait();
	engine_stamp(e, 3000);
	for (; n < 10; n++)
		cr_assert(next_answer(&out));
	session_end(w[1].s);
	check_all(e);
	for (; next_answer(&out); n++)
		cr_assert_neq(out.session, w[1].s);
	cr_expect_geq(n, WAITS - BATCH);
	cr_expect_eq(engine_waiting(e), 0);
}
