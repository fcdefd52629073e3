/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - from a seed to a pool, models and rates of faults */
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "sim.h"

static const char *const names[] = {
#define SIM_NAME(name, text) text,
	SIM_FAULTS(SIM_NAME)
#undef SIM_NAME
};
_Static_assert(sizeof(names) / sizeof(names[0]) == SIM_FAULT_COUNT, "a name for each fault");

const char *sim_fault_name(enum sim_fault f)
{
	return names[f];
}

/* What a group says in bytes, and how its pages lie. */
static void draw_bytes(struct wire_group *g, struct rng *r)
{
	if (rng_one_in(r, 2)) {
		g->kv_heads = g->k_head_dim = g->v_head_dim = g->dtype = 0;
		g->k_bytes = (uint32_t)rng_between(r, 1, 8);
		g->v_bytes = (uint32_t)rng_between(r, 0, 8);
	}
	g->form = rng_one_in(r, 4) ? WIRE_SPLIT : WIRE_JOINED;
	if (g->form == WIRE_JOINED)
		g->order = (uint32_t)rng_between(r, 0, WIRE_ORDER_ROWS);
	if (rng_one_in(r, 3)) { /* all parts are multiples of a grain */
		g->extra_bytes = (uint32_t)rng_between(r, 0, 40);
		g->align = MEMORY_GRAIN << rng_between(r, 0, 2);
	}
}

static struct wire_group draw_group(struct rng *r, bool full, bool bytes)
{
	struct wire_group g = {
		.kind = full ? WIRE_GROUP_FULL : WIRE_GROUP_SLIDING,
		.page_tokens = rng_one_in(r, 2) ? 16 : 32,
		.layers = (uint32_t)rng_between(r, 1, 3),
		.kv_heads = (uint32_t)rng_between(r, 1, 2),
		.k_head_dim = (uint32_t)rng_between(r, 1, 4),
		.dtype = WIRE_FP8,
	};

	g.v_head_dim = g.k_head_dim;
	if (!full)
		g.window = rng_between(r, 1, 5 * g.page_tokens);
	if (bytes)
		draw_bytes(&g, r);
	return g;
}

static void draw_model(struct model *m, struct rng *r, bool joined, bool moves)
{
	*m = (struct model){
		.n_groups = (uint32_t)rng_between(r, 1, SIM_GROUPS),
		.n_streams = (uint32_t)rng_between(r, 1, SIM_STREAMS),
		.max_batch = (int32_t)rng_between(r, 1, SIM_BATCH),
		.max_seq = rng_between(r, 32, 400),
		.max_advance = rng_one_in(r, 3) ? 0 : rng_between(r, 1, 20),
		.in_flight = (uint32_t)rng_between(r, 0, 4),
		.max_rewind = rng_one_in(r, 2) ? 0 : (uint32_t)rng_between(r, 1, 20),
		.chunk_mapped = rng_one_in(r, 2),
	};
	for (uint32_t i = 0; i < m->n_groups; i++)
		m->groups[i] = draw_group(r, rng_one_in(r, 3), joined && rng_one_in(r, 2));
	if (rng_one_in(r, 6)) { /* rows so long that what a step changes does not fit an answer */
		m->max_batch = SIM_BATCH;
		m->max_seq = rng_between(r, 1500, 5000);
		m->n_groups = 1;
		m->groups[0] = (struct wire_group){ .kind = WIRE_GROUP_FULL,
						    .page_tokens = 16,
						    .layers = 1,
						    .kv_heads = 1,
						    .k_head_dim = 1,
						    .v_head_dim = 1,
						    .dtype = WIRE_FP8 };
	}
	for (uint32_t i = 0; i < m->n_groups; i++)
		m->groups[i].flags = moves && !rng_one_in(r, 12) ? WIRE_GROUP_MOVABLE : 0;
}

