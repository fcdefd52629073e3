/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that come when nobody waits for them any more, or are longer than the library has room for. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_fixture.h"
#include "session.h"
#include "wait.h"

TestSuite(client_late, .init = client_setup, .fini = client_teardown);

/* From here on; the attach itself has all the time it needs. */
static void hurry(void)
{
	session->timeout_ns = 20000000;
}

/* One more call and its answer: what came before it has been taken then. */
static void take_what_came(void)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t), 0);
}

/* ---- whose place is gone ---------------------------------------------------------------------- */

/* Lies where the frame of the query lay, and stays as it is while its answer is taken. */
static __attribute__((noinline)) void take_late_answer(const struct fake_command *c, const void *payload, size_t len,
						       uint32_t n)
{
	unsigned char frame[32768], same[sizeof(frame)];
	volatile unsigned char *p = frame;

	for (size_t i = 0; i < sizeof(frame); i++)
		p[i] = same[i] = 0x5a;
	fake_answer(&fake, c, 0, n, payload, len);
	take_what_came();
	cr_expect_arr_eq(frame, same, sizeof(frame), "the late answer was written where its caller has been");
}

static unsigned char payload[FAKE_MESSAGE * RING_SLOT - sizeof(struct wire_reply)];

static __attribute__((noinline)) int ask_free_pages(void)
{
	int64_t n;

	return swakv_session_free_pages(session, &n);
}

static __attribute__((noinline)) int ask_request(swakv_request *r)
{
	struct swakv_request_state state = { .size = sizeof(state) };

	return swakv_request_get_state(r, &state);
}

static __attribute__((noinline)) int ask_sequence(swakv_request *r)
{
	struct swakv_sequence_state state = { .size = sizeof(state) };

	return swakv_sequence_get_state(r, 0, &state);
}

Test(client_late, answer_of_a_query_of_the_pool_writes_nowhere)
{
	struct fake_command c;

	hurry();
	cr_assert_eq(ask_free_pages(), SWAKV_ETIMEDOUT);
	fake_take(&fake, WIRE_OP_QUERY_PAGES, &c);
	take_late_answer(&c, payload, sizeof(payload), 1);
}

Test(client_late, answer_of_a_query_of_a_request_writes_nowhere)
{
	swakv_request *r = begin(0, 1);
	struct fake_command c;

	hurry();
	cr_assert_eq(ask_request(r), SWAKV_ETIMEDOUT);
	fake_take(&fake, WIRE_OP_QUERY_REQUEST, &c);
	take_late_answer(&c, payload, sizeof(payload), 1);
}

Test(client_late, answer_of_a_query_of_a_sequence_writes_nowhere)
{
	swakv_request *r = begin(0, 1);
	struct fake_command c;

	hurry();
	cr_assert_eq(ask_sequence(r), SWAKV_ETIMEDOUT);
	fake_take(&fake, WIRE_OP_QUERY_STATE, &c);
	take_late_answer(&c, payload, sizeof(payload), 40);
}

/* The caller has freed its steps by then. */
Test(client_late, answer_of_a_step_leaves_the_callers_entries)
{
	swakv_request *r = begin(0, 1);
	struct swakv_step step = { .size = sizeof(step), .request = r };
	const struct wire_entry_fault fault = { .fault = { .code = SWAKV_ELIMIT, .reason = FAULT_CAPACITY } };
	const struct fake_delivery none = { 0 }, refused = { .faults = &fault, .n_faults = 1 };
	struct fake_command c;

	cr_assert_eq(fake_prefill(&fake, session, r, &none), 0);
	hurry();
	cr_assert_eq(swakv_step_prepare(session, &step, 1, NULL), SWAKV_ETIMEDOUT);
	step.result = 4711;
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c);
	fake_deliver(&fake, &c, &refused);
	take_what_came();
	cr_expect_eq(step.result, 4711);
}

Test(client_late, answer_of_a_begin_leaves_the_callers_pointer)
{
	int32_t slot = 0;
	struct swakv_begin_options b = { .size = sizeof(b), .slots = &slot, .n_slots = 1 };
	swakv_request *r = NULL;
	struct fake_command c;

	hurry();
	cr_assert_eq(swakv_request_begin(session, &b, &r, NULL), SWAKV_ETIMEDOUT);
	r = (void *)&fake;
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	fake_answer(&fake, &c, 0x77, 0, NULL, 0);
	take_what_came();
	cr_expect_eq(r, (void *)&fake);
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
}

