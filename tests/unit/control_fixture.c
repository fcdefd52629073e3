/* SPDX-License-Identifier: Apache-2.0 */
/* control_fixture.c - see control_fixture.h */
#include "control_fixture.h"

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

struct config config;
struct backend_pool pool = { .name = "main",
			     .backend = WIRE_BACKEND_HOST,
			     .fd = -1,
			     .bytes = 9 << 20,
			     .table_area_bytes = 1 << 20,
			     .half_bytes = 4 << 20,
			     .extent_bytes = 1 << 20 };
struct gpu_watch watch;
struct listener listener;
struct ring_thread ring;
struct control control;
int signals;
struct wire_hello hello;
uid_t worker_uid; /* 0: the test's own */
struct sockaddr_un address;
socklen_t address_bytes = sizeof(address);

void fixture_setup(void)
{
	fixture_setup_for(1);
}

void fixture_setup_for(uint32_t max_sessions)
{
	const uint8_t boot_id[16] = { 1 };
	int yes = 1;

	hello = good_hello();
	config_init(&config);
	config.max_sessions = config.max_sessions_per_uid = max_sessions;
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

void fixture_teardown(void)
{
	control_deinit(&control);
	gpu_watch_deinit(&watch);
	close_fd(&listener.fd);
	close_fd(&signals);
	ring.inbox = mailbox_free(ring.inbox);
	ring.outbox = mailbox_free(ring.outbox);
}

/* One round of what is ready. */
void turn(void)
{
	dispatcher_run(&control.dispatcher, 0);
}

/* The next mail to the ring thread, which must be this one. */
struct channel *told(enum mail_kind kind)
{
	struct mail m = { 0 };

	cr_assert(mailbox_take_spsc(ring.inbox, &m), "no mail instead of %d", kind);
	cr_assert_eq(m.kind, kind, "mail %d instead of %d", m.kind, kind);
	return m.channel;
}

void told_no_more(void)
{
	struct mail m;

	cr_assert_not(mailbox_take_spsc(ring.inbox, &m), "mail %d", m.kind);
}

void tell(enum mail_kind kind, struct channel *channel)
{
	mailbox_post_spsc(ring.outbox, kind, channel, 0);
}

/* Once it has done its next step. */
void wait_for(const struct worker *w)
{
	int status = -1;

	cr_assert_eq(waitpid(w->pid, &status, WUNTRACED), w->pid);
	cr_assert(WIFSTOPPED(status), "the worker has ended");
}

/* The peer is who connects and says hello, whoever holds the socket later. */
struct worker connect_worker(void)
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

void say_hello(const struct worker *w)
{
	kill(w->pid, SIGCONT);
	wait_for(w);
	turn();
}

/* The answer to its hello: its code. */
int answer(const struct worker *w)
{
	struct wire_welcome welcome = { 0 };

	cr_assert_eq(recv(w->socket, &welcome, sizeof(welcome), MSG_DONTWAIT), (ssize_t)sizeof(welcome));
	return welcome.code;
}

/* Ready to be served: welcomed, and the ring thread has its channel. */
struct worker attach(void)
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
void end_process(struct worker *w)
{
	struct pollfd p = { .fd = w->pidfd, .events = POLLIN };

	kill(w->pid, SIGKILL);
	cr_assert_eq(poll(&p, 1, -1), 1);
	waitpid(w->pid, NULL, 0);
	close_fd(&w->pidfd);
}

/* For all that hold it, the child too. */
void end_connection(struct worker *w)
{
	shutdown(w->socket, SHUT_RDWR);
	close_fd(&w->socket);
}

/* From now on mail is seen only by those who look for it in the middle of their own event. */
void hide_mail(void)
{
	dispatcher_remove(&control.dispatcher, &control.mail_source);
}

uint64_t used(enum ledger_item item)
{
	return control.places.ledger.used[item];
}

void counted_out_once(void)
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
void forget(struct worker *w)
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
