/* SPDX-License-Identifier: Apache-2.0 */
/* Commands in flight: order of answers, waiting, time-outs, and a broker that dies or talks nonsense. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "fake_broker.h"
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

TestSuite(client_call, .init = setup, .fini = teardown);

static struct swakv_session_counters counters(void)
{
	struct swakv_session_counters c = { .size = sizeof(c) };

	swakv_session_get_counters(session, &c);
	return c;
}

/* From here on; the attach itself has all the time it needs. */
static void hurry(void)
{
	session->timeout_ns = 20000000;
}

Test(client_call, answers_may_come_in_another_order)
{
	swakv_ticket t[3];
	struct fake_command c[3];

	for (int i = 0; i < 3; i++)
		cr_assert_eq(swakv_session_ping(session, &t[i]), 0);
	for (int i = 0; i < 3; i++)
		fake_take(&fake, WIRE_OP_NOP, &c[i]);
	cr_expect_eq(swakv_poll(session, t[0]), SWAKV_EAGAIN);
	fake_answer(&fake, &c[2], 0, 0, NULL, 0);
	cr_expect_eq(swakv_poll(session, t[0]), SWAKV_EAGAIN);
	cr_expect_eq(swakv_poll(session, t[2]), 0);
	fake_refuse(&fake, &c[0], FAULT_STOPPING, 0, 0);
	fake_answer(&fake, &c[1], 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t[1]), 0);
	cr_expect_eq(swakv_wait(session, t[0]), SWAKV_EGONE);
	cr_expect_str_eq(swakv_session_error(session), "the broker is stopping");
}

Test(client_call, a_wait_of_a_stated_time_leaves_the_ticket_and_says_how_long_it_was)
{
	swakv_ticket t;
	struct fake_command c;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	cr_expect_eq(swakv_wait_for(session, t, 3), SWAKV_ETIMEDOUT);
	cr_expect(strstr(swakv_session_error(session), "not answered for 3 ms"), "%s", swakv_session_error(session));
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait_for(session, t, 0), 0, "what is there is taken");
	cr_expect_eq(swakv_wait_for(session, t, 0), SWAKV_EINVALID);
}

Test(client_call, collected_ticket_names_nothing)
{
	swakv_ticket t;
	struct fake_command c;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EINVALID);
	cr_expect_eq(swakv_poll(session, t), SWAKV_EINVALID);
	cr_expect_eq(swakv_poll(session, 0), SWAKV_EINVALID);
	cr_expect_eq(swakv_poll(session, UINT64_MAX), SWAKV_EINVALID);
}

Test(client_call, refusal_has_the_brokers_sentence)
{
	swakv_ticket t;
	struct fake_command c;
	int32_t slot = 2;
	struct swakv_begin_options o = { .size = sizeof(o), .slots = &slot, .n_slots = 1, .stream = 1 };
	swakv_request *r = (void *)&fake;

	cr_assert_eq(swakv_request_begin(session, &o, &r, &t), 0);
	cr_expect_null(r);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	cr_expect_eq(c.head.n, 1);
	cr_expect_eq(((struct wire_begin *)(void *)c.payload)->stream, 1);
	cr_expect_eq(memcmp(c.payload + sizeof(struct wire_begin), &slot, sizeof(slot)), 0);
	fake_refuse(&fake, &c, FAULT_NO_PAGES, 19, 3);
	cr_expect_eq(swakv_wait(session, t), SWAKV_ENOPAGES);
	cr_expect_null(r);
	cr_expect_str_eq(swakv_session_error(session),
			 "the request needs 19 pages, 3 are free now: retry when others have finished");
}

/* ---- nonsense ------------------------------------------------------------------------------ */

static void assert_over(swakv_ticket t)
{
	char byte;

	cr_expect_eq(swakv_wait(session, t), SWAKV_EGONE);
	cr_expect_eq(swakv_session_ping(session, NULL), SWAKV_EGONE);
	cr_expect_gt(strlen(swakv_session_error(session)), 20);
	cr_expect_eq(read(fake.sock, &byte, 1), 0, "the broker was not told");
}

Test(client_call, answer_to_no_call_ends_the_session)
{
	swakv_ticket t;
	struct fake_command c;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	c.head.user_data++;
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	assert_over(t);
}

