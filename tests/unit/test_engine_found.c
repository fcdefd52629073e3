/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the page engine that the random test has found: one test a fault. */
#include "engine_fixture.h"

static struct engine *e;
static struct worker w;

static void setup(void)
{
	e = make_engine(64, 16);
	worker_open(&w, e, make_model(32, 16, 2, 256), 64 * 16 * TOKEN_BYTES, 1);
}

static void teardown(void)
{
	worker_close(&w);
	engine_free(e);
}

TestSuite(found, .init = setup, .fini = teardown);

static void compact_to_none(uint64_t h)
{
	int32_t drop = -1;

	cr_assert_eq(request_compact_begin(w.s, h, &drop, 1, 0, 0, &w.d, &w.f), 0);
	cr_assert_eq(request_compact_complete(w.s, h, &fence_done, 0, &w.d, &w.f), 0);
	check_all(e);
}

/* Requests without sequences hold no slot, but an entry: with all entries held a begin went to entry -1. */
Test(found, begin_is_busy_when_emptied_requests_hold_every_entry)
{
	uint64_t h[2], more;
	int32_t slot = 0;

	for (int i = 0; i < 2; i++) {
		h[i] = begin(&w, 0);
		prefill(&w, h[i], 40);
		compact_to_none(h[i]);
	}
	cr_assert_eq(begin_on(&w, 0, &more, 1, &slot), SWAKV_EBUSY);
	cr_assert_eq(w.f.reason, FAULT_REQUESTS_FULL);
	cr_assert_eq(finish(&w, h[0], fence_done), 0);
	cr_assert_eq(begin_on(&w, 0, &more, 1, &slot), 0);
}

/* A complete took POINT, which only a finish or abandon may give, as "everything armed so far". */
Test(found, complete_refuses_a_fence_of_kind_point)
{
	int32_t length = 40, map = 0;
	uint64_t h = begin(&w, 0);

	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_point), SWAKV_EINVALID);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_point), SWAKV_EINVALID);
	cr_assert_eq(w.f.reason, FAULT_FENCE_KIND);
	cr_assert_eq(decode_complete(&w, h, fence_done), 0);
	cr_assert_eq(request_compact_begin(w.s, h, &map, 1, 1, 0, &w.d, &w.f), 0);
	cr_assert_eq(request_compact_complete(w.s, h, &fence_point, 0, &w.d, &w.f), SWAKV_EINVALID);
}

/* Fences of streams without quarantined work, and all of them in a healthy session, were never looked at. */
Test(found, shutdown_checks_the_fence_of_every_stream)
{
	struct wire_fence fences[2] = { fence_done, { .kind = 9 } };
	uint64_t h;

	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EINVALID);
	cr_assert_eq(w.f.reason, FAULT_FENCE_KIND);
	h = begin(&w, 0);
	fences[1] = (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = 0 };
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EINVALID);
	fences[1] = (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = 1, .value = 1 };
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EINVALID);
	fences[1] = fence_done;
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EBUSY);
	cr_assert_eq(finish(&w, h, fence_failed), SWAKV_EPOISONED);
	fences[1] = (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = 0 };
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EINVALID);
	fences[1] = fence_done;
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), 0);
}

/* Completes, ends, queries and shutdown answered `invalid`, or success, in a session that has ended. */
Test(found, every_call_of_an_ended_session_is_gone)
{
	struct wire_fence fences[2] = { fence_done, fence_done };
	struct wire_query_state q = { 0 };
	struct wire_step_entry entry = { 0 };
	struct wire_sequence_state st;
	struct wire_request_state rs;
	struct wire_entry_fault fault;
	uint64_t h = begin(&w, 0), other;
	int32_t length = 40;
	uint32_t n;

	prefill(&w, h, length);
	session_end(w.s);
	entry.request = h;
	cr_assert_eq(begin_on(&w, 0, &other, 1, &length), SWAKV_EGONE);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), SWAKV_EGONE);
	cr_assert_eq(prefill_complete(&w, h, fence_done), SWAKV_EGONE);
	cr_assert_eq(step_prepare(w.s, &(struct step){ .entries = &entry, .n = 1 }, &fault, &n, &w.d, &w.f),
		     SWAKV_EGONE);
	cr_assert_eq(step_complete(w.s, &(struct step){ .entries = &entry, .n = 1 }, w.armed, &fault, &n, &w.f),
		     SWAKV_EGONE);
	cr_assert_eq(request_compact_begin(w.s, h, &length, 1, 1, 0, &w.d, &w.f), SWAKV_EGONE);
	cr_assert_eq(request_compact_complete(w.s, h, &fence_done, 0, &w.d, &w.f), SWAKV_EGONE);
	cr_assert_eq(finish(&w, h, fence_done), SWAKV_EGONE);
	cr_assert_eq(abandon(&w, h, fence_done), SWAKV_EGONE);
	cr_assert_eq(session_shutdown(w.s, fences, 2, w.armed, &w.f), SWAKV_EGONE);
	cr_assert_eq(request_query(w.s, h, &rs, &w.f), SWAKV_EGONE);
	cr_assert_eq(sequence_query(w.s, h, &q, &st, NULL, 0, &n, &w.f), SWAKV_EGONE);
	cr_assert_eq(w.f.reason, FAULT_SESSION_ENDED);
}

/*
 * The bound counted from the endpoint at which the retained range had changed
 * last: steps inside a page were not seen.
 */
Test(found, rewind_counts_from_the_highest_endpoint_inside_a_page)
{
	struct engine *pool = make_engine(64, 16);
	struct model m = make_model(32, 16, 2, 256);
	struct worker v;
	int32_t three = 3, two = 2;
	uint64_t h;

	m.max_rewind = 2;
	worker_open(&v, pool, m, 64 * 16 * TOKEN_BYTES, 1);
	h = begin(&v, 0);
	prefill(&v, h, 20);
	decode(&v, h, 3);
	cr_assert_eq(request_rewind(v.s, h, &three, 1, &v.f), SWAKV_ELIMIT);
	cr_assert_eq(v.f.reason, FAULT_REWIND_LIMIT);
	cr_assert_eq(v.f.want, 21);
	cr_assert_eq(request_rewind(v.s, h, &two, 1, &v.f), 0);
	check_all(pool);
	decode(&v, h, 1);
	cr_assert_eq(request_rewind(v.s, h, &two, 1, &v.f), SWAKV_ELIMIT, "22 is one above the lowest");
	worker_close(&v);
	engine_free(pool);
}

/* Only the pages that were to come were looked at: beside those that are there the pool could never hold them. */
Test(found, reserve_of_more_than_the_pool_is_never)
{
	struct engine *pool = make_engine(16, 16);
	struct model m = make_model(32, 16, 2, 512);
	struct worker v;
	int32_t slot = 0;
	uint64_t h;

	m.groups[0] = make_group(0, 16, TOKEN_BYTES);
	worker_open(&v, pool, m, 16 * 16 * TOKEN_BYTES, 1);
	cr_assert_eq(request_begin(v.s, 0, 128, &slot, 1, &h, &v.f), 0);
	cr_assert_eq(request_reserve(v.s, h, 320, &v.f), SWAKV_ENEVER);
	cr_assert_eq(v.f.got, 20);
	cr_assert_eq(v.f.want, 16);
	cr_assert_eq(request_reserve(v.s, h, 256, &v.f), 0);
	check_all(pool);
	worker_close(&v);
	engine_free(pool);
}
