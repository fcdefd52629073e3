/* SPDX-License-Identifier: Apache-2.0 */
/* ring_rig.h - the ring thread without a thread: sessions without processes, a clock that moves by itself */
#ifndef SWAKV_FUZZ_RING_RIG_H
#define SWAKV_FUZZ_RING_RIG_H

#include "clock.h"
#include "input.h"
#include "ring/ring_round.h"
#include "session/handshake.h"

struct rig_worker {
	struct channel channel;
	struct ring_producer_spsc commands;
	struct ring_consumer_spsc replies;
};

static struct status_writer rig_status;
static struct ring_thread rig_ring;
static uint64_t rig_now;
static void (*rig_between)(void); /* whenever the ring thread looks at the clock, sleeps or wakes somebody; or NULL */

static void rig_step(void)
{
	if (rig_between)
		rig_between();
}

static uint64_t rig_edge_now(void *arg)
{
	rig_step();
	return rig_now += 1000;
}

static uint64_t rig_edge_computed(void *arg)
{
	rig_step();
	return 0;
}

static bool rig_edge_watch(void *arg, int fd, void *who)
{
	return true;
}

static void rig_edge_unwatch(void *arg, int fd)
{
}

static int rig_edge_sleep(void *arg, uint64_t ns, void *rung[RING_EDGE_EVENTS])
{
	rig_step();
	rig_now += ns < NS_PER_S ? ns : NS_PER_S;
	return 0;
}

static void rig_edge_wake(void *arg, shm_u32 *word)
{
	rig_step();
}

static void rig_edge_notify(void *arg, int socket)
{
	rig_step();
}

static void rig_edge_yield(void *arg)
{
}

static const struct ring_edge rig_edge = {
	.now = rig_edge_now,
	.computed = rig_edge_computed,
	.watch = rig_edge_watch,
	.unwatch = rig_edge_unwatch,
	.sleep = rig_edge_sleep,
	.wake = rig_edge_wake,
	.notify = rig_edge_notify,
	.yield = rig_edge_yield,
};

static void rig_close(void)
{
	status_writer_close(&rig_status);
}

static void rig_init(const char *instance)
{
	FUZZ_CHECK(status_writer_open(&rig_status, instance) == 0);
	atexit(rig_close);
}

static void rig_start(const struct backend_pool *pool, uint32_t budget, uint32_t sessions)
{
	const struct ring_options options = {
		.engine = { .half_bytes = pool->half_bytes,
			    .extent_bytes = pool->extent_bytes,
			    .stamps_a_ms = NS_PER_MS,
			    .wait_claim = 20 * NS_PER_MS,
			    .claim_hold = 20 * NS_PER_MS,
			    .claim_max = NS_PER_S },
		.budget = budget,
		.max_sessions = sessions,
	};
	struct fault f;

	rig_now = NS_PER_S;
	FUZZ_CHECK(ring_thread_make(&rig_ring, &options, &rig_status, &rig_edge, &f) == 0);
}

/* The session number @id of @h, whose memories stay its caller's: those of @m, or new ones. */
static void rig_attach(struct rig_worker *w, uint32_t id, const struct handshake *h, struct session_memory *m)
{
	struct session_memory *own = &w->channel.memory;
	struct session_layout l;

	session_layout_init(&l, &h->model, h->geometry);
	*w = (struct rig_worker){ .channel = { .id = id, .generation = 1, .tag = id, .model = h->model } };
	memcpy(w->channel.geometry, h->geometry, sizeof(w->channel.geometry));
	w->channel.model_name[0] = (char)('a' + id - 1);
	*own = (struct session_memory){ .layout = l, .session_fd = -1, .tables_fd = -1 };
	if (!m->session) {
		m->session = aligned_alloc(4096, l.session_bytes);
		m->tables = aligned_alloc(4096, l.tables_bytes);
	}
	own->session = m->session;
	own->tables = m->tables;
	FUZZ_CHECK(m->session && m->tables);
	memset(m->session, 0, l.session_bytes);
	memset(m->tables, 0, l.tables_bytes);
	ring_producer_init_spsc(&w->commands, (struct ring_control *)(m->session + l.commands_control),
				m->session + l.commands_slots, l.ring_slots);
	ring_consumer_init_spsc(&w->replies, (struct ring_control *)(m->session + l.replies_control),
				m->session + l.replies_slots, l.ring_slots);
	mailbox_post_spsc(rig_ring.inbox, MAIL_ATTACH, &w->channel, 0);
	ring_turn(&rig_ring);
}

/* Its process has ended, and nothing runs for it. */
static void rig_end(struct rig_worker *w)
{
	struct mail m;

	mailbox_post_spsc(rig_ring.inbox, MAIL_SOCKET_ENDED, &w->channel, 1);
	mailbox_post_spsc(rig_ring.inbox, MAIL_PROCESS_GONE, &w->channel, 0);
	ring_turn(&rig_ring);
	FUZZ_CHECK(w->channel.state == CHANNEL_RECLAIMED);
	mailbox_post_spsc(rig_ring.inbox, MAIL_FORGET, &w->channel, 0);
	ring_turn(&rig_ring);
	while (mailbox_take_spsc(rig_ring.outbox, &m))
		;
	channel_stop(&w->channel);
}

static void rig_check_engine(void)
{
	char why[256];

	if (!engine_check(rig_ring.engine, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
}

/* When all sessions have ended. */
static void rig_stop(void)
{
	struct engine_counts n;
	struct class_counts k;

	rig_check_engine();
	engine_count(rig_ring.engine, &n);
	for (uint32_t i = 0; i < n.n_classes; i++) {
		FUZZ_CHECK(engine_class_count(rig_ring.engine, i, &k));
		FUZZ_CHECK(k.leased == 0 && k.quarantined == 0 && k.free == k.pages);
	}
	ring_thread_deinit(&rig_ring);
}

#endif
