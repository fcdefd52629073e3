/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - processes: attach, steps, sleep, stops and deaths, and what the control thread sees of them */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

#define LOOK_NS  (250 * NS_PER_MS) /* the longest sleep */
#define GRACE_NS (100 * NS_PER_MS) /* a wake-up may come that much after its answer */

static void on_step(void *arg);
static void on_welcome(void *arg);
static void on_bell(void *arg);
static void on_cont(void *arg);
static void on_socket_end(void *arg);
static void on_gone(void *arg);

static void at(struct worker *v, struct event *e, void (*run)(void *), uint64_t date)
{
	e->run = run;
	e->arg = v;
	event_at(&v->world->events, e, date);
}

static void step_soon(struct worker *v)
{
	at(v, &v->step, on_step, world_soon(v->world, v->world->plan.think_ns));
}

/* ---- memory shared with the broker ------------------------------------------------- */

static unsigned char *zeroed(uint64_t bytes)
{
	unsigned char *p = aligned_alloc(CACHELINE, (bytes + CACHELINE - 1) / CACHELINE * CACHELINE);

	if (!p)
		abort();
	return memset(p, 0, bytes);
}

static void make_channel(struct worker *v)
{
	struct channel *c = calloc(1, sizeof(*c));
	struct session_layout *l = &c->memory.layout;

	*c = (struct channel){
		.id = v->index + 1,
		.generation = v->number,
		.tag = v->number & 0xffff,
		.pid = (pid_t)v->number,
		.attached_ns = v->world->now,
		.model = *v->model,
		.doorbell = 1000 + (int)v->index,
		.owner = v,
	};
	c->model_name[0] = 'm';
	c->model_name[1] = (char)('0' + v->model_index);
	memcpy(c->geometry, v->world->plan.geometry[v->model_index], sizeof(c->geometry));
	session_layout_init(l, v->model, c->geometry);
	c->memory.session = zeroed(l->session_bytes);
	c->memory.tables = zeroed(l->tables_bytes);
	v->channel = c;
}

static void free_channel(struct worker *v)
{
	gpu_free(&v->gpu);
	free(v->channel->memory.session);
	free(v->channel->memory.tables);
	free(v->channel);
	v->channel = NULL;
}

/* ---- from start to end ---------------------------------------------------------------- */

struct worker *worker_new(struct world *w, uint32_t index)
{
	struct worker *v = calloc(1, sizeof(*v));

	v->world = w;
	v->index = index;
	return v;
}

void worker_free(struct worker *v)
{
	if (v->channel)
		free_channel(v);
	free(v);
}

bool worker_is_out(const struct worker *v)
{
	return v->control == CONTROL_NONE && (v->state == WORKER_OUT || v->state == WORKER_ENDED || v->process_gone);
}

/* Forgets what the last incarnation was, but for what is due. */
static void reset(struct worker *v)
{
	struct world *w = v->world;
	uint32_t index = v->index;
	struct event *events[] = { &v->step, &v->welcome, &v->bell, &v->cont, &v->socket_end, &v->gone };

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		events_forget(&w->events, events[i]);
	if (v->channel) /* its mapping lived on until now */
		free_channel(v);
	*v = (struct worker){ .world = w, .index = index };
}

void worker_start(struct worker *v)
{
	struct world *w = v->world;
	struct session_layout *l;

	reset(v);
	v->number = ++w->incarnations;
	v->model_index = (uint32_t)rng_between(&w->rng, 0, w->plan.n_models - 1);
	v->model = &w->plan.models[v->model_index];
	make_channel(v);
	l = &v->channel->memory.layout;
	gpu_init(&v->gpu, w, v->number, v->model, v->channel->geometry,
		 (struct wire_line *)(v->channel->memory.session + l->lines));
	v->state = WORKER_ATTACHING;
	v->control = CONTROL_ATTACHING;
	mailbox_post_spsc(w->ring->inbox, MAIL_ATTACH, v->channel, 0);
	world_trace(w, "worker %u attaches with model %u", v->number, v->model_index);
}

