/* SPDX-License-Identifier: Apache-2.0 */
/* A begin that only waits for open points of its own session: `pending`, or it waits (spec section 3). */
#include "engine_worker.h"

TestSuite(behind, .fini = teardown);

enum { P = 16 };

static struct worker other;

/* @n sequences of one page each, from slot @first on. */
static int take(struct worker *x, uint32_t stream, int32_t first, uint32_t n, uint64_t wait, uint64_t *h)
{
	const int32_t slots[] = { first, first + 1, first + 2, first + 3 };
	const struct begin b = {
		.stream = stream, .max_tokens = P, .slots = slots, .n_slots = n, .wait = wait, .ticket = (uint64_t)first
	};
	int code = request_begin_waiting(x->s, &b, h, &x->f);

	check_all(e);
	return code;
}

/* A request of @n pages that has ended behind @value of stream 0. */
static void end_behind(struct worker *x, int32_t first, uint32_t n, uint64_t value)
{
	const int32_t lengths[] = { 1, 1, 1, 1 };
	uint64_t h;

	cr_assert_eq(take(x, 0, first, n, 0, &h), 0);
	cr_assert_eq(prefill_prepare(x, h, (int)n, lengths), 0);
	cr_assert_eq(prefill_complete(x, h, fence_line(x, 0, value)), 0);
	cr_assert_eq(finish(x, h, fence_point), 0);
}

/* What is decided next is the begin of slot @first. */
static void expect_decided(int32_t first, int code)
{
	struct admission a;

	cr_assert(engine_admit(e, &a));
	cr_assert_eq(a.ticket, (uint64_t)first);
	cr_assert_eq(a.code, code, "%d", a.code);
	check_all(e);
}

static void expect_nothing_decided(void)
{
	struct admission a;

	cr_assert_not(engine_admit(e, &a));
}

Test(behind, a_begin_that_lacks_only_pages_behind_its_own_points_is_pending)
{
	uint64_t h;

	open_with(4, 16, P, 8, 256);
	end_behind(&w, 0, 3, 1);
	cr_assert_eq(take(&w, 0, 4, 2, 0, &h), SWAKV_EPENDING);
	cr_assert_eq(w.f.reason, FAULT_BEGIN_PENDING);
	cr_assert_eq(h, 0);
	reach(&w, 0, 1);
	cr_assert_eq(take(&w, 0, 4, 2, 0, &h), 0);
}

Test(behind, a_reserve_that_lacks_only_pages_behind_its_own_points_is_pending)
{
	uint64_t h;

	open_with(6, 128, P, 8, 256);
	cr_assert_eq(take(&w, 0, 4, 1, 0, &h), 0);
	end_behind(&w, 0, 4, 1);
	cr_assert_eq(request_reserve(w.s, h, 3 * P, &w.f), SWAKV_EPENDING);
	cr_assert_eq(w.f.reason, FAULT_BEGIN_PENDING);
	check_all(e);
	reach(&w, 0, 1);
	cr_assert_eq(request_reserve(w.s, h, 3 * P, &w.f), 0);
	check_all(e);
}

Test(behind, a_reserve_that_lacks_what_others_hold_is_nopages)
{
	uint64_t h;

	open_with(6, 128, P, 8, 256);
	worker_open(&other, e, make_model(16, P, 8, 256), 6ull * P * TOKEN_BYTES, 2);
	cr_assert_eq(take(&w, 0, 4, 1, 0, &h), 0);
	end_behind(&w, 0, 1, 1);
	cr_assert_eq(take(&other, 0, 0, 4, 0, &(uint64_t){ 0 }), 0);
	cr_assert_eq(request_reserve(w.s, h, 3 * P, &w.f), SWAKV_ENOPAGES);
	worker_close(&other);
}

Test(behind, pages_that_others_hold_as_well_are_nopages)
{
	uint64_t h;

	open_with(6, 16, P, 8, 256);
	worker_open(&other, e, make_model(16, P, 8, 256), 6ull * P * TOKEN_BYTES, 2);
	end_behind(&w, 0, 2, 1);
	cr_assert_eq(take(&other, 0, 0, 2, 0, &h), 0);
	cr_assert_eq(take(&w, 0, 4, 4, 0, &h), SWAKV_EPENDING);
	cr_assert_eq(take(&other, 0, 4, 3, 0, &h), SWAKV_ENOPAGES, "points of another session");
	cr_assert_eq(take(&other, 0, 2, 2, 0, &h), 0);
	cr_assert_eq(take(&w, 0, 4, 3, 0, &h), SWAKV_ENOPAGES);
	worker_close(&other);
}

