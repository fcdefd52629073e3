/* SPDX-License-Identifier: Apache-2.0 */
/* Completion points: as many as a session may have, and which of them is the oldest. */
#include "engine_fixture.h"

#include "turn.h"
#include "wire_turn.h"

enum { PAGE_TOKENS = 16, BATCH = 12, MAX_SEQ = 4096 };

static struct worker w;
static struct engine *engine;
static uint64_t value; /* marked last on line 0 */

static void setup(void)
{
	const uint64_t half = 2 << 20;
	struct model m = make_model(8 * PAGE_TOKENS, PAGE_TOKENS, BATCH, MAX_SEQ);

	m.max_rewind = 4;
	engine = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 64 << 10 });
	cr_assert_not_null(engine);
	worker_open(&w, engine, m, half, 1);
	value = 0;
}

static void teardown(void)
{
	worker_close(&w);
	engine_free(engine);
}

TestSuite(points, .init = setup, .fini = teardown, .timeout = 60);

static struct wire_fence next_mark(void)
{
	return fence_line(&w, 0, ++value);
}

/* A request of one sequence that executes. */
static uint64_t executing(int32_t slot)
{
	uint64_t h = begin(&w, slot);

	prefill(&w, h, 3);
	return h;
}

/* Steps of @h, each with a mark that the device does not reach, until no point is left for one more. */
static uint32_t fill_points(uint64_t h)
{
	struct session_counts n;
	int r;

	while ((r = decode_prepare(&w, h)) == 0)
		cr_assert_eq(decode_complete(&w, h, next_mark()), 0);
	cr_assert_eq(r, SWAKV_EPENDING);
	cr_assert_eq(w.f.reason, FAULT_POINTS_FULL, "refused for another reason, %d", w.f.reason);
	session_count(w.s, &n);
	return n.open_points;
}

