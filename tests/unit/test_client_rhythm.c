/* SPDX-License-Identifier: Apache-2.0 */
/* Turns whose answer nobody wants yet, to a broker that sleeps and has promised a look: they ring no doorbell. */
#include <string.h>
#include <unistd.h>

#include "client_fixture.h"
#include "clock.h"
#include "session.h"

enum { SLACK_MS = 400 };

static swakv_request *request;
static struct swakv_turn turn;

static void setup(void)
{
	client_setup();
	request = begin(0, 0);
	turn = (struct swakv_turn){ .size = sizeof(turn), .what = SWAKV_TURN_PREPARE, .request = request };
}

static void teardown(void)
{
	swakv_request_free(request);
	client_teardown();
}

TestSuite(client_rhythm, .init = setup, .fini = teardown);

static uint64_t rung(void)
{
	struct swakv_session_counters c = { .size = sizeof(c) };

	cr_assert_eq(swakv_session_get_counters(session, &c), 0);
	return c.wakeups_sent;
}

static swakv_ticket send_turn(void)
{
	swakv_ticket t = 0;

	cr_assert_eq(swakv_step_turn(session, &turn, 1, &t), 0, "%s", swakv_session_error(session));
	return t;
}

static void serve(uint16_t op)
{
	struct fake_command c;

	fake_take(&fake, op, &c);
	if (op == WIRE_OP_STEP_TURN)
		fake_deliver(&fake, &c, &(struct fake_delivery){ 0 });
	else
		fake_answer(&fake, &c, 0, 0, NULL, 0);
}

/* A turn to a broker that is awake, whose answer is wanted SLACK_MS later. */
static void slow_turn(void)
{
	swakv_ticket t = send_turn();

	session->rhythm.sent -= SLACK_MS * NS_PER_MS; /* as if it had been sent so long ago */
	serve(WIRE_OP_STEP_TURN);
	cr_assert_eq(swakv_wait(session, t), 0);
}

static void broker_sleeps(uint64_t look)
{
	store_relaxed(&fake.wait->look, look);
	cr_assert_eq(ring_consumer_sleep_spsc(&fake.commands), 0);
}

static void broker_is_awake(void)
{
	store_relaxed(&fake.wait->look, 0);
	ring_consumer_awake_spsc(&fake.commands);
}

/*
 * A turn of a worker that has taken its time with the last one, to a broker that
 * looks in a third of that. Sent again if the machine has taken so long itself.
 */
static swakv_ticket quiet_turn(void)
{
	for (;;) {
		uint64_t look, before;
		swakv_ticket t;

		slow_turn();
		before = rung();
		look = clock_ns() + SLACK_MS / 3 * NS_PER_MS;
		broker_sleeps(look);
		t = send_turn();
		if (clock_ns() < look) {
			cr_expect_eq(rung(), before, "the doorbell was rung");
			return t;
		}
		broker_is_awake();
		serve(WIRE_OP_STEP_TURN);
		cr_assert_eq(swakv_wait(session, t), 0);
	}
}

Test(client_rhythm, a_turn_that_the_broker_will_see_in_time_rings_no_bell)
{
	swakv_ticket t = quiet_turn();
	uint64_t before = rung();

	broker_is_awake();
	serve(WIRE_OP_STEP_TURN);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(rung(), before);
}

Test(client_rhythm, the_bell_rings_when_the_answer_is_wanted_before)
{
	swakv_ticket t = quiet_turn();
	uint64_t before = rung();

	cr_expect_eq(swakv_wait_for(session, t, 1), SWAKV_ETIMEDOUT);
	cr_expect_eq(rung(), before + 1);
	cr_expect_eq(swakv_poll(session, t), SWAKV_EAGAIN);
	cr_expect_eq(rung(), before + 1, "once is enough");
	broker_is_awake();
	serve(WIRE_OP_STEP_TURN);
	cr_expect_eq(swakv_wait(session, t), 0);
}

Test(client_rhythm, so_does_a_look_that_finds_no_answer)
{
	swakv_ticket t = quiet_turn();
	uint64_t before = rung();

	cr_expect_eq(swakv_poll(session, t), SWAKV_EAGAIN);
	cr_expect_eq(rung(), before + 1);
	broker_is_awake();
	serve(WIRE_OP_STEP_TURN);
	cr_expect_eq(swakv_wait(session, t), 0);
}

Test(client_rhythm, the_next_command_rings_for_both)
{
	swakv_ticket t = quiet_turn(), ping;
	uint64_t before = rung();

	cr_assert_eq(swakv_session_ping(session, &ping), 0);
	cr_expect_eq(rung(), before + 1);
	broker_is_awake();
	serve(WIRE_OP_STEP_TURN);
	serve(WIRE_OP_NOP);
	cr_expect_eq(swakv_wait(session, ping), 0);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(rung(), before + 1);
}

/* It may look too late for this worker, or has promised nothing. */
Test(client_rhythm, a_look_that_is_too_late_is_not_waited_for)
{
	uint64_t before;

	slow_turn();
	before = rung();
	broker_sleeps(clock_ns() + 10 * NS_PER_S);
	(void)send_turn();
	cr_expect_eq(rung(), before + 1);
	broker_is_awake();
	serve(WIRE_OP_STEP_TURN);
	slow_turn();
	broker_sleeps(0);
	(void)send_turn();
	cr_expect_eq(rung(), before + 2);
}

/* What ends or begins requests is of use to others. */
Test(client_rhythm, a_turn_that_ends_a_request_rings)
{
	uint64_t before;

	slow_turn();
	before = rung();
	turn.what = SWAKV_TURN_FINISH;
	broker_sleeps(clock_ns() + SLACK_MS / 3 * NS_PER_MS);
	(void)send_turn();
	cr_expect_eq(rung(), before + 1);
	broker_is_awake();
	serve(WIRE_OP_STEP_TURN);
}

/* One that is waited for at once, or soon: as all calls were. */
Test(client_rhythm, who_waits_at_once_asks_for_nothing)
{
	fake_serve(&fake);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(swakv_step_turn(session, &turn, 1, NULL), 0);
	cr_expect_eq(load_relaxed(&fake.wait->ask), 0);
}

Test(client_rhythm, what_is_asked_for_lies_between_the_next_turn_and_its_answer)
{
	swakv_ticket t;
	uint64_t ask;

	slow_turn();
	for (;;) {
		session->rhythm.sent = clock_ns() - 100 * NS_PER_MS; /* the last one */
		session->rhythm.slack = 80 * NS_PER_MS;
		t = send_turn();
		if (session->rhythm.every <= 200 * NS_PER_MS)
			break;
		serve(WIRE_OP_STEP_TURN); /* the machine has taken so long that it is no rhythm any more */
		cr_assert_eq(swakv_wait(session, t), 0);
	}
	ask = load_relaxed(&fake.wait->ask);
	cr_expect_eq(ask, session->rhythm.sent + session->rhythm.every + 40 * NS_PER_MS);
	cr_expect_geq(session->rhythm.every, 100 * NS_PER_MS);
	serve(WIRE_OP_STEP_TURN);
	cr_expect_eq(swakv_wait(session, t), 0);
}
