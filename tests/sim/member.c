/* SPDX-License-Identifier: Apache-2.0 */
/* member.c - see member.h */
#include "member.h"

#include <string.h>

#include "clock.h"
#include "worker.h"

static void at(struct member *m, struct event *e, void (*run)(void *), uint64_t date)
{
	e->run = run;
	e->arg = m;
	event_at(&m->first->world->events, e, date);
}

/* It has been let in, perhaps before it knows, and nothing says that it is through. */
static bool may_run(const struct member *m)
{
	return m->state != MEMBER_OUT && m->state != MEMBER_LEFT && m->connection->shared;
}

static void unmap(struct member *m)
{
	if (m->connection->shared)
		shared_release(m->connection->shared);
	m->connection->shared = NULL;
}

/* ---- its end ----------------------------------------------------------------------- */

static void on_gone(void *arg)
{
	struct member *m = arg;

	unmap(m);
	process_off_gpu(m->first->world, m->process);
	process_exit(m->first->world, m->process);
	m->state = MEMBER_OUT;
	hold_member_ended(m->first);
}

/* What there is of it on a device goes on for a while, on a GPU for less than the grace. */
static void die(struct member *m)
{
	struct world *w = m->first->world;
	uint64_t lag = (uint64_t)rng_between(&w->rng, 1, world_fault(w, SIM_LATE) ? 400 : 4) * NS_PER_MS;
	uint64_t grace = w->plan.config.reclaim_grace_ms * NS_PER_MS;

	if (m->state == MEMBER_DEAD || m->state == MEMBER_OUT)
		return;
	world_trace(w, "a member of worker %u dies", m->first->number);
	event_cancel(&m->say);
	event_cancel(&m->step);
	event_cancel(&m->exit);
	if (m->state != MEMBER_LEFT)
		m->state = MEMBER_DEAD;
	if (w->plan.pool.backend == WIRE_BACKEND_CUDA) {
		process_exit(w, m->process);
		lag = lag < grace ? lag : grace - 1;
	} else {
		connection_close(w, m->connection);
	}
	at(m, &m->gone, on_gone, w->now + lag);
	w->deaths++;
}

static void on_exit_now(void *arg)
{
	die(arg);
}

/* In order: its work has ended, it has unmapped, and says so. */
static void leave(struct member *m)
{
	struct world *w = m->first->world;

	world_trace(w, "a member of worker %u leaves", m->first->number);
	connection_say(w, m->connection, m->process->pid, "", 1);
	unmap(m);
	m->state = MEMBER_LEFT;
	hold_member_ended(m->first);
	at(m, &m->exit, on_exit_now, world_soon(w, 20 * NS_PER_MS));
}

/* ---- its life ----------------------------------------------------------------------- */

static void on_step(void *arg)
{
	struct member *m = arg;
	struct world *w = m->first->world;
	const struct connection *c = m->connection;
	bool over = w->healing || c->told_end || c->closed_there;

	if (world_fault(w, SIM_DEATHS) || rng_one_in(&w->rng, 500))
		die(m);
	else if (over && rng_one_in(&w->rng, 3) && !rng_one_in(&w->rng, 8)) /* else it goes on, and is waited for */
		leave(m);
	else if (over && rng_one_in(&w->rng, 20)) /* without a word */
		die(m);
	else
		at(m, &m->step, on_step, world_soon(w, NS_PER_MS));
}

static void on_news(void *arg)
{
	struct member *m = arg;
	struct connection *c = m->connection;
	struct world *w = m->first->world;

	if (m->state != MEMBER_JOINING)
		return;
	if (c->answered && c->welcome.code == 0) {
		m->state = MEMBER_LIVE;
		m->process->on_gpu = true;
		w->joined++;
		at(m, &m->step, on_step, world_soon(w, NS_PER_MS));
	} else if (c->answered || c->closed_there || c->told_end) {
		connection_close(w, c);
		if (!m->exit.token)
			at(m, &m->exit, on_exit_now, world_soon(w, NS_PER_MS));
	}
}

