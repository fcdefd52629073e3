/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a step still read while the next steps are prepared and enqueued,
 * which write the pages that it left behind (spec sections 2 and 6).
 *
 * A gate holds the stream; behind it each step checks all pages of its row, fills
 * a new one with a pattern of its own, and keeps a copy of the row as it found it.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"
#include "live.h"

enum { P = 16, WINDOW = 32, MOST_STEPS = 60, MOST_PAGES = 1024, PATTERNS = 256 };

static struct live live;
static atomic_bool gate_open;
static atomic_uint wrong; /* 16-bit elements, on the host backend */

static void setup(void)
{
	live_start(&live, "1M");
}

static void teardown(void)
{
	live_stop(&live);
}

TestSuite(order, .init = setup, .fini = teardown, .timeout = 100);

static void gate(void *arg)
{
	while (!gate_open)
		usleep(500);
}

/* What the work of the steps needs on the device, made before anything is held. */
static struct {
	swakv_session *s;
	struct swakv_layout l;
	struct kernel_pages pages;
	struct driver *d;         /* NULL: host backend */
	uint64_t lists, patterns; /* device: page i at lists[i], pattern i at patterns[i] */
	uint64_t counts;          /* device: of wrong elements */
	uint64_t rows;            /* device: [MOST_STEPS][width] */
	int32_t *seen, *expected; /* host: the same, as found and as it should be */
	int n_steps;
} work;

#define DEVICE_OK(call) cr_assert_eq(call, 0, "%s: %s", #call, driver_why(work.d))

static uint64_t upload(const void *data, size_t bytes)
{
	uint64_t at;

	DEVICE_OK(driver_alloc(work.d, bytes, &at));
	DEVICE_OK(driver_copy_to_device(work.d, NULL, at, data, bytes));
	DEVICE_OK(driver_stream_synchronize(work.d, NULL));
	return at;
}

static void work_init_device(void)
{
	static int32_t list[MOST_PAGES];
	static uint16_t patterns[PATTERNS];
	static const uint32_t counts[1];

	for (int32_t i = 0; i < MOST_PAGES; i++)
		list[i] = i;
	for (int i = 0; i < PATTERNS; i++)
		patterns[i] = (uint16_t)i;
	DEVICE_OK(driver_load_image(work.d, &kernel_image_engine));
	work.lists = upload(list, sizeof(list));
	work.patterns = upload(patterns, sizeof(patterns));
	work.counts = upload(counts, sizeof(counts));
	work.rows = upload(work.seen, MOST_STEPS * (size_t)work.l.width * sizeof(int32_t));
}

static void work_init(swakv_session *s)
{
	size_t cells;

	work.s = s;
	work.d = live_driver(s);
	work.l.size = sizeof(work.l);
	LIVE_OK(s, swakv_session_get_layout(s, 0, &work.l));
	cr_assert_leq(work.l.num_pages, MOST_PAGES);
	work.pages = (struct kernel_pages){
		.half = { work.l.first_page, work.l.v_first },
		.page_stride = work.l.page_stride,
		.num_pages = work.l.num_pages,
	};
	cells = MOST_STEPS * (size_t)work.l.width;
	work.seen = calloc(cells, sizeof(int32_t));
	work.expected = calloc(cells, sizeof(int32_t));
	if (work.d)
		work_init_device();
}

/* ---- work of a step, in stream order --------------------------------------------------- */

struct job {
	int32_t page;
	uint16_t pattern;
	int step;
};

static void host_fill(void *arg)
{
	struct job *j = arg;
	struct kernel_fill f = {
		.pages = work.pages, .page_list = (uint64_t)(uintptr_t)&j->page, .n_pages = 1, .pattern = j->pattern
	};

	kernel_fill_cpu(&f);
	free(j);
}

static void host_check(void *arg)
{
	struct job *j = arg;
	uint32_t count = 0;
	struct kernel_check c = { .pages = work.pages,
				  .page_list = (uint64_t)(uintptr_t)&j->page,
				  .patterns = (uint64_t)(uintptr_t)&j->pattern,
				  .counts = (uint64_t)(uintptr_t)&count,
				  .n_pages = 1 };

	kernel_check_cpu(&c);
	wrong += count;
	free(j);
}

