/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.c - the broker's edges, who runs when, and the rules that must hold
 *
 * The ring thread's turn is one event among many. When it sleeps, the others go
 * on inside that call until something rings or the time has passed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bells.h"
#include "clock.h"
#include "front.h"
#include "quota.h"
#include "ring/ring_round.h"
#include "shown.h"
#include "want.h"
#include "worker.h"

#define SCAN_EVERY 1000              /* steps between two looks at everything */
#define LOOK_NS    (100 * NS_PER_US) /* and at who waits */
#define QUIET_FOR  (10 * NS_PER_S)   /* no wait takes longer, and a refusal counts as a lack for 1 s */
#define HEAL_FOR   (30 * NS_PER_S)   /* of virtual time: whatever waits is served by then */

void world_break(struct world *w, const char *format, ...)
{
	va_list args;

	if (w->broken[0])
		return;
	va_start(args, format);
	vsnprintf(w->broken, sizeof(w->broken), format, args);
	va_end(args);
}

void world_trace(const struct world *w, const char *format, ...)
{
	va_list args;

	if (!w->options.trace)
		return;
	printf("%8" PRIu64 " %12.3f us: ", w->steps, (double)w->now / 1e3);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

bool world_fault(struct world *w, enum sim_fault f)
{
	bool now = !w->healing && rng_one_in(&w->rng, w->plan.rate[f]);

	if (now && w->options.forbidden >> f & 1)
		world_break(w, "%s, which is forbidden", sim_fault_name(f));
	return now;
}

void world_bell(struct world *w, void *channel)
{
	for (uint32_t i = 0; i < w->n_rung; i++)
		if (w->rung[i] == channel)
			return;
	if (w->n_rung < RING_EDGE_EVENTS)
		w->rung[w->n_rung++] = channel;
}

/* ---- rules ---------------------------------------------------------------------------- */

/* What can be looked at after every step. */
static void check_counts(struct world *w)
{
	struct engine_counts e;
	struct class_counts c;
	uint64_t pages = 0;

	engine_count(w->ring->engine, &e);
	if (e.held + e.free + e.unusable != e.total)
		world_break(w, "the pool: %" PRIu64 " held + %" PRIu64 " free + %" PRIu64 " unusable are not %" PRIu64,
			    e.held, e.free, e.unusable, e.total);
	for (uint32_t i = 0; engine_class_count(w->ring->engine, i, &c); i++) {
		pages += (uint64_t)c.pages * c.page_bytes * (c.joined ? 1 : 2);
		if (c.free < 0 || c.leased < 0 || c.quarantined < 0 || c.free + c.leased + c.quarantined != c.pages)
			world_break(w,
				    "class %u: %" PRId64 " free + %" PRId64 " leased + %" PRId64
				    " quarantined are not %" PRId64,
				    i, c.free, c.leased, c.quarantined, c.pages);
	}
	if (pages != e.held)
		world_break(w, "the pool: %" PRIu64 " bytes held, and pages of %" PRIu64 " bytes", e.held, pages);
}

static void check_all(struct world *w)
{
	char why[256];

	if (!w->broken[0] && !engine_check(w->ring->engine, why, sizeof(why)))
		world_break(w, "%s", why);
	if (w->ring->counters.rescues)
		world_break(w, "the ring thread was rescued: a doorbell was lost");
}

/* ---- the ring thread's edges ------------------------------------------------------------- */

static uint64_t edge_now(void *arg)
{
	return ((struct world *)arg)->now;
}

static uint64_t edge_computed(void *arg)
{
	struct world *w = arg;

	w->computing = !w->computing;
	if (w->computing)
		w->computing_at = engine_pauses(w->ring->engine);
	else if (engine_pauses(w->ring->engine) == w->computing_at) /* else others were served in between */
		want_check_asked(w);
	return 0;
}

static struct kfile *bell_of(struct world *w, int fd)
{
	return fd < KERNEL_FIRST ? NULL : w->kernel.files[fd - KERNEL_FIRST]; /* else its own mailbox */
}

static bool edge_watch(void *arg, int fd, void *who)
{
	struct kfile *f = bell_of(arg, fd);

	if (f)
		f->who = who;
	return true;
}

static void edge_unwatch(void *arg, int fd)
{
	struct world *w = arg;
	struct kfile *f = bell_of(w, fd);
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->n_rung; i++)
		if (!w->rung[i] || w->rung[i] != f->who)
			w->rung[n++] = w->rung[i];
	w->n_rung = n;
	f->who = NULL;
}

static void edge_yield(void *arg)
{
	(void)arg;
}

static void edge_notify(void *arg, int socket)
{
	kernel_notify(arg, socket);
}

static void edge_wake(void *arg, shm_u32 *word)
{
	struct world *w = arg;

	for (uint32_t i = 0; i < w->plan.n_workers; i++) {
		struct worker *v = w->workers[i];

		if (v->shared && &((struct wire_wait *)(v->shared->session + v->shared->layout.wait))->word == word)
			worker_woken(v);
	}
}