static void news(void *arg)
{
	struct member *m = arg;

	if (m->state != MEMBER_OUT && !m->news.token)
		at(m, &m->news, on_news, world_soon(m->first->world, 50 * NS_PER_US));
}

static void on_say(void *arg)
{
	struct member *m = arg;
	struct world *w = m->first->world;

	connection_say(w, m->connection, m->process->pid, &m->hello, sizeof(m->hello));
	if (world_fault(w, SIM_DEATHS)) /* before it is answered, or just after */
		at(m, &m->exit, on_exit_now, world_soon(w, 200 * NS_PER_US));
}

/* ---- its beginning ------------------------------------------------------------------- */

/* Who has another key, user or generation. */
static uid_t estrange(struct member *m, uid_t uid)
{
	struct world *w = m->first->world;

	m->stranger = true;
	switch (rng_between(&w->rng, 0, w->plan.n_uids > 1 ? 2 : 1)) {
	case 0:
		m->hello.join.key[rng_between(&w->rng, 0, WIRE_KEY - 1)] ^= 1;
		return uid;
	case 1:
		m->hello.join.session_generation--;
		return uid;
	default:
		for (uint32_t i = 0; i < w->plan.n_uids; i++)
			if (w->plan.uids[i] != uid)
				return w->plan.uids[i];
		return uid;
	}
}

static void on_begin(void *arg)
{
	struct member *m = arg;
	struct worker *v = m->first;
	struct world *w = v->world;
	uid_t uid = v->uid;

	if (!w->kernel.listening[0] || v->is_gone || w->healing)
		return;
	hello_join(v, &m->hello);
	m->stranger = false;
	if (rng_one_in(&w->rng, 6))
		uid = estrange(m, uid);
	m->process = process_new(w, v);
	m->process->number = v->number;
	m->connection = connection_new(w, m->process, uid, false);
	m->connection->news = news;
	m->connection->arg = m;
	m->connection->model_index = v->model_index;
	m->connection->joins = v->connection;
	m->connection->stranger = m->stranger;
	m->state = MEMBER_JOINING;
	at(m, &m->say, on_say, world_soon(w, 50 * NS_PER_US));
}

void members_come(struct worker *v)
{
	for (int i = 0; i < SIM_MEMBERS; i++) {
		struct member *m = &v->members[i];

		m->first = v;
		if (world_fault(v->world, SIM_PROCESSES))
			at(m, &m->step, on_begin, world_soon(v->world, 5 * NS_PER_MS));
	}
}

bool members_out(const struct worker *v)
{
	for (int i = 0; i < SIM_MEMBERS; i++)
		if (v->members[i].state != MEMBER_OUT)
			return false;
	return true;
}

bool members_may_run(const struct worker *v)
{
	for (int i = 0; i < SIM_MEMBERS; i++)
		if (v->members[i].first && may_run(&v->members[i]))
			return true;
	return false;
}

void members_forget(struct worker *v)
{
	for (int i = 0; i < SIM_MEMBERS; i++) {
		struct member *m = &v->members[i];
		struct event *events[] = { &m->say, &m->news, &m->step, &m->exit, &m->gone };

		for (size_t k = 0; k < sizeof(events) / sizeof(events[0]); k++)
			events_forget(&v->world->events, events[k]);
	}
}

void members_kill_process(struct worker *v, const struct process *p)
{
	for (int i = 0; i < SIM_MEMBERS; i++)
		if (v->members[i].state != MEMBER_OUT && v->members[i].process == p)
			die(&v->members[i]);
}

void members_check_forgotten(struct worker *v, const struct shared *s)
{
	for (int i = 0; i < SIM_MEMBERS; i++)
		if (may_run(&v->members[i]) && v->members[i].connection->shared == s && !v->world->ends)
			world_break(v->world,
				    "the session of worker %u was forgotten while another process of it may run",
				    v->number);
}