Test(behind, with_a_wait_it_waits_and_is_admitted)
{
	uint64_t h;

	open_with(4, 16, P, 8, 256);
	engine_stamp(e, 1000);
	end_behind(&w, 0, 4, 1);
	cr_assert_eq(take(&w, 0, 4, 2, 500, &h), SWAKV_EAGAIN);
	expect_nothing_decided();
	reach(&w, 0, 1);
	expect_decided(4, 0);
}

Test(behind, a_slot_behind_a_point_of_another_stream_is_waited_for_as_well)
{
	uint64_t h;

	open_with(8, 16, P, 8, 256);
	engine_stamp(e, 1000);
	end_behind(&w, 0, 2, 1);
	cr_assert_eq(take(&w, 1, 0, 2, 0, &h), SWAKV_EPENDING);
	cr_assert_eq(w.f.reason, FAULT_SLOT_PENDING);
	cr_assert_eq(take(&w, 1, 0, 2, 500, &h), SWAKV_EAGAIN);
	cr_assert_eq(take(&w, 0, 0, 1, 0, &h), SWAKV_EBUSY, "its slots are taken");
	expect_nothing_decided();
	reach(&w, 0, 1);
	expect_decided(0, 0);
}

/* The former request's work is still ahead: one that came in between on its stream, and did none, takes nothing from
 * it. */
Test(behind, a_request_without_work_does_not_free_its_slots_for_another_stream)
{
	uint64_t h;

	open_with(8, 16, P, 8, 256);
	end_behind(&w, 0, 2, 1);
	cr_assert_eq(take(&w, 0, 0, 2, 0, &h), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_assert_eq(take(&w, 1, 0, 2, 0, &h), SWAKV_EPENDING);
	cr_assert_eq(w.f.reason, FAULT_SLOT_PENDING);
	reach(&w, 0, 1);
	cr_assert_eq(take(&w, 1, 0, 2, 0, &h), 0);
}

Test(behind, when_its_time_is_up_it_is_pending)
{
	uint64_t h;

	open_with(4, 16, P, 8, 256);
	engine_stamp(e, 1000);
	end_behind(&w, 0, 4, 1);
	cr_assert_eq(take(&w, 0, 4, 2, 500, &h), SWAKV_EAGAIN);
	cr_assert_eq(take(&w, 0, 6, 2, 500, &h), SWAKV_EAGAIN);
	engine_stamp(e, 1500);
	expect_decided(4, SWAKV_EPENDING);
	expect_decided(6, SWAKV_EPENDING);
	expect_nothing_decided();
}

Test(behind, what_never_fits_is_not_waited_for)
{
	uint64_t h;

	open_with(3, 16, P, 8, 256);
	end_behind(&w, 0, 3, 1);
	cr_assert_eq(take(&w, 0, 4, 4, 0, &h), SWAKV_ENEVER);
	cr_assert_eq(take(&w, 1, 0, 4, 500, &h), SWAKV_ENEVER, "its slots are pending, too");
}

Test(behind, pages_behind_its_own_points_count_for_its_ceiling)
{
	const uint64_t ceiling = 2 * 4 * P * TOKEN_BYTES;
	uint64_t h;

	open_with(20, 16, P, 8, 256);
	cr_assert_eq(session_join(w.s, "m"), 0);
	cr_assert_eq(engine_limit(e, "m", NULL, &ceiling, &w.f), 0);
	end_behind(&w, 0, 3, 1);
	cr_assert_eq(take(&w, 0, 4, 2, 0, &h), SWAKV_EPENDING);
	cr_assert_eq(take(&w, 0, 3, 1, 0, &h), 0);
	cr_assert_eq(take(&w, 0, 4, 4, 0, &h), SWAKV_ENOPAGES, "one page is bound to a request that lives");
}

Test(behind, what_a_longer_step_left_counts)
{
	struct model m = make_model(32, P, 4, 4096);
	int32_t slot = 1;
	uint64_t h;

	m.max_advance = 1;
	m.chunk_mapped = true;
	e = make_engine(8, P);
	worker_open(&w, e, m, 8ull * P * TOKEN_BYTES, 1); /* 3 pages a sequence */
	h = begin(&w, 0);
	prefill(&w, h, 32);
	cr_assert_eq(step_one(&w, h, 96, NULL), 0); /* 8 pages */
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), SWAKV_ENOPAGES, "the step has them all");
	h = 0; /* the first request */
	cr_assert(session_next_request(w.s, &h));
	cr_assert_eq(step_one_complete(&w, h, 0, NULL, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), SWAKV_EPENDING);
	reach(&w, 0, 1);
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), 0);
}