static void host_keep_row(void *arg)
{
	struct job *j = arg;

	memcpy(work.seen + (size_t)j->step * (size_t)work.l.width, (void *)(uintptr_t)work.l.table,
	       (size_t)work.l.width * sizeof(int32_t));
	free(j);
}

static void launch(void (*fn)(void *), struct job job)
{
	struct job *j = malloc(sizeof(*j));

	*j = job;
	live_launch(work.s, 0, fn, j);
}

static void enqueue_fill(int32_t page, uint16_t pattern)
{
	const struct kernel_fill f = { .pages = work.pages,
				       .page_list = work.lists + (uint64_t)page * sizeof(int32_t),
				       .n_pages = 1,
				       .pattern = pattern };

	if (work.d)
		DEVICE_OK(driver_run_fill(work.d, swakv_stream_cuda(work.s, 0), &f));
	else
		launch(host_fill, (struct job){ .page = page, .pattern = pattern });
}

static void enqueue_check(int32_t page, uint16_t pattern)
{
	const struct kernel_check c = { .pages = work.pages,
					.page_list = work.lists + (uint64_t)page * sizeof(int32_t),
					.patterns = work.patterns + pattern * sizeof(uint16_t),
					.counts = work.counts,
					.n_pages = 1 };

	if (work.d)
		DEVICE_OK(driver_run_check(work.d, swakv_stream_cuda(work.s, 0), &c));
	else
		launch(host_check, (struct job){ .page = page, .pattern = pattern });
}

static void enqueue_keep_row(void)
{
	size_t bytes = (size_t)work.l.width * sizeof(int32_t);

	if (work.d)
		DEVICE_OK(driver_copy(work.d, swakv_stream_cuda(work.s, 0), work.rows + (uint64_t)work.n_steps * bytes,
				      work.l.table, bytes));
	else
		launch(host_keep_row, (struct job){ .step = work.n_steps });
	memcpy(work.expected + (size_t)work.n_steps * (size_t)work.l.width, work.l.host_table, bytes);
	work.n_steps++;
}

/* Pattern that each column of the row was filled with last. */
static uint16_t pattern_of[MOST_PAGES];

/* The kernels of one step: reads of what it has, and a write of what it maps. */
static void enqueue_step(int32_t first_new, int32_t end_new)
{
	static uint16_t last;

	enqueue_keep_row();
	for (int32_t c = 0; c < work.l.width; c++)
		if (work.l.host_table[c] >= 0 && (c < first_new || c >= end_new))
			enqueue_check(work.l.host_table[c], pattern_of[c]);
	for (int32_t c = first_new; c < end_new; c++) {
		pattern_of[c] = last = (uint16_t)(last % (PATTERNS - 1) + 1);
		enqueue_fill(work.l.host_table[c], pattern_of[c]);
	}
}

static struct swakv_fence marked(void)
{
	struct swakv_fence fence;

	LIVE_OK(work.s, swakv_stream_mark(work.s, 0, &fence));
	return fence;
}

/* ---- the request ------------------------------------------------------------------------- */

static swakv_session *attach(uint32_t max_rewind)
{
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_SLIDING,
				       .window = WINDOW,
				       .page_tokens = P,
				       .layers = 2,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16 };
	const struct swakv_model m = { .size = sizeof(m),
				       .name = "order",
				       .groups = &g,
				       .n_groups = 1,
				       .max_batch = 1,
				       .max_seq = 4096,
				       .max_advance = 1,
				       .in_flight = MOST_STEPS,
				       .max_rewind = max_rewind,
				       .chunk = SWAKV_CHUNK_MAPPED };
	swakv_session *s;
	char why[512] = "";

	cr_assert_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), 0, "%s", why);
	if (live_is_cuda())
		LIVE_OK(s, swakv_stream_bind_cuda(s, 0, NULL));
	else
		LIVE_OK(s, swakv_stream_bind_host(s, 0, true));
	work_init(s);
	return s;
}

