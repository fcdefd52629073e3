/* SPDX-License-Identifier: Apache-2.0 */
/* Which mark proves the end of a step: one that lies behind its work. */
#include <string.h>

#include "client_fixture.h"

static const struct fake_delivery nothing;

TestSuite(client_fence, .init = client_setup, .fini = client_teardown);

static struct swakv_fence mark(void)
{
	struct swakv_fence f;

	cr_assert_eq(swakv_stream_mark(session, 0, &f), 0);
	return f;
}

static void collect(swakv_ticket t, uint16_t op)
{
	struct fake_command c;

	fake_take(&fake, op, &c);
	fake_deliver(&fake, &c, &nothing);
	cr_assert_eq(swakv_wait(session, t), 0);
}

static void prepare(swakv_request *r)
{
	cr_assert_eq(decode(r, &nothing), 0);
}

static void completes(swakv_request *r, struct swakv_fence f)
{
	cr_assert_eq(complete(r, f), 0, "%s", swakv_session_error(session));
}

#define REFUSED(call, ...)                                                                                             \
	do {                                                                                                           \
		cr_assert_eq((call), SWAKV_EINVALID);                                                                  \
		cr_expect_str_eq(swakv_session_error(session), __VA_ARGS__);                                           \
		cr_expect_not(fake_has_command(&fake), "the broker was asked");                                        \
	} while (0)

/* A line that another process of the session arms and writes. */
Test(client_fence, a_mark_of_another_process_of_the_session_is_waited_for)
{
	const struct swakv_fence f = { SWAKV_FENCE_LINE, 1, 2 }, never = { SWAKV_FENCE_LINE, 1, 4 };

	store_release(&fake.lines[1].armed, 3);
	cr_expect_eq(swakv_fence_wait(session, f, 20), SWAKV_ETIMEDOUT);
	REFUSED(swakv_fence_wait(session, never, 60000), "mark 4 of stream 1 is never reached: its last is 3");
	store_release(&fake.lines[1].word, 2);
	cr_expect_eq(swakv_fence_wait(session, f, 60000), 0);
}

#define OLD_1                                                                                                          \
	"fence value 1 of stream 0 is no proof: the step was prepared behind mark 1, so mark the stream behind "       \
	"the step's work and give that fence"

Test(client_fence, a_wait_ends_when_the_word_is_reached_or_its_time_is_up)
{
	struct swakv_fence f;

	cr_assert_eq(swakv_stream_bind_host(session, 0, true), 0);
	cr_assert_eq(swakv_stream_launch_host(session, 0, wait_for_gate, NULL), 0);
	f = mark();
	cr_expect_eq(swakv_fence_wait(session, f, 0), SWAKV_ETIMEDOUT);
	cr_expect_eq(swakv_fence_wait(session, f, 20), SWAKV_ETIMEDOUT);
	cr_expect_str_eq(swakv_session_error(session),
			 "stream 0 has reached mark 0 and not 1 within 20 ms: its work still "
			 "runs, or has failed");
	store_release(&gate, 1);
	cr_expect_eq(swakv_fence_wait(session, f, 60000), 0, "%s", swakv_session_error(session));
	cr_expect(swakv_fence_reached(session, f));
	cr_expect_eq(swakv_fence_wait(session, f, 0), 0);
}

Test(client_fence, what_no_mark_gave_is_not_waited_for)
{
	const struct swakv_fence early = { SWAKV_FENCE_LINE, 0, 2 }, failed = { SWAKV_FENCE_FAILED, 0, 0 },
				 elsewhere = { SWAKV_FENCE_LINE, 77, 1 };

	mark();
	REFUSED(swakv_fence_wait(session, early, 60000), "mark 2 of stream 0 is never reached: its last is 1");
	REFUSED(swakv_fence_wait(session, failed, 60000), "a fence of kind 2 is never reached");
	cr_expect_eq(swakv_fence_wait(session, elsewhere, 60000), SWAKV_EINVALID);
	cr_expect_eq(swakv_fence_wait(NULL, SWAKV_DONE, 0), SWAKV_EINVALID);
	cr_expect_eq(swakv_fence_wait(session, SWAKV_DONE, 0), 0);
	fake_die(&fake);
	cr_expect_eq(swakv_fence_wait(session, (struct swakv_fence){ SWAKV_FENCE_LINE, 0, 1 }, 60000), 0,
		     "without a broker");
}

