/* SPDX-License-Identifier: Apache-2.0 */
/* test_managed.c - pages that a session takes and gives itself (spec section 8) */
#include "engine_fixture.h"
#include "managed.h"

enum { PAGES = 40, TOKENS = 16, SLICE = 64 };
#define PAGE_BYTES ((uint64_t)TOKENS * TOKEN_BYTES) /* of K */

static struct engine *engine;
static struct worker a, b;
static int32_t got[WIRE_MAX_PAGES];
static uint32_t n_got;

static void open_two(struct model m, uint32_t scrub, bool fresh_is_dirty)
{
	uint64_t half = PAGES * PAGE_BYTES;

	engine = engine_new(&(struct engine_config){ .half_bytes = half,
						     .extent_bytes = half / 8,
						     .scrub = scrub,
						     .fresh_is_dirty = fresh_is_dirty,
						     .wait_claim = 1000 });
	cr_assert_not_null(engine);
	worker_open(&a, engine, m, half, 1);
	worker_open(&b, engine, m, half, 2);
	cr_assert_eq(session_join(a.s, "a"), 0);
	cr_assert_eq(session_join(b.s, "b"), 0);
}

static void setup(void)
{
	open_two(make_model(TOKENS * 4, TOKENS, 4, TOKENS * 16), WIRE_SCRUB_OWNER_CHANGE, false);
}

static void close_all(void)
{
	worker_close(&a);
	worker_close(&b);
	check_all(engine);
	engine = engine_free(engine);
}

TestSuite(managed, .init = setup, .fini = close_all);

/* What it gets is in got[0 .. n_got). */
static int take(struct worker *w, uint32_t group, uint32_t min, uint32_t max, uint32_t flags)
{
	const struct take t = { .group = group, .flags = flags, .min = min, .max = max };
	int code = pages_take(w->s, &t, got, &n_got, &w->f);

	check_all(engine);
	return code;
}

static int give(struct worker *w, const int32_t *ids, uint32_t n, const struct wire_fence *fences, uint32_t n_fences)
{
	const struct give g = { .ids = ids, .n = n, .fences = fences, .n_fences = n_fences };
	int code = pages_give(w->s, &g, w->armed, &w->f);

	check_all(engine);
	return code;
}

/* Pages without the sign that they are dirty; how many had it. */
static uint32_t clean_up(void)
{
	uint32_t dirty = 0;

	for (uint32_t i = 0; i < n_got; i++) {
		dirty += got[i] < 0;
		got[i] = got[i] < 0 ? ~got[i] : got[i];
	}
	return dirty;
}

static int64_t free_pages(void)
{
	return session_free_pages(a.s, 0);
}

static void limit(const char *name, uint64_t floor, uint64_t ceiling)
{
	cr_assert_eq(engine_limit(engine, name, &floor, &ceiling, NULL), 0);
	check_all(engine);
}

Test(managed, as_many_as_there_are_between_min_and_max)
{
	cr_expect_eq(take(&a, 0, 1, 30, 0), 0);
	cr_expect_eq(n_got, 30);
	cr_expect_eq(take(&b, 0, 11, 20, 0), SWAKV_ENOPAGES);
	cr_expect_eq(n_got, 0);
	cr_expect_eq(free_pages(), 10, "a take that was refused changed something");
	cr_expect_eq(take(&b, 0, 3, 20, 0), 0);
	cr_expect_eq(n_got, 10);
	cr_expect_eq(take(&b, 0, PAGES + 1, PAGES + 1, 0), SWAKV_ENEVER);
}

Test(managed, of_a_page_there_is_one_taker)
{
	bool seen[PAGES] = { false };

	for (int i = 0; i < PAGES; i++) {
		cr_assert_eq(take(i % 2 ? &a : &b, 0, 1, 1, 0), 0);
		cr_expect(!seen[got[0]], "page %d was taken twice", got[0]);
		seen[got[0]] = true;
	}
	cr_expect_eq(take(&a, 0, 1, 1, 0), SWAKV_ENOPAGES);
	cr_expect_eq(session_managed_pages(a.s, 0), PAGES / 2);
}

