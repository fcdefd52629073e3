/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_admin.c - an administrator's request, field by field; the life of a connection
 *
 * No thread runs: each test is the loop of the control thread and, at the other
 * end of the mailbox, the ring thread.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "admin/admin_request.h"
#include "cleanup.h"
#include "clock.h"
#include "control.h"
#include "status_page.h"

/* ---- the message ------------------------------------------------------------ */

static struct admin_request good(uint16_t op)
{
	return (struct admin_request){
		.magic = ADMIN_MAGIC, .size = sizeof(struct admin_request), .version = ADMIN_VERSION, .op = op
	};
}

static int check(const struct admin_request *r, const char *words)
{
	struct admin_request out;
	char why[192] = "";
	int code = admin_request_check(&out, r, sizeof(*r), why, sizeof(why));

	cr_assert(code == 0 || strstr(why, words), "\"%s\" is not in \"%s\"", words, why);
	cr_assert(code != 0 || memcmp(&out, r, sizeof(out)) == 0);
	return code;
}

Test(admin, every_operation_has_a_request_that_is_taken)
{
	for (uint16_t op = ADMIN_PING; op < ADMIN_OP_COUNT; op++) {
		struct admin_request r = good(op);

		if (op == ADMIN_DISCONNECT || op == ADMIN_KILL)
			r.session = ADMIN_MAX_SESSIONS;
		if (op == ADMIN_LIMIT)
			r.model[0] = 'a';
		cr_assert_eq(check(&r, ""), 0, "%s", admin_op_name(op));
	}
	cr_assert_str_eq(admin_op_name(0), "none");
	cr_assert_str_eq(admin_op_name(ADMIN_OP_COUNT), "unknown");
}

Test(admin, a_message_of_another_length_is_refused)
{
	unsigned char longer[sizeof(struct admin_request) + 8] = { 0 };
	struct admin_request r = good(ADMIN_PING), out;
	char why[192];

	memcpy(longer, &r, sizeof(r));
	for (size_t n = 0; n <= sizeof(longer); n++)
		cr_assert_eq(admin_request_check(&out, longer, n, why, sizeof(why)) == 0, n == sizeof(r), "%zu bytes",
			     n);
}

Test(admin, what_an_operation_does_not_use_must_be_zero)
{
	struct admin_request r = good(ADMIN_LIST);

	r.session = 1;
	cr_assert_eq(check(&r, "takes no session"), SWAKV_EINVALID);
	r = good(ADMIN_DRAIN);
	r.generation = 1;
	cr_assert_eq(check(&r, "takes no session"), SWAKV_EINVALID);
	r = good(ADMIN_PING);
	r.model[0] = 'a';
	cr_assert_eq(check(&r, "takes no model"), SWAKV_EINVALID);
	r = good(ADMIN_STOP);
	r.flags = ADMIN_OFF;
	cr_assert_eq(check(&r, "known: 0"), SWAKV_EINVALID);
	r = good(ADMIN_DRAIN);
	r.ceiling = 1;
	cr_assert_eq(check(&r, "does not take this limit"), SWAKV_EINVALID);
	r = good(ADMIN_PING);
	r.reserved[5] = 1;
	cr_assert_eq(check(&r, "reserved"), SWAKV_EINVALID);
}

Test(admin, a_name_must_be_terminated_printable_and_clean_behind_its_end)
{
	struct admin_request r = good(ADMIN_DRAIN);

	memset(r.model, 'a', sizeof(r.model));
	cr_assert_eq(check(&r, "printable ASCII"), SWAKV_EINVALID);
	r.model[WIRE_MODEL_NAME - 1] = '\0';
	cr_assert_eq(check(&r, ""), 0);
	r.model[3] = '\0';
	cr_assert_eq(check(&r, "printable ASCII"), SWAKV_EINVALID);
	r = good(ADMIN_DRAIN);
	r.model[0] = '\033';
	cr_assert_eq(check(&r, "printable ASCII"), SWAKV_EINVALID);
}

/* ---- a connection -------------------------------------------------------------- */

enum { HELLO_MS = 3600000 }; /* nobody runs out of time but in the test that is about it, which does not wait for it */

static struct config config;
static struct backend_pool pool = { .name = "main", .backend = WIRE_BACKEND_HOST, .fd = -1, .table_area_bytes = 4096 };
static struct gpu_watch watch;
static struct listener listener, admin_listener;
static struct ring_thread ring;
static struct control control;
static int signals;
static struct sockaddr_un address;
static socklen_t address_bytes = sizeof(address);

static void open_listener(struct listener *l)
{
	*l = (struct listener){ .fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), .lock = -1 };
	address = (struct sockaddr_un){ .sun_family = AF_UNIX }; /* and no name: the kernel picks one */
	address_bytes = sizeof(address);
	cr_assert_eq(bind(l->fd, (struct sockaddr *)&address, sizeof(address.sun_family)), 0);
	cr_assert_eq(getsockname(l->fd, (struct sockaddr *)&address, &address_bytes), 0);
	cr_assert_eq(listen(l->fd, 64), 0);
}

static void setup(void)
{
	const uint8_t boot_id[16] = { 1 };

	config_init(&config);
	config.hello_timeout_ms = HELLO_MS;
	ring.inbox = mailbox_new(config.max_sessions);
	ring.outbox = mailbox_new(config.max_sessions);
	TAILQ_INIT(&ring.channels);
	signals = eventfd(0, EFD_CLOEXEC);
	open_listener(&listener);
	open_listener(&admin_listener);
	cr_assert_eq(gpu_watch_init(&watch), 0);
	cr_assert_eq(control_init(&control, &config, &pool, &watch, &listener, &ring, NULL, boot_id, signals, NULL), 0);
	cr_assert_eq(admin_serve(&control.admin, &admin_listener), 0);
}

