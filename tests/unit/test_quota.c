/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_quota.c - floors, ceilings and requests that wait, on the engine
 */
#include "quota_fixture.h"

static void setup(void)
{
	open_engine(0, 0);
}

TestSuite(quota, .init = setup, .fini = close_engine);
TestSuite(wait, .init = setup, .fini = close_engine);

/* ---- limits ----------------------------------------------------------------- */

Test(quota, a_ceiling_is_shared_by_all_sessions_of_a_model)
{
	struct worker second;
	uint64_t h;

	open_worker(&second, "a", 16, 9);
	limit("a", 0, 10 * A_BYTES);
	h = taken(&a, 0, 6);
	cr_assert_eq(used("a"), 6 * A_BYTES);
	refused(&second, 0, 5, SWAKV_ENOPAGES, FAULT_CEILING);
	cr_assert_eq(second.f.got, 5 * A_BYTES);
	cr_assert_eq(second.f.want, 4 * A_BYTES);
	refused(&a, 6, 11, SWAKV_ENEVER, FAULT_CEILING_NEVER);
	taken(&second, 0, 4);
	give(&a, h);
	taken(&c, 0, 50);
	worker_close(&second);
}

Test(quota, quarantined_pages_stay_charged)
{
	struct worker second;

	open_worker(&second, "a", 16, 9);
	limit("a", 0, 10 * A_BYTES);
	taken(&second, 0, 8);
	session_end(second.s);
	cr_assert_eq(used("a"), 8 * A_BYTES);
	refused(&a, 0, 3, SWAKV_ENOPAGES, FAULT_CEILING);
	session_reclaim(second.s);
	taken(&a, 0, 10);
	worker_close(&second);
}

Test(quota, a_limit_below_use_takes_nothing_away)
{
	uint64_t h = taken(&a, 0, 20);

	limit("a", 0, 5 * A_BYTES);
	refused(&a, 20, 1, SWAKV_ENOPAGES, FAULT_CEILING);
	cr_assert_eq(a.f.want, 0);
	prefill_prepare(&a, h, 20, (int32_t[20]){ 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5 });
	cr_assert_eq(prefill_complete(&a, h, fence_done), 0);
	give(&a, h);
	taken(&a, 0, 5);
}

Test(quota, others_reach_all_but_the_floor_and_it_is_there_at_once)
{
	limit("a", 16 * A_BYTES, 0);
	taken(&b, 0, B_PAGES - 8);
	refused(&b, 40, 1, SWAKV_ENOPAGES, FAULT_FLOORS);
	refused(&c, 0, 1, SWAKV_ENOPAGES, FAULT_FLOORS);
	taken(&a, 0, 16);
	refused(&a, 16, 1, SWAKV_ENOPAGES, FAULT_NO_PAGES);
}

Test(quota, an_idle_model_gets_its_floor_back_while_others_hold_the_rest)
{
	uint64_t h, all;

	limit("a", 10 * A_BYTES, 0);
	h = taken(&a, 0, 40);
	taken(&b, 0, 12);
	refused(&b, 12, 1, SWAKV_ENOPAGES, FAULT_NO_PAGES);
	give(&a, h); /* idle now: b may have what it held above the floor, in whole extents */
	all = taken(&b, 12, 12);
	refused(&b, 40, 4, SWAKV_ENOPAGES, FAULT_FLOORS);
	taken(&a, 0, 10);
	give(&b, all);
}

Test(quota, a_floor_is_kept_also_among_sessions_of_one_page_size)
{
	limit("a", 20 * A_BYTES, 0);
	taken(&c, 0, 40);
	refused(&c, 40, 5, SWAKV_ENOPAGES, FAULT_FLOORS);
	cr_assert_eq(c.f.want, 4);
	taken(&c, 40, 4);
	taken(&a, 0, 7);
	refused(&c, 44, 1, SWAKV_ENOPAGES, FAULT_FLOORS);
	taken(&a, 7, 13);
}

Test(quota, what_can_never_fit_beside_the_floors_is_never)
{
	limit("a", 32 * A_BYTES, 0);
	refused(&b, 0, 17, SWAKV_ENEVER, FAULT_FLOORS_NEVER);
	cr_assert_eq(b.f.got, 17 * B_BYTES);
	cr_assert_eq(b.f.want, 16 * B_BYTES);
	taken(&b, 0, 16);
	taken(&a, 0, 32);
}

