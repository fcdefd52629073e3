/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_pool.c - does anything grow with the pool? The engine alone, with 1,000 and with 10 million pages
 *
 * A host pool is allocated in full when it is made, so a pool of 10 million
 * pages is made here without its memory: the page engine in this process, which
 * is all of the broker that knows of pages.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cleanup.h"
#include "engine/engine.h"

#define BATCH 16
#define P     128
#define S     256ull /* bytes of a page */
#define TURNS 50
#define STEPS 64

/* What is timed, one after the other. */
enum part { PART_BEGIN, PART_PREFILL, PART_STEP, PART_FINISH, N_PARTS };

static const char *const part_names[N_PARTS] = { "begin", "prefill", "step", "finish" };

struct pool_run {
	double part[N_PARTS]; /* ns of all lives so far */
	enum part wanted;
	struct engine *engine;
	struct session *session;
	struct session_tables tables;
	struct workspace_of_step {
		struct wire_update updates[WIRE_MAX_INLINE_UPDATES];
		struct wire_row rows[BATCH];
		struct wire_entry_fault faults[1];
	} w;
};

static void fail(int code, const struct fault *f)
{
	char text[256];

	if (code == 0)
		return;
	fault_format(f, text, sizeof(text));
	bench_die("page engine: %s", text);
}

static void pool_init_run(struct pool_run *p, uint64_t pages)
{
	struct engine_config config = { .half_bytes = pages * S, .extent_bytes = pages * S };
	struct model m = { .n_groups = 1,
			   .n_streams = 1,
			   .max_batch = BATCH,
			   .max_seq = 131072,
			   .groups = { { .kind = WIRE_GROUP_SLIDING,
					 .page_tokens = P,
					 .window = 1024,
					 .layers = 1,
					 .kv_heads = 1,
					 .k_head_dim = 1,
					 .v_head_dim = 1,
					 .dtype = WIRE_F16 } } };
	struct geometry g[WIRE_MAX_GROUPS];
	struct fault f;

	p->engine = engine_new(&config);
	if (!p->engine)
		bench_die("out of memory");
	fail(model_check(&m, config.half_bytes, g, &f), &f);
	p->tables.cells = calloc((size_t)BATCH * 2 * (size_t)g[0].width, sizeof(int32_t));
	p->tables.rows = calloc(BATCH, sizeof(*p->tables.rows));
	p->session = p->tables.cells && p->tables.rows ? session_new(p->engine, &m, &p->tables, 1) : NULL;
	if (!p->session)
		bench_die("out of memory");
}

static void pool_deinit_run(struct pool_run *p)
{
	session_end(p->session);
	session_reclaim(p->session);
	session_free(p->session);
	engine_free(p->engine);
	free(p->tables.cells);
	free(p->tables.rows);
}

static uint64_t part_ends(const struct bench *b, struct pool_run *p, enum part part, uint64_t since)
{
	uint64_t now = ticks();

	p->part[part] += (double)(now - since) * b->ns_per_tick;
	return now;
}

static void step(struct pool_run *p, struct wire_step_entry *e, struct delivery *d)
{
	const struct step one = { .entries = e, .n = 1 };
	uint64_t armed = 0;
	struct fault f;
	uint32_t n;

	fail(step_prepare(p->session, &one, p->w.faults, &n, d, &f), &f);
	fail(n ? p->w.faults[0].fault.code : 0, &p->w.faults[0].fault);
	fail(step_complete(p->session, &one, &armed, p->w.faults, &n, &f), &f);
	fail(n ? p->w.faults[0].fault.code : 0, &p->w.faults[0].fault);
}

/* Begin, prefill, STEPS steps, finish. */
static void life(const struct bench *b, struct pool_run *p)
{
	struct delivery d = { .updates = p->w.updates, .rows = p->w.rows };
	struct wire_fence done = { .kind = WIRE_FENCE_DONE }, point = { .kind = WIRE_FENCE_POINT };
	struct wire_step_entry e = { .tokens = 1 };
	int32_t slots[BATCH], lengths[BATCH];
	uint64_t t = ticks();
	struct fault f;

	for (int i = 0; i < BATCH; i++) {
		slots[i] = i;
		lengths[i] = 4000;
	}
	fail(request_begin(p->session, 0, 0, slots, BATCH, &e.request, &f), &f);
	t = part_ends(b, p, PART_BEGIN, t);
	fail(request_prefill_prepare(p->session, e.request, lengths, BATCH, &d, &f), &f);
	fail(request_prefill_complete(p->session, e.request, &done, 0, &f), &f);
	t = part_ends(b, p, PART_PREFILL, t);
	for (int i = 0; i < STEPS; i++)
		step(p, &e, &d);
	t = part_ends(b, p, PART_STEP, t);
	fail(request_finish(p->session, e.request, &point, 0, &f), &f);
	part_ends(b, p, PART_FINISH, t);
}

static double sample_part(struct bench *b, void *arg)
{
	struct pool_run *p = arg;

	memset(p->part, 0, sizeof(p->part));
	for (int i = 0; i < TURNS; i++)
		life(b, p);
	return p->part[p->wanted] / (TURNS * (p->wanted == PART_STEP ? STEPS : 1));
}

/* One figure for each part, and for all of them together; their medians to @median. */
static void parts(struct bench *b, struct pool_run *p, const char *pool, double median[N_PARTS])
{
	char name[48];

	for (int i = 0; i < N_PARTS; i++) {
		snprintf(name, sizeof(name), "pool_%s_%s", pool, part_names[i]);
		p->wanted = (enum part)i;
		median[i] = bench_figure(b, name, sample_part, p)->median;
	}
}

static double resident_self(void)
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Rss:", 4))
			kib = atof(line + 4);
	return kib * 1024;
}

void figure_pool(struct bench *b)
{
	struct pool_run *p = calloc(1, sizeof(*p));
	double small[N_PARTS], large[N_PARTS], before;
	char name[48];

	if (!p)
		bench_die("out of memory");
	pool_init_run(p, 1000);
	parts(b, p, "1e3", small);
	pool_deinit_run(p);
	before = resident_self();
	pool_init_run(p, 10000000);
	life(b, p); /* gives the class its extent: every page is counted as free */
	results_value(b->results, "memory_10m_pages", UNIT_BYTES, resident_self() - before);
	parts(b, p, "1e7", large);
	pool_deinit_run(p);
	for (int i = 0; i < N_PARTS; i++) {
		snprintf(name, sizeof(name), "pool_%s_1e7_over_1e3", part_names[i]);
		results_value(b->results, name, UNIT_RATIO, large[i] / small[i]);
	}
	free(p);
}