Test(client_fence, a_mark_from_before_the_prepare_is_no_proof)
{
	swakv_request *r = begin(0, 0);
	struct swakv_fence old;
	swakv_ticket t;

	prepare(r);
	old = mark();
	completes(r, old);
	prepare(r);
	REFUSED(swakv_decode_complete(r, old, &t), OLD_1);
	REFUSED(swakv_decode_complete(r, (struct swakv_fence){ SWAKV_FENCE_LINE, 0, 0 }, &t),
		"fence value 0 of stream 0 is no proof: the step was prepared behind mark 1, so mark the stream behind "
		"the step's work and give that fence");
	completes(r, mark());
}

Test(client_fence, each_kind_of_step_is_looked_at)
{
	swakv_request *r = begin(0, 0);
	struct swakv_fence old = mark();
	const int32_t keep[] = { 0 };
	struct swakv_step step = { .size = sizeof(step), .request = r };
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(fake_prefill(&fake, session, r, &nothing), 0);
	REFUSED(swakv_prefill_complete(r, old, &t), OLD_1);
	cr_assert_eq(swakv_prefill_complete(r, SWAKV_DONE, &t), 0);
	collect(t, WIRE_OP_PREFILL_COMPLETE);
	old = mark();
	prepare(r);
	step.fence = old;
	cr_expect_eq(swakv_step_complete(session, &step, 1, &t), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(session), "entry 0: fence value"), "%s",
			   swakv_session_error(session));
	cr_expect_not(fake_has_command(&fake));
	completes(r, mark());
	old = mark();
	cr_assert_eq(swakv_compact_begin(r, keep, 1, 1, 0, 0, &t), 0);
	collect(t, WIRE_OP_COMPACT_BEGIN);
	cr_expect_eq(swakv_compact_complete(r, old, &t), SWAKV_EINVALID);
	cr_expect_not(fake_has_command(&fake));
	cr_assert_eq(swakv_compact_complete(r, mark(), &t), 0);
	fake_take(&fake, WIRE_OP_COMPACT_COMPLETE, &c);
	fake_deliver(&fake, &c, &nothing);
	cr_assert_eq(swakv_wait(session, t), 0);
}

/* The work of both lies before the one mark, and the line had been armed for it when the second was prepared. */
Test(client_fence, requests_of_a_stream_may_share_a_mark)
{
	swakv_request *a = begin(0, 0), *b = begin(0, 1);
	struct swakv_fence both;

	prepare(a);
	prepare(b);
	both = mark();
	completes(a, both);
	completes(b, both);
}

/* Prepared after another's mark, a step wants one of its own. */
Test(client_fence, a_mark_of_another_request_counts_only_behind_the_prepare)
{
	swakv_request *a = begin(0, 0), *b = begin(0, 1);
	struct swakv_fence of_a;
	swakv_ticket t;

	prepare(a);
	of_a = mark();
	prepare(b);
	REFUSED(swakv_decode_complete(b, of_a, &t), OLD_1);
	completes(a, of_a);
	completes(b, mark());
}

/* What comes before it in the order of errors is the broker's to say. */
/* Its end was sent before the answer came: the broker waits for the mark of what the answer has armed the line for. */
Test(client_fence, a_step_that_was_freed_before_it_was_answered_is_marked)
{
	struct fake_command step, end, nop;
	swakv_request *r = begin(0, 0);
	swakv_ticket prepared, after;

	cr_assert_eq(swakv_decode_prepare(r, &prepared), 0);
	swakv_request_free(r);
	cr_assert_eq(swakv_session_ping(session, &after), 0);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &step);
	fake_take(&fake, WIRE_OP_ABANDON, &end);
	fake_take(&fake, WIRE_OP_NOP, &nop);
	fake_deliver(&fake, &step, &nothing);
	cr_assert_eq(swakv_wait(session, prepared), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1, "the step is under way");
	cr_expect_eq(load_acquire(&fake.lines[0].word), 0);
	fake_answer(&fake, &end, 0, 0, NULL, 0);
	fake_answer(&fake, &nop, 0, 0, NULL, 0);
	cr_assert_eq(swakv_wait(session, after), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 1, "nobody marks the line any more");
}

Test(client_fence, the_wrong_phase_is_left_to_the_broker)
{
	swakv_request *r = begin(0, 0);
	struct swakv_fence old = mark();
	struct fake_command c;
	swakv_ticket t;

	prepare(r);
	cr_assert_eq(swakv_prefill_complete(r, old, &t), 0);
	fake_take(&fake, WIRE_OP_PREFILL_COMPLETE, &c);
	fake_refuse(&fake, &c, FAULT_NOT_PENDING, 2, 1);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EPHASE);
	completes(r, mark());
	cr_assert_eq(swakv_decode_complete(r, old, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_COMPLETE, &c);
	fake_refuse(&fake, &c, FAULT_NOT_PENDING, 0, 2);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EPHASE);
}
