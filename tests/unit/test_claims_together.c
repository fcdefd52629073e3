/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_claims_together.c - what all claims together keep from others
 *
 * Model a's pages fill the pool, and none comes back, so every claim is in vain:
 * its worker is stopped, say. A begin claims when it has waited 1,000 stamps, and
 * holds for 200 without a page joining.
 */
#include "quota_fixture.h"

enum { CLAIM = 1000, HOLD = 200, MOST = 2000, MODELS = 20, STEP = 10 };

static uint64_t now;
static struct worker stopped[MODELS];
static int n_stopped;

static void setup(void)
{
	open_engine(HOLD, MOST);
	now = 1;
	engine_stamp(e, now);
	n_stopped = 0;
}

static void teardown(void)
{
	for (int i = 0; i < n_stopped; i++)
		worker_close(&stopped[i]);
	close_engine();
}

TestSuite(claims_together, .init = setup, .fini = teardown);

static void pass(uint64_t stamps)
{
	now += stamps;
	engine_stamp(e, now);
	nothing_decided();
	check_all(e);
}

static bool claims(const char *name)
{
	struct quota_counts n;

	cr_assert(engine_quota_of(e, name, &n));
	return n.claims;
}

static const char *name_of(int i)
{
	static char name[32];

	snprintf(name, sizeof(name), "stopped-%d", i);
	return name;
}

/* So many workers, each with a model of its own, that wait for an extent each; the next one comes after @apart. */
static void stop_workers(int n, uint64_t apart)
{
	for (int i = 0; i < n; i++) {
		struct worker *w = &stopped[n_stopped];

		open_worker(w, name_of(n_stopped), 16, 9 + (uint32_t)n_stopped);
		n_stopped++;
		waits(w, 0, 8, 1000000000);
		pass(apart);
	}
}

static int n_claims(int *turns, bool *before)
{
	int n = 0;

	for (int i = 0; i < n_stopped; i++) {
		bool is = claims(name_of(i));

		turns[i] += is && !before[i];
		before[i] = is;
		n += is;
	}
	return n;
}

/* Each kept to its bound, but one after the other: eight shut others out for four bounds at a time, twenty for
 * thirteen. */
static void however_many(int n, uint64_t apart)
{
	uint64_t shut = 0, open = 0, last_shut = 0, longest = 0, shut_in_all = 0, began = now;
	int turns[MODELS] = { 0 };
	bool before[MODELS] = { false };

	taken(&a, 0, 64);
	stop_workers(n, apart);
	while (n_claims(turns, before) == 0) {
		cr_assert_lt(now - began, 2 * CLAIM + 20 * HOLD, "nobody claims");
		pass(STEP);
	}
	began = now;
	for (int i = 0; i < 50 * HOLD / STEP * MODELS; i++) {
		if (n_claims(turns, before) > 0) {
			if (shut == 0 && last_shut)
				cr_assert_geq(open, last_shut, "%lu after %lu", (unsigned long)open,
					      (unsigned long)last_shut);
			shut += STEP;
			shut_in_all += STEP;
			open = 0;
		} else {
			last_shut = shut ? shut : last_shut;
			shut = 0;
			open += STEP;
		}
		longest = shut > longest ? shut : longest;
		pass(STEP);
	}
	cr_assert_lt(longest, 2 * HOLD, "none is withdrawn: %lu", (unsigned long)longest);
	cr_assert_leq(2 * shut_in_all, now - began + 2 * HOLD);
	for (int i = 0; i < n; i++)
		cr_assert_gt(turns[i], 10, "worker %d of %d had its turn %d times", i, n, turns[i]);
}

Test(claims_together, eight_stopped_workers_leave_others_half_of_the_time)
{
	however_many(8, 30);
}

Test(claims_together, twenty_stopped_workers_leave_others_half_of_the_time)
{
	however_many(20, 70);
}

/* The one that needs the whole pool found a part of it claimed whenever it might have chosen. */
Test(claims_together, who_held_in_vain_chooses_after_those_that_wait_for_their_turn)
{
	uint64_t h = taken(&a, 0, 64);

	stop_workers(2, 0);
	waits(&c, 0, 64, 1000000);
	pass(CLAIM);
	cr_assert(claims(name_of(0)));
	cr_assert(claims(name_of(1)));
	cr_assert_not(claims("c"), "nothing that is left would do");
	pass(HOLD);
	cr_assert_not(claims(name_of(0)));
	cr_assert_not(claims("c"), "all pause");
	cr_assert_eq(engine_due(e), now + HOLD);
	pass(HOLD - 1);
	cr_assert_not(claims("c"));
	pass(1);
	cr_assert(claims("c"));
	cr_assert_not(claims(name_of(0)));
	give(&a, h);
	decided(&c, 0, 0);
}

