/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_growth.c - does anything grow with the pool? The engine alone, with 1,000 and with 10 million pages
 *
 * A host pool is allocated in full when it is made, so a pool of 10 million
 * pages is made here without its memory: the page engine in this process, which
 * is all of the broker that knows of pages. Samples of the two pools take turns,
 * so that what disturbs the machine disturbs both; medians of 9 samples.
 *
 * usage: pool-growth     prints one JSON object
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "clock.h"
#include "engine/engine.h"
#include "names.h"

#define BATCH 16
#define P     128
#define S     256ull /* bytes of a page */
#define TURNS 50
#define STEPS 64

enum { N_SAMPLES = 9 };

/* What is timed, one after the other. */
enum part { PART_BEGIN, PART_PREFILL, PART_STEP, PART_FINISH, N_PARTS };

NAMES(part_names, N_PARTS, "begin", "prefill", "step", "finish");

struct pool_run {
	double part[N_PARTS]; /* ns of all lives of this sample */
	double sample[N_PARTS][N_SAMPLES];
	struct engine *engine;
	struct session *session;
	struct session_tables tables;
	struct workspace_of_step {
		struct wire_update updates[WIRE_MAX_INLINE_UPDATES];
		struct wire_row rows[BATCH];
		struct wire_entry_fault faults[1];
	} w;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "pool-growth: %s\n", what);
	exit(1);
}

static void fail(int code, const struct fault *f)
{
	char text[256];

	if (code == 0)
		return;
	fault_format(f, text, sizeof(text));
	die(text);
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
		die("out of memory");
	fail(model_check(&m, config.half_bytes, g, &f), &f);
	p->tables.cells = calloc((size_t)BATCH * 2 * (size_t)g[0].width, sizeof(int32_t));
	p->tables.rows = calloc(BATCH, sizeof(*p->tables.rows));
	p->session = p->tables.cells && p->tables.rows ? session_new(p->engine, &m, &p->tables, 1) : NULL;
	if (!p->session)
		die("out of memory");
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

static uint64_t part_ends(struct pool_run *p, enum part part, uint64_t since)
{
	uint64_t now = clock_ns();

	p->part[part] += (double)(now - since);
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
static void life(struct pool_run *p)
{
	struct delivery d = { .updates = p->w.updates, .rows = p->w.rows };
	struct wire_fence done = { .kind = WIRE_FENCE_DONE }, point = { .kind = WIRE_FENCE_POINT };
	struct wire_step_entry e = { .tokens = 1 };
	int32_t slots[BATCH], lengths[BATCH];
	uint64_t t = clock_ns();
	struct fault f;

	for (int i = 0; i < BATCH; i++) {
		slots[i] = i;
		lengths[i] = 4000;
	}
	fail(request_begin(p->session, 0, 0, slots, BATCH, &e.request, &f), &f);
	t = part_ends(p, PART_BEGIN, t);
	fail(request_prefill_prepare(p->session, e.request, lengths, BATCH, &d, &f), &f);
	fail(request_prefill_complete(p->session, e.request, &done, 0, &f), &f);
	t = part_ends(p, PART_PREFILL, t);
	for (int i = 0; i < STEPS; i++)
		step(p, &e, &d);
	t = part_ends(p, PART_STEP, t);
	fail(request_finish(p->session, e.request, &point, 0, &f), &f);
	part_ends(p, PART_FINISH, t);
}

static void take_sample(struct pool_run *p, int index)
{
	memset(p->part, 0, sizeof(p->part));
	for (int i = 0; i < TURNS; i++)
		life(p);
	for (int part = 0; part < N_PARTS; part++)
		p->sample[part][index] = p->part[part] / (TURNS * (part == PART_STEP ? STEPS : 1));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double values[N_SAMPLES])
{
	qsort(values, N_SAMPLES, sizeof(*values), by_value);
	return values[N_SAMPLES / 2];
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

static void print(struct pool_run *small, struct pool_run *large, double bytes)
{
	printf("{\n \"memory_10m_pages_bytes\": %.0f", bytes);
	for (int i = 0; i < N_PARTS; i++) {
		double few = median(small->sample[i]), many = median(large->sample[i]);

		printf(",\n \"pool_1e3_%s_ns\": %.1f,\n \"pool_1e7_%s_ns\": %.1f,\n \"pool_%s_1e7_over_1e3\": %.3f",
		       part_names[i], few, part_names[i], many, part_names[i], many / few);
	}
	puts("\n}");
}

int main(void)
{
	static struct pool_run small, large;
	double before;

	pool_init_run(&small, 1000);
	life(&small);
	before = resident_self();
	pool_init_run(&large, 10000000);
	life(&large); /* gives the class its extent: every page is counted as free */
	before = resident_self() - before;
	for (int i = 0; i < N_SAMPLES; i++) {
		take_sample(&small, i);
		take_sample(&large, i);
	}
	pool_deinit_run(&small);
	pool_deinit_run(&large);
	print(&small, &large, before);
	return 0;
}
