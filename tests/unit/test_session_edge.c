/* SPDX-License-Identifier: Apache-2.0 */
/* A control thread at the edge of a world of our own: the clock is played, and no system call is made. */
#include <criterion/criterion.h>
#include <errno.h>

#include "clock.h"
#include "control.h"
#include "hello.h"
#include "session/client.h"

enum { LISTENING = 1000, SOCKET, SPARE, PIDFD, DOORBELL };

static struct {
	uint64_t now;
	bool knocks; /* somebody waits to be accepted */
	struct source *listening, *socket, *pidfd;
	bool closed;                 /* the socket is */
	struct wire_welcome welcome; /* the last that was sent */
	const struct wire_hello *says;
} play;

static struct config config;
static struct backend_pool pool = { .name = "main",
				    .backend = WIRE_BACKEND_HOST,
				    .fd = -1,
				    .bytes = 9 << 20,
				    .table_area_bytes = 1 << 20,
				    .half_bytes = 4 << 20,
				    .extent_bytes = 1 << 20 };
static struct gpu_watch watch;
static struct listener listener = { .fd = LISTENING, .lock = -1 };
static struct ring_thread ring;
static struct control control;

static uint64_t play_now(void *arg)
{
	return play.now;
}

static void play_say(void *arg, uint32_t uid, enum log_level level, const char *text)
{
}

static int play_watch(void *arg, struct source *s, int fd, uint32_t events, void (*event)(void *owner, uint32_t events),
		      void *owner)
{
	*s = (struct source){ .fd = fd, .event = event, .owner = owner };
	if (fd == LISTENING)
		play.listening = s;
	if (fd == SOCKET)
		play.socket = s;
	if (fd == PIDFD)
		play.pidfd = s;
	return 0;
}

static void play_unwatch(void *arg, struct source *s)
{
	s->fd = -1;
}

static void play_close(void *arg, int *fd)
{
	play.closed |= *fd == SOCKET;
	*fd = -1;
}

static int play_spare(void *arg)
{
	return SPARE;
}

static int play_accept(void *arg, int fd)
{
	if (!play.knocks)
		return -EAGAIN;
	play.knocks = false;
	return SOCKET;
}

static void play_stop_listening(void *arg, struct listener *l)
{
}

static int play_peer(void *arg, struct peer *p, int socket)
{
	*p = (struct peer){ .pid = 4711, .uid = 7 };
	return 0;
}

static bool play_allowed(void *arg, const struct peer *p, int socket, const struct config *c)
{
	return true;
}

static ssize_t play_receive(void *arg, int socket, void *buf, size_t size, struct packet_origin *origin)
{
	*origin = (struct packet_origin){ .pid = 4711, .fd = -1 };
	if (!play.says)
		return 0; /* it has left */
	memcpy(buf, play.says, sizeof(*play.says));
	play.says = NULL;
	return sizeof(*play.says);
}

static bool play_send(void *arg, int socket, const struct iovec *parts, uint32_t n_parts, const int *fds,
		      uint32_t n_fds)
{
	memcpy(&play.welcome, parts[0].iov_base, sizeof(play.welcome));
	return true;
}

static void play_send_last(void *arg, int socket, const void *buf, size_t size)
{
	memcpy(&play.welcome, buf, sizeof(play.welcome));
}

static void play_end_sending(void *arg, int socket)
{
}

static int play_pidfd(void *arg, const struct peer *p, int socket, const struct packet_origin *hello, char *why,
		      size_t size)
{
	return PIDFD;
}

static void play_gpu_end(void *arg, uint32_t place)
{
}

static int play_make_memory(void *arg, struct session_memory *m, const struct session_layout *l)
{
	*m = (struct session_memory){ .layout = *l, .session_fd = -1, .tables_fd = -1 };
	m->session = calloc(1, l->session_bytes);
	m->tables = calloc(1, l->tables_bytes);
	return 0;
}

static void play_free_memory(void *arg, struct session_memory *m)
{
	free(m->session);
	free(m->tables);
	m->session = m->tables = NULL;
}

static int play_make_doorbell(void *arg)
{
	return DOORBELL;
}