Test(managed, impossible_takes)
{
	cr_expect_eq(take(&a, 0, 0, 1, 0), SWAKV_EINVALID);
	cr_expect_eq(take(&a, 0, 2, 1, 0), SWAKV_EINVALID);
	cr_expect_eq(take(&a, 0, 1, WIRE_MAX_PAGES + 1, 0), SWAKV_EINVALID);
	cr_expect_eq(take(&a, 1, 1, 1, 0), SWAKV_EINVALID);
	cr_expect_eq(take(&a, 0, 1, 1, 2), SWAKV_EINVALID);
	cr_expect_eq(free_pages(), PAGES);
}

Test(managed, given_pages_are_free_at_once_without_a_fence)
{
	cr_assert_eq(take(&a, 0, 9, 9, 0), 0);
	cr_expect_eq(give(&a, got, 9, NULL, 0), 0);
	cr_expect_eq(free_pages(), PAGES);
	cr_expect_eq(session_managed_pages(a.s, 0), 0);
}

Test(managed, a_page_that_is_not_its_own_is_refused_with_its_id_and_nothing_is_given)
{
	int32_t mine[3], list[4];

	cr_assert_eq(take(&b, 0, 1, 1, 0), 0);
	list[2] = got[0];
	cr_assert_eq(take(&a, 0, 3, 3, 0), 0);
	memcpy(mine, got, sizeof(mine));
	list[0] = mine[0];
	list[1] = mine[1];
	list[3] = mine[2];
	cr_expect_eq(give(&a, list, 4, NULL, 0), SWAKV_EINVALID);
	cr_expect_eq(a.f.reason, FAULT_GIVE_PAGE);
	cr_expect_eq(a.f.got, list[2]);
	cr_expect_eq(session_managed_pages(a.s, 0), 3);
	for (int32_t id = -2; id <= PAGES; id += PAGES + 2) {
		list[2] = id;
		cr_expect_eq(give(&a, list, 3, NULL, 0), SWAKV_EINVALID);
		cr_expect_eq(a.f.got, id);
	}
	cr_expect_eq(give(&a, mine, 3, NULL, 0), 0);
	cr_expect_eq(give(&a, mine, 1, NULL, 0), SWAKV_EINVALID, "given back twice");
	cr_expect_eq(give(&a, mine, 0, NULL, 0), SWAKV_EINVALID);
}

Test(managed, a_page_that_is_named_twice_is_refused)
{
	int32_t list[3];

	cr_assert_eq(take(&a, 0, 2, 2, 0), 0);
	list[0] = list[2] = got[0];
	list[1] = got[1];
	cr_expect_eq(give(&a, list, 3, NULL, 0), SWAKV_EINVALID);
	cr_expect_eq(a.f.reason, FAULT_GIVE_TWICE);
	cr_expect_eq(a.f.got, list[0]);
	cr_expect_eq(give(&a, list, 2, NULL, 0), 0);
}

/* A page of a request is none that was taken, also when it was once. */
Test(managed, pages_of_requests_are_not_given)
{
	int32_t slot = 0;
	uint64_t h;

	cr_assert_eq(take(&a, 0, PAGES, PAGES, 0), 0);
	cr_assert_eq(give(&a, got, PAGES, NULL, 0), 0);
	cr_assert_eq(begin_on(&a, 0, &h, 1, &slot), 0);
	for (int32_t page = 0; page < PAGES; page++)
		cr_expect_eq(give(&a, &page, 1, NULL, 0), SWAKV_EINVALID);
	cr_assert_eq(take(&a, 0, 1, PAGES, 0), 0);
	(void)clean_up();
	cr_expect_eq(give(&a, got, n_got, NULL, 0), 0);
	cr_expect_eq(request_finish(a.s, h, &fence_done, 0, &a.f), 0);
	cr_expect_eq(free_pages(), PAGES);
}

Test(managed, given_pages_wait_for_every_fence)
{
	for (int first = 0; first < 2; first++) {
		struct wire_fence fences[] = { fence_line(&a, 0, (uint64_t)first + 3),
					       fence_line(&a, 1, (uint64_t)first + 5) };

		cr_assert_eq(take(&a, 0, 7, 7, 0), 0);
		(void)clean_up();
		cr_expect_eq(give(&a, got, 7, fences, 2), 0);
		cr_expect_eq(give(&a, got, 1, NULL, 0), SWAKV_EINVALID, "given twice");
		cr_expect_eq(free_pages(), PAGES - 7);
		session_reach(a.s, (uint32_t)first, fences[first].value);
		check_all(engine);
		cr_expect_eq(free_pages(), PAGES - 7, "free before the other stream is through");
		session_reach(a.s, (uint32_t)!first, fences[!first].value);
		check_all(engine);
		cr_expect_eq(free_pages(), PAGES);
	}
}