static void draw_pool(struct plan *p, struct rng *r)
{
	uint64_t half = (uint64_t)rng_between(r, 64, rng_one_in(r, 2) ? 2048 : 400) * MEMORY_GRAIN * 8;

	p->ring = (struct ring_options){
		.engine = {
			.half_bytes = half,
			.extent_bytes = (uint64_t)rng_between(r, (int64_t)half / 24 / 16, (int64_t)half / 3 / 16) * 16,
			.scrub = (uint32_t)rng_between(r, WIRE_SCRUB_OWNER_CHANGE, WIRE_SCRUB_ALWAYS),
			.fresh_is_dirty = rng_one_in(r, 2),
			.stamps_a_ms = NS_PER_MS,
			.wait_claim = (uint64_t)rng_between(r, 1, 30) * NS_PER_MS,
			.claim_hold = (uint64_t)rng_between(r, 2, 200) * NS_PER_MS,
			.claim_max = (uint64_t)rng_between(r, 5, 1000) * NS_PER_MS,
		},
		.spin_ns = (uint64_t)rng_between(r, 0, 60) * NS_PER_US,
		.watchdog_ns = 2 * NS_PER_S,
		.budget = (uint32_t)rng_between(r, 1, 32),
		.slice = rng_one_in(r, 3) ? 0 : (uint32_t)rng_between(r, 1, 60), /* most work is cut */
	};
}

/* Sections that nobody attaches with keep page sizes for themselves: few are left for the others. */
static void draw_kept(struct config *c, struct rng *r)
{
	uint32_t dim = 61, n = ENGINE_MAX_CLASSES - (uint32_t)rng_between(r, 2, 8);

	c->n_models = (n + WIRE_MAX_GROUPS - 1) / WIRE_MAX_GROUPS;
	for (uint32_t i = 0; i < c->n_models; i++) {
		struct model *m = &c->models[i].model;

		*m = (struct model){ .n_streams = 1, .max_batch = 1, .max_seq = 32 };
		m->n_groups = n < WIRE_MAX_GROUPS ? n : WIRE_MAX_GROUPS;
		n -= m->n_groups;
		snprintf(c->models[i].name, sizeof(c->models[i].name), "kept%u", i);
		for (uint32_t g = 0; g < m->n_groups; g++)
			m->groups[g] = (struct wire_group){ .kind = WIRE_GROUP_SLIDING,
							    .page_tokens = 16,
							    .window = 16,
							    .layers = 1,
							    .kv_heads = 1,
							    .k_head_dim = dim++,
							    .dtype = WIRE_FP8 };
		for (uint32_t g = 0; g < m->n_groups; g++)
			m->groups[g].v_head_dim = m->groups[g].k_head_dim;
	}
}

static void draw_users(struct plan *p, struct rng *r)
{
	struct config *c = &p->config;

	p->n_uids = rng_one_in(r, 2) ? 1 : (uint32_t)rng_between(r, 2, SIM_USERS);
	for (uint32_t i = 0; i < p->n_uids; i++)
		p->uids[i] = p->n_uids == 1 ? geteuid() : 70001 + i;
	if (p->n_uids == 1)
		return;
	c->allow_uid.n = p->n_uids;
	for (uint32_t i = 0; i < p->n_uids; i++)
		c->allow_uid.ids[i] = p->uids[i];
	if (rng_one_in(r, 2))
		c->admin_uid = (struct config_ids){ 1, { p->uids[0] } };
}

static void draw_config(struct plan *p, struct rng *r)
{
	struct config *c = &p->config;
	bool cuda = rng_one_in(r, 3);

	config_init(c);
	draw_users(p, r);
	c->max_sessions = rng_one_in(r, 3) ? (uint32_t)rng_between(r, 1, SIM_WORKERS) : 2 * SIM_WORKERS;
	c->max_sessions_per_uid = rng_one_in(r, 4) ? (uint32_t)rng_between(r, 1, c->max_sessions) : c->max_sessions;
	c->max_half_open = (uint32_t)rng_between(r, 1, 6);
	c->hello_timeout_ms = (uint32_t)rng_between(r, 1, 30);
	c->reclaim_grace_ms = (uint32_t)rng_between(r, 5, 60);
	c->stop_wait_ms = (uint32_t)rng_between(r, 1, 100);
	c->watchdog_s = 2;
	p->pool = (struct backend_pool){
		.name = "sim",
		.backend = cuda ? WIRE_BACKEND_CUDA : WIRE_BACKEND_HOST,
		.export_kind = cuda && rng_one_in(r, 2) ? WIRE_EXPORT_CUDA_IPC : WIRE_EXPORT_MEMFD,
		.fd = -1,
		.half_bytes = p->ring.engine.half_bytes,
		.extent_bytes = p->ring.engine.extent_bytes,
		.table_area_bytes = (uint64_t)(rng_one_in(r, 3) ? rng_between(r, 2, 60) : 2000) * AREA_ALIGN,
	};
	p->pool.bytes = p->pool.table_area_bytes + 2 * p->pool.half_bytes;
	if (rng_one_in(r, 4))
		draw_kept(c, r);
	p->ring.max_sessions = c->max_sessions;
}