static bool over(const struct world *w)
{
	return w->broken[0] || w->stopped || (!w->healing && !w->ends && w->steps >= w->options.steps);
}

bool world_run_next(struct world *w, uint64_t until)
{
	struct event *e = events_next(&w->events, until, &w->now);

	if (!e)
		return false;
	w->steps++;
	e->run(e->arg);
	if (w->now - w->looked > LOOK_NS) {
		w->looked = w->now;
		fair_check(w);
		want_check_ends(w);
	}
	if (w->steps % SCAN_EVERY == 0)
		check_all(w);
	return true;
}

static int edge_sleep(void *arg, uint64_t ns, void *rung[RING_EDGE_EVENTS])
{
	struct world *w = arg;
	uint64_t until = w->now + ns;
	uint32_t n;

	if (w->n_rung == 0)
		shown_check(w, ns);
	while (w->n_rung == 0 && !over(w) && world_run_next(w, until))
		;
	if (over(w))
		return -1; /* as if a signal had come */
	if (w->n_rung == 0)
		w->now = until;
	n = w->n_rung;
	memcpy(rung, w->rung, n * sizeof(*rung));
	w->n_rung = 0;
	return (int)n;
}

/* ---- turns of the broker -------------------------------------------------------------------- */

static void on_turn(void *arg)
{
	struct world *w = arg;
	uint64_t commands = w->ring->counters.commands;

	ring_turn(w->ring);
	if (w->ring->counters.commands == commands)
		w->steps--; /* a turn that found nothing to do does not count */
	front_look(w);
	check_counts(w);
	event_at(&w->events, &w->turn, world_soon(w, 1500));
}

/* ---- what happens to the world --------------------------------------------------------------- */

/* As the order that comes by mail says, which wakes the ring thread. */
static void limits_changed(struct world *w)
{
	ring_changed(w->ring);
	world_bell(w, NULL);
}

static void change_limits(struct world *w)
{
	uint32_t i = (uint32_t)rng_between(&w->rng, 0, w->plan.n_models - 1);
	uint64_t pool = 2 * w->plan.ring.engine.half_bytes, floor, ceiling;
	char name[] = { 'm', (char)('0' + i), '\0' };
	struct fault f;

	floor = rng_one_in(&w->rng, 2) ? 0 : pool / (uint64_t)rng_between(&w->rng, 4, 20);
	ceiling = rng_one_in(&w->rng, 2) ? 0 : pool / (uint64_t)rng_between(&w->rng, 1, 4);
	if (engine_limit(w->ring->engine, name, &floor, &ceiling, &f) != 0)
		return;
	limits_changed(w);
	w->floors[i] = floor;
	w->limited[i] |= ceiling != 0;
	world_trace(w, "limits of model %u: floor %" PRIu64 ", ceiling %" PRIu64, i, floor, ceiling);
}

/* Workers come when there is room for them, a storm of them at times. */
static void populate(struct world *w)
{
	bool storm = world_fault(w, SIM_STORMS);

	for (uint32_t i = 0; i < w->plan.n_workers && !w->healing; i++) {
		struct worker *v = w->workers[i];

		if (!worker_is_out(v))
			v->leaves |= rng_one_in(&w->rng, storm ? 3 : 4000);
		else if (storm || rng_one_in(&w->rng, 20))
			worker_start(v);
	}
	if (world_fault(w, SIM_LIMITS))
		change_limits(w);
	for (size_t i = 0; i < sizeof(w->administrators) / sizeof(w->administrators[0]); i++)
		if (world_fault(w, SIM_ORDERS) ||
		    (i == 0 && (w->drained_all || w->drained[0]) && rng_one_in(&w->rng, 10)))
			orders_come(w, &w->administrators[i]);
	if (world_fault(w, SIM_FILES))
		w->kernel.limit = w->kernel.n_files + (uint32_t)rng_between(&w->rng, 0, 4);
	else if (rng_one_in(&w->rng, 10))
		w->kernel.limit = KERNEL_FILES;
}

static void on_populate(void *arg)
{
	struct world *w = arg;

	populate(w);
	if (!w->healing)
		event_at(&w->events, &w->populate, world_soon(w, 100 * NS_PER_US));
}

static bool all_out(const struct world *w)
{
	if (!TAILQ_EMPTY(&w->control.registry.clients))
		return false;
	for (uint32_t i = 0; i < w->plan.n_workers; i++)
		if (!worker_is_out(w->workers[i]))
			return false;
	return true;
}

/* Nobody asks for anything for a while: what is wanted ends with its causes, refusals among them. */
static void be_quiet(struct world *w)
{
	uint64_t until = w->now + QUIET_FOR;

	world_trace(w, "nobody asks for anything");
	w->quiet = true;
	w->healed = until; /* before, nobody gives way to those who wait */
	while (!w->broken[0] && world_run_next(w, until))
		;
	w->quiet = false;
	for (uint32_t i = 0; i < w->plan.n_workers; i++)
		worker_heal(w->workers[i]);
}