Test(managed, reached_fences_and_done_are_no_wait)
{
	struct wire_fence fences[] = { fence_done, fence_line(&a, 1, 5) };

	session_reach(a.s, 1, 5);
	cr_assert_eq(take(&a, 0, 7, 7, 0), 0);
	cr_expect_eq(give(&a, got, 7, fences, 2), 0);
	cr_expect_eq(free_pages(), PAGES);
}

Test(managed, gives_behind_one_value_share_a_point)
{
	const struct wire_fence fence = fence_line(&a, 0, 2);
	struct session_counts n;

	for (int i = 0; i < 5; i++) {
		cr_assert_eq(take(&a, 0, 1, 1, 0), 0);
		cr_assert_eq(give(&a, got, 1, &fence, 1), 0);
	}
	session_count(a.s, &n);
	cr_expect_eq(n.open_points, 1);
	cr_expect_eq(n.behind_points, 5);
	session_reach(a.s, 0, 2);
	cr_expect_eq(free_pages(), PAGES);
}

Test(managed, impossible_fences)
{
	struct wire_fence fences[] = { fence_line(&a, 0, 2), fence_point, fence_done };

	cr_assert_eq(take(&a, 0, 1, 1, 0), 0);
	cr_expect_eq(give(&a, got, 1, fences, 3), SWAKV_EINVALID, "more fences than streams");
	cr_expect_eq(give(&a, got, 1, fences, 2), SWAKV_EINVALID, "a point of no request");
	fences[0].value = 3;
	cr_expect_eq(give(&a, got, 1, fences, 1), SWAKV_EINVALID, "not armed");
	fences[0] = (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = 2 };
	cr_expect_eq(give(&a, got, 1, fences, 1), SWAKV_EINVALID, "no such stream");
	cr_expect_eq(session_managed_pages(a.s, 0), 1);
}

Test(managed, points_are_never_more_than_there_are)
{
	uint64_t value = 1;
	struct wire_fence fence;

	for (;; value++) {
		cr_assert_eq(take(&a, 0, 1, 1, 0) == SWAKV_ENOPAGES, false);
		fence = fence_line(&a, 0, value);
		if (give(&a, got, 1, &fence, 1) != 0)
			break;
		if (free_pages() == 0) /* only points are to run out */
			session_reach(a.s, 0, value - 1);
		cr_assert_lt(value, 100000);
		if (session_managed_pages(a.s, 0) == 0 && free_pages() < 2)
			return; /* the pool is smaller than the points */
	}
	cr_expect_eq(a.f.reason, FAULT_POINTS_FULL);
}

Test(managed, a_take_that_lacks_pages_behind_its_own_points_is_pending)
{
	const struct wire_fence fence = fence_line(&a, 0, 2);

	cr_assert_eq(take(&a, 0, PAGES, PAGES, 0), 0);
	cr_assert_eq(give(&a, got, 30, &fence, 1), 0);
	cr_expect_eq(take(&b, 0, 1, 1, 0), SWAKV_ENOPAGES);
	cr_expect_eq(take(&a, 0, 31, 31, 0), SWAKV_ENOPAGES);
	cr_expect_eq(take(&a, 0, 30, 31, 0), SWAKV_EPENDING);
	session_reach(a.s, 0, 2);
	cr_expect_eq(take(&a, 0, 30, 31, 0), 0);
	cr_expect_eq(n_got, 30);
}

Test(managed, a_failed_fence_is_quarantine_and_poison)
{
	struct wire_fence fences[] = { fence_line(&a, 1, 4), { .kind = WIRE_FENCE_FAILED, .line = 0 } };
	struct wire_fence proof[] = { fence_done, fence_line(&a, 1, 4) };
	struct session_counts n;

	cr_assert_eq(take(&a, 0, 5, 5, 0), 0);
	cr_expect_eq(give(&a, got, 3, fences, 2), SWAKV_EPOISONED);
	session_count(a.s, &n);
	cr_expect_eq(n.quarantined, 3);
	cr_expect_eq(n.leased, 2);
	cr_expect(n.poisoned);
	cr_expect_eq(take(&a, 0, 1, 1, 0), SWAKV_EPOISONED);
	cr_expect_eq(give(&a, got + 3, 1, NULL, 0), 0);
	session_count(a.s, &n);
	cr_expect_eq(n.quarantined, 4, "what is given in a poisoned session is in doubt, too");
	cr_expect_eq(session_shutdown(a.s, proof, 2, a.armed, &a.f), SWAKV_EPENDING,
		     "the other stream may still use them");
	session_reach(a.s, 1, 4);
	cr_expect_eq(session_shutdown(a.s, proof, 2, a.armed, &a.f), 0);
	check_all(engine);
	cr_expect_eq(free_pages(), PAGES - 1);
	cr_expect_eq(give(&a, got + 4, 1, NULL, 0), 0, "what was not given is still there");
}