static void teardown(void)
{
	control_deinit(&control);
	gpu_watch_deinit(&watch);
	close_fd(&listener.fd);
	close_fd(&admin_listener.fd);
	close_fd(&signals);
	ring.inbox = mailbox_free(ring.inbox);
	ring.outbox = mailbox_free(ring.outbox);
}

TestSuite(admin_connection, .init = setup, .fini = teardown);

/* One round of what is ready. */
static void turn(void)
{
	dispatcher_run(&control.dispatcher, 0);
	control_take_mail(&control);
	admin_deadlines(&control.admin, clock_ns());
}

static int connected(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&address, address_bytes), 0);
	return fd;
}

/* Connected, and its request sent and taken. */
static int asked(uint16_t op)
{
	struct admin_request r = good(op);
	struct admin_greeting g;
	int fd = connected();

	turn();
	cr_assert_eq(recv(fd, &g, sizeof(g), 0), sizeof(g));
	cr_assert_eq(g.code, 0);
	cr_assert_eq(send(fd, &r, sizeof(r), 0), sizeof(r));
	turn();
	return fd;
}

/* The next job that came to the ring thread, done and sent back. */
static struct admin_job *work(void)
{
	struct mail m;

	if (!mailbox_take_spsc(ring.inbox, &m))
		return NULL;
	cr_assert_eq(m.kind, MAIL_ADMIN);
	admin_job_run(m.job, &ring);
	mailbox_post_job_spsc(ring.outbox, MAIL_ADMIN_DONE, m.job);
	return m.job;
}

static struct admin_reply answer_of(int *fd)
{
	struct admin_reply r = { 0 };

	cr_assert_eq(recv(*fd, &r, sizeof(r), 0), sizeof(r));
	cr_assert_eq(recv(*fd, &r, sizeof(r), 0), 0, "the connection goes on");
	close_fd(fd);
	return r;
}

Test(admin_connection, an_answer_waits_for_the_ring_thread)
{
	struct admin_reply r;
	int fd = asked(ADMIN_PING);

	cr_assert_lt(recv(fd, &r, sizeof(r), 0), 0);
	cr_assert(work());
	turn();
	cr_assert_eq(answer_of(&fd).code, 0);
	cr_assert_eq(control.admin.n_connections, 0);
}

/* What somebody wants to see may be that the ring thread is stuck. */
Test(admin_connection, the_status_page_is_passed_without_the_ring_thread)
{
	struct status_writer status;
	struct admin_reply r;
	char name[WIRE_NAME];
	int fd;

	snprintf(name, sizeof(name), "unit-admin-%d", (int)getpid());
	cr_assert_eq(status_writer_open(&status, name), 0);
	control.status = &status;
	fd = asked(ADMIN_STATUS);
	r = answer_of(&fd);
	cr_expect_eq(r.code, 0);
	cr_expect_eq(r.op, ADMIN_STATUS);
	cr_expect_null(work());
	status_writer_close(&status);
	fd = asked(ADMIN_STATUS);
	r = answer_of(&fd);
	cr_expect_eq(r.code, SWAKV_EBUSY);
	cr_expect(strstr(r.text, "cannot be handed over"));
	control.status = NULL;
}

Test(admin_connection, a_job_keeps_its_place_when_its_asker_has_left)
{
	int fd = asked(ADMIN_LIST);

	close_fd(&fd);
	turn();
	turn();
	cr_assert_eq(control.admin.n_connections, 1, "the ring thread still has the job");
	cr_assert(work());
	turn();
	cr_assert_eq(control.admin.n_connections, 0);
}

Test(admin_connection, those_beyond_the_places_wait_and_are_served)
{
	int fds[2 * ADMIN_MAX_CONNECTIONS];
	struct admin_greeting g;
	uint32_t n = 0;

	for (int i = 0; i < 2 * ADMIN_MAX_CONNECTIONS; i++)
		fds[i] = connected();
	turn();
	cr_assert_eq(control.admin.n_connections, ADMIN_MAX_CONNECTIONS);
	admin_deadlines(&control.admin,
			clock_ns() + 2 * HELLO_MS * NS_PER_MS); /* the silent ones have had their time */
	turn();
	for (int i = 0; i < 2 * ADMIN_MAX_CONNECTIONS; i++)
		n += recv(fds[i], &g, sizeof(g), MSG_PEEK) > 0;
	cr_assert_eq(n, 2 * ADMIN_MAX_CONNECTIONS, "%u were greeted", n);
	for (int i = 0; i < 2 * ADMIN_MAX_CONNECTIONS; i++)
		close_fd(&fds[i]);
}

Test(admin_connection, draining_is_kept_by_name)
{
	struct admin_request r = good(ADMIN_DRAIN);
	struct admin_greeting g;
	int fd = connected();

	strcpy(r.model, "a");
	turn();
	cr_assert_eq(recv(fd, &g, sizeof(g), 0), sizeof(g));
	cr_assert_eq(send(fd, &r, sizeof(r), 0), sizeof(r));
	turn();
	cr_assert(admin_drained(&control.admin, "a"), "before the ring thread is told");
	cr_assert_not(admin_drained(&control.admin, "b"));
	cr_assert(work());
	turn();
	cr_assert_eq(answer_of(&fd).n_drained, 1);
}

Test(admin_connection, a_stop_is_answered_and_then_done)
{
	int fd = asked(ADMIN_STOP);

	cr_assert_neq(control.stop_at, 0);
	cr_assert_eq(answer_of(&fd).code, 0);
	cr_assert_lt(admin_listener.fd, 0);
}