#define PENDS(call)                                                                                                    \
	do {                                                                                                           \
		cr_expect_eq((call), SWAKV_EPENDING);                                                                  \
		cr_expect_eq(w.f.reason, FAULT_POINTS_FULL, "%s: reason %d", #call, w.f.reason);                       \
		check_all(engine);                                                                                     \
	} while (0)

static int compact(uint64_t h)
{
	static const int32_t keep[] = { 0 };

	return request_compact_begin(w.s, h, keep, 1, 1, 0, &w.d, &w.f);
}

/* A prepare opens as many points as its complete may need, so it is the one that is refused. */
Test(points, all_that_need_a_point_wait_when_none_is_left)
{
	const int32_t slot = 5, length = 7;
	uint64_t admitted = begin(&w, 1), h = executing(0), other;
	uint32_t n = fill_points(h);

	cr_expect_gt(n, 2 * BATCH, "%u points are few", n);
	PENDS(decode_prepare(&w, h));
	PENDS(step_one(&w, h, 3, NULL));
	PENDS(prefill_prepare(&w, admitted, 1, &length));
	PENDS(compact(h));
	/* One that is left over does for a begin; requests take what is left until none is. */
	for (int32_t s = 2; begin_on(&w, 0, &other, 1, &s) == 0; s++)
		cr_assert_lt(s, slot, "begins do not end");
	PENDS(begin_on(&w, 0, &other, 1, &slot));
}

Test(points, all_goes_on_once_the_word_is_reached)
{
	const int32_t length = 7;
	uint64_t admitted = begin(&w, 1), h = executing(0), other;
	int32_t slot = 5;

	fill_points(h);
	reach(&w, 0, value);
	cr_expect_eq(step_one(&w, h, 3, NULL), 0);
	cr_expect_eq(step_one_complete(&w, h, 0, NULL, next_mark()), 0);
	cr_expect_eq(prefill_prepare(&w, admitted, 1, &length), 0);
	cr_expect_eq(prefill_complete(&w, admitted, next_mark()), 0);
	cr_expect_eq(compact(h), 0);
	cr_expect_eq(request_compact_complete(w.s, h, &fence_done, w.armed[0], &w.d, &w.f), 0);
	check_all(engine);
	cr_expect_eq(begin_on(&w, 0, &other, 1, &slot), 0);
	cr_expect_eq(decode_prepare(&w, h), 0);
}

/* Where all entries are alike, too: each has its point, or is refused alone. */
Test(points, entries_of_one_message_that_are_alike_have_no_points_of_others)
{
	enum { BOTH = WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE };
	uint64_t first = executing(0), second = executing(1), third = executing(2);
	uint64_t entries[] = { wire_turn_entry(first, BOTH), wire_turn_entry(second, BOTH) };
	struct wire_entry_fault faults[2];
	struct turn_answer answer = { .faults = faults };
	struct turn turn = { .entries = entries, .n = 2 };

	cr_assert_eq(decode_prepare(&w, first), 0);
	cr_assert_eq(decode_prepare(&w, second), 0);
	fill_points(third);
	turn.fence = next_mark();
	cr_assert_eq(step_turn(w.s, &turn, w.armed, &answer, &w.d, &w.f), 0);
	check_all(engine);
	cr_assert_eq(answer.n_faults, 1);
	cr_expect_eq(faults[0].entry, 1);
	cr_expect_eq(faults[0].fault.reason, FAULT_POINTS_FULL, "reason %d", faults[0].fault.reason);
}

/* What ends a request must never be refused for want of a point: one is kept for each. */
Test(points, requests_end_when_no_point_is_left)
{
	uint64_t h = executing(0), second = executing(1), third = begin(&w, 2);

	fill_points(h);
	cr_expect_eq(finish(&w, second, next_mark()), 0);
	cr_expect_eq(abandon(&w, third, next_mark()), 0);
	cr_expect_eq(finish(&w, h, next_mark()), 0);
	reach(&w, 0, value);
	cr_expect_eq(counts(&w).leased, 0);
}

/*
 * Those that are prepared have their points, two for a compaction that drops a sequence, and their ends have: whatever
 * the fences, none is refused.
 */
Test(points, what_is_prepared_is_completed_and_ends_when_no_point_is_left)
{
	enum { COMPACTED = 5 };
	const int32_t drop[] = { 0, -1 }, lengths[] = { 40, 40 };
	uint64_t h = executing(0), stepped = executing(1), other[COMPACTED];
	struct wire_fence mark;

	for (int32_t i = 0; i < COMPACTED; i++) {
		const int32_t slots[] = { 2 + 2 * i, 3 + 2 * i };

		cr_assert_eq(begin_on(&w, 0, &other[i], 2, slots), 0);
		cr_assert_eq(prefill_prepare(&w, other[i], 2, lengths), 0);
		cr_assert_eq(prefill_complete(&w, other[i], fence_done), 0);
		cr_assert_eq(request_compact_begin(w.s, other[i], drop, 2, 1, 0, &w.d, &w.f), 0);
	}
	cr_assert_eq(decode_prepare(&w, stepped), 0);
	fill_points(h);
	cr_expect_eq(decode_complete(&w, stepped, next_mark()), 0);
	for (int32_t i = 0; i < COMPACTED; i++) {
		mark = next_mark();
		cr_expect_eq(request_compact_complete(w.s, other[i], &mark, w.armed[0], &w.d, &w.f), 0);
		check_all(engine);
	}
	for (int32_t i = 0; i < COMPACTED; i++)
		cr_expect_eq(finish(&w, other[i], next_mark()), 0);
	cr_expect_eq(finish(&w, stepped, next_mark()), 0);
	cr_expect_eq(finish(&w, h, next_mark()), 0);
	reach(&w, 0, value);
	cr_expect_eq(counts(&w).leased, 0);
}

/* A rewind gives pages up behind the marks that are open: it opens none that nobody has counted. */
Test(points, a_rewind_takes_no_point_that_is_not_there)
{
	uint64_t h = executing(0);
	int32_t tokens = 2;
	int r;

	fill_points(h);
	r = request_rewind(w.s, h, &tokens, 1, &w.f);
	cr_expect(r == 0 || r == SWAKV_EPENDING, "%d", r);
	check_all(engine);
	reach(&w, 0, value);
	cr_expect_eq(decode_prepare(&w, h), 0);
	cr_expect_eq(decode_complete(&w, h, next_mark()), 0);
	cr_expect_eq(request_rewind(w.s, h, &tokens, 1, &w.f), 0);
	check_all(engine);
}

/* ---- the oldest ------------------------------------------------------------------------- */

static void expect_oldest(uint64_t stamp, uint32_t line)
{
	uint64_t got = 0;
	uint32_t on = 99;

	cr_assert(session_oldest_point(w.s, &got, &on));
	cr_expect_eq(got, stamp, "stamp %llu", (unsigned long long)got);
	cr_expect_eq(on, line);
}

static void step_at(uint64_t h, uint64_t stamp, struct wire_fence fence)
{
	engine_stamp(engine, stamp);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence), 0);
}

Test(points, the_oldest_of_a_line_is_the_one_that_is_open_longest)
{
	uint64_t h = executing(0), stamp;
	uint32_t line;

	cr_expect_not(session_oldest_point(w.s, &stamp, &line));
	step_at(h, 100, next_mark());
	step_at(h, 200, next_mark());
	step_at(h, 300, next_mark());
	expect_oldest(100, 0);
	reach(&w, 0, 1);
	expect_oldest(200, 0);
	reach(&w, 0, 3);
	cr_expect_not(session_oldest_point(w.s, &stamp, &line));
}

