/* SPDX-License-Identifier: Apache-2.0 */
/* test_client.c - the broker's side of one connection, event by event */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control_fixture.h"
#include "engine/internal.h"
#include "engine/session.h"

TestSuite(client, .init = fixture_setup, .fini = fixture_teardown);

/* Where they are large that takes seconds, of which the ring thread has none. */
Test(client, tables_are_made_before_the_ring_thread_hears_of_a_session)
{
	struct worker w = attach();
	const struct session_layout *l = &w.channel->memory.layout;
	const int32_t *cells = (const int32_t *)(const void *)(w.channel->memory.tables + l->cells[0]);

	cr_assert_not_null(w.channel->session);
	cr_expect_not(session_enlisted(w.channel->session), "the engine is the ring thread's");
	for (uint64_t i = 0; i < l->cells_bytes[0] / sizeof(int32_t); i++)
		cr_assert_eq(cells[i], -1);
	end_connection(&w);
	end_process(&w);
	turn();
}

/* Of each group the control thread makes a page class; the ring thread, which frees nothing, took none of these. */
Test(client, page_classes_that_nobody_needed_are_freed_when_a_session_is_attached)
{
	struct worker w;

	hello.n_groups = 2;
	hello.groups[1] = hello.groups[0];
	w = connect_worker();
	say_hello(&w);
	w.channel = told(MAIL_ATTACH);
	FOR_EACH_GROUP (g, w.channel->session)
		cr_assert_not_null(g->spare);
	tell(MAIL_ATTACHED, w.channel);
	turn();
	FOR_EACH_GROUP (g, w.channel->session)
		cr_assert_null(g->spare);
	end_connection(&w);
	end_process(&w);
	turn();
}

/* The ring thread's last word about a session lies there unread when its process is seen to end. */
Test(client, the_last_mail_waits_at_the_end_of_the_process)
{
	struct worker w = attach();

	end_connection(&w);
	turn();
	told(MAIL_SOCKET_ENDED);
	tell(MAIL_RECLAIMED, w.channel);
	turn();
	told(MAIL_FORGET);
	hide_mail();
	tell(MAIL_FORGOTTEN, w.channel);
	end_process(&w);
	turn();
	counted_out_once();
}

Test(client, the_last_mail_waits_at_the_end_of_the_connection)
{
	struct worker w = attach();

	end_process(&w);
	turn();
	told(MAIL_PROCESS_GONE);
	tell(MAIL_RECLAIMED, w.channel);
	turn();
	told(MAIL_FORGET);
	hide_mail();
	tell(MAIL_FORGOTTEN, w.channel);
	end_connection(&w);
	turn();
	counted_out_once();
}

/* A worker that said close and left: that comes before the end of its connection, and is no death. */
Test(client, a_close_waits_at_the_end_of_the_connection)
{
	struct worker w = attach();

	hide_mail();
	tell(MAIL_CLOSED, w.channel);
	tell(MAIL_RECLAIMED, w.channel);
	end_connection(&w);
	turn();
	told(MAIL_FORGET);
	tell(MAIL_FORGOTTEN, w.channel);
	end_process(&w);
	turn();
	counted_out_once();
}

/* The ring thread found the worker lying just as its connection ended. */
Test(client, a_kick_waits_at_the_end_of_the_connection)
{
	struct worker w = attach();

	hide_mail();
	mailbox_post_spsc(ring.outbox, MAIL_KICKED, w.channel, VIOLATION_COMMAND_TAIL);
	end_connection(&w);
	turn();
	told(MAIL_SOCKET_ENDED);
	told_no_more();
	end_process(&w);
	turn();
	told(MAIL_PROCESS_GONE);
	tell(MAIL_RECLAIMED, w.channel);
	control_take_mail(&control);
	told(MAIL_FORGET);
	tell(MAIL_FORGOTTEN, w.channel);
	control_take_mail(&control);
	counted_out_once();
}

/* The one place is free again each time, whatever ends first. */
Test(client, connection_process_and_session_end_in_any_order)
{
	for (int order = 0; order < 4; order++) {
		struct worker w = attach();
		bool process_first = order & 1, mail_last = order & 2;

		if (process_first)
			end_process(&w);
		else
			end_connection(&w);
		turn();
		told(process_first ? MAIL_PROCESS_GONE : MAIL_SOCKET_ENDED);
		tell(MAIL_RECLAIMED, w.channel);
		turn();
		told(MAIL_FORGET);
		if (!mail_last) {
			tell(MAIL_FORGOTTEN, w.channel);
			turn();
		}
		if (process_first)
			end_connection(&w);
		else
			end_process(&w);
		turn();
		if (mail_last) {
			tell(MAIL_FORGOTTEN, w.channel);
			turn();
		}
		counted_out_once();
	}
}