Test(client_call, second_answer_to_one_call_ends_the_session)
{
	swakv_ticket t[2];
	struct fake_command c[2];

	for (int i = 0; i < 2; i++) {
		cr_assert_eq(swakv_session_ping(session, &t[i]), 0);
		fake_take(&fake, WIRE_OP_NOP, &c[i]);
	}
	fake_answer(&fake, &c[0], 0, 0, NULL, 0);
	fake_answer(&fake, &c[0], 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t[0]), 0);
	assert_over(t[1]);
}

Test(client_call, answer_of_another_operation_ends_the_session)
{
	swakv_ticket t;
	struct fake_command c;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	c.head.op = WIRE_OP_FINISH;
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	assert_over(t);
}

Test(client_call, impossible_ring_position_ends_the_session)
{
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	store_release(&fake.replies.control->tail, FAKE_SLOTS + 1);
	assert_over(t);
}

Test(client_call, reply_longer_than_the_ring_ends_the_session)
{
	swakv_ticket t;
	struct fake_command c;
	struct wire_reply reply;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	reply = (struct wire_reply){ .op = WIRE_OP_NOP, .n_slots = 2, .user_data = c.head.user_data };
	ring_producer_write_spsc(&fake.replies, 0, &reply, sizeof(reply));
	ring_producer_publish_spsc(&fake.replies, 1);
	assert_over(t);
}

/* ---- the broker dies -------------------------------------------------------------------------- */

static void *die_soon(void *arg)
{
	usleep(30000);
	fake_die(&fake);
	return NULL;
}

Test(client_call, death_while_waiting_is_noticed)
{
	pthread_t thread;
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	pthread_create(&thread, NULL, die_soon, NULL);
	cr_expect_eq(swakv_session_ping(session, NULL), SWAKV_EGONE);
	cr_expect_not_null(strstr(swakv_session_error(session), "closed the connection"));
	pthread_join(thread, NULL);
	/* the other call in flight has its answer too */
	cr_expect_eq(swakv_poll(session, t), SWAKV_EGONE);
	cr_expect_eq(swakv_poll(session, t), SWAKV_EGONE, "a session that is over says so for any ticket");
}

Test(client_call, death_ends_a_poll_loop)
{
	swakv_ticket t;
	int r;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_die(&fake);
	while ((r = swakv_poll(session, t)) == SWAKV_EAGAIN)
		usleep(1000);
	cr_expect_eq(r, SWAKV_EGONE);
}

Test(client_call, death_while_the_ring_is_full_is_noticed)
{
	swakv_ticket t;

	for (int i = 0; i < FAKE_SLOTS; i++)
		cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_die(&fake);
	cr_expect_eq(swakv_session_ping(session, &t), SWAKV_EGONE);
}

Test(client_call, last_answers_before_the_death_count)
{
	swakv_ticket t[2];
	struct fake_command c;

	cr_assert_eq(swakv_session_ping(session, &t[0]), 0);
	cr_assert_eq(swakv_session_ping(session, &t[1]), 0);
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	fake_die(&fake);
	cr_expect_eq(swakv_wait(session, t[1]), SWAKV_EGONE);
	cr_expect_eq(swakv_poll(session, t[0]), 0);
}

/* ---- time ---------------------------------------------------------------------------------------- */

Test(client_call, wait_that_times_out_keeps_the_ticket)
{
	struct fake_command c;
	swakv_ticket t;

	hurry();
	cr_assert_eq(swakv_session_ping(session, &t), 0);
	cr_expect_eq(swakv_wait(session, t), SWAKV_ETIMEDOUT);
	cr_expect_not_null(strstr(swakv_session_error(session), "shows whether it is stuck"));
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_poll(session, t), 0);
}

Test(client_call, request_that_begins_too_late_is_abandoned)
{
	int32_t slot = 0;
	struct swakv_begin_options b = { .size = sizeof(b), .slots = &slot, .n_slots = 1 };
	swakv_request *r = (void *)&fake;
	struct fake_command c;
	swakv_ticket t;

	hurry();
	cr_expect_eq(swakv_request_begin(session, &b, &r, NULL), SWAKV_ETIMEDOUT);
	cr_expect_null(r);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	fake_answer(&fake, &c, 0x77, 0, NULL, 0);
	cr_assert_eq(swakv_session_ping(session, &t), 0);
	cr_expect_eq(swakv_poll(session, t), SWAKV_EAGAIN); /* takes the late answer */
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	cr_expect_eq(c.head.request, 0x77);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_poll(session, t), 0);
}