static void setup(void)
{
	const uint8_t boot_id[16] = { 1 };
	struct session_edge edge = {
		.now = play_now,
		.say = play_say,
		.watch = play_watch,
		.unwatch = play_unwatch,
		.close = play_close,
		.drop = play_close,
		.spare = play_spare,
		.accept = play_accept,
		.stop_listening = play_stop_listening,
		.peer = play_peer,
		.allowed = play_allowed,
		.receive = play_receive,
		.send = play_send,
		.send_last = play_send_last,
		.end_sending = play_end_sending,
		.pidfd = play_pidfd,
		.gpu_end = play_gpu_end,
		.make_memory = play_make_memory,
		.free_memory = play_free_memory,
		.make_doorbell = play_make_doorbell,
	};

	play.now = NS_PER_S;
	config_init(&config);
	config.hello_timeout_ms = 100;
	config.max_sessions = config.max_sessions_per_uid = 4;
	ring.inbox = mailbox_new(4);
	ring.outbox = mailbox_new(4);
	cr_assert_eq(control_init(&control, &config, &pool, &watch, &listener, &ring, NULL, boot_id, -1, &edge), 0);
	play.knocks = true;
	play.listening->event(play.listening->owner, EPOLLIN);
	cr_assert(play.socket);
}

static void teardown(void)
{
	control_deinit(&control);
	ring.inbox = mailbox_free(ring.inbox);
	ring.outbox = mailbox_free(ring.outbox);
}

TestSuite(session_edge, .init = setup, .fini = teardown);

Test(session_edge, who_says_no_hello_is_gone_when_the_played_clock_says_so)
{
	cr_assert_eq(control_turn_ms(&control, play.now), 100);
	play.now += 100 * NS_PER_MS - 1;
	control_turn(&control, play.now);
	cr_assert_not(play.closed);
	cr_assert_eq(control.places.ledger.used[LEDGER_HALF_OPEN], 1);
	cr_assert_eq(control_turn_ms(&control, play.now), 1);
	play.now++;
	control_turn(&control, play.now);
	cr_assert(play.closed);
	cr_assert_eq(control.places.ledger.used[LEDGER_HALF_OPEN], 0);
}

Test(session_edge, a_hello_becomes_a_session_and_its_end_gives_all_back)
{
	struct wire_hello hello = good_hello();
	struct mail m;

	play.says = &hello;
	play.socket->event(play.socket->owner, EPOLLIN);
	cr_assert(mailbox_take_spsc(ring.inbox, &m));
	cr_assert_eq(m.kind, MAIL_ATTACH);
	mailbox_post_spsc(ring.outbox, MAIL_ATTACHED, m.channel, 0);
	control_take_mail(&control);
	cr_assert_eq(play.welcome.code, 0, "%s", play.welcome.text);
	cr_assert_eq(play.welcome.session_id, 1);
	cr_assert_gt(control.places.tables.used, 0);
	play.pidfd->event(play.pidfd->owner, EPOLLIN); /* no grace: proof at once */
	cr_assert(mailbox_take_spsc(ring.inbox, &m));
	cr_assert_eq(m.kind, MAIL_PROCESS_GONE);
	play.socket->event(play.socket->owner, EPOLLIN);
	mailbox_post_spsc(ring.outbox, MAIL_RECLAIMED, m.channel, 0);
	mailbox_post_spsc(ring.outbox, MAIL_FORGOTTEN, m.channel, 0);
	control_take_mail(&control);
	control_turn(&control, play.now);
	cr_assert(TAILQ_EMPTY(&control.registry.clients));
	cr_assert_eq(control.places.tables.used, 0);
	for (int i = 0; i < LEDGER_N_ITEMS; i++)
		cr_assert_eq(control.places.ledger.used[i], 0, "item %d", i);
}

Test(session_edge, a_stop_refuses_who_is_half_open_and_is_over)
{
	cr_assert_not(control_stopped(&control, play.now));
	control_stop(&control);
	cr_assert_eq(play.welcome.fault.reason, FAULT_STOPPING);
	cr_assert(control_stopped(&control, play.now));
}