Test(quota, what_others_hold_of_a_late_floor_is_known)
{
	uint64_t all, one[B_PAGES];

	cr_assert_eq(engine_floor_lacks(e, "a"), 0);
	cr_assert_eq(engine_floor_lacks(e, "nobody"), 0);
	all = taken(&b, 0, B_PAGES - 4);
	limit("a", 16 * A_BYTES, 0);
	cr_assert_eq(engine_floor_lacks(e, "a"), 8 * A_BYTES);
	taken(&a, 0, 8);
	cr_assert_eq(engine_floor_lacks(e, "a"), 8 * A_BYTES);
	refused(&a, 8, 1, SWAKV_ENOPAGES, FAULT_NO_PAGES);
	give(&b, all);
	cr_assert_eq(engine_floor_lacks(e, "a"), 0);
	taken(&a, 8, 8);
	limit("a", 0, 0);
	for (int32_t i = 0; i < B_PAGES - 8; i++)
		one[i] = taken(&b, i, 1);
	for (int32_t i = 0; i < B_PAGES - 8; i += 2) /* enough bytes, in no whole extent */
		give(&b, one[i]);
	limit("a", 24 * A_BYTES, 0);
	cr_assert_eq(engine_floor_lacks(e, "a"), 8 * A_BYTES);
}

Test(quota, a_floor_of_a_model_that_never_attached_is_whole_extents)
{
	struct worker later;

	limit("later", 3 * A_BYTES, 0); /* one extent of each half */
	taken(&b, 0, 28);
	refused(&b, 28, 1, SWAKV_ENOPAGES, FAULT_FLOORS_EXTENTS);
	refused(&a, 0, 1, SWAKV_ENOPAGES, FAULT_FLOORS_EXTENTS);
	open_worker(&later, "later", 16, 9);
	taken(&later, 0, 3);
	worker_close(&later);
}

Test(quota, a_floor_is_remembered_when_its_sessions_have_gone)
{
	struct worker once;

	open_worker(&once, "once", 16, 9);
	limit("once", 8 * A_BYTES, 0);
	worker_close(&once);
	taken(&b, 0, 28);
	refused(&b, 28, 1, SWAKV_ENOPAGES, FAULT_FLOORS);
	limit("once", 0, 0);
	cr_assert_not(engine_quota_of(e, "once", &(struct quota_counts){ 0 }),
		      "a name without session and limit stays");
	taken(&b, 28, 4);
}

Test(quota, what_is_introduced_needs_no_session_to_be_kept_in_pages)
{
	struct model m = make_model(32, 32, 4, 512);
	uint64_t floor = 2 * B_BYTES;
	struct fault f;

	cr_assert_eq(engine_limit(e, "known", &floor, NULL, &f), 0);
	cr_assert_eq(engine_introduce(e, "known", &m, &f), 0);
	taken(&b, 0, 30); /* its own page size: the floor needs no extent of its own */
	refused(&b, 30, 1, SWAKV_ENOPAGES, FAULT_FLOORS);
}

Test(quota, pages_that_serve_no_floor_can_be_had_while_a_floor_lacks)
{
	uint64_t h = taken(&c, 0, 60);

	limit("b", 16 * B_BYTES, 0); /* far more than is there */
	give(&c, h);
	taken(&c, 0, 30);
	limit("b", 24 * B_BYTES, 0);
	taken(&c, 30, 2); /* in its own last extent, which is of no use to b */
	refused(&c, 32, 1, SWAKV_ENOPAGES, FAULT_FLOORS);
	taken(&b, 0, 16);
}

