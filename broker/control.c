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
#include <inttypes.h>
#include <signal.h>
#include <string.h>
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

	(void)events;
	registry_each(&c->registry, client_left_gpu);
}

static void begin_stop(struct control *c)
{
	session_say(&c->edge, LOG_NOBODY, LOG_LEVEL_INFO,
		    "stopping: no new workers are accepted, and %" PRIu64 " are told to leave",
		    c->places.ledger.used[LEDGER_SESSIONS]);
	c->stop_at = c->edge.now(c->edge.arg) + c->config->stop_wait_ms * NS_PER_MS;
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

static void device_lost(struct control *c, const char *why)
{
	bool stay = c->config->device_lost == CONFIG_LOST_STAY;
	uint64_t now = c->edge.now(c->edge.arg);

	if (c->device_lost)
		return;
	c->device_lost = true;
	session_say(
		&c->edge, LOG_NOBODY, LOG_LEVEL_ERROR,
		"the device is lost, and with it what lies in the pool: %s. No new sessions and requests are accepted, "
		"and the broker %s",
		why,
		stay ? "stays, as device_lost says: look into the kernel log, then stop it"
		     : "exits with code 8 (see device_lost)");
	mailbox_post_spsc(c->ring->inbox, MAIL_DEVICE_LOST, NULL, (int64_t)now);
	if (!stay)
		control_stop(c);
}

static void on_health(void *owner, uint32_t events)
{
	struct control *c = owner;

	(void)events;
	if (device_health_lost(c->health))
		device_lost(c, c->health->why);
}

int control_watch_device(struct control *c, const struct device_health *h)
{
	c->health = h;
	return c->edge.watch(c->edge.arg, &c->health_source, h->told, EPOLLIN | EPOLLET, on_health, c);
}

int control_init(struct control *c, const struct config *config, const struct backend_pool *pool,
		 struct gpu_watch *watch, struct listener *listener, struct ring_thread *ring,
		 struct status_writer *status, const uint8_t boot_id[16], int signals, const struct session_edge *edge)
{
	int r;

	*c = (struct control){ .config = config,
			       .pool = pool,
			       .watch = watch,
			       .ring = ring,
			       .status = status,
			       .signals = signals,
			       .spare = -1,
			       .dispatcher.epoll = -1 };
	c->edge = edge ? *edge : session_edge_real(c);
	acceptor_keep_spare(&c->edge, &c->spare);
	memcpy(c->boot_id, boot_id, sizeof(c->boot_id));
	registry_init(&c->registry);
	acceptor_init(&c->acceptor, &entry_calls, c, &c->edge, &c->spare);
	admin_init(&c->admin, c);
	c->mail_source.fd = c->signal_source.fd = c->watch_source.fd = c->health_source.fd = -1;
	r = places_init(&c->places, config, pool);
	if (r == 0 && !edge)
		r = dispatcher_init(&c->dispatcher);
	if (r == 0)
		r = c->edge.watch(c->edge.arg, &c->mail_source, mailbox_fd(ring->outbox), EPOLLIN | EPOLLET, on_mail,
				  c);
	if (r == 0)
		r = c->edge.watch(c->edge.arg, &c->signal_source, signals, EPOLLIN, on_signal, c);
	if (r == 0)
		r = c->edge.watch(c->edge.arg, &c->watch_source, watch->told, EPOLLIN | EPOLLET, on_watch, c);
	return r == 0 ? acceptor_serve(&c->acceptor, listener) : r;
}

/* No longer than a heartbeat. */
int control_turn_ms(const struct control *c, uint64_t now)
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

bool control_stopped(const struct control *c, uint64_t now)
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

void control_turn(struct control *c, uint64_t now)
{
	registry_deadlines(&c->registry, now);
	admin_deadlines(&c->admin, now);
	registry_each(&c->registry, client_report_overdue);
	registry_each(&c->registry, client_memory_lost);
	acceptor_keep_spare(&c->edge, &c->spare);
	registry_free_done(&c->registry);
	acceptor_again(&c->acceptor, now);
	store_relaxed(&c->ring->table_area_used, c->places.tables.used);
}

bool control_run(struct control *c)
{
	uint64_t now = clock_ns();

	while (!control_stopped(c, now)) {
		store_relaxed(&c->status->head->threads[STATUS_THREAD_CONTROL].heartbeat_ns, now);
		dispatcher_run(&c->dispatcher, control_turn_ms(c, now));
		now = clock_ns();
		control_turn(c, now);
		look_after_page(c, now);
		log_left_out();
	}
	return !registry_any_importer(&c->registry);
}

void control_deinit(struct control *c)
{
	if (!c->config) /* never initialised */
		return;
	registry_deinit(&c->registry);
	c->edge.close(c->edge.arg, &c->spare);
	admin_deinit(&c->admin);
	places_deinit(&c->places);
	dispatcher_deinit(&c->dispatcher);
}