Test(managed, each_stream_of_a_failed_give_is_in_doubt)
{
	struct wire_fence fences[] = { { .kind = WIRE_FENCE_FAILED, .line = 0 },
				       { .kind = WIRE_FENCE_FAILED, .line = 1 } };
	struct wire_fence proof[] = { fence_done, fence_done };

	cr_assert_eq(take(&a, 0, 2, 2, 0), 0);
	cr_expect_eq(give(&a, got, 2, fences, 2), SWAKV_EPOISONED);
	for (uint32_t i = 0; i < 2; i++) {
		proof[i].kind = WIRE_FENCE_FAILED;
		proof[i].line = i;
		cr_expect_eq(session_shutdown(a.s, proof, 2, a.armed, &a.f), SWAKV_EPOISONED, "line %u", i);
		proof[i] = fence_done;
	}
	cr_expect_eq(session_shutdown(a.s, proof, 2, a.armed, &a.f), 0);
	cr_expect_eq(free_pages(), PAGES);
}

Test(managed, poisoned_comes_before_a_group_that_there_is_not)
{
	struct wire_fence fence = { .kind = WIRE_FENCE_FAILED, .line = 0 };

	cr_assert_eq(take(&a, 0, 1, 1, 0), 0);
	cr_expect_eq(give(&a, got, 1, &fence, 1), SWAKV_EPOISONED);
	cr_expect_eq(take(&a, 7, 1, 1, 0), SWAKV_EPOISONED);
}

Test(managed, all_returns_when_the_session_ends)
{
	struct wire_fence fences[] = { fence_line(&a, 0, 1), fence_line(&a, 1, 1) };
	int32_t slot = 0;
	uint64_t h;

	cr_assert_eq(begin_on(&a, 0, &h, 1, &slot), 0);
	cr_assert_eq(take(&a, 0, 12, 12, 0), 0);
	cr_assert_eq(give(&a, got, 4, fences, 2), 0);
	session_end(a.s);
	check_all(engine);
	cr_expect_eq(take(&b, 0, PAGES, PAGES, 0), SWAKV_ENOPAGES, "before any proof");
	session_reclaim(a.s);
	check_all(engine);
	cr_expect_eq(take(&b, 0, PAGES, PAGES, 0), 0);
	cr_expect_eq(take(&a, 0, 1, 1, 0), SWAKV_EGONE);
	cr_expect_eq(give(&a, got, 1, NULL, 0), SWAKV_EGONE);
}

Test(managed, floors_of_others_are_left)
{
	limit("b", 10 * 2 * PAGE_BYTES, 0);
	cr_expect_eq(take(&a, 0, 31, PAGES, 0), SWAKV_ENEVER);
	cr_expect_eq(take(&a, 0, 1, PAGES, 0), 0);
	cr_expect_eq(n_got, 30);
	cr_expect_eq(take(&a, 0, 1, 1, 0), SWAKV_ENOPAGES);
	cr_expect_eq(take(&b, 0, 10, 10, 0), 0);
	cr_expect_eq(take(&b, 0, 1, 1, 0), SWAKV_ENOPAGES);
}

Test(managed, a_ceiling_bounds_takes)
{
	limit("a", 0, 7 * 2 * PAGE_BYTES);
	cr_expect_eq(take(&a, 0, 8, 9, 0), SWAKV_ENEVER);
	cr_expect_eq(take(&a, 0, 5, 9, 0), 0);
	cr_expect_eq(n_got, 7);
	cr_expect_eq(take(&a, 0, 1, 9, 0), SWAKV_ENOPAGES);
}

