/* SPDX-License-Identifier: Apache-2.0 */
/* ring_thread.c - see ring_thread.h; what it does is in ring_round.c */
#include "ring_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "cleanup.h"
#include "crash/crash.h"
#include "engine/extent_view.h"
#include "ring_poll.h"
#include "ring_publish.h"
#include "ring_round.h"

static void *ring_main(void *arg)
{
	void *volatile first = malloc(1);
	struct ring_thread *t = arg;

	free(first); /* a thread's first allocation maps a heap: now, and not at somebody's attach */
	prctl(PR_SET_NAME, "swakvd-ring");
	crash_thread("ring", true);
	prctl(PR_SET_TIMERSLACK, 1000ul); /* the 50 us timer would come 50 us late */
	while (!t->stop)
		ring_turn(t);
	crash_thread_end();
	return NULL;
}

/* 0, or -ERANGE with *@f. */
static int set_limits(struct engine *e, const struct ring_options *o, struct fault *f)
{
	int code = 0;

	for (uint32_t i = 0; i < o->n_limits && code == 0; i++) {
		const struct ring_limit *l = &o->limits[i];

		if (l->model)
			engine_introduce(e, l->name, l->model, NULL); /* one that does not fit will not attach either */
		code = engine_limit(e, l->name, &l->floor, &l->ceiling, f);
	}
	return code ? -ERANGE : 0;
}

static bool make_parts(struct ring_thread *t)
{
	t->engine = engine_new(&t->options.engine);
	t->workspace = workspace_new();
	t->spare = workspace_new();
	t->inbox = mailbox_new(t->options.max_sessions);
	t->outbox = mailbox_new(t->options.max_sessions);
	t->map = t->engine ? extent_map_new(engine_extents(t->engine)) : NULL;
	return tallies_init(&t->tallies) && t->map && t->workspace && t->spare && t->inbox && t->outbox &&
	       t->edge.watch(t->edge.arg, mailbox_fd(t->inbox), NULL);
}

int ring_thread_make(struct ring_thread *t, const struct ring_options *o, struct status_writer *status,
		     const struct ring_edge *edge, struct fault *f)
{
	int r = 0;

	*t = (struct ring_thread){ .options = *o, .status = status, .epoll = -1, .poll_interval = RING_POLL_SHORTEST };
	if (t->options.slice == 0 || t->options.slice > ENGINE_SLICE)
		t->options.slice = ENGINE_SLICE;
	TAILQ_INIT(&t->channels);
	TAILQ_INIT(&t->noted);
	TAILQ_INIT(&t->to_wake);
	if (!edge && (t->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
		r = -errno;
	t->edge = edge ? *edge : ring_edge_real(&t->epoll);
	if (r == 0)
		r = make_parts(t) ? set_limits(t->engine, o, f) : -ENOMEM;
	t->options.limits = NULL;
	if (r < 0) {
		ring_thread_deinit(t);
		return r;
	}
	engine_on_pause(t->engine, t->options.slice, ring_pause, t);
	t->now = t->edge.now(t->edge.arg);
	engine_stamp(t->engine, t->now);
	ring_publish(t); /* whoever finds the page finds a picture on it */
	return 0;
}

int ring_thread_init(struct ring_thread *t, const struct ring_options *o, struct status_writer *status, struct fault *f)
{
	int r = ring_thread_make(t, o, status, NULL, f);
	pthread_attr_t attributes;

	if (r < 0)
		return r;
	pthread_attr_init(&attributes);
	if (CPU_COUNT(&o->cpus) > 0)
		r = -pthread_attr_setaffinity_np(&attributes, sizeof(o->cpus), &o->cpus);
	if (r == 0)
		r = -pthread_create(&t->thread, &attributes, ring_main, t);
	pthread_attr_destroy(&attributes);
	t->running = r == 0;
	if (r < 0)
		ring_thread_deinit(t);
	return r;
}

void ring_thread_deinit(struct ring_thread *t)
{
	struct channel *c;

	if (t->running) {
		mailbox_post_spsc(t->inbox, MAIL_STOP, NULL, 0);
		pthread_join(t->thread, NULL);
		t->running = false;
	}
	if (t->engine)
		engine_on_pause(t->engine, 0, NULL, NULL); /* nobody is served any more */
	while ((c = t->channels.tqh_last ? TAILQ_FIRST(&t->channels) : NULL)) {
		if (c->session &&
		    session_enlisted(c->session)) { /* the whole pool goes: there is nobody left to get its pages */
			session_end(c->session);
			session_reclaim(c->session);
		}
		channel_stop(c);
		TAILQ_REMOVE(&t->channels, c, link);
		c->listed = false;
	}
	if (t->engine)
		t->engine = engine_free(t->engine);
	tallies_deinit(&t->tallies);
	t->workspace = workspace_free(t->workspace);
	t->spare = workspace_free(t->spare);
	t->map = extent_map_free(t->map);
	t->inbox = mailbox_free(t->inbox);
	t->outbox = mailbox_free(t->outbox);
	if (t->epoll > 0)
		close_fd(&t->epoll);
}
