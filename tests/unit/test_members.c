/* SPDX-License-Identifier: Apache-2.0 */
/* test_members.c - a session of several processes: who joins it, and when all of them are through */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "control_fixture.h"
#include "session/client_order.h"

static struct worker first;

static struct client *client_of(const struct worker *w)
{
	return w->channel->owner;
}

/* One session that may be joined. */
static void setup_for(uint32_t max_sessions)
{
	fixture_setup_for(max_sessions);
	hello.flags = WIRE_HELLO_JOINABLE;
	first = attach();
	/* What the next hello says. */
	hello.flags = WIRE_HELLO_JOIN;
	hello.join.session_id = first.channel->id;
	hello.join.session_generation = first.channel->generation;
	memcpy(hello.join.key, client_of(&first)->key, sizeof(hello.join.key));
}

static void setup(void)
{
	setup_for(4);
}

TestSuite(members, .init = setup, .fini = fixture_teardown);

static struct worker try_join(int code)
{
	struct worker w = connect_worker();
	int got;

	say_hello(&w);
	got = answer(&w);
	cr_assert_eq(got, code, "the answer is %d instead of %d", got, code);
	return w;
}

static struct worker join(void)
{
	uint32_t before = first.channel->members;
	struct worker w = try_join(0);

	told_no_more(); /* the ring thread has nothing to do with it */
	cr_assert_eq(first.channel->members, before + 1);
	cr_assert_eq((pid_t)first.channel->member_pids[before], w.pid);
	return w;
}

static void not_joined(void)
{
	told_no_more();
	cr_expect_eq(first.channel->members, 0);
	cr_expect_eq(client_of(&first)->n_members, 0);
	cr_expect_eq(used(LEDGER_SESSIONS), 1);
}

/* The ring thread has been told that nothing of it runs; and the rest. */
static void reclaim(void)
{
	cr_assert_eq(told(MAIL_PROCESS_GONE), first.channel);
	told_no_more();
	tell(MAIL_RECLAIMED, first.channel);
	turn();
	told(MAIL_FORGET);
	tell(MAIL_FORGOTTEN, first.channel);
	turn();
}

Test(members, pages_wait_for_the_member_when_the_first_has_died)
{
	struct worker member = join();

	end_process(&first);
	turn();
	cr_assert_eq(told(MAIL_SOCKET_ENDED), first.channel);
	told_no_more();
	end_process(&member);
	turn();
	reclaim();
	end_connection(&first);
	end_connection(&member);
	turn();
	counted_out_once();
}

Test(members, pages_wait_for_the_first_when_the_member_has_died)
{
	struct worker member = join();

	end_process(&member);
	end_connection(&member);
	turn();
	not_joined();
	cr_expect_eq(client_of(&first)->session, SESSION_LIVE);
	end_process(&first);
	turn();
	reclaim();
	end_connection(&first);
	turn();
	counted_out_once();
}

Test(members, the_last_of_several_is_waited_for_in_any_order)
{
	for (int last = 0; last < 3; last++) {
		struct worker all[3] = { first };
		int gone = 0;

		all[1] = join();
		all[2] = join();
		for (int i = 1; i <= 3; i++) {
			struct worker *w = &all[(last + i) % 3];

			end_process(w);
			end_connection(w);
			turn();
			if (w == &all[0] &&
			    i < 3) { /* by its process or by its connection, and once more by the other */
				told(MAIL_SOCKET_ENDED);
				told(MAIL_SOCKET_ENDED);
			}
			if (i < 3)
				told_no_more();
		}
		for (struct mail m; mailbox_take_spsc(ring.inbox, &m);)
			gone += m.kind == MAIL_PROCESS_GONE;
		cr_assert_eq(gone, 1);
		tell(MAIL_RECLAIMED, first.channel);
		turn();
		told(MAIL_FORGET);
		tell(MAIL_FORGOTTEN, first.channel);
		turn();
		counted_out_once();
		hello = (struct wire_hello){ 0 };
		fixture_teardown();
		setup();
	}
}

Test(members, who_says_that_it_left_is_not_waited_for)
{
	struct worker member = join();

	cr_assert_eq(send(member.socket, "", 1, 0), 1);
	turn();
	not_joined();
	end_process(&first);
	turn();
	reclaim();
	end_connection(&first);
	end_connection(&member);
	turn();
	counted_out_once();
}

Test(members, the_end_of_a_members_connection_proves_nothing)
{
	struct worker member = join();

	end_connection(&member);
	turn();
	cr_expect_eq(first.channel->members, 1);
	end_process(&member);
	turn();
	not_joined();
}