/* Each group has a table of its own. */
Test(client, the_tables_of_all_groups_are_given_back)
{
	struct worker w;

	hello.n_groups = 3;
	hello.groups[1] = hello.groups[2] = hello.groups[0];
	w = attach();
	cr_assert_gt(used(LEDGER_TABLES), 0);
	cr_assert_eq(used(LEDGER_TABLES), control.places.tables.used);
	forget(&w);
	cr_assert_eq(control.places.tables.used, 0);
	end_connection(&w);
	turn();
	counted_out_once();
}

Test(client, a_process_that_ended_while_it_attached_is_reported)
{
	struct worker w = connect_worker();

	say_hello(&w);
	w.channel = told(MAIL_ATTACH);
	end_process(&w);
	turn();
	told_no_more();
	tell(MAIL_ATTACHED, w.channel);
	turn();
	told(MAIL_PROCESS_GONE);
	told_no_more();
	tell(MAIL_RECLAIMED, w.channel);
	turn();
	told(MAIL_FORGET);
	tell(MAIL_FORGOTTEN, w.channel);
	end_connection(&w);
	turn();
	counted_out_once();
}

Test(client, a_connection_that_ended_while_it_attached_is_reported)
{
	struct worker w = connect_worker();

	say_hello(&w);
	w.channel = told(MAIL_ATTACH);
	end_connection(&w);
	turn();
	told_no_more();
	tell(MAIL_ATTACHED, w.channel);
	turn();
	told(MAIL_SOCKET_ENDED);
	told_no_more();
	forget(&w);
	counted_out_once();
}

Test(client, an_attach_that_fails_in_the_engine_is_not_counted)
{
	for (int i = 0; i < 3; i++) {
		struct worker w = connect_worker();

		say_hello(&w);
		w.channel = told(MAIL_ATTACH);
		mailbox_post_spsc(ring.outbox, MAIL_ATTACHED, w.channel, SWAKV_ENOPAGES);
		turn();
		cr_assert_eq(answer(&w), SWAKV_ENOPAGES);
		end_process(&w);
		end_connection(&w);
		turn();
		counted_out_once();
	}
}

/* Who may not attach holds no place at any time, and need not say hello to be told. */
Test(client, who_may_not_attach_is_told_when_it_connects)
{
	struct worker w;

	if (geteuid() != 0) /* whoever else runs this is allowed */
		return;
	worker_uid = 4711;
	w = connect_worker();
	worker_uid = 0;
	cr_assert_eq(used(LEDGER_HALF_OPEN), 0);
	cr_assert(TAILQ_EMPTY(&control.registry.clients));
	cr_assert_eq(answer(&w), SWAKV_EDENIED);
	cr_assert_eq(load_relaxed(&ring.refused_attaches_by[FAULT_CREDENTIALS]), 1);
	end_process(&w);
	end_connection(&w);
}

/* With its pages back it is no session any more, though it has not hung up: the next one takes its place. */
Test(client, an_ended_session_stops_counting_when_its_pages_are_back)
{
	struct worker first = attach(), second;

	end_process(&first);
	turn();
	told(MAIL_PROCESS_GONE);
	tell(MAIL_RECLAIMED, first.channel);
	turn();
	cr_assert_eq(used(LEDGER_SESSIONS), 1, "its pages are not forgotten yet");
	told(MAIL_FORGET);
	tell(MAIL_FORGOTTEN, first.channel);
	turn();
	cr_assert_eq(used(LEDGER_SESSIONS), 0);
	cr_assert_eq(used(LEDGER_LINGERING), 1);
	second = attach();
	forget(&second);
	cr_assert_eq(used(LEDGER_SESSIONS), 1, "there is no end to those who do not hang up");
	end_connection(&first);
	end_connection(&second);
	turn();
	counted_out_once();
}

Test(client, refusals_are_counted_by_reason)
{
	struct worker w = attach(), other = connect_worker();

	say_hello(&other);
	cr_assert_eq(answer(&other), SWAKV_ENOPAGES);
	cr_assert_eq(load_relaxed(&ring.refused_attaches_by[FAULT_SESSIONS_FULL]), 1);
	end_process(&other);
	end_connection(&other);
	hello.max_batch = 0;
	other = connect_worker();
	say_hello(&other);
	cr_assert_eq(answer(&other), SWAKV_EINVALID);
	cr_assert_eq(load_relaxed(&ring.refused_attaches_by[FAULT_MODEL_BATCH]), 1);
	cr_assert_eq(load_relaxed(&ring.refused_attaches_by[FAULT_SESSIONS_FULL]), 1);
	end_process(&other);
	end_connection(&other);
	forget(&w);
	end_connection(&w);
	turn();
	counted_out_once();
}
