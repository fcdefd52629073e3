/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client.c - the broker's side of one connection, event by event
 *
 * No thread runs: each test is the loop of the control thread and, at the other
 * end of the mailboxes, the ring thread. The worker is a child that connects,
 * says hello, and then does nothing; the test keeps a copy of its socket, so that
 * connection, process and session end in any order.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "hello.h"
#include "session/client.h"

static struct config config;
static struct backend_pool pool = { .name = "main",
				    .backend = WIRE_BACKEND_HOST,
				    .fd = -1,
				    .bytes = 9 << 20,
				    .table_area_bytes = 1 << 20,
				    .half_bytes = 4 << 20,
				    .extent_bytes = 1 << 20 };
static struct gpu_watch watch;
static struct listener listener;
static struct ring_thread ring;
static struct control control;
static int signals;
static struct wire_hello hello;
static uid_t worker_uid; /* 0: the test's own */
static struct sockaddr_un address;
static socklen_t address_bytes = sizeof(address);

struct worker {
	pid_t pid;
	int pidfd;
	int socket;
	struct channel *channel;
};

static void setup(void)
{
	const uint8_t boot_id[16] = { 1 };
	int yes = 1;

	hello = good_hello();
	config_init(&config);
	config.max_sessions = config.max_sessions_per_uid = 1;
	ring.inbox = mailbox_new(4);
	ring.outbox = mailbox_new(4);
	memset(ring.refused_attaches_by, 0, sizeof(ring.refused_attaches_by));
	signals = eventfd(0, EFD_CLOEXEC);
	listener = (struct listener){ .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
				      .lock = -1 };
	address.sun_family = AF_UNIX; /* and no name: the kernel picks one */
	cr_assert_eq(bind(listener.fd, (struct sockaddr *)&address, sizeof(address.sun_family)), 0);
	cr_assert_eq(getsockname(listener.fd, (struct sockaddr *)&address, &address_bytes), 0);
	cr_assert_eq(listen(listener.fd, 4), 0);
	cr_assert_eq(setsockopt(listener.fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)), 0);
	cr_assert(ring.inbox && ring.outbox);
	cr_assert_eq(gpu_watch_init(&watch), 0);
	cr_assert_eq(control_init(&control, &config, &pool, &watch, &listener, &ring, NULL, boot_id, signals, NULL), 0);
}

static void teardown(void)
{
	control_deinit(&control);
	gpu_watch_deinit(&watch);
	close_fd(&listener.fd);
	close_fd(&signals);
	ring.inbox = mailbox_free(ring.inbox);
	ring.outbox = mailbox_free(ring.outbox);
}

TestSuite(client, .init = setup, .fini = teardown);

/* One round of what is ready. */
static void turn(void)
{
	dispatcher_run(&control.dispatcher, 0);
}

/* The next mail to the ring thread, which must be this one. */
static struct channel *told(enum mail_kind kind)
{
	struct mail m = { 0 };

	cr_assert(mailbox_take_spsc(ring.inbox, &m), "no mail instead of %d", kind);
	cr_assert_eq(m.kind, kind, "mail %d instead of %d", m.kind, kind);
	return m.channel;
}

static void told_no_more(void)
{
	struct mail m;

	cr_assert_not(mailbox_take_spsc(ring.inbox, &m), "mail %d", m.kind);
}

static void tell(enum mail_kind kind, struct channel *channel)
{
	mailbox_post_spsc(ring.outbox, kind, channel, 0);
}

/* Once it has done its next step. */
static void wait_for(const struct worker *w)
{
	int status = -1;

	cr_assert_eq(waitpid(w->pid, &status, WUNTRACED), w->pid);
	cr_assert(WIFSTOPPED(status), "the worker has ended");
}

/* The peer is who connects and says hello, whoever holds the socket later. */
static struct worker connect_worker(void)
{
	struct worker w = { .socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) };

	w.pid = fork();
	if (w.pid == 0) {
		if (worker_uid && seteuid(worker_uid) < 0)
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* it must not outlive a test that failed */
		if (connect(w.socket, (struct sockaddr *)&address, address_bytes) < 0)
			_exit(1);
		raise(SIGSTOP);
		if (send(w.socket, &hello, sizeof(hello), 0) != (ssize_t)sizeof(hello))
			_exit(1);
		raise(SIGSTOP);
		for (;;)
			pause();
	}
	wait_for(&w);
	w.pidfd = (int)syscall(SYS_pidfd_open, w.pid, 0);
	cr_assert_geq(w.pidfd, 0);
	turn();
	return w;
}

static void say_hello(const struct worker *w)
{
	kill(w->pid, SIGCONT);
	wait_for(w);
	turn();
}

/* The answer to its hello: its code. */
static int answer(const struct worker *w)
{
	struct wire_welcome welcome = { 0 };

	cr_assert_eq(recv(w->socket, &welcome, sizeof(welcome), MSG_DONTWAIT), (ssize_t)sizeof(welcome));
	return welcome.code;
}

/* Ready to be served: welcomed, and the ring thread has its channel. */
static struct worker attach(void)
{
	struct worker w = connect_worker();

	say_hello(&w);
	w.channel = told(MAIL_ATTACH);
	tell(MAIL_ATTACHED, w.channel);
	turn();
	cr_assert_eq(answer(&w), 0);
	return w;
}

/* Its process is gone, and whoever looks at its pidfd will see that. */
static void end_process(struct worker *w)
{
	struct pollfd p = { .fd = w->pidfd, .events = POLLIN };

	kill(w->pid, SIGKILL);
	cr_assert_eq(poll(&p, 1, -1), 1);
	waitpid(w->pid, NULL, 0);
	close_fd(&w->pidfd);
}

/* For all that hold it, the child too. */
static void end_connection(struct worker *w)
{
	shutdown(w->socket, SHUT_RDWR);
	close_fd(&w->socket);
}

/* From now on mail is seen only by those who look for it in the middle of their own event. */
static void hide_mail(void)
{
	dispatcher_remove(&control.dispatcher, &control.mail_source);
}

static uint64_t used(enum ledger_item item)
{
	return control.places.ledger.used[item];
}

static void counted_out_once(void)
{
	for (int i = 0; i < LEDGER_N_ITEMS; i++)
		cr_assert_eq(used(i), 0, "%d of item %d are counted", (int)used(i), i);
	cr_assert(TAILQ_EMPTY(&control.registry.clients));
	cr_assert_not_null(TAILQ_FIRST(&control.registry.done));
	registry_free_done(&control.registry);
	cr_assert(TAILQ_EMPTY(&control.registry.done));
	cr_assert_eq(control.places.tables.used, 0);
	told_no_more();
}

/* From the end of a worker that is attached on; its connection stays. */
static void forget(struct worker *w)
{
	end_process(w);
	turn();
	told(MAIL_PROCESS_GONE);
	tell(MAIL_RECLAIMED, w->channel);
	turn();
	told(MAIL_FORGET);
	tell(MAIL_FORGOTTEN, w->channel);
	turn();
}

/* Where they are large that takes seconds, of which the ring thread has none. */
Test(client, tables_are_made_before_the_ring_thread_hears_of_a_session)
{
	struct worker w = attach();
	const struct session_layout *l = &w.channel->memory.layout;
	const int32_t *cells = (const int32_t *)(const void *)(w.channel->memory.tables + l->cells[0]);

	cr_assert_not_null(w.channel->session);
	cr_expect_not(session_entered(w.channel->session), "the engine is the ring thread's");
	for (uint64_t i = 0; i < l->cells_bytes[0] / sizeof(int32_t); i++)
		cr_assert_eq(cells[i], -1);
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
