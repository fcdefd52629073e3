/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_claim.c - what is kept for a request that has waited long, and until when
 *
 * Model a's pages fill the pool, 8 in each of 8 extents; b's are twice as large.
 * A begin claims when it has waited 1,000 stamps. It holds for 200 without a page
 * joining, and for 2,000 at most.
 */
#include "quota_fixture.h"

enum { CLAIM = 1000, HOLD = 200, MOST = 2000 };

static uint64_t now;

static void setup(void)
{
	open_engine(HOLD, MOST);
	now = 1;
	engine_stamp(e, now);
}

TestSuite(claim, .init = setup, .fini = close_engine);

/* So many pages of a stay in each extent; the others come free when their requests are given. */
static uint64_t pinned[N_EXTENTS], others[N_EXTENTS];

static void pin(const int *n)
{
	for (int32_t x = 0; x < N_EXTENTS; x++) {
		pinned[x] = n[x] ? taken(&a, 8 * x, n[x]) : 0;
		others[x] = n[x] < 8 ? taken(&a, 8 * x + n[x], 8 - n[x]) : 0;
	}
}

static void give_others(void)
{
	for (int32_t x = 0; x < N_EXTENTS; x++)
		if (others[x])
			give(&a, others[x]);
}

static void pass(uint64_t stamps)
{
	static struct admission out;

	now += stamps;
	engine_stamp(e, now);
	cr_assert_not(engine_admit(e, &out), "ticket %lu: %d", (unsigned long)out.ticket, out.code);
	check_all(e);
}

static bool claims(const char *name)
{
	struct quota_counts n;

	cr_assert(engine_quota_of(e, name, &n));
	return n.claims;
}

/* The extents that are kept for the model, as bits. */
static uint32_t chosen(const char *name)
{
	uint32_t mask = 0;

	for (uint32_t x = 0; x < N_EXTENTS; x++)
		mask |= engine_claim_extent(e, name, x) >= 0 ? 1u << x : 0;
	return mask;
}

/* A claim that cannot profit shut out begins that fit, of all models and its own. */
Test(claim, keeps_one_extent_where_one_is_needed)
{
	pin((const int[]){ 1, 1, 1, 1, 1, 1, 1, 1 });
	give_others();
	waits(&b, 0, 3, 1000000);
	waits(&b, 10, 3, 1000000);
	pass(CLAIM);
	cr_assert(claims("b"));
	cr_assert_eq(chosen("b"), 1);
	cr_assert_eq(session_free_pages(a.s, 0), 49, "seven in each of seven extents");
	cr_assert_eq(session_free_pages(b.s, 0), 0);
	taken(&c, 0, 40);
	taken(&a, 1, 5);
	refused(&a, 8, 5, SWAKV_EBUSY, FAULT_SLOT_BUSY);
	refused(&a, 9, 5, SWAKV_ENOPAGES, FAULT_CLAIMED);
	cr_assert_eq(a.f.got, 5);
	cr_assert_eq(a.f.want, 4);
	give(&a, pinned[0]);
	decided(&b, 0, 0);
}