Test(points, the_oldest_of_all_lines_counts)
{
	const int32_t slot = 1;
	uint64_t h = executing(0), other;

	cr_assert_eq(begin_on(&w, 1, &other, 1, &slot), 0);
	prefill(&w, other, 3);
	step_at(other, 50, fence_line(&w, 1, 1));
	step_at(h, 100, next_mark());
	step_at(other, 150, fence_line(&w, 1, 2));
	expect_oldest(50, 1);
	reach(&w, 1, 1);
	expect_oldest(100, 0);
	reach(&w, 0, 1);
	expect_oldest(150, 1);
}

/* Requests of one stream may complete in another order than that of their marks. */
Test(points, the_oldest_need_not_have_the_smallest_value)
{
	uint64_t h = executing(0), other = executing(1);

	step_at(other, 100, fence_line(&w, 0, 2));
	step_at(h, 200, fence_line(&w, 0, 1));
	expect_oldest(100, 0);
	reach(&w, 0, 1);
	expect_oldest(100, 0);
}

/* ---- values that fall --------------------------------------------------------------------- */

Test(points, points_of_a_request_whose_values_fall_leave_in_any_order)
{
	static const uint64_t values[] = { 5, 3, 9, 4, 9, 7 };
	uint64_t h = executing(0);

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		cr_assert_eq(decode_prepare(&w, h), 0);
		cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, values[i])), 0);
	}
	cr_expect_eq(request_state(&w, h).open_points, 5, "the second 9 joins the first");
	for (uint64_t word = 1; word <= 9; word++)
		reach(&w, 0, word);
	cr_expect_eq(request_state(&w, h).open_points, 0);
	cr_expect_eq(finish(&w, h, fence_done), 0);
}

/* ---- pages behind them -------------------------------------------------------------------- */

static int64_t behind(void)
{
	struct session_counts n;

	session_count(w.s, &n);
	return n.behind_points;
}

Test(points, pages_behind_points_are_counted_until_the_word_is_reached)
{
	uint64_t h = executing(0), other = executing(1);
	int64_t pages = state(&w, h, 0).n_bound + state(&w, h, 0).n_reserved;
	uint64_t weight = points_weight(w.s);

	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, next_mark()), 0);
	cr_expect_eq(behind(), 0);
	cr_assert_eq(finish(&w, h, next_mark()), 0);
	cr_expect_eq(behind(), pages);
	cr_assert_eq(decode_prepare(&w, other), 0);
	cr_assert_eq(decode_complete(&w, other, next_mark()), 0);
	cr_expect_gt(points_weight(w.s), weight + (uint64_t)pages);
	reach(&w, 0, value);
	cr_expect_eq(behind(), 0);
	cr_expect_eq(points_weight(w.s), weight);
}

/* ---- many of them: a worker whose device stands still, and whose values rise or fall ------ */

enum { MANY = 12000 };

static void on_pause(void *arg)
{
	engine_looked(engine);
}

static void setup_many(void)
{
	struct model m = make_model(8 * PAGE_TOKENS, PAGE_TOKENS, 512, 1 << 15);
	const uint64_t half = 16 << 20;

	m.in_flight = 30;
	engine = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 1 << 20 });
	cr_assert_not_null(engine);
	worker_open(&w, engine, m, half, 1);
	engine_on_pause(engine, 0, on_pause, NULL);
	value = 0;
}

static void teardown_many(void)
{
	cr_expect_leq(engine_longest(engine), ENGINE_SLICE, "%u operations without a pause", engine_longest(engine));
	teardown();
}

TestSuite(many_points, .init = setup_many, .fini = teardown_many, .timeout = 120);

/* MANY steps of @h, completed with @first, @first + @by and so on. */
static void open_many(uint64_t h, uint64_t first, int64_t by)
{
	struct wire_step_entry entry = { .request = h, .tokens = 1 };
	const struct step step = { .entries = &entry, .n = 1 };
	struct wire_entry_fault faults[1];
	uint32_t n;

	for (uint64_t i = 0; i < MANY; i++, first += (uint64_t)by) {
		cr_assert(step_prepare(w.s, &step, faults, &n, &w.d, &w.f) == 0 && n == 0);
		entry.fence = fence_line(&w, 0, first);
		cr_assert(step_complete(w.s, &step, w.armed, faults, &n, &w.f) == 0 && n == 0);
	}
	check_all(engine);
}

/* The oldest point is the last of its request's: nobody looks for it. */
Test(many_points, reaching_all_points_of_a_request_at_once_costs_each_once)
{
	uint64_t h = executing(0), before;

	open_many(h, 1, 1);
	before = engine_pauses(engine);
	session_reach(w.s, 0, MANY);
	cr_expect(!session_has_open(w.s, 0));
	cr_expect_geq(engine_pauses(engine) - before, MANY / ENGINE_SLICE, "a point without pages is work, too");
	cr_expect_lt(engine_pauses(engine) - before, 16 * MANY / ENGINE_SLICE);
	check_all(engine);
	cr_expect_eq(finish(&w, h, fence_done), 0);
}

