/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - see control.h
 *
 * The loop, the mail from the ring thread, and the orderly stop. What happens
 * to one connection lies in session/client.c. Memory of a client is freed at the end of
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
#include "session/entry.h"

enum { BEAT_MS = 500 };

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
	registry_each(&c->registry, client_left_gpu);
}

static void begin_stop(struct control *c)
{
	log_info("stopping: no new workers are accepted, and %" PRIu64 " are told to leave",
		 c->places.ledger.used[LEDGER_SESSIONS]);
	c->stop_at = clock_ns() + c->config->stop_wait_ms * NS_PER_MS;
	acceptor_close(&c->acceptor);
	admin_stop(&c->admin);
	registry_each(&c->registry, client_stop);
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
			       .ring = ring,
			       .status = status,
			       .signals = signals,
			       .spare = -1 };
	acceptor_keep_spare(&c->spare);
	memcpy(c->boot_id, boot_id, sizeof(c->boot_id));
	registry_init(&c->registry);
	acceptor_init(&c->acceptor, &entry_calls, c, &c->dispatcher, &c->spare);
	admin_init(&c->admin, c);
	c->mail_source.fd = c->signal_source.fd = c->watch_source.fd = -1;
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
	return r == 0 ? acceptor_serve(&c->acceptor, listener) : r;
}

/* Milliseconds until the next deadline, no more than a heartbeat. */
static int turn_ms(const struct control *c, uint64_t now)
{
	uint64_t next = registry_next_deadline(&c->registry), admin = admin_next_deadline(&c->admin), ms;

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
	return !registry_any_importer(&c->registry) || now >= c->stop_at || c->n_stop_signals > 1;
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
		registry_deadlines(&c->registry, now);
		admin_deadlines(&c->admin, now);
		registry_each(&c->registry, client_report_overdue);
		registry_each(&c->registry, client_memory_lost);
		look_after_page(c, now);
		acceptor_keep_spare(&c->spare);
		registry_free_done(&c->registry);
		log_left_out();
		acceptor_again(&c->acceptor, now);
		store_relaxed(&c->ring->table_area_used, c->places.tables.used);
	}
	return !registry_any_importer(&c->registry);
}

void control_deinit(struct control *c)
{
	if (!c->config) /* never initialised */
		return;
	registry_deinit(&c->registry);
	close_fd(&c->spare);
	admin_deinit(&c->admin);
	places_deinit(&c->places);
	dispatcher_deinit(&c->dispatcher);
}
