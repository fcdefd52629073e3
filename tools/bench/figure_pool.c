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
#define TURNS 200

struct pool_run {
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

/* Begin, prefill, 64 steps, finish; nanoseconds in all. */
static double life(struct pool_run *p)
{
	struct delivery d = { .updates = p->w.updates, .rows = p->w.rows };
	struct wire_fence done = { .kind = WIRE_FENCE_DONE }, point = { .kind = WIRE_FENCE_POINT };
	struct wire_step_entry e = { .tokens = 1 };
	int32_t slots[BATCH], lengths[BATCH];
	uint64_t start = now_ns(), armed = 0;
	struct fault f;
	uint32_t n;

	for (int i = 0; i < BATCH; i++) {
		slots[i] = i;
		lengths[i] = 4000;
	}
	fail(request_begin(p->session, 0, 0, slots, BATCH, &e.request, &f), &f);
	fail(request_prefill_prepare(p->session, e.request, lengths, BATCH, &d, &f), &f);
	fail(request_prefill_complete(p->session, e.request, &done, 0, &f), &f);
	for (int i = 0; i < 64; i++) {
		fail(step_prepare(p->session, &(struct step){ .entries = &e, .n = 1 }, p->w.faults, &n, &d, &f), &f);
		fail(n ? p->w.faults[0].fault.code : 0, &p->w.faults[0].fault);
		fail(step_complete(p->session, &(struct step){ .entries = &e, .n = 1 }, &armed, p->w.faults, &n, &f),
		     &f);
		fail(n ? p->w.faults[0].fault.code : 0, &p->w.faults[0].fault);
	}
	fail(request_finish(p->session, e.request, &point, 0, &f), &f);
	return (double)(now_ns() - start);
}

static double sample_life(struct bench *b, void *arg)
{
	double sum = 0;

	for (int i = 0; i < TURNS; i++)
		sum += life(arg);
	return sum / TURNS;
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
	struct figure *small, *large;
	double before;

	if (!p)
		bench_die("out of memory");
	pool_init_run(p, 1000);
	small = bench_figure(b, "pool_1e3_life", sample_life, p);
	pool_deinit_run(p);
	before = resident_self();
	pool_init_run(p, 10000000);
	life(p); /* gives the class its extent: every page is counted as free */
	results_value(b->results, "memory_10m_pages", UNIT_BYTES, resident_self() - before);
	large = bench_figure(b, "pool_1e7_life", sample_life, p);
	pool_deinit_run(p);
	results_value(b->results, "pool_1e7_over_1e3", UNIT_RATIO, large->median / small->median);
	free(p);
}
