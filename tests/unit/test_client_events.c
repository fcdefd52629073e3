/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptor for an event loop: readable when something can be collected, and not for long when nothing can. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client_fixture.h"
#include "session.h"
#include "wait.h"

static int fd;

static void setup(void)
{
	struct swakv_attach_options o = { .size = sizeof(o), .flags = SWAKV_ATTACH_EVENTS };

	fake_open(&fake);
	session = fake_attach(&fake, &o);
	fd = swakv_session_fd(session);
	cr_assert_geq(fd, 0, "%s", swakv_session_error(session));
}

TestSuite(client_events, .init = setup, .fini = client_teardown);

/* Readable within @ms. */
static bool readable(int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

/* As an event loop: it waits, and looks whether the answer is there. */
static int loop_until_answered(swakv_ticket t)
{
	int r;

	do
		cr_assert(readable(60000), "nobody told");
	while ((r = swakv_poll(session, t)) == SWAKV_EAGAIN);
	return r;
}

static swakv_ticket ping(struct fake_command *c)
{
	swakv_ticket t;

	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_take(&fake, WIRE_OP_NOP, c);
	return t;
}

static void answer(const struct fake_command *c)
{
	fake_answer(&fake, c, 0, 0, NULL, 0);
}

Test(client_events, readable_from_the_answer_until_it_is_collected)
{
	struct fake_command c;
	swakv_ticket t;

	cr_expect_eq(swakv_session_fd(session), fd, "there is one");
	for (int i = 0; i < 3; i++) {
		t = ping(&c);
		cr_expect_not(readable(0));
		answer(&c);
		cr_expect(readable(60000));
		cr_expect(readable(0), "it is level-triggered");
		cr_expect_eq(swakv_poll(session, t), 0);
		cr_expect_not(readable(0));
	}
}

Test(client_events, readable_while_one_of_several_is_not_collected)
{
	struct fake_command a, b;
	swakv_ticket ta = ping(&a), tb = ping(&b);

	answer(&a);
	answer(&b);
	cr_expect_eq(loop_until_answered(tb), 0);
	cr_expect(readable(0));
	cr_expect_eq(swakv_poll(session, ta), 0);
	cr_expect_not(readable(0));
}

static void serve_after_the_other(struct fake *f, const struct fake_command *c)
{
	static struct fake_command other;

	if (other.head.op == 0 && c->head.op == WIRE_OP_NOP && f->choice) {
		other = *c; /* answered together with the next */
		f->choice = 0;
		return;
	}
	fake_answer(f, &other, 0, 0, NULL, 0);
	fake_answer(f, c, 0, 0, NULL, 0);
}

Test(client_events, an_answer_that_a_waiting_call_took_is_still_to_be_collected)
{
	swakv_ticket t;

	fake.choice = 1;
	fake.serve = serve_after_the_other;
	cr_assert_eq(swakv_session_ping(session, &t), 0);
	fake_serve(&fake);
	cr_assert_eq(swakv_session_ping(session, NULL), 0, "takes both");
	cr_expect(readable(0));
	cr_expect_eq(swakv_poll(session, t), 0);
	cr_expect_not(readable(0));
}

Test(client_events, what_a_wait_has_read_away_at_the_socket_is_not_lost)
{
	struct fake_command a, b;
	swakv_ticket ta = ping(&a), tb = ping(&b);

	answer(&a);
	session_look(session, 0, true);
	cr_expect_eq(swakv_poll(session, ta), 0);
	cr_expect_not(readable(0));
	answer(&b);
	cr_expect(readable(60000));
	cr_expect_eq(swakv_poll(session, tb), 0);
}

Test(client_events, a_late_answer_is_taken_without_a_ticket)
{
	struct fake_command c;

	session->timeout_ns = 20000000;
	cr_assert_eq(swakv_session_ping(session, NULL), SWAKV_ETIMEDOUT);
	fake_take(&fake, WIRE_OP_NOP, &c);
	swakv_session_take(session);
	cr_expect_not(readable(0));
	answer(&c);
	cr_expect(readable(60000));
	cr_expect_eq(swakv_session_take(session), 0);
	cr_expect_not(readable(0));
	session->timeout_ns = 30000000000;
}

Test(client_events, readable_for_good_when_the_broker_has_gone)
{
	struct fake_command c;
	swakv_ticket t = ping(&c);

	fake_die(&fake);
	cr_expect_eq(loop_until_answered(t), SWAKV_EGONE);
	cr_expect(readable(0));
	cr_expect_eq(swakv_session_take(session), SWAKV_EGONE);
	cr_expect_eq(swakv_session_fd(session), SWAKV_EGONE);
	cr_expect(readable(0));
}

Test(client_events, a_begin_that_is_held_is_looked_at_again)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } }, clear[] = { { CELL(0, 0), -1 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v2[] = { { 0, 2, 0, 0 } };
	const struct swakv_begin_options o = {
		.size = sizeof(o), .stream = 0, .slots = (int32_t[]){ 0 }, .n_slots = 1, .wait_ms = 60000
	};
	swakv_request *r, *other, *next;
	struct fake_command c;
	swakv_ticket t;

	/* the clears of slot 0 are under way on stream 1, behind work that does not end yet */
	cr_assert_eq(swakv_stream_bind_host(session, 1, true), 0);
	r = begin(1, 0);
	other = begin(1, 1);
	cr_assert_eq(decode(r, &DELIVERY(u, v1)), 0);
	cr_assert_eq(complete(r, SWAKV_DONE), 0);
	cr_assert_eq(swakv_stream_synchronize(session, 1), 0);
	cr_assert_eq(swakv_request_finish(r, &t), 0);
	fake_take(&fake, WIRE_OP_FINISH, &c);
	answer(&c);
	cr_assert_eq(swakv_wait(session, t), 0);
	cr_assert_eq(swakv_stream_launch_host(session, 1, wait_for_gate, NULL), 0);
	cr_assert_eq(decode(other, &DELIVERY(clear, v2)), 0);
	cr_assert_eq(swakv_request_begin(session, &o, &next, &t), 0);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	fake_answer(&fake, &c, 0x55, 0, NULL, 0);
	for (int i = 0; i < 5; i++) {
		cr_expect(readable(60000), "nobody else would tell");
		cr_expect_eq(swakv_poll(session, t), SWAKV_EAGAIN);
		cr_expect_eq(swakv_session_take(session), 0);
	}
	store_release(&gate, 1);
	cr_assert_eq(complete(other, SWAKV_DONE), 0);
	cr_expect_eq(loop_until_answered(t), 0, "%s", swakv_session_error(session));
	cr_expect(swakv_request_valid(next));
}

/* ---- pages that are wanted ------------------------------------------------------- */

static struct wire_board *board(uint32_t group)
{
	return (struct wire_board *)(fake.memory + fake.welcome.boards_offset) + group;
}

/* As the broker: it asks for @n, and @more says that this is more than before. */
static void want(uint32_t group, uint64_t n, bool more)
{
	store_release(&board(group)->wanted, n);
	if (more)
		store_release(&board(group)->rises, load_relaxed(&board(group)->rises) + 1);
	fence_store_load();
	if (more && exchange_acq_rel(&fake.wait->event, 0))
		cr_assert_eq(send(fake.sock, "", 1, 0), 1);
}

static int64_t wanted(uint32_t group)
{
	return swakv_pages_wanted(session, group, NULL);
}

Test(client_events, readable_while_more_is_wanted_than_was_told)
{
	cr_expect_eq(wanted(0), 0);
	for (uint64_t i = 1; i <= 3; i++) {
		cr_expect_not(readable(0));
		want(0, i, true);
		cr_expect(readable(60000), "nobody told of %llu", (unsigned long long)i);
		cr_expect_eq(swakv_session_take(session), 0);
		cr_expect(readable(0), "it is level-triggered");
		cr_expect_eq((uint64_t)wanted(0), i);
	}
	cr_expect_not(readable(0), "what it cannot give does not keep it awake");
	want(0, 1, false);
	cr_expect_eq(swakv_session_take(session), 0);
	cr_expect_not(readable(0));
}

Test(client_events, a_want_whose_byte_a_waiting_call_has_read_is_still_told)
{
	cr_expect_eq(wanted(0), 0);
	want(0, 5, true);
	session_look(session, 0, true);
	cr_expect(readable(0));
	cr_expect_eq(wanted(0), 5);
	cr_expect_not(readable(0));
}

Test(client_events, a_want_that_came_while_the_byte_of_an_answer_was_under_way_is_told)
{
	struct fake_command c;
	swakv_ticket t = ping(&c);

	cr_expect_eq(wanted(0), 0);
	answer(&c); /* takes the word: for the want no byte is sent */
	want(0, 5, true);
	cr_expect_eq(loop_until_answered(t), 0);
	cr_expect(readable(0));
	cr_expect_eq(wanted(0), 5);
	cr_expect_not(readable(0));
}

Test(client_events, a_want_and_an_answer_keep_it_readable_each_by_itself)
{
	struct fake_command c;
	swakv_ticket t = ping(&c);

	cr_expect_eq(wanted(0), 0);
	answer(&c);
	want(0, 5, true);
	cr_expect_eq(swakv_session_take(session), 0);
	cr_expect_eq(wanted(0), 5);
	cr_expect(readable(0), "the answer is not collected");
	cr_expect_eq(swakv_poll(session, t), 0);
	cr_expect_not(readable(0));
}

Test(client_events, who_never_asked_what_is_wanted_is_not_told)
{
	want(0, 5, true);
	cr_expect_eq(swakv_session_take(session), 0);
	cr_expect_not(readable(0));
	cr_expect_eq(wanted(0), 5);
	want(0, 0, false);
	want(0, 3, true);
	cr_expect(readable(60000));
}

Test(client_events, a_want_that_ended_before_it_was_told_is_none)
{
	cr_expect_eq(wanted(0), 0);
	want(0, 5, true);
	want(0, 0, false);
	cr_expect_eq(swakv_session_take(session), 0);
	cr_expect_not(readable(0));
	want(0, 5, true);
	cr_expect(readable(60000));
	cr_expect_eq(swakv_session_take(session), 0);
	want(0, 0, false);
	cr_expect_eq(wanted(0), 0);
	cr_expect_not(readable(0));
}

Test(client_events, what_was_wanted_before_there_was_a_descriptor_is_told)
{
	struct swakv_attach_options o = { .size = sizeof(o), .flags = SWAKV_ATTACH_EVENTS };

	fake_end(&fake, session);
	fake_open(&fake);
	session = fake_attach(&fake, &o);
	cr_expect_eq(wanted(0), 0);
	want(0, 5, true);
	fd = swakv_session_fd(session);
	cr_expect(readable(0));
	cr_expect_eq(wanted(0), 5);
	cr_expect_not(readable(0));
}

Test(client_events, each_group_is_told_by_itself)
{
	struct swakv_attach_options o = { .size = sizeof(o), .flags = SWAKV_ATTACH_EVENTS };

	fake_end(&fake, session);
	fake_open(&fake);
	fake_add_group(&fake);
	session = fake_attach(&fake, &o);
	fd = swakv_session_fd(session);
	cr_expect_eq(wanted(0), 0);
	cr_expect_eq(wanted(1), 0);
	want(0, 5, true);
	want(1, 6, true);
	cr_expect(readable(60000));
	cr_expect_eq(swakv_session_take(session), 0);
	cr_expect_eq(wanted(1), 6);
	cr_expect(readable(0), "group 0 is not told");
	cr_expect_eq(wanted(0), 5);
	cr_expect_not(readable(0));
}

static void plain_setup(void)
{
	client_setup();
}

TestSuite(client_no_events, .init = plain_setup, .fini = client_teardown);

Test(client_no_events, who_did_not_ask_at_the_attach_has_no_descriptor_and_costs_nothing)
{
	struct fake_command c;
	swakv_ticket t = ping(&c);

	cr_expect_eq(swakv_session_fd(session), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(session), "without SWAKV_ATTACH_EVENTS"));
	cr_expect_eq(fake.hello.flags & WIRE_HELLO_EVENTS, 0);
	answer(&c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(load_relaxed(&fake.wait->event), 0);
	cr_expect_eq(swakv_session_take(session), 0);
	cr_expect_eq(swakv_session_take(NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_fd(NULL), SWAKV_EINVALID);
}