static void on_welcome(void *arg)
{
	struct worker *v = arg;
	const struct session_layout *l = &v->channel->memory.layout;
	unsigned char *base = v->channel->memory.session;

	if (v->state != WORKER_ATTACHING)
		return;
	v->state = WORKER_LIVE;
	ring_producer_init_spsc(&v->commands, (struct ring_control *)(base + l->commands_control),
				base + l->commands_slots, l->ring_slots);
	ring_consumer_init_spsc(&v->replies, (struct ring_control *)(base + l->replies_control),
				base + l->replies_slots, l->ring_slots);
	step_soon(v);
}

static void end_connection(struct worker *v)
{
	at(v, &v->socket_end, on_socket_end, world_soon(v->world, 100 * NS_PER_US));
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
	end_connection(v);
	at(v, &v->gone, on_gone, w->now + later);
	w->deaths++;
}

/* ---- what the control thread does ------------------------------------------------------- */

/* Mails what has happened, as soon as the ring thread may be told. */
static void tell(struct worker *v)
{
	struct world *w = v->world;

	if (v->control != CONTROL_LIVE && v->control != CONTROL_ENDED)
		return;
	if (v->socket_ended && !v->told_socket) {
		v->told_socket = true;
		v->control = CONTROL_ENDED;
		mailbox_post_spsc(w->ring->inbox, MAIL_SOCKET_ENDED, v->channel, 0);
		world_bell(w, NULL);
	}
	if (v->process_gone && !v->told_gone) {
		v->told_gone = true;
		v->control = CONTROL_ENDED;
		mailbox_post_spsc(w->ring->inbox, MAIL_PROCESS_GONE, v->channel, 0);
		world_bell(w, NULL);
	}
}

static void on_socket_end(void *arg)
{
	struct worker *v = arg;

	v->socket_ended = true;
	tell(v);
}

static void on_gone(void *arg)
{
	struct worker *v = arg;

	if (v->must_be_ended && v->state != WORKER_DEAD && v->control == CONTROL_LIVE)
		world_break(v->world, "worker %u wrote a word above its armed value, and was believed", v->number);
	if (v->channel)
		gpu_gone(&v->gpu);
	v->process_gone = true;
	v->socket_ended = true;
	tell(v);
}

static void forgotten(struct worker *v)
{
	v->control = CONTROL_NONE;
	if (v->state != WORKER_DEAD && v->state != WORKER_ENDED && v->state != WORKER_CLOSING)
		world_break(v->world, "worker %u was forgotten while it lives", v->number);
	if (!v->process_gone) {
		for (uint32_t i = 0; i < v->model->n_streams; i++)
			if (!gpu_idle(&v->gpu, i))
				world_break(v->world, "worker %u was forgotten while its device works", v->number);
	}
}

void worker_mail(struct worker *v, const struct mail *m)
{
	struct world *w = v->world;

	switch (m->kind) {
	case MAIL_ATTACHED:
		if (m->value) {
			world_break(w, "attach of worker %u was refused: %d", v->number, (int)m->value);
			return;
		}
		v->control = CONTROL_LIVE;
		at(v, &v->welcome, on_welcome, world_soon(w, 50 * NS_PER_US));
		break;
	case MAIL_CLOSED:
		v->control = CONTROL_ENDED;
		break;
	case MAIL_KICKED:
		world_trace(w, "worker %u was kicked", v->number);
		if (v->kicked)
			world_break(w, "worker %u was ended twice for a violation", v->number);
		v->kicked = true;
		w->kicked++;
		v->control = CONTROL_ENDED;
		if (!v->socket_ended)
			on_socket_end(v);
		if (v->state != WORKER_DEAD) { /* it notices, and ends */
			v->state = WORKER_ENDED;
			event_cancel(&v->step);
			at(v, &v->gone, on_gone, world_soon(w, 20 * NS_PER_MS));
		}
		break;
	case MAIL_RECLAIMED:
		w->reclaimed += (uint64_t)m->value;
		v->control = CONTROL_FORGETTING;
		mailbox_post_spsc(w->ring->inbox, MAIL_FORGET, v->channel, 0);
		world_bell(w, NULL);
		break;
	case MAIL_FORGOTTEN:
		forgotten(v);
		break;
	default:
		break;
	}
	if (m->kind != MAIL_FORGOTTEN)
		tell(v);
}