Test(many_points, a_step_costs_the_same_however_many_points_are_open)
{
	uint64_t h = executing(0), before = engine_pauses(engine);

	open_many(h, 1, 1);
	cr_expect_lt(engine_pauses(engine) - before, 64 * MANY / ENGINE_SLICE, "%lu",
		     (unsigned long)(engine_pauses(engine) - before));
}

/* Each stands before all that are open. */
Test(many_points, points_that_are_passed_to_insert_one_are_work)
{
	uint64_t h = executing(0), before = engine_pauses(engine), least = (uint64_t)MANY / 2 * MANY / ENGINE_SLICE;

	open_many(h, 2 * MANY, -1);
	cr_expect_geq(engine_pauses(engine) - before, 2 * least, "the line's points, and those of its own request");
	before = engine_pauses(engine);
	session_reach(w.s, 0, 2 * MANY);
	cr_expect_lt(engine_pauses(engine) - before, 16 * MANY / ENGINE_SLICE);
	check_all(engine);
}

static void expect_weighed(uint64_t weight, const struct wire_step_entry *entry)
{
	const struct step step = { .entries = entry, .n = 1 };
	struct wire_entry_fault faults[1];
	uint64_t before;
	uint32_t n;

	engine_on_pause(engine, 1 << 30, NULL, NULL); /* so that all is in one count */
	engine_looked(engine);
	before = engine_spent(engine);
	cr_assert(step_complete(w.s, &step, w.armed, faults, &n, &w.f) == 0 && n == 0);
	cr_expect_leq(engine_spent(engine) - before, weight, "%u, weighed %lu", engine_spent(engine),
		      (unsigned long)weight);
	engine_on_pause(engine, 0, on_pause, NULL);
	engine_looked(engine);
}

Test(many_points, a_fence_is_weighed_by_the_points_that_it_passes)
{
	struct wire_step_entry entry = { .tokens = 1 };
	const struct step step = { .entries = &entry, .n = 1 };
	struct wire_entry_fault faults[1];
	uint64_t heavy, light;
	uint32_t n;

	entry.request = executing(0);
	open_many(entry.request, MANY, -1);
	cr_assert_eq(step_prepare(w.s, &step, faults, &n, &w.d, &w.f), 0);
	entry.fence = fence_line(&w, 0, 1);
	heavy = fence_weight(w.s, entry.request, &entry.fence, 0);
	cr_expect_geq(heavy, 2 * MANY);
	expect_weighed(heavy + 64, &entry);
	session_reach(w.s, 0, MANY);
	cr_assert_eq(step_prepare(w.s, &step, faults, &n, &w.d, &w.f), 0);
	entry.fence = fence_line(&w, 0, MANY + 1);
	light = fence_weight(w.s, entry.request, &entry.fence, 0);
	cr_expect_leq(light, 4, "%lu", (unsigned long)light);
	cr_expect_gt(fence_weight(w.s, entry.request, &entry.fence, MANY + 2), light, "another of the call gives more");
	expect_weighed(light + 64, &entry);
}

/* The last sequence's one page lies behind those of all others. */
Test(many_points, pages_of_others_that_a_query_passes_are_work)
{
	struct wire_query_state q = { .seq = 255 };
	struct wire_sequence_state out;
	struct wire_binding bindings[64];
	int32_t slots[256], lengths[256];
	uint64_t h, before;
	uint32_t n;

	for (int32_t i = 0; i < 256; i++) {
		slots[i] = i;
		lengths[i] = 8 * PAGE_TOKENS;
	}
	cr_assert_eq(request_begin_waiting(w.s, &(struct begin){ .slots = slots, .n_slots = 256, .unordered = true },
					   &h, &w.f),
		     0);
	cr_assert_eq(prefill_prepare(&w, h, 256, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, next_mark()), 0);
	for (int i = 0; i < 4 * PAGE_TOKENS; i++) {
		cr_assert_eq(decode_prepare(&w, h), 0);
		cr_assert_eq(decode_complete(&w, h, next_mark()), 0);
	}
	cr_assert_eq(state(&w, h, 255).n_staged, 4);
	before = engine_pauses(engine);
	cr_assert_eq(sequence_query(w.s, h, &q, &out, bindings, 64, &n, &w.f), 0);
	cr_expect_geq(engine_pauses(engine) - before, 2, "1,024 pages were looked at");
	cr_assert_eq(abandon(&w, h, fence_done), 0);
}