/*
 * Pages move in the steps of whoever does not stand still, while others wait, and where is decided anew every 2 ms at
 * best: such a world has time, what takes the broker a second takes it 50 ms, and work lasts beyond the next step.
 */
static void draw_movers(struct plan *p, struct rng *r)
{
	static const enum sim_fault rare[] = { SIM_STOPS, SIM_DEATHS, SIM_FORGED, SIM_FULL };

	p->ring.engine.extent_bytes = p->ring.engine.half_bytes / (uint64_t)rng_between(r, 12, 30) / 16 * 16;
	p->pool.extent_bytes = p->ring.engine.extent_bytes;
	p->ring.engine.stamps_a_ms /= 20;
	p->think_ns *= 8;
	p->kernel_ns *= 20;
	p->n_workers = p->n_workers < 4 ? 4 : p->n_workers;
	p->rate[SIM_TAKES] = 0; /* what workers manage themselves stays where it is */
	p->rate[SIM_MISSING] = 0;
	for (size_t i = 0; i < sizeof(rare) / sizeof(rare[0]); i++)
		p->rate[rare[i]] *= 10;
}

void plan_make(struct plan *p, struct rng *r, const struct sim_options *o)
{
	bool joined = rng_one_in(r, 2) && !(o->without >> SIM_JOINED & 1);
	bool moves = rng_one_in(r, 2) && !(o->without >> SIM_MOVES & 1);
	struct fault f;

	*p = (struct plan){ .n_models = (uint32_t)rng_between(r, 1, SIM_MODELS) };
	draw_pool(p, r);
	p->ring.shared_budget = o->seed % 8 == 5 ? 2 : 0; /* nothing is drawn for it */
	for (uint32_t i = 0; i < p->n_models; i++) {
		do
			draw_model(&p->models[i], r, joined, moves);
		while (model_check(&p->models[i], p->ring.engine.half_bytes, p->geometry[i], &f) != 0);
		if (rng_one_in(r, 4))
			p->floors[i] = p->ring.engine.half_bytes * 2 / (uint64_t)rng_between(r, 6, 20);
	}
	draw_config(p, r);
	p->n_workers = (uint32_t)rng_between(r, 1, SIM_WORKERS);
	p->think_ns = (uint64_t)rng_between(r, 500, 30000);
	p->kernel_ns = (uint64_t)rng_between(r, 500, 60000);
	/* Some worlds are rough, some are calm, and each has faults of its own. */
	for (int i = 0; i < SIM_FAULT_COUNT; i++) {
		uint32_t rate = (uint32_t)rng_between(r, 1, 4);

		p->rate[i] = rng_one_in(r, 3) ? 0 : 100u << (2 * rate);
		if (o->without >> i & 1)
			p->rate[i] = 0;
	}
	p->rate[SIM_LATE] /= 10;
	p->rate[SIM_POISON] /= 4;
	p->rate[SIM_HALF_OPEN] = p->rate[SIM_HALF_OPEN] ? (uint32_t)rng_between(r, 2, 20) : 0; /* of attaches */
	p->rate[SIM_ORDERS] /= 10; /* of looks at the world */
	p->rate[SIM_FILES] /= 10;
	if (moves)
		draw_movers(p, r);
	if (o->max_workers && p->n_workers > o->max_workers)
		p->n_workers = o->max_workers;
	p->rate[SIM_STOP] = p->rate[SIM_STOP] ? 4 : 0;                                /* of worlds */
	p->rate[SIM_PROCESSES] = p->rate[SIM_PROCESSES] ? 2 : 0;                      /* of those that may come */
	p->rate[SIM_TURNS] = p->rate[SIM_TURNS] ? (uint32_t)rng_between(r, 2, 9) : 0; /* of what workers do */
	p->rate[SIM_TAKES] = p->rate[SIM_TAKES] ? (uint32_t)rng_between(r, 1, 3) : 0; /* of workers */
}