Test(quota, limits_that_contradict_are_refused)
{
	uint64_t floor = 100, ceiling = 99, total = 2 * EXTENT * N_EXTENTS, rest = total - 1000;
	struct fault f;

	cr_assert_eq(engine_limit(e, "a", &floor, &ceiling, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_LIMIT_ORDER);
	limit("a", 1000, 0);
	cr_assert_eq(engine_limit(e, "b", &total, NULL, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_LIMIT_FLOORS);
	cr_assert_eq(f.want, (int64_t)rest);
	cr_assert_eq(engine_limit(e, "b", &rest, NULL, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_LIMIT_EXTENTS);
	cr_assert_eq(engine_limit(e, "a", NULL, &ceiling, &f), SWAKV_EINVALID, "the ceiling is below the floor it has");
	for (const char *name = "abc"; *name; name++)
		cr_assert_eq(engine_limit(e, (char[]){ *name, '\0' }, &(uint64_t){ 0 }, NULL, &f), 0);
	cr_assert_eq(engine_limit(e, "a", &(uint64_t){ 3 * EXTENT * N_EXTENTS }, NULL, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_LIMIT_POOL, "there are no others");
}

/* Floors that fit in bytes, each page size in extents of its own, were accepted and then not there. */
Test(quota, floors_that_do_not_fit_in_whole_extents_are_refused)
{
	uint64_t a_floor = A_BYTES, b_floor = 7 * 4 * B_BYTES, less = 6 * 4 * B_BYTES;
	struct fault f;

	limit("a", a_floor, 0);
	cr_assert_eq(engine_limit(e, "b", &b_floor, NULL, &f), 0, "seven extents beside one");
	cr_assert_eq(engine_limit(e, "later", &(uint64_t){ 2 }, NULL, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_LIMIT_EXTENTS);
	cr_assert_eq(f.got, 9);
	cr_assert_eq(f.want, N_EXTENTS);
	cr_assert_eq(engine_limit(e, "b", &less, NULL, &f), 0);
	cr_assert_eq(engine_limit(e, "later", &(uint64_t){ 2 }, NULL, &f), 0);
	cr_assert_eq(engine_limit(e, "c", &a_floor, NULL, &f), 0, "of one size two floors share an extent");
	taken(&b, 0, 24);
	taken(&a, 0, 1);
	taken(&c, 0, 1);
}

Test(quota, limits_of_names_without_a_session_are_bounded)
{
	uint64_t ceiling = 1000;
	struct fault f;
	char name[16];
	int n = 0, code = 0;

	for (; code == 0 && n < 1000; n++) {
		snprintf(name, sizeof(name), "m%d", n);
		code = engine_limit(e, name, NULL, &ceiling, &f);
	}
	cr_assert_eq(code, SWAKV_EBUSY);
	cr_assert_eq(f.reason, FAULT_LIMIT_NAMES);
	cr_expect_eq(n - 1, 64, "%d names had limits", n - 1);
	cr_expect_eq(f.got, 64);
	/* Who has limits, or a session, may have others; no limits are none. */
	limit("m7", 500, 2000);
	limit("a", 600, 3000);
	limit("new", 0, 0);
	cr_expect_eq(engine_limit(e, name, NULL, &ceiling, &f), SWAKV_EBUSY, "a has a session, and takes no place");
	limit("m0", 0, 0);
	cr_assert_eq(engine_limit(e, name, NULL, &ceiling, &f), 0);
	cr_expect_eq(engine_limit(e, "one more", NULL, &ceiling, &f), SWAKV_EBUSY);
}

/* ---- waiting -------------------------------------------------------------------- */

Test(wait, pages_that_come_back_admit_who_waits)
{
	uint64_t h = taken(&a, 0, 60);

	waits(&c, 0, 8, 10000);
	nothing_decided();
	cr_assert_eq(engine_waiting(e), 1);
	give(&a, h);
	h = decided(&c, 0, 0);
	nothing_decided();
	cr_assert_eq(engine_waiting(e), 0);
	cr_assert_eq(used("c"), 8 * A_BYTES);
	give(&c, h);
}

Test(wait, slots_of_a_request_that_waits_are_busy)
{
	uint64_t h = taken(&a, 0, 60);

	taken(&c, 0, 1);
	waits(&a, 60, 4, 10000);
	refused(&a, 61, 1, SWAKV_EBUSY, FAULT_SLOT_BUSY);
	give(&a, h);
	decided(&a, 60, 0);
	refused(&a, 61, 1, SWAKV_EBUSY, FAULT_SLOT_BUSY);
}

Test(wait, nobody_of_the_model_overtakes)
{
	uint64_t h = taken(&a, 0, 50), second;

	waits(&c, 0, 20, 100000);
	refused(&c, 20, 1, SWAKV_ENOPAGES, FAULT_QUEUE);
	refused(&c, 20, 65, SWAKV_EINVALID, FAULT_BATCH_SIZE);
	waits(&c, 20, 1, 100000);
	nothing_decided();
	give(&a, h);
	decided(&c, 0, 0);
	second = decided(&c, 20, 0);
	nothing_decided();
	give(&c, second);
}

Test(wait, no_model_waits_behind_the_large_request_of_another)
{
	taken(&a, 0, 50);
	waits(&c, 0, 40, 100000);
	taken(&b, 0, 1);
	taken(&a, 50, 4);
	nothing_decided();
}

Test(wait, a_head_that_has_waited_long_does_not_starve)
{
	uint64_t h[4];

	for (int i = 0; i < 4; i++)
		h[i] = taken(&a, 16 * i, 16);
	engine_stamp(e, 100);
	waits(&b, 0, 16, 1000000);
	for (int i = 0; i < 2; i++) { /* before its claim others take what comes free */
		give(&a, h[i]);
		h[i] = taken(&a, 16 * i, 16);
		nothing_decided();
	}
	engine_stamp(e, 1100);
	cr_assert_eq(engine_due(e), 1100);
	nothing_decided();
	give(&a, h[0]);
	nothing_decided();
	refused(&a, 0, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	refused(&c, 0, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	give(&a, h[1]);
	decided(&b, 0, 0);
	refused(&a, 0, 1, SWAKV_ENOPAGES, FAULT_NO_PAGES);
}

Test(wait, a_claim_is_below_the_floors)
{
	uint64_t h = taken(&c, 0, 56);

	limit("a", 8 * A_BYTES, 0);
	engine_stamp(e, 1);
	waits(&b, 0, 8, 1000000);
	engine_stamp(e, 2000);
	nothing_decided();
	taken(&a, 0, 8); /* its floor, which the claim does not touch */
	refused(&a, 8, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	give(&c, h);
	decided(&b, 0, 0);
}

Test(wait, of_two_claims_the_older_comes_first)
{
	uint64_t h = taken(&a, 0, 60);

	waits(&b, 0, 20, 1000000);
	waits(&c, 0, 20, 1000000);
	engine_stamp(e, 5000);
	nothing_decided();
	give(&a, h);
	decided(&b, 0, 0);
	decided(&c, 0, 0);
}

Test(wait, who_runs_owes_a_claim_nothing)
{
	uint64_t h = taken(&a, 0, 30);

	taken(&c, 0, 10);
	waits(&b, 0, 20, 1000000);
	engine_stamp(e, 5000);
	nothing_decided();
	cr_assert_eq(request_reserve(a.s, h, 17, &a.f), SWAKV_ENOPAGES);
	cr_assert_eq(a.f.reason, FAULT_NO_PAGES);
	give(&a, h);
	decided(&b, 0, 0);
	h = taken(&a, 0, 5);
	waits(&b, 20, 5, 1000000);
	engine_stamp(e, 10000);
	nothing_decided();
	cr_assert_eq(request_reserve(a.s, h, 17, &a.f), 0, "what runs may finish");
}

Test(wait, who_waits_below_its_own_ceiling_claims_nothing_of_others)
{
	uint64_t h;

	limit("b", 0, 10 * B_BYTES);
	h = taken(&b, 0, 8);
	waits(&b, 8, 10, 1000000);
	engine_stamp(e, 5000);
	nothing_decided();
	taken(&a, 0, 40);
	give(&b, h);
	decided(&b, 8, 0);
}

Test(wait, time_that_is_up_is_told_with_how_long_it_was)
{
	uint64_t h = taken(&a, 0, 64);

	engine_stamp(e, 1000);
	waits(&c, 0, 5, 500);
	waits(&c, 5, 1, 200);
	cr_assert_eq(engine_due(e), 1200);
	engine_stamp(e, 1199);
	nothing_decided();
	engine_stamp(e, 1203);
	decided(&c, 5, SWAKV_ENOPAGES); /* also behind the head */
	cr_assert_eq(c.f.reason, FAULT_WAITED);
	cr_assert_eq(c.f.got, 20, "in milliseconds");
	cr_assert_eq(c.f.want, 1);
	nothing_decided();
	cr_assert_eq(engine_due(e), 1500);
	engine_stamp(e, 1500);
	give(&a, h);
	decided(&c, 0, 0); /* pages that came in the same moment count */
	cr_assert_eq(engine_due(e), 0);
}

Test(wait, one_session_may_wait_so_often_and_no_more)
{
	taken(&a, 0, 64);
	for (int32_t i = 0; i < 64; i++)
		waits(&c, i, 1, 10000);
	cr_assert_eq(engine_waiting(e), 64); /* one a slot */
	refused(&c, 0, 1, SWAKV_EBUSY, FAULT_SLOT_BUSY);
}

Test(wait, a_session_that_ends_takes_its_waiting_along)
{
	struct worker gone;
	uint64_t h = taken(&a, 0, 64);

	open_worker(&gone, "c", 16, 9);
	waits(&gone, 0, 64, 10000);
	waits(&c, 0, 3, 10000);
	session_end(gone.s);
	check_all(e);
	give(&a, h);
	decided(&c, 0, 0);
	nothing_decided();
	worker_close(&gone);
}

Test(wait, a_poisoned_session_is_told)
{
	uint64_t h = taken(&a, 0, 60), own = taken(&c, 60, 4);
	int32_t lengths[] = { 1, 1, 1, 1 };

	waits(&c, 0, 8, 10000);
	cr_assert_eq(prefill_prepare(&c, own, 4, lengths), 0);
	cr_assert_eq(prefill_complete(&c, own, fence_failed), SWAKV_EPOISONED);
	give(&a, h);
	decided(&c, 0, SWAKV_EPOISONED);
	cr_assert_eq(c.f.got, 4);
	nothing_decided();
}

Test(wait, what_can_never_be_is_told_when_a_limit_changes)
{
	taken(&a, 0, 64);
	waits(&c, 0, 10, 10000);
	limit("c", 0, 9 * A_BYTES);
	decided(&c, 0, SWAKV_ENEVER);
	cr_assert_eq(c.f.reason, FAULT_CEILING_NEVER);
}

Test(wait, a_raised_ceiling_admits)
{
	limit("c", 0, 10 * A_BYTES);
	taken(&c, 0, 8);
	waits(&c, 8, 5, 10000);
	nothing_decided();
	limit("c", 0, 13 * A_BYTES);
	decided(&c, 8, 0);
}

Test(wait, never_and_wrong_arguments_do_not_wait)
{
	uint64_t handle;

	limit("c", 0, 10 * A_BYTES);
	cr_assert_eq(take(&c, 0, 11, 1000, &handle), SWAKV_ENEVER);
	cr_assert_eq(take(&c, 60, 5, 1000, &handle), SWAKV_EINVALID);
	cr_assert_eq(engine_waiting(e), 0);
}

/* Whoever waited beside whole extents kept for a model that nobody knew was not looked at when it came. */
Test(wait, a_session_that_joins_may_leave_more_room_beside_its_floor)
{
	struct worker d;

	limit("d", 12 * A_BYTES, 0); /* two extents are kept */
	taken(&a, 0, 48);
	waits(&a, 48, 4, 10000);
	nothing_decided();
	open_worker(&d, "d", 16, 4); /* 12 pages are kept, and 4 are free beside them */
	decided(&a, 48, 0);
	nothing_decided();
	worker_close(&d);
}

/* A model above its lowered ceiling was refused what takes no page. */
Test(quota, a_reserve_that_takes_no_page_has_no_ceiling)
{
	uint64_t handle = taken(&a, 0, 2);

	limit("a", 0, A_BYTES);
	cr_assert_eq(request_reserve(a.s, handle, 16, &a.f), 0);
	cr_assert_eq(request_reserve(a.s, handle, 32, &a.f), SWAKV_ENEVER);
	check_all(e);
}

/*
 * A group's pages were taken from the free ones of the next group of the same
 * request, which then had to be put where they fit less well: with limits a
 * begin was refused, and one that waited stayed, where there was room.
 */
Test(provide, no_group_takes_what_the_next_one_has)
{
	enum { STRETCH = 3072 };
	struct model both = make_model(16, 16, 2, 48), one = both, small = both;
	struct worker w, bb, cc;
	int32_t slot = 0, other = 1;
	uint64_t ceiling = UINT32_MAX, h, live;

	e = engine_new(&(struct engine_config){ .half_bytes = 4 * STRETCH, .extent_bytes = STRETCH });
	both.n_groups = 2;
	both.groups[0] = make_group(0, 64, 48);  /* one page, an extent */
	both.groups[1] = make_group(0, 16, 128); /* three pages, two extents side by side */
	one.groups[0] = both.groups[1];
	small.groups[0] = make_group(0, 16, 64); /* three pages, an extent */
	worker_open(&w, e, both, 4 * STRETCH, 1);
	worker_open(&bb, e, one, 4 * STRETCH, 2);
	worker_open(&cc, e, small, 4 * STRETCH, 3);
	cr_assert_eq(session_join(w.s, "both"), 0);
	h = begin(&bb, slot);
	cr_assert_eq(finish(&bb, h, fence_done), 0); /* the first two extents */
	h = begin(&cc, slot);
	live = begin(&cc, other); /* the third */
	cr_assert_eq(finish(&cc, h, fence_done), 0);
	cr_assert_eq(engine_extent_class(e, 0), engine_extent_class(e, 1));
	cr_assert_eq(engine_extent_class(e, 2), engine_extent_class(e, 3));
	cr_assert_neq(engine_extent_class(e, 1), engine_extent_class(e, 2));
	cr_assert_eq(engine_limit(e, "both", NULL, &ceiling, &w.f), 0);
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), 0, "reason %u: got %ld want %ld", w.f.reason, (long)w.f.got,
		     (long)w.f.want);
	cr_assert_eq(finish(&cc, live, fence_done), 0);
	worker_close(&w);
	worker_close(&bb);
	worker_close(&cc);
	e = engine_free(e);
}

/*
 * Whole pages and extents are kept for floors, so less fits than bytes say: it
 * waited in vain, and its claim held up all.
 */
Test(quota, what_an_idle_pool_cannot_admit_is_never)
{
	struct worker later;
	uint64_t h;

	limit("a", A_BYTES, 0);
	refused(&b, 0, 32, SWAKV_ENEVER, FAULT_FLOORS_NEVER);
	limit("later", 2, 0); /* of its pages nothing is known: an extent */
	limit("a", 0, 0);
	refused(&b, 0, 29, SWAKV_ENEVER, FAULT_FLOORS_EXTENTS_NEVER);
	h = taken(&a, 0, 1);
	refused(&b, 0, 29, SWAKV_ENOPAGES, FAULT_NO_PAGES);
	waits(&b, 0, 29, 1000000);
	give(&a, h);
	decided(&b, 0, SWAKV_ENEVER);
	open_worker(&later, "later", 16, 9);
	/* Three pages; the rest of their extent has pages of that size only. */
	limit("later", 3 * A_BYTES, 0);
	refused(&b, 0, 29, SWAKV_ENEVER, FAULT_FLOORS_PAGES_NEVER);
	worker_close(&later);
}

/* A begin that waited was answered `pending` or `busy` because of what its session had in hand at that moment. */
Test(wait, what_hinders_its_own_session_for_a_while_is_waited_for_as_well)
{
	int32_t drop = -1, slot = 0;
	uint64_t h[2], all, first, other;
	struct worker two;

	worker_open(&two, e, make_model(16, 16, 2, 16), EXTENT * N_EXTENTS, 9);
	h[0] = begin(&two, 0);
	prefill(&two, h[0], 16);
	cr_assert_eq(request_compact_begin(two.s, h[0], &drop, 1, 0, 0, &two.d, &two.f), 0);
	cr_assert_eq(request_compact_complete(two.s, h[0], &fence_done, 0, &two.d, &two.f), 0); /* keeps its entry */
	all = taken(&a, 0, 32);
	other = taken(&c, 0, 32);
	waits(&two, 0, 1, 100000);
	waits(&two, 1, 1, 100000);
	give(&a, all);
	first = decided(&two, 0, 0);
	nothing_decided();
	cr_assert_eq(finish(&two, h[0], fence_done), 0);
	h[1] = decided(&two, 1, 0);
	cr_assert_eq(finish(&two, first, fence_done), 0);
	cr_assert_eq(finish(&two, h[1], fence_done), 0);
	cr_assert_eq(begin_on(&two, 0, &h[0], 1, &slot), 0);
	give(&c, other);
	worker_close(&two);
}
