/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - processes: attach, steps, sleep, stops and deaths, and what the control thread sees of them */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define LOOK_NS  (250 * NS_PER_MS) /* the longest sleep */
#define GRACE_NS (100 * NS_PER_MS) /* a wake-up may come that much after its answer */

static void on_step(void *arg);
static void on_hello(void *arg);
static void on_news(void *arg);
static void on_bell(void *arg);
static void on_cont(void *arg);
static void on_hang_up(void *arg);
static void on_exit_now(void *arg);
static void on_gone(void *arg);

static void at(struct worker *v, struct event *e, void (*run)(void *), uint64_t date)
{
	e->run = run;
	e->arg = v;
	event_at(&v->world->events, e, date);
}

static void step_soon(struct worker *v)
{
	at(v, &v->step, on_step, world_soon(v->world, v->world->quiet ? WORKER_QUIET_NS : v->world->plan.think_ns));
}

/* ---- from start to end ---------------------------------------------------------------- */

struct worker *worker_new(struct world *w, uint32_t index)
{
	struct worker *v = calloc(1, sizeof(*v));

	v->world = w;
	v->index = index;
	return v;
}

static void unmap(struct worker *v)
{
	if (!v->shared)
		return;
	gpu_free(&v->gpu);
	shared_release(v->shared);
	v->shared = NULL;
}

void worker_free(struct worker *v)
{
	unmap(v);
	free(v);
}

bool worker_is_out(const struct worker *v)
{
	return (v->state == WORKER_OUT || v->is_gone) && members_out(v);
}

/* Forgets what the last incarnation was. */
static void reset(struct worker *v)
{
	struct world *w = v->world;
	uint32_t index = v->index;
	struct event *events[] = { &v->step, &v->hello, &v->news, &v->bell, &v->cont, &v->hang_up, &v->exit, &v->gone };

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		events_forget(&w->events, events[i]);
	members_forget(v);
	hold_end(v);
	unmap(v);
	*v = (struct worker){ .world = w, .index = index };
}

static void news(void *arg)
{
	struct worker *v = arg;

	if (!v->news.token)
		at(v, &v->news, on_news, world_soon(v->world, 50 * NS_PER_US));
}

/* When it says hello, if it does; what is wrong with it shows then. */
static void draw_hello(struct worker *v)
{
	struct world *w = v->world;
	uint64_t timeout = w->plan.config.hello_timeout_ms * NS_PER_MS;
	uint64_t date = world_soon(w, 50 * NS_PER_US);

	if (world_fault(w, SIM_HALF_OPEN))
		switch (rng_between(&w->rng, 0, 3)) {
		case 0: /* never; it leaves some time */
			at(v, &v->exit, on_exit_now, world_soon(w, 3 * timeout));
			return;
		case 1: /* late, or too late */
			date = world_soon(w, 2 * timeout);
			break;
		default:
			v->connection->lies = true;
		}
	at(v, &v->hello, on_hello, date);
}

void worker_start(struct worker *v)
{
	struct world *w = v->world;

	if (!w->kernel.listening[0])
		return;
	reset(v);
	v->number = ++w->incarnations;
	v->model_index = (uint32_t)rng_between(&w->rng, 0, w->plan.n_models - 1);
	v->model = &w->plan.models[v->model_index];
	v->uid = w->plan.uids[rng_between(&w->rng, 0, w->plan.n_uids - 1)];
	v->joinable = rng_one_in(&w->rng, 3);
	v->events = rng_one_in(&w->rng, 3);
	v->process = process_new(w, v);
	v->process->number = v->number;
	v->connection = connection_new(w, v->process, v->uid, false);
	v->connection->news = news;
	v->connection->arg = v;
	v->connection->model_index = v->model_index;
	v->state = WORKER_CONNECTED;
	draw_hello(v);
	world_trace(w, "worker %u connects as process %d, with model %u", v->number, v->process->pid, v->model_index);
}

