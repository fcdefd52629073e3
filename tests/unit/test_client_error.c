/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker is told of a refused call: the sentence is that call's, true, and about every entry of a step. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake_broker.h"
#include "request.h"
#include "session.h"

static struct fake fake;
static swakv_session *session;

static void setup(void)
{
	fake_open(&fake);
	session = fake_attach(&fake, NULL);
}

static void teardown(void)
{
	fake_end(&fake, session);
}

TestSuite(client_error, .init = setup, .fini = teardown);

#define SAYS(call, code, words)                                                                                        \
	do {                                                                                                           \
		cr_expect_eq((call), code);                                                                            \
		cr_expect_not_null(strstr(swakv_session_error(session), words), "%s", swakv_session_error(session));   \
	} while (0)

static void make_a_mistake(void)
{
	SAYS(swakv_stream_mark(session, 99, NULL), SWAKV_EINVALID, "stream 99 is outside");
}

Test(client_error, sentence_of_a_refused_call_does_not_outlive_it)
{
	struct fake_command c;
	struct swakv_layout l = { .size = sizeof(l) };
	swakv_ticket t;

	make_a_mistake();
	cr_assert_eq(swakv_session_ping(session, &t), 0);
	cr_expect_str_eq(swakv_session_error(session), "");
	fake_take(&fake, WIRE_OP_NOP, &c);
	make_a_mistake();
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_str_eq(swakv_session_error(session), "");
	make_a_mistake();
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect_str_eq(swakv_session_error(session), "");
	make_a_mistake();
	SAYS(swakv_session_get_layout(session, 5, &l), SWAKV_EINVALID, "group 5 is outside 0 to 0");
	SAYS(swakv_session_get_layout(session, 0, NULL), SWAKV_EINVALID, "the pointer for struct swakv_layout");
}

/* Streams outlive the broker: what works afterwards has no complaint either. */
Test(client_error, streams_of_a_session_that_is_gone_have_no_old_sentence)
{
	fake_die(&fake);
	cr_expect_eq(swakv_session_ping(session, NULL), SWAKV_EGONE);
	cr_expect_str_neq(swakv_session_error(session), "");
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect_str_eq(swakv_session_error(session), "");
	cr_expect_eq(swakv_session_ping(session, NULL), SWAKV_EGONE);
	cr_expect_str_neq(swakv_session_error(session), "");
}

Test(client_error, a_list_that_is_null_is_not_said_to_be_too_short)
{
	const struct swakv_begin_options none = { .size = sizeof(none), .n_slots = 1 };
	int32_t slot = 0, one = 1;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1), *other;

	SAYS(swakv_request_begin(session, &none, &other, NULL), SWAKV_EINVALID,
	     "slots is NULL, and a count of 1 was given");
	SAYS(swakv_request_begin(session, NULL, &other, NULL), SWAKV_EINVALID, "the options are NULL");
	SAYS(swakv_request_begin(session, &none, NULL, NULL), SWAKV_EINVALID, "the pointer for the request is NULL");
	SAYS(swakv_prefill_prepare(r, NULL, 1, NULL), SWAKV_EINVALID, "lengths is NULL, and a count of 1 was given");
	SAYS(swakv_rewind(r, NULL, 1, NULL), SWAKV_EINVALID, "tokens is NULL");
	SAYS(swakv_extend_prepare(r, NULL, 1, NULL), SWAKV_EINVALID, "tokens is NULL");
	SAYS(swakv_extend_prepare(r, &one, 0, NULL), SWAKV_EINVALID, "0 tokens were given for a batch of 1");
	SAYS(swakv_extend_complete(r, SWAKV_DONE, NULL, 1, NULL), SWAKV_EINVALID, "accepted is NULL");
	SAYS(swakv_compact_begin(r, NULL, 1, 1, 0, 0, NULL), SWAKV_EINVALID, "old_to_new is NULL");
	SAYS(swakv_step_prepare(session, NULL, 2, NULL), SWAKV_EINVALID, "steps is NULL, and a count of 2 was given");
	cr_expect_not(fake_has_command(&fake));
	swakv_request_free(r);
}

