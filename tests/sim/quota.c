/* SPDX-License-Identifier: Apache-2.0 */
/* quota.c - see quota.h */
#include "quota.h"

#include <inttypes.h>

#include "clock.h"
#include "sim.h"
#include "worker.h"

struct usage_tally {
	uint64_t half_open, admins, processes, sessions, tables;
	uint32_t n_sizes;
	struct page_key sizes[SIM_WORKERS * SIM_GROUPS + SIM_GROUPS]; /* common page sizes in use */
};

void quota_init(struct world *w)
{
	struct config *c = &w->plan.config;
	struct geometry g[WIRE_MAX_GROUPS];

	w->n_kept = 0;
	for (uint32_t i = 0; i < c->n_models; i++) {
		if (model_check(&c->models[i].model, w->plan.pool.half_bytes, g, NULL) != 0)
			continue;
		for (uint32_t k = 0; k < c->models[i].model.n_groups && w->n_kept < ENGINE_MAX_CLASSES; k++) {
			uint32_t n = 0;

			while (n < w->n_kept && !page_key_equal(w->kept[n], geometry_key(&g[k])))
				n++;
			if (n == w->n_kept)
				w->kept[w->n_kept++] = geometry_key(&g[k]);
		}
	}
}

static void add_size(const struct world *w, struct usage_tally *t, struct page_key key)
{
	for (uint32_t i = 0; i < w->n_kept; i++)
		if (page_key_equal(w->kept[i], key))
			return;
	for (uint32_t i = 0; i < t->n_sizes; i++)
		if (page_key_equal(t->sizes[i], key))
			return;
	t->sizes[t->n_sizes++] = key;
}

static void add_model(const struct world *w, struct usage_tally *t, uint32_t model)
{
	for (uint32_t i = 0; i < w->plan.models[model].n_groups; i++)
		add_size(w, t, geometry_key(&w->plan.geometry[model][i]));
}

static uint64_t tables_of(const struct session_layout *l)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < l->n_groups; i++)
		sum += area_rounded(l->cells_bytes[i]);
	return sum;
}

/* What @uid has; @all: what all have. */
static void reckon(const struct world *w, uid_t uid, bool all, struct usage_tally *t)
{
	const struct kernel *k = &w->kernel;
	const struct shared *s;

	*t = (struct usage_tally){ 0 };
	for (uint32_t i = 0; i < KERNEL_FILES; i++) {
		const struct kfile *f = k->files[i];

		if (!f || !f->connection || !(all || f->connection->uid == uid))
			continue;
		t->half_open += f->kind == KFILE_SOCKET && !f->connection->admin && !f->connection->heard;
		t->admins += f->kind == KFILE_SOCKET && f->connection->admin;
		t->processes += f->kind == KFILE_PIDFD;
	}
	STAILQ_FOREACH (s, &k->memories, link) {
		if (!all && s->connection->uid != uid)
			continue;
		t->sessions++;
		t->tables += tables_of(&s->layout);
		add_model(w, t, s->connection->model_index);
	}
}

/* A user's share. */
static uint64_t one_of(const struct world *w, uint64_t all)
{
	return w->plan.n_uids > 1 && all > 1 ? all / 2 : all;
}

static uint64_t sessions_of_one(const struct world *w)
{
	uint64_t share = one_of(w, w->plan.config.max_sessions), said = w->plan.config.max_sessions_per_uid;

	return share < said ? share : said;
}

/* ---- after a turn ------------------------------------------------------------------------ */

static void same(struct world *w, const char *who, const char *what, uint64_t charged, uint64_t counted)
{
	if (charged != counted)
		world_break(w, "%s charged with %" PRIu64 " %s, and there are %" PRIu64, who, charged, what, counted);
}

static void at_most(struct world *w, const char *who, const char *what, uint64_t n, uint64_t most)
{
	if (n > most)
		world_break(w, "%s %" PRIu64 " %s, and %" PRIu64 " are allowed", who, n, what, most);
}