Test(client_call, late_answer_still_reaches_the_table)
{
	const struct wire_update u = { 0 * FAKE_WIDTH + 1, 9 };
	const struct wire_row row = { 0, 1, 0, 0 };
	const struct fake_delivery d = { .updates = &u, .n_updates = 1, .rows = &row, .n_rows = 1 };
	int32_t slot = 0, length = 20;
	struct fake_command c;
	swakv_request *r;
	swakv_ticket t;

	r = fake_begin(&fake, session, 0, &slot, 1);
	hurry();
	cr_expect_eq(swakv_prefill_prepare(r, &length, 1, NULL), SWAKV_ETIMEDOUT);
	fake_take(&fake, WIRE_OP_PREFILL_PREPARE, &c);
	fake_deliver(&fake, &c, &d);
	cr_assert_eq(swakv_session_ping(session, &t), 0);
	swakv_poll(session, t);
	cr_expect_eq(fake.device[1], 9);
	cr_expect_eq(fake.device[FAKE_WIDTH + 1], 9 + FAKE_PAGES);
}

/* ---- sleeping and waking --------------------------------------------------------------------------- */

static uint64_t doorbell(void)
{
	uint64_t n = 0;

	return read(fake.fds[WIRE_FD_DOORBELL], &n, sizeof(n)) == sizeof(n) ? n : 0;
}

Test(client_call, awake_broker_gets_no_wakeup)
{
	struct fake_command c;
	swakv_ticket t;

	for (int i = 0; i < 10; i++) {
		cr_assert_eq(swakv_session_ping(session, &t), 0);
		fake_take(&fake, WIRE_OP_NOP, &c);
		fake_answer(&fake, &c, 0, 0, NULL, 0);
		cr_assert_eq(swakv_wait(session, t), 0);
	}
	cr_expect_eq(doorbell(), 0);
	cr_expect_eq(counters().wakeups_sent, 0);
	cr_expect_eq(counters().sleeps, 0);
	cr_expect_eq(counters().commands, 10);
	cr_expect_eq(counters().replies, 10);
}

Test(client_call, sleeping_broker_is_woken)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(ring_consumer_sleep_spsc(&fake.commands), 0);
	cr_assert_eq(swakv_session_ping(session, &t), 0);
	cr_expect_eq(doorbell(), 1);
	ring_consumer_awake_spsc(&fake.commands);
	fake_take(&fake, WIRE_OP_NOP, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(counters().wakeups_sent, 1);
}

Test(client_call, broker_that_waits_for_reply_space_is_woken)
{
	struct fake_command c;
	swakv_ticket t[3]; /* two are answered, the broker waits for room for the third's answer */

	for (int i = 0; i < 3; i++)
		cr_assert_eq(swakv_session_ping(session, &t[i]), 0);
	for (int i = 0; i < 2; i++) {
		fake_take(&fake, WIRE_OP_NOP, &c);
		fake_answer(&fake, &c, 0, 0, NULL, 0);
	}
	cr_assert_eq(ring_producer_want_space_spsc(&fake.replies, FAKE_SLOTS), 0);
	cr_expect_eq(swakv_wait(session, t[0]), 0);
	cr_expect_geq(doorbell(), 1); /* at least once, until the broker takes its flag back */
	cr_expect_eq(swakv_wait(session, t[1]), 0);
	cr_expect_eq(ring_producer_space_spsc(&fake.replies, FAKE_SLOTS), 1);
}

static pid_t client; /* the thread that calls the library */

/* State of a thread of this process, as /proc has it: 'S' while it sleeps. */
static char thread_state(pid_t tid)
{
	char path[64], line[512], *behind;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "re");
	cr_assert(f && fgets(line, sizeof(line), f));
	fclose(f);
	behind = strrchr(line, ')'); /* of its name */
	return behind ? behind[2] : '?';
}

/* Its flag is set, and it has come from there to the sleep: it looks at nothing in between. */
static void wait_until_client_sleeps(struct fake *f)
{
	while (!load_relaxed(&f->replies.control->need_wakeup) || thread_state(client) != 'S')
		usleep(1000);
}