static void on_hello(void *arg)
{
	struct worker *v = arg;
	struct world *w = v->world;

	if (v->state != WORKER_CONNECTED)
		return;
	hello_say(v);
	v->state = WORKER_ATTACHING;
	if (world_fault(w, SIM_HALF_OPEN) || world_fault(w, SIM_DEATHS)) /* before it is answered, or just after */
		at(v, &v->exit, on_exit_now, world_soon(w, 200 * NS_PER_US));
}

static void welcomed(struct worker *v)
{
	struct connection *c = v->connection;
	const struct session_layout *l = &c->shared->layout;
	unsigned char *base = c->shared->session;

	v->shared = c->shared; /* what was under way is its own now */
	v->state = WORKER_LIVE;
	v->process->on_gpu = true;
	v->world->attached++;
	ring_producer_init_spsc(&v->commands, (struct ring_control *)(base + l->commands_control),
				base + l->commands_slots, l->ring_slots);
	ring_consumer_init_spsc(&v->replies, (struct ring_control *)(base + l->replies_control),
				base + l->replies_slots, l->ring_slots);
	gpu_init(&v->gpu, v->world, v->number, v->model, v->world->plan.geometry[v->model_index],
		 (struct wire_line *)(base + l->lines));
	if (v->joinable)
		members_come(v);
	hold_start(v);
	step_soon(v);
}

void worker_retire(struct worker *v, uint64_t within_ns)
{
	v->state = WORKER_ENDED;
	v->sleeps = false;
	event_cancel(&v->step);
	if (!v->exit.token)
		at(v, &v->exit, on_exit_now, world_soon(v->world, within_ns));
}

/* The broker has answered, or has hung up. */
static void on_news(void *arg)
{
	struct worker *v = arg;
	struct connection *c = v->connection;

	if (v->stopped || v->state == WORKER_DEAD || v->state == WORKER_ENDED)
		return;
	if (v->state == WORKER_ATTACHING && c->answered && c->welcome.code == 0) {
		welcomed(v);
		v->hears_since = v->world->now;
	}
	if (!c->closed_there && !c->told_end)
		return;
	world_trace(v->world, "worker %u is hung up on", v->number);
	at(v, &v->hang_up, on_hang_up, world_soon(v->world, 100 * NS_PER_US));
	worker_retire(v, 20 * NS_PER_MS);
}

/* The broker has ended the session: its pages wait for the end of the process. A stop only asks to leave. */
static bool was_cut(const struct worker *v)
{
	return (v->connection->told_end || v->connection->closed_there) && !v->world->ends;
}

static void on_hang_up(void *arg)
{
	struct worker *v = arg;

	connection_close(v->world, v->connection);
	if (!was_cut(v))
		hold_let_go(v);
}

/*
 * The process ends now, or what there is of it on a device for @lag longer: on
 * the host its work is its own, and on a GPU the driver ends it before the grace
 * is over.
 */
static void end_process(struct worker *v, uint64_t lag)
{
	struct world *w = v->world;

	if (w->plan.pool.backend == WIRE_BACKEND_CUDA) {
		uint64_t grace = w->plan.config.reclaim_grace_ms * NS_PER_MS;

		process_exit(w, v->process);
		if (!was_cut(v))
			hold_let_go(v);
		at(v, &v->gone, on_gone, w->now + (lag < grace ? lag : grace - 1));
	} else {
		at(v, &v->hang_up, on_hang_up, world_soon(w, 100 * NS_PER_US));
		at(v, &v->gone, on_gone, w->now + lag);
	}
}

void worker_exit_at(struct worker *v, uint64_t date)
{
	at(v, &v->exit, on_exit_now, date);
}

void worker_die(struct worker *v)
{
	struct world *w = v->world;
	uint64_t later = (uint64_t)rng_between(&w->rng, 1, world_fault(w, SIM_LATE) ? 400 : 4) * NS_PER_MS;

	if (v->state == WORKER_DEAD || v->state == WORKER_OUT)
		return;
	world_trace(w, "worker %u dies", v->number);
	if (v->state == WORKER_LIVE && rng_one_in(&w->rng, 2)) { /* half-way through a command */
		uint64_t garbage = rng_next(&w->rng);

		ring_producer_write_spsc(&v->commands, 0, &garbage, sizeof(garbage));
	}
	v->state = WORKER_DEAD;
	v->sleeps = false;
	event_cancel(&v->step);
	event_cancel(&v->cont);
	event_cancel(&v->exit);
	end_process(v, later);
	w->deaths++;
}