Test(members, all_are_told_when_the_session_ends)
{
	struct worker member = join();
	char byte;

	end_connection(&first);
	turn();
	told(MAIL_SOCKET_ENDED);
	cr_expect_eq(recv(member.socket, &byte, 1, MSG_DONTWAIT), 0);
}

Test(members, a_process_of_another_user_does_not_join)
{
	if (geteuid() != 0)
		cr_skip_test("only root can take another uid");
	config.allow_uid = (struct config_ids){ 1, { 4711 } };
	worker_uid = 4711;
	try_join(SWAKV_EGONE);
	not_joined();
}

Test(members, a_wrong_key_number_or_generation_opens_nothing)
{
	for (size_t i = 0; i < WIRE_KEY; i++) {
		hello.join.key[i] ^= 1;
		try_join(SWAKV_EGONE);
		hello.join.key[i] ^= 1;
	}
	hello.join.session_id++;
	try_join(SWAKV_EGONE);
	hello.join.session_id = UINT32_MAX;
	try_join(SWAKV_EGONE);
	hello.join.session_id = first.channel->id;
	hello.join.session_generation++;
	try_join(SWAKV_EGONE);
	not_joined();
}

Test(members, the_key_of_a_session_that_has_ended_opens_nothing)
{
	struct wire_hello stale = hello;

	end_connection(&first);
	turn();
	told(MAIL_SOCKET_ENDED);
	try_join(SWAKV_EGONE);
	forget(&first);
	hello = stale;
	hello.flags = WIRE_HELLO_JOINABLE;
	memset(&hello.join, 0, sizeof(hello.join));
	first = attach(); /* with the same number, */
	hello = stale;
	try_join(SWAKV_EGONE);
	hello.join.session_generation = first.channel->generation;
	try_join(SWAKV_EGONE); /* and a key of its own */
	not_joined();
}

/* The ring thread may take the session's pages at once. */
Test(members, nobody_joins_while_the_session_ends)
{
	hide_mail();
	store_release(&first.channel->ended, 1);
	try_join(SWAKV_EGONE);
	not_joined();
}

Test(members, a_session_that_was_not_opened_is_not_joined)
{
	struct wire_hello join_hello = hello;

	hello.flags = 0;
	memset(&hello.join, 0, sizeof(hello.join));
	first = attach();
	hello = join_hello;
	hello.join.session_id = first.channel->id;
	hello.join.session_generation = first.channel->generation;
	memset(hello.join.key, 0, sizeof(hello.join.key)); /* as its key is */
	try_join(SWAKV_EGONE);
}

Test(members, who_declares_another_model_is_told_so)
{
	hello.max_batch--;
	try_join(SWAKV_EINVALID);
	hello.max_batch++;
	hello.n_streams++;
	try_join(SWAKV_EINVALID);
	hello.n_streams--;
	hello.groups[0].window++;
	try_join(SWAKV_EINVALID);
	not_joined();
}

Test(members, a_member_takes_a_place_among_the_sessions_of_its_user)
{
	join();
	join();
	join();
	try_join(SWAKV_ENOPAGES);
	cr_expect_eq(used(LEDGER_SESSIONS), 4);
}

Test(members, a_session_has_16_processes_at_most)
{
	fixture_teardown();
	setup_for(32);
	for (int i = 0; i < WIRE_MAX_JOINED; i++)
		join();
	try_join(SWAKV_ENOPAGES);
	cr_expect_eq(first.channel->members, WIRE_MAX_JOINED);
}

/* On a GPU work may outlive its process: each has a grace, and a place at the watch, of its own. */
Test(members, each_process_has_its_own_grace_on_a_gpu)
{
	struct worker member;

	pool.backend = WIRE_BACKEND_CUDA;
	member = join();
	cr_expect_eq((pid_t)(uint32_t)load_relaxed(&watch.places[0].asked), member.pid, "NVML is asked about it");
	end_process(&first);
	turn();
	registry_deadlines(&control.registry, clock_ns() + 3600 * NS_PER_S);
	told(MAIL_SOCKET_ENDED);
	told_no_more();
	end_process(&member);
	turn();
	told_no_more();
	registry_deadlines(&control.registry, clock_ns() + 3600 * NS_PER_S);
	reclaim();
}

Test(members, a_kill_ends_all_of_them)
{
	struct worker member = join();
	char why[256];

	cr_assert_eq(client_kill(client_of(&first), why, sizeof(why)), 0, "%s", why);
	waitpid(first.pid, NULL, 0);
	waitpid(member.pid, NULL, 0);
	turn();
	for (struct mail m; mailbox_take_spsc(ring.inbox, &m);)
		cr_assert(m.kind == MAIL_PROCESS_GONE || m.kind == MAIL_SOCKET_ENDED);
	cr_expect_eq(first.channel->members, 0);
}