static void check_all(struct world *w)
{
	const struct ledger *l = &w->control.places.ledger;
	const struct config *c = &w->plan.config;
	struct usage_tally t;

	reckon(w, 0, true, &t);
	same(w, "all are", "half-open connections", l->used[LEDGER_HALF_OPEN], t.half_open);
	same(w, "all are", "sessions, present and lingering,", l->used[LEDGER_SESSIONS] + l->used[LEDGER_LINGERING],
	     t.processes);
	same(w, "all are", "bytes of tables", l->used[LEDGER_TABLES], t.tables);
	same(w, "the area is", "bytes of tables", w->control.places.tables.used, t.tables);
	at_most(w, "all have", "half-open connections", t.half_open, c->max_half_open);
	at_most(w, "all have", "sessions", t.sessions, c->max_sessions);
	at_most(w, "all have", "sessions that are not charged", t.sessions, l->used[LEDGER_SESSIONS]);
	at_most(w, "all have", "common page sizes", t.n_sizes, ENGINE_MAX_CLASSES - w->n_kept);
	at_most(w, "all have", "administrators", t.admins, ADMIN_MAX_CONNECTIONS);
}

static void check_user(struct world *w, uid_t uid)
{
	const struct ledger *l = &w->control.places.ledger;
	struct usage_tally t;

	reckon(w, uid, false, &t);
	same(w, "a user is", "half-open connections", ledger_of(l, uid, LEDGER_HALF_OPEN), t.half_open);
	same(w, "a user is", "sessions, present and lingering,",
	     ledger_of(l, uid, LEDGER_SESSIONS) + ledger_of(l, uid, LEDGER_LINGERING), t.processes);
	same(w, "a user is", "bytes of tables", ledger_of(l, uid, LEDGER_TABLES), t.tables);
	same(w, "a user is", "page sizes", ledger_of(l, uid, LEDGER_PAGE_SIZES), t.n_sizes);
	/* One that has left keeps its place until the ring thread has answered. */
	at_most(w, "a user has", "connections of administrators that are not charged", t.admins,
		ledger_of(l, uid, LEDGER_ADMINS));
	at_most(w, "a user has", "half-open connections", t.half_open, one_of(w, w->plan.config.max_half_open));
	at_most(w, "a user has", "sessions", t.sessions, sessions_of_one(w));
	at_most(w, "a user has", "bytes of tables", t.tables, one_of(w, w->plan.pool.table_area_bytes));
	at_most(w, "a user has", "page sizes", t.n_sizes, one_of(w, ENGINE_MAX_CLASSES - w->n_kept));
}

/* Who says no hello in time is not there any more. */
static void check_time(struct world *w)
{
	const struct config *c = &w->plan.config;

	for (uint32_t i = 0; i < KERNEL_FILES; i++) {
		const struct kfile *f = w->kernel.files[i];

		if (f && f->kind == KFILE_SOCKET && !f->connection->heard && !f->connection->admin &&
		    w->now - f->connection->since > (c->hello_timeout_ms + 1) * NS_PER_MS)
			world_break(w, "worker %u has said no hello for %.1f ms, and may have %u",
				    f->connection->process->number, (double)(w->now - f->connection->since) / 1e6,
				    c->hello_timeout_ms);
	}
}

void quota_check(struct world *w)
{
	check_time(w);
	check_all(w);
	for (uint32_t i = 0; i < w->plan.n_uids; i++)
		check_user(w, w->plan.uids[i]);
}

void quota_check_empty(struct world *w)
{
	const struct kernel *k = &w->kernel;

	for (int i = 0; i < LEDGER_N_ITEMS; i++)
		if (w->control.places.ledger.used[i])
			world_break(w, "%" PRIu64 " of item %d are charged, and nobody is there",
				    w->control.places.ledger.used[i], i);
	if (!STAILQ_EMPTY(&k->memories))
		world_break(w, "the broker keeps a session's memory, and nobody is there");
	for (uint32_t i = 0; i < KERNEL_FILES; i++)
		if (k->files[i] && k->files[i]->kind != KFILE_LISTENING && k->files[i]->kind != KFILE_SPARE)
			world_break(w, "the broker keeps a descriptor of kind %d, and nobody is there",
				    k->files[i]->kind);
}