/* ---- steps -------------------------------------------------------------------------------- */

static void on_bell(void *arg)
{
	struct worker *v = arg;

	world_bell(v->world, v->channel);
}

void worker_ring(struct worker *v, bool must)
{
	if (must && !v->bell.token)
		at(v, &v->bell, on_bell, world_soon(v->world, 30 * NS_PER_US));
}

void worker_woken(struct worker *v)
{
	if (!v->sleeps || v->woken)
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
	step_soon(v);
}

void worker_heal(struct worker *v)
{
	v->deaf_until = 0;
	v->hears_since = v->world->now;
	if (v->stopped)
		at(v, &v->cont, on_cont, v->world->now);
}

static void stop(struct worker *v)
{
	world_trace(v->world, "worker %u is stopped", v->number);
	v->stopped = true;
	event_cancel(&v->step);
	at(v, &v->cont, on_cont, world_soon(v->world, (rng_one_in(&v->world->rng, 5) ? 15000 : 300) * NS_PER_MS));
}

static void forge(struct worker *v)
{
	uint32_t stream = (uint32_t)rng_between(&v->world->rng, 0, v->model->n_streams - 1);
	struct wire_line *line = v->gpu.streams[stream].line;
	struct ring_control *control = rng_one_in(&v->world->rng, 2) ? v->commands.control : v->replies.control;

	struct wire_fence fence = { 0 };
	struct message m;

	world_trace(v->world, "worker %u lies", v->number);
	switch (rng_between(&v->world->rng, 0, 4)) {
	case 0:
		store_release(&line->word,
			      load_acquire(&line->armed) + (uint64_t)rng_between(&v->world->rng, 1, 1 << 20));
		message_begin(&m, WIRE_OP_FINISH, 1); /* the broker looks at the lines before it asks what this is */
		message_add(&m, &fence, sizeof(fence));
		/* Else the broker may not come to it, or the device may write another value before. */
		v->must_be_ended = message_send(v, &m, 0) && v->n_nops == 0 && gpu_idle(&v->gpu, stream);
		break;
	case 1:
		store_release(&line->armed, load_acquire(&line->armed) - 1);
		break;
	case 2:
		store_release(&control->tail, (uint32_t)rng_next(&v->world->rng));
		break;
	case 3:
		store_release(&control->head, (uint32_t)rng_next(&v->world->rng));
		break;
	default: {
		uint64_t slot[RING_EXPRESS + 1];

		for (int i = 0; i <= RING_EXPRESS; i++)
			slot[i] = rng_next(&v->world->rng);
		if (ring_producer_space_spsc(&v->commands, 1) > 0)
			ring_producer_queue_spsc(&v->commands, slot);
	}
	}
	worker_ring(v, true);
	/* Caught or not, it does nothing sensible any more, and ends. */
	v->state = WORKER_ENDED;
	at(v, &v->gone, on_gone, world_soon(v->world, 50 * NS_PER_MS));
}

/* Sleeps until it is woken, when it has nothing to do but to wait for answers. */
static bool fall_asleep(struct worker *v)
{
	if (v->n_calls == 0 || !rng_one_in(&v->world->rng, 3) || v->world->now < v->deaf_until)
		return false;
	if (ring_consumer_sleep_spsc(&v->replies) != 0) {
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
		forge(v);
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
		if (message_send(v, &m, 0))
			v->state = WORKER_CLOSING;
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
	if (w->now >= v->deaf_until && !life_read(v)) {
		if (v->state != WORKER_DEAD)
			world_break(w, "worker %u reads nonsense in its reply ring", v->number);
		return;
	}
	if (v->state == WORKER_CLOSING && v->n_calls == 0) {
		v->state = WORKER_ENDED;
		end_connection(v);
		return;
	}
	if (v->state == WORKER_LIVE)
		life_act(v);
	if (w->healing || (v->state == WORKER_LIVE && v->leaves))
		wind_up(v);
	if (v->state != WORKER_LIVE && v->state != WORKER_CLOSING)
		return;
	if (!fall_asleep(v))
		step_soon(v);
}
