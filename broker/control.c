/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - see control.h
 *
 * The loop, the mail from the ring thread, and the orderly stop. What happens
 * to one connection lies in client.c. Memory of a client is freed at the end of
 * a turn of the loop, when no event of that turn can name it any more.
 */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "log/log.h"
#include "process/process.h"
#include "session/client.h"

enum { BEAT_MS = 500, ACCEPTS_A_TURN = 16 };

void control_keep_spare(struct control *c)
{
	if (c->spare < 0)
		c->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void pause_accepting(struct control *c)
{
	dispatcher_remove(&c->dispatcher, &c->listener_source);
	c->accepting = false;
}

static void on_accept(void *owner, uint32_t events)
{
	struct control *c = owner;
	int r = 0;

	(void)events;
	for (int i = 0; r == 0 && i < ACCEPTS_A_TURN && !places_crowded(&c->places); i++)
		r = client_accept(c);
	if (r == -EMFILE && c->spare >= 0) { /* the rest at the next turn */
		client_turn_away(c);
	} else if (r < 0 && r != -EAGAIN) { /* trying again at once would only burn time */
		log_refusal(LOG_NOBODY, "cannot accept connections now: %s", process_error(-r));
		c->accept_at = clock_ns() + BEAT_MS * NS_PER_MS;
		pause_accepting(c);
	} else if (places_crowded(&c->places)) { /* the others wait in the backlog */
		pause_accepting(c);
	}
}

static int accept_again(struct control *c, uint64_t now)
{
	int r;

	if (c->accepting || c->stop_at || places_crowded(&c->places) || now < c->accept_at)
		return 0;
	r = dispatcher_add(&c->dispatcher, &c->listener_source, c->listener->fd, EPOLLIN, on_accept, c);
	c->accepting = r == 0;
	return r;
}

void control_take_mail(struct control *c)
{
	struct mail m;

	while (mailbox_take_spsc(c->ring->outbox, &m))
		if (m.kind == MAIL_ADMIN_DONE)
			admin_done(m.job);
		else
			client_mail(m.channel->owner, &m);
}

static void on_mail(void *owner, uint32_t events)
{
	(void)events;
	control_take_mail(owner);
}

static void on_watch(void *owner, uint32_t events)
{
	struct control *c = owner;
	eventfd_t n;

	(void)events;
	eventfd_read(c->watch->told, &n);
	client_gone(c);
}

static void begin_stop(struct control *c)
{
	log_info("stopping: no new workers are accepted, and %" PRIu64 " are told to leave",
		 c->places.ledger.used[LEDGER_SESSIONS]);
	c->stop_at = clock_ns() + c->config->stop_wait_ms * NS_PER_MS;
	if (c->accepting)
		pause_accepting(c);
	listener_close(c->listener);
	admin_stop(&c->admin);
	client_stop_all(c);
}

void control_stop(struct control *c)
{
	if (c->n_stop_signals++ == 0)
		begin_stop(c);
}

static void on_signal(void *owner, uint32_t events)
{
	struct signalfd_siginfo info;
	struct control *c = owner;

	(void)events;
	if (read(c->signals, &info, sizeof(info)) != sizeof(info))
		return;
	control_stop(c);
}

int control_init(struct control *c, const struct config *config, const struct backend_pool *pool,
		 struct gpu_watch *watch, struct listener *listener, struct ring_thread *ring,
		 struct status_writer *status, const uint8_t boot_id[16], int signals)
{
	int r;

	*c = (struct control){ .config = config,
			       .pool = pool,
			       .watch = watch,
			       .listener = listener,
			       .ring = ring,
			       .status = status,
			       .signals = signals,
			       .spare = -1 };
	control_keep_spare(c);
	memcpy(c->boot_id, boot_id, sizeof(c->boot_id));
	TAILQ_INIT(&c->clients);
	TAILQ_INIT(&c->done);
	admin_init(&c->admin, c);
	c->listener_source.fd = c->mail_source.fd = c->signal_source.fd = c->watch_source.fd = -1;
	r = places_init(&c->places, config, pool);
	if (r == 0)
		r = dispatcher_init(&c->dispatcher);
	if (r == 0)
		r = dispatcher_add(&c->dispatcher, &c->mail_source, mailbox_fd(ring->outbox), EPOLLIN | EPOLLET,
				   on_mail, c);
	if (r == 0)
		r = dispatcher_add(&c->dispatcher, &c->signal_source, signals, EPOLLIN, on_signal, c);
	if (r == 0)
		r = dispatcher_add(&c->dispatcher, &c->watch_source, watch->told, EPOLLIN, on_watch, c);
	return r == 0 ? accept_again(c, clock_ns()) : r;
}

/* Milliseconds until the next deadline, no more than a heartbeat. */
static int turn_ms(const struct control *c, uint64_t now)
{
	uint64_t next = client_next_deadline(c), admin = admin_next_deadline(&c->admin), ms;

	if (admin && (next == 0 || admin < next))
		next = admin;
	if (c->stop_at && (next == 0 || c->stop_at < next))
		next = c->stop_at;
	if (next == 0)
		return BEAT_MS;
	ms = next > now ? (next - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	return ms < BEAT_MS ? (int)ms : BEAT_MS;
}

/* The stop is over when all let go, when time is up, or when a second signal asks for haste. */
static bool stopped(const struct control *c, uint64_t now)
{
	if (!c->stop_at)
		return false;
	return !client_any_importer(c) || now >= c->stop_at || c->n_stop_signals > 1;
}

/* A status page that was cut short or removed is replaced: readers find the new one by its name. */
static void look_after_page(struct control *c, uint64_t now)
{
	int r;

	if (now < c->page_at)
		return;
	c->page_at = now + BEAT_MS * NS_PER_MS;
	if (status_writer_sound(c->status))
		return;
	r = status_writer_renew(c->status);
	if (r == 0) {
		log_refusal(LOG_NOBODY,
			    "the status page /dev/shm%s was cut short or removed: a new one takes its place",
			    c->status->name);
		mailbox_post_spsc(c->ring->inbox, MAIL_PUBLISH, NULL, 0);
	} else if (r != c->page_error) {
		log_warning("the status page /dev/shm%s was cut short or removed, and a new one cannot be created: %s",
			    c->status->name, process_error(-r));
	}
	c->page_error = r;
}

bool control_run(struct control *c)
{
	uint64_t now = clock_ns();

	while (!stopped(c, now)) {
		store_relaxed(&c->status->head->threads[STATUS_THREAD_CONTROL].heartbeat_ns, now);
		dispatcher_run(&c->dispatcher, turn_ms(c, now));
		now = clock_ns();
		client_deadlines(c, now);
		admin_deadlines(&c->admin, now);
		client_report_overdue(c);
		client_memory_lost(c);
		look_after_page(c, now);
		control_keep_spare(c);
		client_free_done(c);
		log_left_out();
		if (accept_again(c, now) < 0)
			c->accept_at = now + BEAT_MS * NS_PER_MS;
		store_relaxed(&c->ring->table_area_used, c->places.tables.used);
	}
	return !client_any_importer(c);
}

void control_deinit(struct control *c)
{
	struct client *client;

	if (!c->clients.tqh_last) /* never initialised */
		return;
	while ((client = TAILQ_FIRST(&c->clients)))
		client_drop(client);
	client_free_done(c);
	close_fd(&c->spare);
	admin_deinit(&c->admin);
	places_deinit(&c->places);
	dispatcher_deinit(&c->dispatcher);
}