static void serve_sleepers(struct fake *f, const struct fake_command *c)
{
	if (c->head.op == WIRE_OP_NOP)
		wait_until_client_sleeps(f);
	fake_answer(f, c, 0, 0, NULL, 0);
}

Test(client_call, sleeping_client_is_woken_by_the_answer)
{
	client = gettid();
	fake.serve = serve_sleepers;
	fake_serve(&fake);
	for (int i = 0; i < 5; i++)
		cr_expect_eq(swakv_session_ping(session, NULL), 0);
	cr_expect_geq(counters().sleeps, 1);
	cr_expect_eq(counters().rescues, 0);
	fake.serve = NULL;
}

/* A broker that answers without waking: the sleeper gets its answer by its own time-out, and counts it. */
static void *answer_without_waking(void *arg)
{
	struct fake_command c;
	struct wire_reply reply = { .op = WIRE_OP_NOP, .n_slots = 1 };

	fake_take(&fake, WIRE_OP_NOP, &c);
	wait_until_client_sleeps(&fake);
	reply.user_data = c.head.user_data;
	ring_producer_write_spsc(&fake.replies, 0, &reply, sizeof(reply));
	ring_producer_publish_spsc(&fake.replies, 1);
	return NULL;
}

Test(client_call, lost_wakeup_is_survived_and_counted)
{
	pthread_t thread;

	client = gettid();
	/* Again, if the sleep ended by its time before the answer was there: then that was no rescue. */
	for (int i = 0; i < 100 && counters().rescues == 0; i++) {
		pthread_create(&thread, NULL, answer_without_waking, NULL);
		cr_expect_eq(swakv_session_ping(session, NULL), 0);
		pthread_join(thread, NULL);
	}
	cr_expect_eq(counters().rescues, 1);
}

/* The broker has a command of ours whose answer has no room: it is rung for the room that an answer taken makes. */
Test(client_call, broker_that_waits_for_reply_room_is_rung)
{
	struct fake_command c[2];
	swakv_ticket pings[2];
	uint64_t rung;

	for (int i = 0; i < 2; i++)
		cr_assert_eq(swakv_session_ping(session, &pings[i]), 0);
	for (int i = 0; i < 2; i++)
		fake_take(&fake, WIRE_OP_NOP, &c[i]);
	rung = counters().wakeups_sent;
	fake_answer(&fake, &c[0], 0, 0, NULL, 0);
	cr_assert_eq(ring_producer_want_space_spsc(&fake.replies, FAKE_SLOTS), 0);
	cr_expect_eq(swakv_wait(session, pings[0]), 0);
	cr_expect_eq(counters().wakeups_sent, rung + 1);
	ring_producer_clear_want_spsc(&fake.replies);
	fake_answer(&fake, &c[1], 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, pings[1]), 0);
	cr_expect_eq(counters().wakeups_sent, rung + 1, "nobody waits any more");
}

static swakv_ticket pings[FAKE_SLOTS + 8];

static void *serve_full_ring(void *arg)
{
	struct fake_command c;

	usleep(20000);
	for (size_t i = 0; i < sizeof(pings) / sizeof(pings[0]); i++) {
		fake_take(&fake, WIRE_OP_NOP, &c);
		fake_answer(&fake, &c, 0, 0, NULL, 0);
		if (i == 0)
			usleep(10000);
	}
	return NULL;
}

Test(client_call, full_ring_is_waited_for)
{
	pthread_t thread;

	pthread_create(&thread, NULL, serve_full_ring, NULL);
	for (size_t i = 0; i < sizeof(pings) / sizeof(pings[0]); i++)
		cr_assert_eq(swakv_session_ping(session, &pings[i]), 0);
	for (size_t i = 0; i < sizeof(pings) / sizeof(pings[0]); i++)
		cr_expect_eq(swakv_wait(session, pings[i]), 0);
	pthread_join(thread, NULL);
	cr_expect_eq(counters().rescues, 0);
}

/* ---- the handle -------------------------------------------------------------------------------------- */

