/* SPDX-License-Identifier: Apache-2.0 */
/* orders.c - see orders.h */
#include "orders.h"

#include <string.h>
#include <unistd.h>

#include "admin_wire.h"
#include "clock.h"
#include "sim.h"

static void leave(void *arg)
{
	struct administrator *a = arg;

	if (!a->process)
		return;
	event_cancel(&a->news);
	a->connection->news = NULL;
	process_exit(a->world, a->process);
	a->process = NULL;
}

/* Whoever was drained may attach from now on. */
static void note_off(struct world *w, const struct administrator *a)
{
	for (uint32_t i = 0; i < w->plan.n_models; i++) {
		if (a->model >= 0 && a->model != (int32_t)i)
			continue;
		if (w->drained[i] || w->drained_all)
			w->drained_last[i] = w->now;
		w->drained[i] = false;
	}
	if (a->model < 0)
		w->drained_all = false;
}

static void ask(struct administrator *a)
{
	struct world *w = a->world;
	struct admin_request r = { .magic = ADMIN_MAGIC, .size = sizeof(r), .version = ADMIN_VERSION };
	int what = (int)rng_between(&w->rng, 0, a->alone ? 5 : 3);

	a->asked = true;
	a->off = false;
	switch (what) {
	case 0:
		r.op = ADMIN_PING;
		break;
	case 1:
		r.op = ADMIN_LIST;
		break;
	case 2:
	case 3:
		r.op = what == 2 ? ADMIN_KILL : ADMIN_DISCONNECT;
		r.session = (uint32_t)rng_between(&w->rng, 1, w->plan.config.max_sessions);
		break;
	default: /* what is drained is soon not drained any more */
		r.op = ADMIN_DRAIN;
		a->off = w->drained_all || w->drained[0];
		a->model = a->off && w->drained_all ? -1 : a->off || rng_one_in(&w->rng, 2) ? 0 : -1;
		r.flags = a->off ? ADMIN_OFF : 0;
		if (a->model >= 0)
			memcpy(r.model, "m0", 2);
		if (!a->off)
			*(a->model < 0 ? &w->drained_all : &w->drained[0]) = true;
	}
	a->op = r.op;
	connection_say(w, a->connection, a->process->pid, &r, sizeof(r));
	if (rng_one_in(&w->rng, 5) && r.op != ADMIN_DRAIN) /* and does not wait for the answer */
		event_at(&w->events, &a->act, world_soon(w, 100 * NS_PER_US));
}

static void read_answer(struct administrator *a)
{
	struct world *w = a->world;
	struct admin_reply r;

	memcpy(&r, a->connection->answer, sizeof(r));
	if (r.op != a->op)
		world_break(w, "an administrator asked for %u and got the answer to %u", a->op, r.op);
	if ((a->op == ADMIN_PING || a->op == ADMIN_DRAIN) && r.code && !w->ends)
		world_break(w, "an administrator was refused: %s", r.text);
	world_trace(w, "administrator: op %u: code %d, %s", a->op, r.code, r.text);
	w->orders++;
	if (a->op == ADMIN_DRAIN && a->off)
		note_off(w, a);
	leave(a);
}

static void on_news(void *arg)
{
	struct administrator *a = arg;
	struct world *w = a->world;
	struct admin_greeting g;

	if (!a->process)
		return;
	if (a->asked && a->connection->answered) {
		a->connection->answered = false;
		read_answer(a);
		return;
	}
	if (a->connection->answered && !a->asked) {
		memcpy(&g, a->connection->answer, sizeof(g));
		a->connection->answered = false;
		if (g.code && g.code != SWAKV_EBUSY && a->may)
			world_break(w, "an administrator was not let in: %s", g.text);
		if (!g.code && !a->may)
			world_break(w, "one who is none was let in as an administrator");
		if (g.code)
			leave(a);
		else if (!rng_one_in(&w->rng, 8)) /* else it says nothing, until its time is over */
			ask(a);
		return;
	}
	if (a->connection->closed_there)
		leave(a);
}

static void news(void *arg)
{
	struct administrator *a = arg;

	if (!a->news.token)
		event_at(&a->world->events, &a->news, world_soon(a->world, 50 * NS_PER_US));
}

void orders_come(struct world *w, struct administrator *a)
{
	uid_t uid = rng_one_in(&w->rng, 3) ? w->plan.uids[rng_between(&w->rng, 0, w->plan.n_uids - 1)] : geteuid();

	if (a->process || !w->kernel.listening[1])
		return;
	*a = (struct administrator){ .world = w, .alone = a == &w->administrators[0] };
	a->act = (struct event){ .run = leave, .arg = a };
	a->news = (struct event){ .run = on_news, .arg = a };
	a->may = uid == 0 || uid == geteuid() || (w->plan.config.admin_uid.n && uid == w->plan.config.admin_uid.ids[0]);
	a->process = process_new(w, NULL);
	a->connection = connection_new(w, a->process, uid, true);
	a->connection->news = news;
	a->connection->arg = a;
}

bool orders_drained(const struct world *w, uint32_t model, uint64_t sent)
{
	return w->drained_all || w->drained[model] || sent <= w->drained_last[model];
}