/* A begin that is withdrawn, or whose worker has gone, or whose time is up, has kept pages for nothing as well. */
enum { HELD = HOLD * 3 / 4 };

static void ends_otherwise(void (*end)(void), uint64_t wait)
{
	struct admission out;

	taken(&a, 0, 64);
	waits(&b, 0, 32, wait); /* leaves nothing for c to choose until its claim has ended */
	waits(&c, 0, 8, 1000000);
	pass(CLAIM);
	cr_assert(claims("b"));
	cr_assert_not(claims("c"));
	now += HELD;
	engine_stamp(e, now);
	end();
	while (engine_admit(e, &out))
		cr_assert_eq(out.session, b.s);
	cr_assert_not(claims("b"));
	pass(HOLD - HELD);
	cr_assert_not(claims("c"), "it would choose now");
	pass(2 * HELD - HOLD - 1);
	cr_assert_not(claims("c"));
	pass(1);
	cr_assert(claims("c"));
}

static void withdraw(void)
{
	cr_assert(session_withdraw(b.s, 0));
}

static void end_session(void)
{
	session_end(b.s);
}

static void nothing(void)
{
}

Test(claims_together, a_begin_that_is_withdrawn_counts_as_one_in_vain)
{
	ends_otherwise(withdraw, 1000000);
}

Test(claims_together, a_begin_whose_worker_has_gone_counts_as_one_in_vain)
{
	ends_otherwise(end_session, 1000000);
}

Test(claims_together, a_begin_whose_time_is_up_counts_as_one_in_vain)
{
	ends_otherwise(nothing, CLAIM + HELD);
}

/* Over and over: begin, claim, and withdraw before the bound. */
Test(claims_together, who_begins_and_withdraws_again_and_again_leaves_others_half_of_the_time)
{
	uint64_t shut = 0, last = 0;

	taken(&a, 0, 64);
	stop_workers(MODELS, 50);
	for (int i = 0; i < 20000; i++) {
		bool any = false;

		for (int k = 0; k < n_stopped; k++) {
			struct admission out;

			if (!claims(name_of(k)))
				continue;
			any = true;
			if (++last % 15)
				continue;
			cr_assert(session_withdraw(stopped[k].s, 0));
			cr_assert(engine_admit(e, &out));
			cr_assert_eq(out.code, SWAKV_ENOPAGES);
			waits(&stopped[k], 0, 8, 1000000000);
		}
		shut += any;
		pass(STEP);
	}
	cr_assert_gt(shut, 1000);
	cr_assert_leq(shut, 10000 + 2 * HOLD / STEP);
}

Test(claims_together, a_claim_whose_begin_is_admitted_holds_nobody_up)
{
	uint64_t h = taken(&a, 0, 32);

	taken(&a, 32, 32);
	waits(&b, 0, 16, 1000000);
	pass(HOLD / 2);
	waits(&c, 0, 8, 1000000);
	pass(CLAIM - HOLD / 2);
	pass(HOLD / 2 - STEP);
	cr_assert(claims("b"));
	give(&a, h);
	decided(&b, 0, 0);
	pass(STEP);
	cr_assert(claims("c"), "as soon as it has waited");
}

/* One holds on, since a page joins it, while another has ended before and a short one comes in between. */
Test(claims_together, a_short_claim_in_between_does_not_part_those_that_overlapped)
{
	uint64_t handles[64];
	struct admission out;

	for (int32_t i = 0; i < 64; i++)
		handles[i] = taken(&a, i, 1);
	stop_workers(1, 150);     /* claims at 1,000 */
	stop_workers(1, 250);     /* at 1,150 */
	stop_workers(1, 200);     /* at 1,400 */
	waits(&c, 0, 8, 1000000); /* might at 1,600 */
	pass(CLAIM - 600);
	cr_assert(claims(name_of(0)));
	pass(150);
	cr_assert(claims(name_of(1)));
	pass(HOLD - 150);
	cr_assert_not(claims(name_of(0)));
	cr_assert(session_withdraw(stopped[0].s, 0));
	cr_assert(engine_admit(e, &out));
	pass(130);
	give(&a, handles[8]); /* is in the extent of the second */
	pass(10);
	pass(60);
	cr_assert(claims(name_of(1)));
	cr_assert(claims(name_of(2)));
	pass(10);
	cr_assert(session_withdraw(stopped[2].s, 0));
	cr_assert(engine_admit(e, &out));
	pass(130);
	cr_assert_not(claims(name_of(1)), "it has held for %d without a page", HOLD);
	pass(539); /* the second and the first held from 1,000 to 1,540 */
	cr_assert_not(claims("c"));
	pass(1);
	cr_assert(claims("c"));
}
