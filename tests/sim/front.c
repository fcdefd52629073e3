/* SPDX-License-Identifier: Apache-2.0 */
/* front.c - see front.h */
#include "front.h"

#include <sys/eventfd.h>

#include "clock.h"
#include "quota.h"
#include "sim.h"

/* Any turn finds at most so much later than it was there. */
#define NOTICED_NS (40 * NS_PER_US)

bool front_make(struct world *w)
{
	static const uint8_t boot_id[16] = { 1 };
	struct session_edge edge = kernel_edge(w);

	w->listener = (struct listener){ .fd = kernel_listen(w, false), .lock = -1 };
	w->admin_listener = (struct listener){ .fd = kernel_listen(w, true), .lock = -1 };
	w->watch.told = KERNEL_FIRST + KERNEL_FILES; /* no descriptor of the table */
	if (control_init(&w->control, &w->plan.config, &w->plan.pool, &w->watch, &w->listener, w->ring, w->status,
			 boot_id, -1, &edge) < 0 ||
	    admin_serve(&w->control.admin, &w->admin_listener) < 0)
		return false;
	front_poke(w);
	return true;
}

void front_look(struct world *w)
{
	eventfd_t n;

	if (eventfd_read(mailbox_fd(w->ring->outbox), &n) == 0) {
		w->kernel.mail_ready = true;
		front_poke(w);
	}
}

/* One turn, as control_run() takes it. True: something was ready. */
static bool turn(struct world *w)
{
	struct source *ready[KERNEL_FILES + 2];
	uint32_t n = kernel_ready(w, ready), first = n ? (uint32_t)rng_between(&w->rng, 0, n - 1) : 0;
	eventfd_t mails;

	w->kernel.mail_ready = w->kernel.gone_ready = false;
	for (uint32_t i = 0; i < n; i++) { /* in any order */
		struct source *s = ready[(first + i) % n];

		if (s->fd >= 0)
			s->event(s->owner, EPOLLIN);
	}
	control_turn(&w->control, w->now);
	if (eventfd_read(mailbox_fd(w->ring->inbox), &mails) == 0)
		world_bell(w, NULL);
	quota_check(w);
	return n > 0;
}

static void on_front(void *arg)
{
	struct world *w = arg;
	struct source *ready[KERNEL_FILES + 2];

	kernel_look_at_gpu(w);
	if (!turn(w))
		w->steps--; /* one that found nothing to do does not count */
	w->stopped = w->ends && control_stopped(&w->control, w->now);
	if (w->stopped)
		return;
	w->front_at = w->now + (uint64_t)control_turn_ms(&w->control, w->now) * NS_PER_MS;
	event_at(&w->events, &w->front, w->front_at);
	if (kernel_ready(w, ready) > 0) /* what is still ready is found again */
		front_poke(w);
}

void front_poke(struct world *w)
{
	uint64_t at = world_soon(w, NOTICED_NS);

	if (w->stopped || (w->front.token && w->front_at <= at))
		return;
	w->front.run = on_front;
	w->front.arg = w;
	w->front_at = at;
	event_at(&w->events, &w->front, at);
}

void front_stop(struct world *w)
{
	uint64_t until = w->now + w->plan.config.stop_wait_ms * NS_PER_MS + NS_PER_MS;

	w->ends = true;
	control_stop(&w->control);
	front_poke(w); /* the signal woke it */
	w->stopped = control_stopped(&w->control, w->now);
	while (!w->broken[0] && !w->stopped)
		if (!world_run_next(w, until))
			world_break(w, "a stop was not over when its time was");
}

void front_free(struct world *w)
{
	control_deinit(&w->control);
	if (w->kernel.listening[0])
		kernel_stop_listening(w, &w->listener);
	if (!w->broken[0])
		quota_check_empty(w);
}