Test(client_error, a_list_that_no_command_holds_is_refused_with_the_most_that_fit)
{
	int32_t list[FAKE_MESSAGE * 16] = { 0 }, slot = 0;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1);

	SAYS(swakv_prefill_prepare(r, list, FAKE_MESSAGE * 16, NULL), SWAKV_EINVALID,
	     "lengths were given, and no more");
	cr_expect_not_null(strstr(swakv_session_error(session), "of at most 4"), "%s", swakv_session_error(session));
	swakv_request_free(r);
}

static void assert_results(const struct swakv_step *steps, int n, int code)
{
	for (int i = 0; i < n; i++)
		cr_expect_eq(steps[i].result, code, "entry %d: %s", i, swakv_error_name(steps[i].result));
}

Test(client_error, results_of_a_step_refused_whole_are_set)
{
	int32_t slots[] = { 0, 1 };
	swakv_request *a = fake_begin(&fake, session, 0, &slots[0], 1);
	swakv_request *b = fake_begin(&fake, session, 0, &slots[1], 1);
	struct swakv_step steps[FAKE_MESSAGE * 2] = { { .request = a, .result = 77 }, { .result = 77 } };
	struct fake_command c;
	swakv_ticket t;

	for (int i = 0; i < FAKE_MESSAGE * 2; i++)
		steps[i].size = sizeof(steps[i]);
	SAYS(swakv_step_prepare(session, steps, 2, NULL), SWAKV_EINVALID, "entry 1 has no request");
	assert_results(steps, 2, SWAKV_EINVALID);
	steps[0].result = steps[1].result = 0;
	SAYS(swakv_step_prepare(session, steps, FAKE_MESSAGE * 2, NULL), SWAKV_EINVALID, "64 were given");
	assert_results(steps, FAKE_MESSAGE * 2, SWAKV_EINVALID);

	/* a count that no list has: nothing is read or written behind it */
	steps[0].result = 77;
	SAYS(swakv_step_prepare(session, steps, UINT32_MAX, NULL), SWAKV_EINVALID, "4294967295 were given");
	SAYS(swakv_step_complete(session, steps, WIRE_MAX_BATCH + 1, NULL), SWAKV_EINVALID, "4097 were given");
	assert_results(steps, 1, 77);

	steps[1].request = b;
	steps[0].result = steps[1].result = 0;
	cr_assert_eq(swakv_step_prepare(session, steps, 2, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c);
	fake_refuse(&fake, &c, FAULT_STEP_COUNT, 2, 1);
	SAYS(swakv_wait(session, t), SWAKV_EINVALID, "2 were given");
	assert_results(steps, 2, SWAKV_EINVALID);

	session->timeout_ns = 20000000;
	steps[0].result = steps[1].result = 0;
	SAYS(swakv_step_prepare(session, steps, 2, NULL), SWAKV_ETIMEDOUT, "has not answered");
	assert_results(steps, 2, SWAKV_ETIMEDOUT);

	fake_die(&fake);
	steps[0].result = steps[1].result = 0;
	cr_expect_eq(swakv_step_complete(session, steps, 2, NULL), SWAKV_EGONE);
	assert_results(steps, 2, SWAKV_EGONE);
	steps[0].result = steps[1].result = 0;
	cr_expect_eq(swakv_step_prepare(session, steps, 2, NULL), SWAKV_EGONE, "known to be gone");
	assert_results(steps, 2, SWAKV_EGONE);
	swakv_request_free(a);
	swakv_request_free(b);
}

/* Answers that nobody collects: what is told is how many tickets are out, not how many commands are unanswered. */
Test(client_error, the_most_tickets_are_told_when_they_are_out)
{
	enum { MOST = 65536 };
	swakv_ticket *tickets = calloc(MOST, sizeof(*tickets)), one;
	int32_t slot = 0;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1);
	int refused = 0;

	cr_assert_not_null(tickets);
	request_lost(r); /* it has ended: a finish is answered at once */
	for (int i = 0; i < MOST; i++)
		refused += swakv_request_finish(r, &tickets[i]) != 0;
	cr_assert_eq(refused, 0);
	SAYS(swakv_request_finish(r, &one), SWAKV_ENOMEM, "65536 tickets are out");
	SAYS(swakv_session_ping(session, NULL), SWAKV_ENOMEM, "collect some with swakv_poll() or swakv_wait()");
	cr_expect_eq(swakv_wait(session, tickets[7]), 0);
	cr_expect_eq(swakv_request_finish(r, &one), 0);
	cr_expect_eq(swakv_wait(session, one), 0);
	free(tickets);
	swakv_request_free(r);
}