/* No more faults: stopped processes go on, work ends, requests are served, everybody leaves. */
static void heal(struct world *w)
{
	uint64_t until;

	world_trace(w, "no more faults");
	w->healing = true;
	w->healed = w->now;
	for (uint32_t i = 0; i < w->plan.n_models; i++) {
		char name[] = { 'm', (char)('0' + i), '\0' };
		uint64_t none = 0;

		engine_limit(w->ring->engine, name, NULL, &none, NULL);
		limits_changed(w);
		w->limited[i] = false;
	}
	w->kernel.limit = KERNEL_FILES;
	for (uint32_t i = 0; i < w->plan.n_workers; i++)
		worker_heal(w->workers[i]);
	if (rng_one_in(&w->rng, 3))
		be_quiet(w);
	until = w->now + HEAL_FOR;
	while (!w->broken[0] && !all_out(w) && w->now < until)
		if (!world_run_next(w, until))
			break;
	check_all(w);
}

/* After all have left nothing may be held any more. */
static void check_empty(struct world *w)
{
	struct class_counts c;

	for (uint32_t i = 0; i < w->plan.n_workers; i++) {
		struct worker *v = w->workers[i];

		if (!worker_is_out(v))
			world_break(w, "worker %u is still there long after the last fault: state %d, %u calls",
				    v->number, v->state, v->n_calls);
	}
	if (!TAILQ_EMPTY(&w->control.registry.clients))
		world_break(w, "the broker still keeps a client long after the last has left");
	for (uint32_t i = 0; engine_class_count(w->ring->engine, i, &c); i++)
		if (c.leased || c.quarantined)
			world_break(w, "%" PRId64 " pages leased and %" PRId64 " in quarantine, and nobody is there",
				    c.leased, c.quarantined);
	if (engine_waiting(w->ring->engine))
		world_break(w, "begins wait, and nobody is there");
}

/* ---- a run ----------------------------------------------------------------------------------------- */

static bool world_make(struct world *w, const struct sim_options *o, struct status_writer *status)
{
	struct ring_limit limits[SIM_MODELS];
	char names[SIM_MODELS][4];
	struct ring_edge edge = {
		.arg = w,
		.now = edge_now,
		.computed = edge_computed,
		.watch = edge_watch,
		.unwatch = edge_unwatch,
		.sleep = edge_sleep,
		.wake = edge_wake,
		.notify = edge_notify,
		.yield = edge_yield,
	};
	struct fault f;

	*w = (struct world){ .options = *o, .rng = { o->seed }, .now = NS_PER_S, .status = status };
	w->lack_seen = w->asked_seen = w->now;
	bells_forget();
	plan_make(&w->plan, &w->rng, o);
	for (uint32_t i = 0; i < w->plan.n_models; i++) {
		snprintf(names[i], sizeof(names[i]), "m%u", i);
		limits[i] = (struct ring_limit){ names[i], w->plan.floors[i], 0, &w->plan.models[i] };
	}
	w->plan.ring.limits = limits;
	w->plan.ring.n_limits = w->plan.n_models;
	w->ring = calloc(1, sizeof(*w->ring));
	if (!w->ring || !memory_init(&w->memory, w->plan.ring.engine.half_bytes))
		return false;
	if (ring_thread_make(w->ring, &w->plan.ring, status, &edge, &f) < 0) { /* floors that do not fit together */
		w->plan.ring.n_limits = 0;
		if (ring_thread_make(w->ring, &w->plan.ring, status, &edge, &f) < 0)
			return false;
	}
	memcpy(w->floors, w->plan.floors, sizeof(w->floors));
	kernel_init(w);
	quota_init(w);
	if (!front_make(w))
		return false;
	for (uint32_t i = 0; i < w->plan.n_workers; i++)
		w->workers[i] = worker_new(w, i);
	return true;
}

static void world_free(struct world *w)
{
	w->kicked = w->ring->counters.kicked;
	w->reclaimed = w->ring->counters.reclaimed_pages;
	/* A broker that stops lets go of whatever is there. */
	ring_thread_deinit(w->ring);
	front_free(w);
	for (uint32_t i = 0; i < w->plan.n_workers; i++)
		worker_free(w->workers[i]);
	kernel_free(w);
	free(w->ring);
	memory_free(&w->memory);
	events_free(&w->events);
}

bool world_run(struct world *w, const struct sim_options *o, struct status_writer *status)
{
	if (!world_make(w, o, status)) {
		snprintf(w->broken, sizeof(w->broken), "the world could not be made");
		return false;
	}
	w->turn = (struct event){ .run = on_turn, .arg = w };
	w->populate = (struct event){ .run = on_populate, .arg = w };
	event_at(&w->events, &w->turn, w->now);
	event_at(&w->events, &w->populate, w->now + 1);
	while (!over(w) && world_run_next(w, UINT64_MAX))
		;
	if (!w->broken[0] && !world_fault(w, SIM_STOP)) { /* else the broker stops in the middle of it all */
		heal(w);
		check_empty(w);
	}
	if (!w->broken[0])
		front_stop(w);
	world_free(w);
	return !w->broken[0];
}