/* A request with @length tokens, whose prefill has filled its pages, on a stream that a gate holds from there on. */
static swakv_request *start(swakv_session *s, int32_t length)
{
	const int32_t slot = 0;
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = &slot, .n_slots = 1 };
	swakv_request *r;

	LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
	LIVE_OK(s, swakv_prefill_prepare(r, &length, 1, NULL));
	enqueue_step(length > WINDOW ? (length - WINDOW) / P : 0, (length + P - 1) / P);
	for (int32_t c = 0; c < work.l.width; c++) /* every kernel has run once: none is loaded behind the gate */
		if (work.l.host_table[c] >= 0)
			enqueue_check(work.l.host_table[c], pattern_of[c]);
	LIVE_OK(s, swakv_prefill_complete(r, marked(), NULL));
	live_launch(s, 0, gate, NULL);
	return r;
}

/* Of one token, @endpoint before it; @accepted: it stays. */
static void step(swakv_request *r, int64_t endpoint, bool accepted)
{
	const int32_t one = 1, stays = accepted;

	LIVE_OK(work.s, swakv_extend_prepare(r, &one, 1, NULL));
	enqueue_step((int32_t)((endpoint + P - 1) / P), (int32_t)(endpoint / P) + 1);
	LIVE_OK(work.s, swakv_extend_complete(r, marked(), &stays, 1, NULL));
}

/* Everything that was held runs, and found what it should have. */
static void release(swakv_session *s, swakv_request *r)
{
	size_t cells = (size_t)work.n_steps * (size_t)work.l.width;
	struct swakv_request_state state = { .size = sizeof(state) };
	uint32_t count = 0;

	LIVE_OK(s, swakv_request_get_state(r, &state));
	cr_expect_geq(state.open_points, (uint32_t)work.n_steps - 1, "steps have run before the gate opened");
	gate_open = true;
	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	if (work.d) {
		DEVICE_OK(driver_copy_to_host(work.d, NULL, &count, work.counts, sizeof(count)));
		DEVICE_OK(driver_copy_to_host(work.d, NULL, work.seen, work.rows, cells * sizeof(int32_t)));
		DEVICE_OK(driver_stream_synchronize(work.d, NULL));
	}
	cr_expect_eq(count + wrong, 0, "%u elements of pages were not what the sequence had written",
		     (unsigned)(count + wrong));
	for (size_t i = 0; i < cells; i++)
		cr_assert_eq(work.seen[i], work.expected[i], "step %zu, column %zu: page %d, it should be %d",
			     i / (size_t)work.l.width, i % (size_t)work.l.width, work.seen[i], work.expected[i]);
	swakv_request_free(r);
	swakv_session_close(s);
}

Test(order, a_step_reads_the_page_that_the_next_one_writes)
{
	swakv_session *s = attach(0);
	swakv_request *r = start(s, 47);
	int32_t page = work.l.host_table[0];

	step(r, 47, true); /* reads page 0, and leaves it behind */
	step(r, 48, true); /* column 3 */
	cr_assert_eq(work.l.host_table[3], page, "the page that the step before reads");
	release(s, r);
}

Test(order, a_rejected_tokens_page_is_written_again)
{
	swakv_session *s = attach(0);
	swakv_request *r = start(s, 48);
	int32_t page;

	step(r, 48, false);
	page = work.expected[work.l.width + 3];
	for (int i = 0; i < 10; i++) {
		step(r, 48, false);
		cr_assert_eq(work.expected[(i + 2) * work.l.width + 3], page);
	}
	step(r, 48, true);
	step(r, 49, true);
	release(s, r);
}

Test(order, a_rewound_tokens_page_is_written_again)
{
	const int32_t one = 1;
	swakv_session *s = attach(1);
	swakv_request *r = start(s, 48);

	for (int i = 0; i < 10; i++) {
		step(r, 48, true);
		LIVE_OK(s, swakv_rewind(r, &one, 1, NULL));
	}
	step(r, 48, true);
	release(s, r);
}

Test(order, as_many_steps_as_were_declared_behind_one_gate)
{
	swakv_session *s = attach(0);
	swakv_request *r = start(s, 40);

	for (int i = 0; i < MOST_STEPS - 1; i++)
		step(r, 40 + i, true);
	release(s, r);
}