/* ---- answers to a hello ------------------------------------------------------------------------ */

void quota_check_welcome(struct world *w, struct connection *c)
{
	if (c->lies)
		world_break(w, "a hello that is none was welcomed");
	if (c->stranger)
		world_break(w, "a process that may not joined a session");
	if (c->shared->connection != (c->joins ? c->joins : c))
		world_break(w, "a worker was given the memory of another");
}

/* Sessions of others that were in its way, as far as they are counted. */
static uint64_t counted(const struct world *w, const struct usage_tally *t, uid_t uid, bool all)
{
	const struct ledger *l = &w->control.places.ledger;
	uint64_t lingering = all ? l->used[LEDGER_LINGERING] : ledger_of(l, uid, LEDGER_LINGERING);

	return t->processes - 1 - lingering; /* it has a pidfd itself */
}

/* The session that it asks for may be joined, as far as can be seen from here. */
static bool could_join(const struct connection *c)
{
	const struct connection *first = c->joins;
	const struct worker *v = first->process->worker;

	return !c->stranger && v->connection == first && v->state == WORKER_LIVE && !first->told_end &&
	       !first->closed_there && !first->closed_here && !first->process->exited && !v->must_be_ended;
}

static bool is_so(const struct world *w, const struct connection *c, enum fault_reason reason)
{
	const struct config *config = &w->plan.config;
	uint32_t m = c->model_index, common = ENGINE_MAX_CLASSES - w->n_kept;
	struct session_layout layout;
	struct usage_tally all, own;
	uint64_t need;

	session_layout_init(&layout, &w->plan.models[m], w->plan.geometry[m]);
	need = tables_of(&layout);
	reckon(w, 0, true, &all);
	reckon(w, c->uid, false, &own);
	switch (reason) {
	case FAULT_SESSIONS_FULL:
		return counted(w, &all, 0, true) >= config->max_sessions;
	case FAULT_UID_SESSIONS:
		return counted(w, &own, c->uid, false) >= sessions_of_one(w);
	case FAULT_UID_HALF_OPEN: /* its own connection is one of them */
		return own.half_open > one_of(w, config->max_half_open);
	case FAULT_TABLE_NEVER:
		return need > w->control.places.table_share;
	case FAULT_TABLE_AREA:
		return all.tables > 0;
	case FAULT_UID_TABLES:
		return own.tables + need > one_of(w, w->plan.pool.table_area_bytes);
	case FAULT_PAGE_SIZES:
		add_model(w, &all, m);
		return all.n_sizes > common;
	case FAULT_UID_PAGE_SIZES:
		add_model(w, &own, m);
		return own.n_sizes > one_of(w, common);
	case FAULT_DRAINED:
		return w->drained[m] || w->drained_all;
	case FAULT_JOIN:
		return c->joins && !could_join(c);
	case FAULT_STOPPING:
		return w->control.stop_at != 0;
	case FAULT_BROKER_FILES:
		return kernel_starved(w);
	case FAULT_NO_PIDFD:
		return c->lies || kernel_starved(w);
	default:
		return c->lies;
	}
}

void quota_check_refusal(struct world *w, struct connection *c)
{
	const struct fault *f = &c->welcome.fault;

	if (c->admin)
		return;
	world_trace(w, "worker %u is refused: %s", c->process->number, c->welcome.text);
	w->refused++;
	if (!is_so(w, c, (enum fault_reason)f->reason))
		world_break(w, "worker %u was refused, and it is not so: %s", c->process->number, c->welcome.text);
}

void quota_check_hung_up(struct world *w, struct connection *c)
{
	if (!c->answered && !c->closed_here && w->now - c->since < w->plan.config.hello_timeout_ms * NS_PER_MS &&
	    !w->ends)
		world_break(w, "worker %u was hung up on before its time", c->process->number);
}