Test(client_call, finished_request_can_be_finished_again)
{
	int32_t slot = 3;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1);
	struct fake_command c;
	swakv_ticket t;

	cr_expect(swakv_request_valid(r));
	cr_expect_eq(swakv_request_slot(r, 0), 3);
	cr_expect_eq(swakv_request_slot(r, 1), -1);
	cr_assert_eq(swakv_request_finish(r, &t), 0);
	fake_take(&fake, WIRE_OP_FINISH, &c);
	cr_expect_eq(((struct wire_fence *)(void *)c.payload)->kind, WIRE_FENCE_POINT);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_not(swakv_request_valid(r));
	cr_expect_eq(swakv_request_finish(r, NULL), 0);
	cr_expect_eq(swakv_request_abandon(r, &t), 0);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_not(fake_has_command(&fake));
	swakv_request_free(r);
	cr_expect_not(fake_has_command(&fake));
}

Test(client_call, freed_request_is_abandoned)
{
	int32_t slot = 3;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1);
	struct fake_command c;

	swakv_request_free(r);
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
}

Test(client_call, request_freed_while_its_refused_finish_is_in_flight_is_abandoned)
{
	int32_t slot = 3;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1);
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_request_finish(r, &t), 0);
	swakv_request_free(r);
	fake_take(&fake, WIRE_OP_FINISH, &c);
	cr_expect_not(fake_has_command(&fake));
	fake_refuse(&fake, &c, FAULT_TRANSITION_PENDING, 2, 0);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EPHASE);
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
}

Test(client_call, request_of_another_session_is_refused)
{
	struct fake other;
	swakv_session *s;
	swakv_request *r;
	struct swakv_step step;
	int32_t slot = 0;

	fake_open(&other);
	s = fake_attach(&other, NULL);
	r = fake_begin(&other, s, 0, &slot, 1);
	step = (struct swakv_step){ .size = sizeof(struct swakv_step), .request = r };
	cr_expect_eq(swakv_step_prepare(session, &step, 1, NULL), SWAKV_EINVALID);
	cr_expect_str_eq(swakv_session_error(session), "entry 0 is a request of another session");
	step.request = NULL;
	cr_expect_eq(swakv_step_prepare(session, &step, 1, NULL), SWAKV_EINVALID);
	fake_end(&other, s);
}

static void nothing_runs(void *arg)
{
	cr_assert_fail("it ran");
}