Test(managed, what_can_be_taken_is_as_the_hint_says)
{
	limit("b", 10 * 2 * PAGE_BYTES, 0);
	cr_expect_eq(session_takeable_pages(a.s, 0), 30);
	limit("a", 0, 7 * 2 * PAGE_BYTES);
	cr_expect_eq(session_takeable_pages(a.s, 0), 7);
	cr_assert_eq(take(&a, 0, 7, 7, 0), 0);
	cr_expect_eq(session_takeable_pages(a.s, 0), 0);
	cr_expect_eq(session_takeable_pages(b.s, 0), 33);
}

/* ---- waits ----------------------------------------------------------------------- */

static int take_waiting(struct worker *w, uint32_t min, uint32_t max, uint64_t wait, uint64_t ticket)
{
	const struct take t = { .min = min, .max = max, .wait = wait, .ticket = ticket };
	int code = pages_take(w->s, &t, got, &n_got, &w->f);

	check_all(engine);
	return code;
}

static bool admitted(struct admission *out)
{
	bool any = engine_admit(engine, out);

	check_all(engine);
	return any;
}

Test(managed, a_take_waits_for_its_least_and_gets_what_there_is)
{
	struct admission d;
	int32_t held[PAGES];

	cr_assert_eq(take(&a, 0, PAGES, PAGES, 0), 0);
	memcpy(held, got, sizeof(held));
	engine_stamp(engine, 1);
	cr_expect_eq(take_waiting(&b, 8, 20, 100, 77), SWAKV_EAGAIN);
	cr_expect_eq(engine_waiting(engine), 1);
	cr_assert_eq(give(&a, held, 7, NULL, 0), 0);
	cr_expect(!admitted(&d));
	cr_assert_eq(give(&a, held + 7, 6, NULL, 0), 0);
	cr_assert(admitted(&d));
	cr_expect_eq(d.code, 0);
	cr_expect(d.took);
	cr_expect_eq(d.ticket, 77);
	cr_expect_eq(d.session, b.s);
	cr_expect_eq(d.most, 20);
	cr_expect_eq(d.n_pages, 13);
	for (uint32_t i = 0; i < d.n_pages; i++)
		cr_expect_lt(d.pages[i], 0, "it was used by another, and must be scrubbed");
	cr_expect_eq(session_managed_pages(b.s, 0), 13);
}

Test(managed, a_take_waits_no_longer_than_it_said)
{
	struct admission d;

	cr_assert_eq(take(&a, 0, PAGES, PAGES, 0), 0);
	engine_stamp(engine, 1);
	cr_expect_eq(take_waiting(&b, 1, 1, 100, 5), SWAKV_EAGAIN);
	engine_stamp(engine, 100);
	cr_expect(!admitted(&d));
	engine_stamp(engine, 101);
	cr_assert(admitted(&d));
	cr_expect_eq(d.code, SWAKV_ENOPAGES);
	cr_expect_eq(d.fault.reason, FAULT_WAITED);
	cr_expect_eq(d.n_pages, 0);
	cr_expect_eq(take_waiting(&b, PAGES + 1, PAGES + 1, 100, 5), SWAKV_ENEVER, "what never could be");
}

Test(managed, a_take_that_waits_is_withdrawn_refused_and_forgotten)
{
	struct admission d;

	cr_assert_eq(take(&a, 0, PAGES, PAGES, 0), 0);
	cr_expect_eq(take_waiting(&b, 1, 1, 100, 5), SWAKV_EAGAIN);
	cr_expect(session_withdraw(b.s, 5));
	cr_assert(admitted(&d));
	cr_expect_eq(d.fault.reason, FAULT_WITHDRAWN);
	cr_expect(d.took);
	cr_expect_eq(take_waiting(&b, 1, 1, 100, 6), SWAKV_EAGAIN);
	session_end(b.s);
	cr_expect_eq(engine_waiting(engine), 0);
	cr_expect(!admitted(&d));
}

Test(managed, no_later_take_or_begin_of_the_model_overtakes_one_that_waits)
{
	struct worker second;
	struct admission d;
	int32_t slot = 0;
	uint64_t h;

	worker_open(&second, engine, make_model(TOKENS * 4, TOKENS, 4, TOKENS * 16), PAGES * PAGE_BYTES, 3);
	cr_assert_eq(session_join(second.s, "b"), 0);
	cr_assert_eq(take(&a, 0, PAGES - 16, PAGES - 16, 0), 0);
	cr_expect_eq(take_waiting(&b, 17, 17, 100, 1), SWAKV_EAGAIN);
	cr_expect_eq(take(&second, 0, 1, 1, 0), SWAKV_ENOPAGES);
	cr_expect_eq(second.f.reason, FAULT_QUEUE);
	cr_expect_eq(begin_on(&second, 0, &h, 1, &slot), SWAKV_ENOPAGES);
	cr_expect_eq(take(&a, 0, 1, 1, 0), 0, "no other model waits behind it");
	cr_assert_eq(give(&a, got, 1, NULL, 0), 0);
	cr_expect(!admitted(&d));
	worker_close(&second);
}