static void on_exit_now(void *arg)
{
	struct worker *v = arg;

	if (v->must_be_ended && !v->connection->closed_there && v->state != WORKER_DEAD)
		world_break(v->world, "worker %u wrote a word above its armed value, and was believed", v->number);
	if (v->stopped) /* it does not get to its end, either */
		at(v, &v->exit, on_exit_now, world_soon(v->world, 20 * NS_PER_MS));
	else
		worker_die(v);
}

static void on_gone(void *arg)
{
	struct worker *v = arg;

	if (v->shared)
		gpu_gone(&v->gpu);
	v->is_gone = true;
	hold_let_go(v);
	process_off_gpu(v->world, v->process);
	process_exit(v->world, v->process);
}

void worker_check_forgotten(struct worker *v, const struct shared *s)
{
	if (v->shared != s || v->is_gone || v->world->ends) /* whatever it is doing goes with the broker then */
		return;
	if (v->state != WORKER_DEAD && v->state != WORKER_ENDED && v->state != WORKER_CLOSING && !v->stopped &&
	    !v->connection->closed_there)
		world_break(v->world, "worker %u was forgotten while it lives", v->number);
	for (uint32_t i = 0; i < v->model->n_streams; i++)
		if (!gpu_idle(&v->gpu, i))
			world_break(v->world, "worker %u was forgotten while its device works", v->number);
}

/* ---- steps -------------------------------------------------------------------------------- */

static void on_bell(void *arg)
{
	struct worker *v = arg;

	if (v->connection->doorbell->who) /* the broker may have let go of it */
		world_bell(v->world, v->connection->doorbell->who);
}

void worker_ring(struct worker *v, bool must)
{
	if (must && !v->bell.token)
		at(v, &v->bell, on_bell, world_soon(v->world, 30 * NS_PER_US));
}

void worker_woken(struct worker *v)
{
	if (!v->sleeps || v->in_loop || v->woken)
		return;
	v->woken = true;
	step_soon(v);
}

static void on_cont(void *arg)
{
	struct worker *v = arg;

	v->stopped = false;
	if (v->hears_since < v->world->now)
		v->hears_since = v->world->now;
	world_trace(v->world, "worker %u goes on", v->number);
	news(v);
	if (v->state == WORKER_LIVE || v->state == WORKER_CLOSING)
		step_soon(v);
}

void worker_heal(struct worker *v)
{
	v->deaf_until = 0;
	v->hears_since = v->world->now;
	if (v->stopped)
		at(v, &v->cont, on_cont, v->world->now);
	else if ((v->state == WORKER_LIVE || v->state == WORKER_CLOSING) && !v->sleeps)
		step_soon(v);
}

static void stop(struct worker *v)
{
	world_trace(v->world, "worker %u is stopped", v->number);
	v->stopped = true;
	event_cancel(&v->step);
	at(v, &v->cont, on_cont, world_soon(v->world, (rng_one_in(&v->world->rng, 5) ? 15000 : 300) * NS_PER_MS));
}

static struct wire_wait *wait_of(const struct worker *v)
{
	return (struct wire_wait *)(v->shared->session + v->shared->layout.wait);
}

void worker_noticed(struct worker *v)
{
	if (!v->sleeps || !v->in_loop || v->woken)
		return;
	v->woken = true;
	step_soon(v);
}

/*
 * In a loop of its own: what came is read away before the word is set, and the
 * word is set before the last look. False: an answer is there.
 */
static bool rest(struct worker *v)
{
	v->connection->noticed = false;
	store_relaxed(&wait_of(v)->event, 1);
	fence_store_load();
	return ring_consumer_fill_spsc(&v->replies) == 0;
}

