/* SPDX-License-Identifier: Apache-2.0 */
/* test_totals.c - what a session has done since it attached */
#include "engine_worker.h"

enum { P = 16 };

TestSuite(totals, .fini = teardown);

static struct session_totals totals(void)
{
	struct session_totals t;

	session_total(w.s, &t);
	return t;
}

static void rewind_by(uint64_t h, int32_t tokens)
{
	cr_assert_eq(request_rewind(w.s, h, &tokens, 1, &w.f), 0);
}

/* Three sequences of one request, prefilled with 3, 5 and 7 tokens. */
static uint64_t begin_three(void)
{
	const int32_t slots[] = { 0, 1, 2 }, lengths[] = { 3, 5, 7 };
	uint64_t h;

	cr_assert_eq(begin_on(&w, 0, &h, 3, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 3, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	return h;
}

Test(totals, tokens_of_a_prefill_count_when_it_is_complete)
{
	const int32_t length = 9;
	uint64_t h;

	open_with(64, 64, P, 4, 256);
	h = begin(&w, 0);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_expect_eq(totals().prefilled, 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_expect_eq(totals().prefilled, 9);
	cr_expect_eq(totals().stepped, 0);
}

Test(totals, steps_inside_a_page_and_beyond_it_count_once_for_each_sequence)
{
	uint64_t h;

	open_with(64, 64, P, 4, 256);
	h = begin_three();
	decode(&w, h, 1);
	cr_expect_eq(totals().stepped, 3);
	decode(&w, h, 9);
	cr_expect_eq(totals().stepped, 30);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_expect_eq(totals().stepped, 30, "not before the complete");
}

Test(totals, steps_of_a_request_that_has_ended_stay_counted)
{
	uint64_t h;

	open_with(64, 64, P, 4, 256);
	h = begin_three();
	decode(&w, h, 5);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_expect_eq(totals().stepped, 15);
	h = begin_three();
	decode(&w, h, 2);
	cr_expect_eq(totals().stepped, 21);
	session_end(w.s);
	cr_expect_eq(totals().stepped, 21);
	cr_expect_eq(totals().prefilled, 30);
}

Test(totals, steps_of_a_sequence_that_a_compaction_drops_stay_counted)
{
	const int32_t map[] = { 1, -1, 0 };
	uint64_t h;

	open_with(64, 64, P, 4, 256);
	h = begin_three();
	decode(&w, h, 4);
	cr_assert_eq(request_compact_begin(w.s, h, map, 3, 2, 0, &w.d, &w.f), 0);
	cr_assert_eq(request_compact_complete(w.s, h, &fence_done, 0, &w.d, &w.f), 0);
	cr_expect_eq(totals().stepped, 12);
	decode(&w, h, 1);
	cr_expect_eq(totals().stepped, 14);
}

Test(totals, tokens_that_are_rejected_do_not_count_and_those_taken_back_do)
{
	struct model m = make_model(64, P, 4, 256);
	const int32_t two = 2;
	uint64_t h;

	e = make_engine(64, P);
	m.chunk_mapped = true;
	m.max_rewind = 4;
	worker_open(&w, e, m, 64 * P * TOKEN_BYTES, 1);
	h = begin(&w, 0);
	prefill(&w, h, 6);
	cr_assert_eq(step_one(&w, h, 5, NULL), 0);
	cr_assert_eq(step_one_complete(&w, h, -1, &two, fence_done), 0);
	cr_expect_eq(totals().stepped, 2);
	rewind_by(h, 2);
	cr_expect_eq(totals().stepped, 2, "a count only rises");
	decode(&w, h, 3);
	cr_expect_eq(totals().stepped, 5);
}

Test(totals, pages_that_are_returned_are_those_that_were_taken_and_are_not_held)
{
	struct session_totals t;
	uint64_t h;

	open_with(64, 64, P, 4, 256);
	h = begin(&w, 0);
	t = totals();
	cr_expect_gt(t.pages_taken, 0);
	cr_expect_eq(t.pages_taken, (uint64_t)session_held_pages(w.s, 0));
	cr_expect_eq(t.pages_returned, 0);
	prefill(&w, h, 80);
	decode(&w, h, 48);
	cr_expect_eq(totals().pages_taken, t.pages_taken, "its own pages come round");
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_expect_eq(totals().pages_taken, t.pages_taken);
	cr_expect_eq(totals().pages_returned, t.pages_taken);
}

Test(totals, pages_in_quarantine_are_not_returned)
{
	struct session_totals t;
	uint64_t h;

	open_with(64, 64, P, 4, 256);
	h = begin(&w, 0);
	prefill(&w, h, 5);
	t = totals();
	session_end(w.s);
	cr_expect_eq(totals().pages_returned, 0);
	session_reclaim(w.s);
	cr_expect_eq(totals().pages_returned, t.pages_taken);
}

/* Pages that another has bound are dirty for whoever takes them next, and its own are not. */
Test(totals, pages_that_are_scrubbed_are_those_that_the_worker_is_told_of)
{
	const uint64_t half = 64 * P * TOKEN_BYTES;
	struct worker other;
	int32_t ids[64];
	uint32_t n;
	const struct take all = { .min = 64, .max = 64 };
	uint64_t h;

	e = engine_new(
		&(struct engine_config){ .half_bytes = half, .extent_bytes = half, .scrub = WIRE_SCRUB_OWNER_CHANGE });
	cr_assert_not_null(e);
	worker_open(&w, e, make_model(64, P, 4, 256), half, 1);
	worker_open(&other, e, make_model(64, P, 4, 256), half, 2);
	cr_assert_eq(pages_take(other.s, &all, ids, &n, &w.f), 0);
	cr_assert_eq(pages_give(other.s, &(struct give){ .ids = ids, .n = 64 }, other.armed, &w.f), 0);
	h = begin(&w, 0);
	cr_expect_eq(totals().pages_scrubbed, 0, "none is bound yet");
	prefill(&w, h, 20);
	cr_expect_eq(totals().pages_scrubbed, 2);
	decode(&w, h, 13);
	cr_expect_eq(totals().pages_scrubbed, 3, "and the one that a step has bound");
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_assert_eq(pages_take(w.s, &all, ids, &n, &w.f), 0);
	cr_expect_eq(totals().pages_scrubbed, 3 + 64, "it may read any, those that it has had, too");
	for (uint32_t i = 0; i < n; i++)
		ids[i] = ids[i] < 0 ? ~ids[i] : ids[i];
	cr_assert_eq(pages_give(w.s, &(struct give){ .ids = ids, .n = 64 }, w.armed, &w.f), 0);
	worker_close(&other);
}

static int32_t taken[64];

static void take(struct worker *of, uint32_t n, uint64_t wait, int code)
{
	uint32_t got;

	cr_assert_eq(pages_take(of->s, &(struct take){ .min = n, .max = n, .wait = wait }, taken, &got, &w.f), code);
	for (uint32_t i = 0; i < got; i++)
		taken[i] = taken[i] < 0 ? ~taken[i] : taken[i];
}

static void give(uint32_t from, uint32_t n)
{
	cr_assert_eq(pages_give(w.s, &(struct give){ .ids = taken + from, .n = n }, w.armed, &w.f), 0);
}

Test(totals, pages_given_count_as_yielded_as_far_as_they_were_asked_for)
{
	struct worker other;

	open_with(64, 64, P, 4, 256);
	worker_open(&other, e, make_model(64, P, 4, 256), 64 * P * TOKEN_BYTES, 2);
	cr_assert_eq(session_join(other.s, "other"), 0);
	engine_stamp(e, 5);
	take(&w, 60, 0, 0);
	give(58, 2);
	cr_expect_eq(totals().pages_yielded, 0, "nobody has asked");
	take(&other, 10, 1000, SWAKV_EAGAIN);
	engine_press(e);
	give(55, 3);
	cr_expect_eq(totals().pages_yielded, 3);
	give(50, 5);
	cr_expect_eq(totals().pages_yielded, 4, "of 10 lacking 6 were free");
	engine_press(e);
	give(0, 50);
	cr_expect_eq(totals().pages_yielded, 4);
	worker_close(&other);
}