/* A begin waits, then a take of the same session, on pages behind its own points. */
Test(managed, takes_and_begins_stand_in_one_queue)
{
	const struct begin begin = { .slots = (int32_t[]){ 0 }, .n_slots = 1, .wait = 100, .ticket = 1 };
	struct admission d;
	int32_t held[PAGES];
	uint64_t h;

	cr_assert_eq(take(&a, 0, PAGES, PAGES, 0), 0);
	memcpy(held, got, sizeof(held));
	cr_expect_eq(request_begin_waiting(b.s, &begin, &h, &b.f), SWAKV_EAGAIN);
	cr_expect_eq(take_waiting(&b, 1, 1, 100, 2), SWAKV_EAGAIN);
	cr_assert_eq(give(&a, held, 1, NULL, 0), 0);
	cr_expect(!admitted(&d), "the take is behind the begin");
	cr_assert_eq(give(&a, held + 1, PAGES - 1, NULL, 0), 0);
	cr_assert(admitted(&d));
	cr_expect_eq(d.ticket, 1);
	cr_expect(!d.took);
	cr_assert(admitted(&d));
	cr_expect_eq(d.ticket, 2);
	cr_expect_eq(d.n_pages, 1);
}

/* ---- scrub ----------------------------------------------------------------------- */

/* Whoever takes @n pages, how many of them are dirty; all are given back. */
static uint32_t dirty(struct worker *w, uint32_t n, uint32_t flags)
{
	uint32_t found;

	cr_assert_eq(take(w, 0, n, n, flags), 0);
	found = clean_up();
	cr_assert_eq(give(w, got, n, NULL, 0), 0);
	return found;
}

Test(managed, used_pages_are_scrubbed_unless_their_last_holder_overwrites)
{
	cr_expect_eq(dirty(&a, PAGES, 0), 0, "nobody has used them");
	cr_expect_eq(dirty(&a, PAGES, 0), PAGES, "their own last holder reads what it masks, too");
	cr_expect_eq(dirty(&a, PAGES, WIRE_TAKE_OVERWRITES), 0);
	cr_expect_eq(dirty(&b, PAGES, WIRE_TAKE_OVERWRITES), PAGES, "another session had them last");
	cr_expect_eq(dirty(&b, PAGES, WIRE_TAKE_OVERWRITES), 0);
	cr_expect_eq(dirty(&a, PAGES, WIRE_TAKE_OVERWRITES), PAGES);
}

Test(managed, of_pages_side_by_side_those_of_others_are_dirty)
{
	enum { FIRST = 3, BETWEEN = 18 }; /* in the middle of extents */
	int32_t ids[PAGES];

	cr_assert_eq(take(&a, 0, PAGES, PAGES, WIRE_TAKE_OVERWRITES), 0);
	cr_expect_eq(clean_up(), 0);
	memcpy(ids, got, sizeof(ids));
	cr_assert_eq(give(&a, ids + FIRST, BETWEEN, NULL, 0), 0);
	cr_expect_eq(dirty(&b, BETWEEN, WIRE_TAKE_OVERWRITES), BETWEEN);
	cr_assert_eq(give(&a, ids, FIRST, NULL, 0), 0);
	cr_assert_eq(give(&a, ids + FIRST + BETWEEN, PAGES - FIRST - BETWEEN, NULL, 0), 0);
	cr_expect_eq(dirty(&b, PAGES, WIRE_TAKE_OVERWRITES), PAGES - BETWEEN,
		     "what it had itself is clean, wherever it lies");
}

Test(managed, a_request_of_another_session_finds_them_dirty)
{
	int32_t slot = 0, length = TOKENS;
	uint64_t h;

	cr_assert_eq(take(&a, 0, PAGES, PAGES, 0), 0);
	cr_assert_eq(give(&a, got, PAGES, NULL, 0), 0);
	cr_assert_eq(begin_on(&b, 0, &h, 1, &slot), 0);
	cr_assert_eq(prefill_prepare(&b, h, 1, &length), 0);
	cr_expect_eq(b.d.n_scrubs, 1);
}