/* Sleeps until it is woken, when it has nothing to do but to wait for answers. */
static bool fall_asleep(struct worker *v)
{
	if (v->n_calls == 0 || !rng_one_in(&v->world->rng, life_has_work(v) ? 60 : 3) || v->world->now < v->deaf_until)
		return false;
	if ((v->world->healing || v->leaves) && v->hold.n > 0) /* there is something to give */
		return false;
	v->in_loop = v->events && rng_one_in(&v->world->rng, 2);
	if (v->in_loop ? !rest(v) : ring_consumer_sleep_spsc(&v->replies) != 0) {
		if (!v->in_loop)
			ring_consumer_awake_spsc(&v->replies);
		return false;
	}
	v->sleeps = true;
	v->woken = v->late = false;
	at(v, &v->step, on_step, v->world->now + LOOK_NS);
	return true;
}

/* False: this step was its last. */
static bool suffer(struct worker *v)
{
	struct world *w = v->world;

	if (world_fault(w, SIM_DEATHS)) {
		worker_die(v);
		return false;
	}
	if (world_fault(w, SIM_STOPS)) {
		stop(v);
		return false;
	}
	if (world_fault(w, SIM_FORGED)) {
		lie(v);
		return false;
	}
	if (world_fault(w, SIM_FULL))
		v->hears_since = v->deaf_until = world_soon(w, 50 * NS_PER_MS);
	if (w->now < v->deaf_until && v->state == WORKER_LIVE)
		message_flood(v, (uint32_t)rng_between(&w->rng, 1, 64));
	if (world_fault(w, SIM_MISSING))
		gpu_hang(&v->gpu, (uint32_t)rng_between(&w->rng, 0, v->model->n_streams - 1));
	return true;
}

static bool hangs(const struct worker *v)
{
	for (uint32_t i = 0; i < v->model->n_streams; i++)
		if (v->gpu.streams[i].hangs)
			return true;
	return false;
}

/* At the end nothing new is begun: it closes when its work is over, and a device that hangs is given up. */
static void wind_up(struct worker *v)
{
	struct message m;

	if (hangs(v)) {
		worker_die(v);
		return;
	}
	if (v->state == WORKER_LIVE && life_is_over(v)) {
		message_begin(&m, WIRE_OP_CLOSE, 0);
		if (message_send(v, &m, 0)) {
			v->state = WORKER_CLOSING;
			hold_let_go(v);
		}
	}
}

/* False: it stays where it is for a moment, since an answer is there and its wake-up may be on the way. */
static bool get_up(struct worker *v)
{
	if (!v->woken && ring_consumer_fill_spsc(&v->replies) > 0) {
		if (!v->late) {
			v->late = true;
			at(v, &v->step, on_step, v->world->now + GRACE_NS);
			return false;
		}
		world_break(v->world, "worker %u slept for 250 ms beside an answer: a wake-up was lost", v->number);
	}
	v->sleeps = false;
	if (!v->in_loop)
		ring_consumer_awake_spsc(&v->replies);
	return true;
}

static void on_step(void *arg)
{
	struct worker *v = arg;
	struct world *w = v->world;

	if (v->state != WORKER_LIVE && v->state != WORKER_CLOSING)
		return;
	if (v->sleeps && !get_up(v))
		return;
	if (!suffer(v))
		return;
	if (w->quiet)
		v->hears_since = w->now;
	if (w->now >= v->deaf_until && !life_read(v)) {
		if (v->state != WORKER_DEAD)
			world_break(w, "worker %u reads nonsense in its reply ring", v->number);
		return;
	}
	if (v->state == WORKER_CLOSING && v->n_calls == 0) {
		at(v, &v->hang_up, on_hang_up, world_soon(w, 100 * NS_PER_US));
		worker_retire(v, 20 * NS_PER_MS);
		return;
	}
	if (v->state == WORKER_LIVE && !w->quiet)
		life_act(v);
	if ((w->healing && !w->quiet) || (v->state == WORKER_LIVE && v->leaves))
		wind_up(v);
	if (v->state != WORKER_LIVE && v->state != WORKER_CLOSING)
		return;
	if (!fall_asleep(v))
		step_soon(v);
}