static void *answer_late(void *arg)
{
	struct fake_command c;

	fake_take(&fake, WIRE_OP_BEGIN, &c);
	usleep(5 * 20000); /* longer than the library waits for any answer */
	fake_answer(&fake, &c, 0x77, 0, NULL, 0);
	return NULL;
}

/* A begin that may wait has that time, and then the time that any answer has. */
Test(client_late, answer_of_a_begin_that_waits_is_waited_for)
{
	int32_t slot = 0;
	struct swakv_begin_options b = { .size = sizeof(b), .slots = &slot, .n_slots = 1, .wait_ms = 60000 };
	swakv_request *r = NULL;
	pthread_t thread;

	hurry();
	cr_assert_eq(pthread_create(&thread, NULL, answer_late, NULL), 0);
	cr_expect_eq(swakv_request_begin(session, &b, &r, NULL), 0, "%s", swakv_session_error(session));
	cr_expect_not_null(r);
	pthread_join(thread, NULL);
}

/* ---- longer than there is room ------------------------------------------------------------------ */

/* A reply of @n_slots, all of which were published. */
static void reply_of(const struct fake_command *c, uint32_t n_slots)
{
	struct wire_reply reply = { .op = c->head.op, .n_slots = (uint16_t)n_slots, .user_data = c->head.user_data };

	cr_assert_eq(ring_producer_space_spsc(&fake.replies, n_slots), 1);
	ring_producer_write_spsc(&fake.replies, 0, &reply, sizeof(reply));
	ring_producer_publish_spsc(&fake.replies, n_slots);
}

Test(client_late, reply_of_the_most_slots_is_taken)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	reply_of(&c, FAKE_MESSAGE);
	cr_expect_eq(swakv_wait(session, t), 0);
}

/* The ring has room for it, the library's own copy has not. */
Test(client_late, reply_of_one_slot_more_than_the_most_ends_the_session)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	reply_of(&c, FAKE_MESSAGE + 1);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EGONE);
	cr_expect_not_null(strstr(swakv_session_error(session), "data that no broker writes"), "%s",
			   swakv_session_error(session));
}

Test(client_late, reply_of_no_slots_ends_the_session)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	cr_assert_eq(ring_producer_space_spsc(&fake.replies, 1), 1);
	ring_producer_write_spsc(&fake.replies, 0,
				 &(struct wire_reply){ .op = WIRE_OP_NOP, .user_data = c.head.user_data },
				 sizeof(struct wire_reply));
	ring_producer_publish_spsc(&fake.replies, 1);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EGONE);
}

/* ---- between the last look at the ring and the end ----------------------------------------------- */

Test(client_late, what_was_answered_before_the_brokers_end_counts)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	fake_die(&fake);
	session_look(session, 0, true); /* finds the end before anybody has looked at the ring */
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(swakv_session_ping(session, NULL), SWAKV_EGONE);
}

/* ---- a full ring ------------------------------------------------------------------------------------ */

static bool wanted; /* the client said that it waits for space */

static void *make_space(void *arg)
{
	struct fake_command c;

	while (!ring_consumer_must_wake_spsc(&fake.commands))
		usleep(1000);
	wanted = true;
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	return NULL;
}

/* A flag that stays would have the broker make a system call for every command from then on. */
Test(client_late, who_has_space_waits_for_none)
{
	swakv_ticket t[FAKE_SLOTS + 1];
	struct fake_command c;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, make_space, NULL), 0);
	for (int i = 0; i < FAKE_SLOTS + 1; i++)
		cr_assert_eq(swakv_session_ping(session, &t[i]), 0);
	pthread_join(thread, NULL);
	cr_expect(wanted);
	cr_expect_not(ring_consumer_must_wake_spsc(&fake.commands));
	for (int i = 0; i < FAKE_SLOTS + 1; i++) {
		if (i > 0) {
			fake_take(&fake, WIRE_OP_NOP, &c);
			fake_answer(&fake, &c, 0, 0, NULL, 0);
		}
		cr_expect_eq(swakv_wait(session, t[i]), 0);
	}
}