Test(managed_policies, always_and_never, .fini = close_all)
{
	open_two(make_model(TOKENS * 4, TOKENS, 4, TOKENS * 16), WIRE_SCRUB_ALWAYS, false);
	cr_expect_eq(dirty(&a, PAGES, WIRE_TAKE_OVERWRITES), 0);
	cr_expect_eq(dirty(&a, PAGES, WIRE_TAKE_OVERWRITES), PAGES);
	close_all();
	open_two(make_model(TOKENS * 4, TOKENS, 4, TOKENS * 16), WIRE_SCRUB_NEVER, true);
	cr_expect_eq(dirty(&a, PAGES, 0), 0);
	cr_expect_eq(dirty(&b, PAGES, 0), 0);
}

Test(managed_policies, fresh_memory_of_a_gpu_is_dirty, .fini = close_all)
{
	open_two(make_model(TOKENS * 4, TOKENS, 4, TOKENS * 16), WIRE_SCRUB_OWNER_CHANGE, true);
	cr_expect_eq(dirty(&a, PAGES, 0), PAGES);
	cr_expect_eq(dirty(&b, PAGES, WIRE_TAKE_OVERWRITES), PAGES);
}

/* Two groups of one class: what one wrote is not the other's. */
Test(managed_policies, another_group_of_the_session_is_another_holder, .fini = close_all)
{
	struct model m = make_model(TOKENS * 4, TOKENS, 4, TOKENS * 16);
	struct give back = { .group = 1, .ids = got, .n = PAGES };

	m.n_groups = 2;
	m.groups[1] = m.groups[0];
	open_two(m, WIRE_SCRUB_OWNER_CHANGE, false);
	cr_assert_eq(dirty(&a, PAGES, 0), 0);
	cr_assert_eq(take(&a, 1, PAGES, PAGES, WIRE_TAKE_OVERWRITES), 0);
	cr_expect_eq(clean_up(), PAGES);
	cr_expect_eq(give(&a, got, 1, NULL, 0), SWAKV_EINVALID, "it was taken in the other group");
	cr_expect_eq(a.f.reason, FAULT_GIVE_PAGE);
	cr_expect_eq(pages_give(a.s, &back, a.armed, &a.f), 0);
}

/* ---- slices ------------------------------------------------------------------------ */

static uint32_t n_pauses;

static void on_pause(void *arg)
{
	n_pauses++;
	engine_looked(engine);
	check_all(engine);
	cr_expect(session_busy(a.s));
}

Test(managed_policies, long_takes_and_gives_are_cut, .fini = close_all)
{
	enum { MANY = 2000 };
	uint64_t half = MANY * PAGE_BYTES;
	struct model m = make_model(TOKENS * 4, TOKENS, 4, TOKENS * 16);
	static int32_t ids[MANY];
	struct wire_fence fence;

	engine = engine_new(&(struct engine_config){
		.half_bytes = half, .extent_bytes = half / 16, .scrub = WIRE_SCRUB_OWNER_CHANGE });
	worker_open(&a, engine, m, half, 1);
	worker_open(&b, engine, m, half, 2);
	engine_on_pause(engine, SLICE, on_pause, NULL);
	cr_assert_eq(take(&a, 0, MANY, MANY, 0), 0);
	cr_expect_gt(n_pauses, MANY / SLICE);
	memcpy(ids, got, sizeof(ids));
	ids[MANY - 1] = ids[0];
	n_pauses = 0;
	cr_expect_eq(give(&a, ids, MANY, NULL, 0), SWAKV_EINVALID);
	cr_expect_gt(n_pauses, MANY / SLICE);
	n_pauses = 0;
	fence = fence_line(&a, 0, 1);
	cr_expect_eq(give(&a, got, MANY / 2, &fence, 1), 0);
	cr_expect_eq(give(&a, got + MANY / 2, MANY / 4, NULL, 0), 0);
	cr_expect_gt(n_pauses, MANY / SLICE);
	session_end(a.s);
	check_all(engine);
	cr_expect_eq(session_reclaim(a.s), MANY - MANY / 4);
	cr_expect_leq(engine_longest(engine), SLICE, "%u operations without a pause", engine_longest(engine));
}