Test(client_call, null_sessions_are_refused)
{
	const struct swakv_begin_options o = { .size = sizeof(o), .n_slots = 0 };
	struct swakv_step step = { .size = sizeof(step) };
	struct swakv_layout layout = { .size = sizeof(layout) };
	struct swakv_fence fence;
	swakv_request *r;
	int64_t n;

	cr_expect_eq(swakv_session_ping(NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_shutdown(NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_get_layout(NULL, 0, &layout), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_free_pages(NULL, &n), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_bind_host(NULL, 0, false), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_bind_cuda(NULL, 0, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_bind_cuda2(NULL, 0, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_bind_custom(NULL, 0, NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_capture_begin(NULL, 0), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_capture_end(NULL, 0), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_set_replay(NULL, 0, true), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_replay(NULL, 0, NULL, &fence), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_launch_host(NULL, 0, nothing_runs, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_mark(NULL, 0, &fence), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_synchronize(NULL, 0), SWAKV_EINVALID);
	cr_expect_eq(swakv_poll(NULL, 1), SWAKV_EINVALID);
	cr_expect_eq(swakv_wait(NULL, 1), SWAKV_EINVALID);
	cr_expect_eq(swakv_request_begin(NULL, &o, &r, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_step_prepare(NULL, &step, 1, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_step_complete(NULL, &step, 1, NULL), SWAKV_EINVALID);
}

Test(client_call, null_requests_are_refused)
{
	struct swakv_sequence_state sequence = { .size = sizeof(sequence) };
	struct swakv_request_state state = { .size = sizeof(state) };
	const int32_t one[] = { 1 };

	cr_expect_eq(swakv_prefill_prepare(NULL, one, 1, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_prefill_complete(NULL, SWAKV_DONE, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_decode_prepare(NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_decode_complete(NULL, SWAKV_DONE, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_compact_begin(NULL, one, 1, 1, 0, 0, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_compact_complete(NULL, SWAKV_DONE, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_request_finish(NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_request_abandon(NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_request_get_state(NULL, &state), SWAKV_EINVALID);
	cr_expect_eq(swakv_sequence_get_state(NULL, 0, &sequence), SWAKV_EINVALID);
}

/* Zeroes, where a struct is to be filled: nobody may take what lay there before for an answer. */
Test(client_call, null_is_answered_with_zeroes)
{
	struct swakv_session_info info, no_info = { 0 };
	struct swakv_session_counters counters, no_counters = { 0 };

	memset(&info, 0xaa, sizeof(info));
	memset(&counters, 0xaa, sizeof(counters));
	info.size = sizeof(info);
	counters.size = sizeof(counters);
	no_info.size = sizeof(no_info);
	no_counters.size = sizeof(no_counters);
	cr_expect_eq(swakv_session_get_info(NULL, &info), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_get_counters(NULL, &counters), SWAKV_EINVALID);
	cr_expect_arr_eq(&info, &no_info, sizeof(info));
	cr_expect_arr_eq(&counters, &no_counters, sizeof(counters));
	cr_expect_eq(swakv_session_get_info(NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_get_info(session, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_get_counters(session, NULL), SWAKV_EINVALID);
	swakv_sequence_state_clear(NULL);
	swakv_request_free(NULL);
	swakv_session_close(NULL);
	cr_expect_str_eq(swakv_session_error(NULL), "no session was given");
	cr_expect_eq(swakv_session_private_pages(NULL), 0);
	cr_expect_null(swakv_stream_cuda(NULL, 0));
	cr_expect_not(swakv_request_valid(NULL));
	cr_expect_eq(swakv_request_batch(NULL), 0);
	cr_expect_eq(swakv_request_slot(NULL, 0), -1);
	cr_expect(swakv_fence_reached(NULL, SWAKV_DONE));
	cr_expect_not(swakv_fence_reached(NULL, (struct swakv_fence){ SWAKV_FENCE_LINE, 0, 0 }));
}

#define WANTS(call, what)                                                                                              \
	do {                                                                                                           \
		cr_expect_eq((call), SWAKV_EINVALID);                                                                  \
		cr_expect_not_null(strstr(swakv_session_error(session), what), "%s", swakv_session_error(session));    \
	} while (0)

Test(client_call, a_place_for_the_answer_must_be_given)
{
	const struct swakv_group g = { .size = sizeof(g), .kind = SWAKV_SLIDING, .window = 16, .page_tokens = 16 };
	const struct swakv_model m = {
		.size = sizeof(m), .name = "m", .groups = &g, .n_groups = 1, .max_batch = 1, .max_seq = 16
	};
	int32_t slot = 0;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1);
	char why[128] = "";

	cr_expect_eq(swakv_session_attach(NULL, &m, NULL, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_str_eq(why, "the pointer for the session is NULL");
	cr_expect_eq(swakv_session_get_layout(session, 0, NULL), SWAKV_EINVALID);
	WANTS(swakv_session_free_pages(session, NULL), "the pointer for the number");
	WANTS(swakv_request_get_state(r, NULL), "the pointer for the state");
	WANTS(swakv_sequence_get_state(r, 0, NULL), "the pointer for the state");
	WANTS(swakv_stream_launch_host(session, 0, NULL, NULL), "no function");
	WANTS(swakv_request_begin(session, NULL, &r, NULL), "the options are NULL");
	cr_expect_null(r);
}

Test(client_call, step_that_fits_no_message_is_refused)
{
	struct swakv_step steps[FAKE_MESSAGE * 2] = { 0 };

	for (int i = 0; i < FAKE_MESSAGE * 2; i++)
		steps[i].size = sizeof(steps[i]);
	cr_expect_eq(swakv_step_prepare(session, steps, FAKE_MESSAGE * 2, NULL), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(session), "64 were given"), "%s", swakv_session_error(session));
}

Test(client_call, lost_request_is_no_longer_valid)
{
	int32_t slot = 3;
	swakv_request *r = fake_begin(&fake, session, 0, &slot, 1);
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_prefill_complete(r, (struct swakv_fence){ SWAKV_FENCE_FAILED, 0, 0 }, &t), 0);
	fake_take(&fake, WIRE_OP_PREFILL_COMPLETE, &c);
	cr_expect_eq(((struct wire_fence *)(void *)c.payload)->kind, WIRE_FENCE_FAILED);
	fake_refuse(&fake, &c, FAULT_COMPLETION_FAILED, 4, 0);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EPOISONED);
	cr_expect_not(swakv_request_valid(r));
	swakv_request_free(r);
	cr_expect_not(fake_has_command(&fake));
}