Test(claim, free_pages_of_its_own_are_kept_up_to_its_need)
{
	uint64_t h = taken(&a, 0, 60), other = taken(&a, 60, 4);

	give(&a, other);
	waits(&c, 0, 20, 1000000);
	pass(CLAIM);
	cr_assert_eq(engine_claim_kept(e, "c", session_class(c.s, 0)), 4);
	cr_assert_eq(__builtin_popcount(chosen("c")), 2, "the 4, and 16 more");
	refused(&a, 60, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	give(&a, h);
	decided(&c, 0, 0);
}

/* The first extent would give one page more than is free in it; with the second that one is not needed. */
Test(claim, an_extent_that_a_later_one_makes_up_for_is_left)
{
	pin((const int[]){ 1, 8, 8, 8, 8, 8, 8, 8 });
	give_others();
	waits(&c, 0, 15, 1000000);
	pass(CLAIM);
	cr_assert_eq(chosen("c"), 1u << 1);
	cr_assert_eq(engine_claim_kept(e, "c", session_class(c.s, 0)), 7);
	give(&a, pinned[1]);
	decided(&c, 0, 0);
}

/* A worker with pages of two sizes. */
static void open_both(struct worker *w)
{
	struct model both = make_model(16, 16, 4, 16);

	both.n_groups = 2;
	both.groups[1] = make_group(0, 32, 16);
	worker_open(w, e, both, EXTENT * N_EXTENTS, 9);
	cr_assert_eq(session_join(w->s, "both"), 0);
}

/* Of one page size it has enough, of the other it lacks an extent. */
Test(claim, keeps_no_more_of_one_page_size_because_it_lacks_another)
{
	struct worker w;

	open_both(&w);
	pin((const int[]){ 1, 1, 1, 1, 1, 1, 1, 1 });
	give_others();
	waits(&w, 0, 2, 1000000);
	pass(CLAIM);
	cr_assert_eq(engine_claim_kept(e, "both", session_class(w.s, 0)), 2);
	cr_assert_eq(__builtin_popcount(chosen("both")), 1);
	cr_assert_eq(session_free_pages(a.s, 0), 56 - 7 - 2);
	taken(&c, 0, 47);
	refused(&c, 47, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	give(&a, pinned[0]);
	decided(&w, 0, 0);
	worker_close(&w);
}

Test(claim, what_it_keeps_of_its_own_is_not_taken_by_another_class)
{
	uint64_t h[2] = { taken(&a, 0, 32), taken(&a, 32, 24) }, more;

	more = taken(&a, 56, 8);
	give(&a, more);            /* an extent of a, empty */
	waits(&c, 0, 24, 1000000); /* those 8, and two extents */
	pass(CLAIM);
	cr_assert_eq(engine_claim_kept(e, "c", session_class(c.s, 0)), 8);
	cr_assert_eq(__builtin_popcount(chosen("c")), 2);
	refused(&b, 0, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	refused(&a, 56, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	cr_assert_eq(engine_trim(e, 100), 0, "nor given up");
	give(&a, h[0]);
	decided(&c, 0, 0);
	give(&a, h[1]);
}

/* The floor is there once its model asks; till then no extent moves for it. */
Test(claim, what_it_keeps_is_not_moved_for_a_floor_that_nobody_asks_for)
{
	uint64_t one = taken(&a, 0, 1), more = taken(&a, 1, 7), full = taken(&a, 8, 40), last = taken(&a, 48, 8);
	struct worker w;

	open_worker(&w, "large", 64, 9); /* 2 pages an extent */
	taken(&b, 0, 3);
	give(&a, more);
	give(&a, last);            /* an extent of a, empty */
	waits(&c, 0, 16, 1000000); /* those 8, and the first extent */
	pass(CLAIM);
	cr_assert_eq(chosen("c"), 1u << 0);
	cr_assert_eq(engine_claim_kept(e, "c", session_class(c.s, 0)), 8);
	limit("large", 4 * B_BYTES, 0);
	taken(&b, 3, 1); /* beside that floor */
	cr_assert_eq(engine_extent_class(e, 6), (int32_t)session_class(c.s, 0));
	taken(&w, 0, 2); /* and it is there */
	give(&a, one);
	nothing_decided();
	give(&a, full);
	decided(&c, 0, 0);
	worker_close(&w);
}

Test(claim, empty_extents_come_first_then_those_with_the_fewest_live_pages)
{
	pin((const int[]){ 5, 3, 0, 4, 1, 6, 2, 7 });
	give_others();
	waits(&b, 0, 13, 1000000); /* four extents */
	pass(CLAIM);
	cr_assert_eq(chosen("b"), 1u << 2 | 1u << 4 | 1u << 6 | 1u << 1);
}

Test(claim, extents_with_pages_in_quarantine_come_last)
{
	uint64_t doubtful = taken(&c, 0, 1);

	taken(&a, 0, 7);
	for (int32_t x = 1; x < N_EXTENTS; x++)
		pinned[x] = taken(&a, 8 * x, 8);
	cr_assert_eq(request_abandon(c.s, doubtful, &fence_failed, 0, &c.f), SWAKV_EPOISONED);
	waits(&b, 0, 4, 1000000);
	pass(CLAIM);
	cr_assert_eq(chosen("b"), 1u << 1, "not the lowest of equal ones");
}

Test(claim, only_pages_in_chosen_extents_join)
{
	uint64_t h;

	pin((const int[]){ 2, 4, 4, 4, 4, 4, 4, 4 });
	waits(&b, 0, 4, 1000000);
	pass(CLAIM);
	cr_assert_eq(chosen("b"), 1, "all extents are full: the lowest");
	give(&a, others[1]);
	h = taken(&a, 12, 4); /* elsewhere: open to everybody */
	give(&a, h);
	give(&a, others[0]);
	cr_assert_eq(session_free_pages(a.s, 0), 4);
	refused(&c, 0, 5, SWAKV_ENOPAGES, FAULT_CLAIMED);
	give(&a, pinned[0]);
	decided(&b, 0, 0);
}

Test(claim, ends_in_the_command_that_ends_its_begin)
{
	pin((const int[]){ 2, 4, 4, 4, 4, 4, 4, 4 });
	waits(&b, 0, 32, 1000000);
	pass(CLAIM);
	give(&a, others[1]);
	refused(&a, 12, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	session_end(b.s);
	cr_assert_eq(chosen("b"), 0);
	taken(&a, 12, 4);
}

Test(claim, ends_in_the_command_that_poisons_its_session)
{
	uint64_t own;

	pin((const int[]){ 2, 4, 4, 4, 4, 4, 4, 3 });
	give(&a, others[7]);
	own = taken(&c, 0, 1);
	waits(&c, 1, 60, 1000000);
	pass(CLAIM);
	refused(&a, 60, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	cr_assert_eq(request_abandon(c.s, own, &fence_failed, 0, &c.f), SWAKV_EPOISONED);
	taken(&a, 60, 1);
	decided(&c, 1, SWAKV_EPOISONED);
}

Test(claim, ends_when_no_page_has_joined_for_a_while)
{
	pin((const int[]){ 2, 4, 4, 4, 4, 4, 4, 4 });
	waits(&c, 0, 60, 1000000);
	pass(CLAIM);
	give(&a, others[1]);
	pass(HOLD - 1);
	cr_assert(claims("c"), "a page joined");
	give(&a, others[2]);
	pass(HOLD - 1);
	cr_assert(claims("c"), "and another");
	refused(&a, 12, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	cr_assert_eq(engine_due(e), now + HOLD);
	pass(HOLD - 1);
	cr_assert(claims("c"));
	pass(1);
	cr_assert_not(claims("c"));
	taken(&a, 12, 4); /* nobody is held behind a paused claim, */
	taken(&c, 60, 4); /* its own model included */
}

Test(claim, holds_for_so_long_at_most_and_pauses_as_long_as_it_held)
{
	uint64_t begun;

	pin((const int[]){ 1, 1, 1, 1, 1, 1, 1, 1 });
	waits(&b, 0, 32, 1000000);
	pass(CLAIM);
	begun = now;
	for (int32_t x = 0; x < N_EXTENTS; x++) {
		pass(HOLD - 1);
		give(&a, others[x]);
		cr_assert(claims("b"));
	}
	pass(HOLD - 1);
	cr_assert(claims("b"));
	give(&a, pinned[0]);
	pass(begun + MOST - now - 1);
	cr_assert(claims("b"));
	give(&a, pinned[1]);
	pass(1);
	cr_assert_not(claims("b"));
	cr_assert_eq(engine_due(e), now + MOST);
	pass(MOST - 1);
	cr_assert_not(claims("b"));
	pass(1);
	cr_assert(claims("b"), "it chooses anew");
}

/* Whoever stays began first, and holds the lowest extents: where all are full, these would be chosen for ever. */
Test(claim, what_it_waited_for_in_vain_comes_later_the_next_time)
{
	pin((const int[]){ 8, 8, 0, 0, 0, 0, 0, 0 }); /* the first two stay */
	waits(&c, 0, 32, 1000000);
	pass(CLAIM);
	cr_assert_eq(chosen("c"), 0x0f);
	give(&a, others[2]);
	give(&a, others[3]);
	pass(1);
	pass(HOLD);
	cr_assert_not(claims("c"));
	others[2] = taken(&a, 16, 8);
	others[3] = taken(&a, 24, 8);
	pass(HOLD + 1);
	cr_assert_eq(chosen("c"), 0x3c, "%#x", chosen("c"));
	for (int32_t x = 2; x < 6; x++)
		give(&a, others[x]);
	decided(&c, 0, 0);
}

/* Another begin knows nothing of that. */
Test(claim, what_was_waited_for_in_vain_before_it_came_counts_for_nothing)
{
	pin((const int[]){ 8, 8, 0, 0, 0, 0, 0, 0 });
	waits(&c, 0, 32, CLAIM + HOLD + 1);
	pass(CLAIM);
	now += HOLD + 1;
	engine_stamp(e, now);
	decided(&c, 0, SWAKV_ENOPAGES);
	waits(&c, 0, 32, 1000000);
	pass(CLAIM);
	cr_assert_eq(chosen("c"), 0x0f);
}

Test(claim, before_it_claims_order_within_a_model_is_strict)
{
	taken(&a, 0, 40);
	waits(&c, 0, 30, 1000000);
	refused(&c, 30, 1, SWAKV_ENOPAGES, FAULT_QUEUE);
	waits(&c, 30, 1, 1000000);
	pass(CLAIM - 1);
	refused(&c, 31, 1, SWAKV_ENOPAGES, FAULT_QUEUE);
	engine_stamp(e, ++now);
	nothing_decided(); /* all 24 are kept for the first */
	cr_assert(claims("c"));
	refused(&c, 31, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	now += HOLD;
	engine_stamp(e, now);
	decided(&c, 30, 0);
	nothing_decided();
	taken(&c, 31, 1);
}

Test(claim, not_while_the_ceiling_would_be_exceeded)
{
	uint64_t h;

	limit("c", 0, 40 * A_BYTES);
	h = taken(&c, 0, 20);
	taken(&a, 0, 20);
	waits(&c, 20, 30, 1000000);
	pass(CLAIM);
	cr_assert_not(claims("c"));
	taken(&c, 50, 1); /* overdue, and held up by nothing that others could change */
	taken(&a, 20, 20);
	give(&c, h);
	nothing_decided();
	cr_assert(claims("c"));
	limit("c", 0, 30 * A_BYTES);
	cr_assert_not(claims("c"), "in the command that lowers it");
}

Test(claim, younger_ones_choose_from_what_is_left)
{
	pin((const int[]){ 1, 2, 3, 4, 5, 6, 7, 8 });
	waits(&b, 0, 8, 1000000);
	waits(&c, 0, 8, 1000000);
	pass(CLAIM);
	cr_assert_eq(chosen("b"), 3);
	cr_assert_eq(chosen("c"), 4);
}

Test(claim, a_floor_of_its_own_is_not_claimed)
{
	uint64_t h;

	limit("c", 8 * A_BYTES, 0);
	h = taken(&a, 0, 56);
	waits(&c, 0, 16, 1000000);
	pass(CLAIM);
	cr_assert_eq(__builtin_popcount(chosen("c")), 1, "eight of the sixteen are its floor's");
	give(&a, h);
	decided(&c, 0, 0);
}

Test(claim, what_runs_takes_from_it_and_it_goes_on)
{
	uint64_t h = taken(&a, 0, 1), more = taken(&a, 1, 40);

	give(&a, more);
	taken(&a, 1, 1);
	waits(&c, 0, 64, 1000000);
	pass(CLAIM);
	refused(&a, 2, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
	for (int64_t pages = 2; pages < 6; pages++) {
		cr_assert_eq(request_reserve(a.s, h, 16 * pages, &a.f), 0, "what runs may finish");
		check_all(e);
		pass(1);
	}
	cr_assert(claims("c"));
	refused(&a, 2, 1, SWAKV_ENOPAGES, FAULT_CLAIMED);
}

/* Two claims keep free pages of one size, and what runs leaves fewer: what comes free elsewhere is nobody's. */
Test(claim, what_runs_takes_is_the_youngest_claims_and_is_not_replaced)
{
	struct worker w;

	open_both(&w);
	pin((const int[]){ 3, 3, 3, 8, 8, 8, 8, 8 });
	give_others();
	waits(&w, 0, 4, 1000000);
	waits(&c, 0, 22, 1000000);
	pass(CLAIM);
	cr_assert_eq(chosen("both"), 1u << 0);
	cr_assert_eq(chosen("c"), 1u << 3 | 1u << 4);
	cr_assert_eq(engine_claim_kept(e, "both", session_class(w.s, 0)), 4);
	cr_assert_eq(engine_claim_kept(e, "c", session_class(c.s, 0)), 6);
	cr_assert_eq(request_reserve(a.s, pinned[1], 64, &a.f), 0, "9 more, and 5 are free in the chosen extent");
	cr_assert_eq(engine_claim_kept(e, "both", session_class(w.s, 0)), 4);
	cr_assert_eq(engine_claim_kept(e, "c", session_class(c.s, 0)), 2);
	give(&a, pinned[2]);
	cr_assert_eq(session_free_pages(a.s, 0), 3);
	taken(&a, 16, 3);
	worker_close(&w);
}

/* ---- the public case ------------------------------------------------------------------ */

static uint64_t seed = 1;

static uint32_t draw(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

/* The extent in which the one page of a's request @h lies. */
static uint32_t extent_of(uint64_t h)
{
	struct wire_query_state q = { 0 };
	struct wire_sequence_state state;
	struct wire_binding page;
	uint32_t n;

	cr_assert_eq(sequence_query(a.s, h, &q, &state, &page, 1, &n, &a.f), 0);
	cr_assert_eq(n, 1);
	return (uint32_t)page.page / (EXTENT / 256);
}

/*
 * kvcached#359, sglang#32700: a large request waits for an extent in which
 * long-lived pages of another model lie, while small ones come and go: of 1,856
 * none is refused that fits outside of what it awaits.
 */
Test(claim, of_1856_small_begins_none_is_refused_that_fits_outside_the_awaited_extents)
{
	uint64_t live[64] = { 0 };
	int32_t in[N_EXTENTS] = { 0 };
	int n_begun = 0, n_refused = 0, n_claimed = 0;

	pin((const int[]){ 1, 1, 1, 1, 1, 1, 1, 1 });
	give_others();
	waits(&b, 0, 8, 100000000);
	pass(CLAIM);
	for (int i = 0; n_begun < 1856; i++) {
		int32_t slot = (int32_t)draw(64), outside = 0;
		uint64_t h;
		int code;

		if (slot % 8 == 0)
			continue; /* pinned */
		if (live[slot]) {
			in[extent_of(live[slot])]--;
			give(&a, live[slot]);
			live[slot] = 0;
			pass(draw(3) ? 0 : 7);
			continue;
		}
		for (uint32_t x = 0; x < N_EXTENTS; x++)
			outside += chosen("b") & 1u << x ? 0 : 7 - in[x];
		n_claimed += claims("b");
		n_begun++;
		code = take(&a, slot, 1, 0, &h);
		cr_assert(code == 0 || outside == 0, "begin %d is refused, and %d pages are free outside", n_begun,
			  outside);
		n_refused += code != 0;
		if (code)
			continue;
		live[slot] = h;
		in[extent_of(h)]++;
		cr_assert_not(chosen("b") & 1u << extent_of(h), "it lies in an awaited extent");
	}
	cr_assert_gt(n_claimed, 200, "the large one claims");
	cr_assert_lt(n_refused, 1856 / 2);
}
