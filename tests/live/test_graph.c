/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers of the timeline word, and steps that are captured once and replayed.
 * For the CUDA backend; with a real driver this is the proof on a GPU.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch.h"
#include "live.h"

enum { STEPS = 1000, SLOTS = 3, PAGE_TOKENS = 16, WINDOW = 40, MAX_SEQ = 2048, HEAD_DIM = 8 };

static struct live live;
static struct driver *d;
static swakv_session *s;
static struct swakv_layout layout = { .size = sizeof(layout) };

static void teardown(void)
{
	if (s)
		swakv_session_close(s);
	driver_close(d);
	live_stop(&live);
}

TestSuite(graph, .fini = teardown, .timeout = 300);

#define OK(call) cr_assert_eq((call), 0, "%s: %s", #call, driver_why(d))

/* A session with one stream, bound as @o says, and a device of the test's own in the same context. */
static void open_session(const struct swakv_cuda_options *o)
{
	/* The second group is there to be replayed, too: rows are compared in all groups. */
	const struct swakv_group g[] = {
		{ .size = sizeof(g[0]),
		  .kind = SWAKV_SLIDING,
		  .window = WINDOW,
		  .page_tokens = PAGE_TOKENS,
		  .layers = 1,
		  .kv_heads = 1,
		  .head_dim = HEAD_DIM,
		  .dtype = SWAKV_F32,
		  .form = live_form },
		{ .size = sizeof(g[0]),
		  .kind = SWAKV_FULL,
		  .page_tokens = 2 * PAGE_TOKENS,
		  .layers = 1,
		  .kv_heads = 1,
		  .head_dim = HEAD_DIM,
		  .dtype = SWAKV_F32,
		  .form = live_form },
	};
	const struct swakv_model m = {
		.size = sizeof(m), .name = "graph", .groups = g, .n_groups = 2, .max_batch = SLOTS, .max_seq = MAX_SEQ
	};
	struct swakv_session_info info = { .size = sizeof(info) };
	char why[512] = "";

	live_start(&live, "16M");
	cr_assert_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), 0, "%s", why);
	LIVE_OK(s, swakv_stream_bind_cuda2(s, 0, o));
	LIVE_OK(s, swakv_session_get_layout(s, 0, &layout));
	swakv_session_get_info(s, &info);
	cr_assert_eq(driver_open(&d, NULL, info.device_uuid, 0, why), 0, "%s", why);
}

static swakv_request *begin(const int32_t *slots, uint32_t n)
{
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = slots, .n_slots = n };
	swakv_request *r;

	LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
	return r;
}

/* ---- writers ---------------------------------------------------------------------------------- */

/* 300 steps whose completion only the word tells; then the words have come to what was marked. */
static void live_with(enum swakv_writer writer)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = writer };
	struct swakv_fence fence;
	int32_t slot = 1, length = 100;
	swakv_request *r;

	open_session(&o);
	r = begin(&slot, 1);
	live_prefill(s, r, &length, 1);
	for (int i = 0; i < 300; i++)
		live_decode(s, r);
	live_decode_prepare(s, r);
	LIVE_OK(s, swakv_stream_mark(s, 0, &fence));
	cr_expect_geq(fence.value, 302);
	live_expect_rows_equal(s, r);
	cr_expect(swakv_fence_reached(s, fence));
	LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
	swakv_request_free(r);
}

Test(graph, a_stream_write_proves_completion)
{
	live_with(SWAKV_WRITER_STREAM_WRITE);
}

Test(graph, a_host_function_proves_completion)
{
	live_with(SWAKV_WRITER_HOST_FUNCTION);
}

Test(graph, a_counter_proves_completion)
{
	live_with(SWAKV_WRITER_COUNTER);
}

Test(graph, without_stream_writes_a_host_function_takes_their_place)
{
	setenv("FAKECUDA_STREAM_WRITE", "0", 1); /* a real driver does not care */
	live_with(SWAKV_WRITER_AUTO);
}

Test(graph, replay_wants_the_counter_and_a_capture)
{
	const struct swakv_cuda_options wrong = { .size = sizeof(wrong), .graph_steps = 2 };
	const struct swakv_cuda_options right = { .size = sizeof(right),
						  .graph_steps = 2,
						  .writer = SWAKV_WRITER_COUNTER };
	const struct swakv_cuda_options many = { .size = sizeof(many),
						 .graph_steps = SWAKV_MAX_GRAPH_STEPS + 1,
						 .writer = SWAKV_WRITER_COUNTER };
	const struct swakv_cuda_options strange = { .size = 8 };
	const struct swakv_attach_options two = { .size = sizeof(two), .n_streams = 2 };

	live_start(&live, "16M");
	s = live_attach(&two, WINDOW, PAGE_TOKENS, 1, SLOTS, MAX_SEQ); /* binds them plainly */
	cr_expect_eq(swakv_stream_capture_begin(s, 0), SWAKV_EPHASE);
	cr_expect_eq(swakv_stream_set_replay(s, 0, true), SWAKV_EPHASE);
	cr_expect_eq(swakv_stream_bind_cuda2(s, 0, &right), SWAKV_EBUSY);
	swakv_session_close(s);
	s = NULL;
	live_stop(&live);
	open_session(&right);
	cr_expect_eq(swakv_stream_capture_begin(s, 0), SWAKV_EPHASE, "no capture is under way");
	cr_expect_eq(swakv_stream_capture_end(s, 0), SWAKV_EPHASE);
	cr_expect_eq(swakv_stream_replay(s, 0, NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_bind_cuda2(s, 0, &wrong), SWAKV_EBUSY);
	cr_expect_eq(swakv_stream_bind_cuda2(s, 0, &many), SWAKV_EBUSY);
	cr_expect_eq(swakv_stream_bind_cuda2(s, 0, &strange), SWAKV_EINVALID);
}

/* ---- replay: the table ---------------------------------------------------------------------------- */

#define TABLE_WORDS ((size_t)SLOTS * (size_t)live_halves(&layout) * (size_t)layout.width)

/* Captures a step of @launch (NULL: nothing but apply and mark). */
static void *capture(void (*launch)(void *stream))
{
	void *stream = swakv_stream_cuda(s, 0), *exec;

	OK(driver_capture_begin(d, stream));
	LIVE_OK(s, swakv_stream_capture_begin(s, 0));
	if (launch)
		launch(stream);
	LIVE_OK(s, swakv_stream_capture_end(s, 0));
	OK(driver_capture_end(d, stream, &exec));
	return exec;
}

/* Prepares a step; pages may wait behind points for a moment. */
static void prepare(swakv_request *r)
{
	int e, tries = 0;

	while ((e = swakv_decode_prepare(r, NULL)) == SWAKV_EPENDING && tries++ < LIVE_PATIENCE)
		usleep(1000);
	cr_assert_eq(e, 0, "prepare: %s: %s", swakv_error_name(e), swakv_session_error(s));
}

/*
 * Several steps are in flight at any time: behind each the whole table is copied
 * out, and must be what the broker's was when the step was prepared.
 */
static void replays_leave_the_table_right(void)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = SWAKV_WRITER_COUNTER, .graph_steps = 3 };
	const int32_t slots[SLOTS] = { 2, 0, 1 }, lengths[SLOTS] = { 45, 300, 33 };
	int32_t *want, *got;
	struct swakv_fence fence;
	swakv_request *r;
	void *exec;

	/* The fake driver falls far behind three times: then the ring is what holds the host back. */
	setenv("FAKECUDA_LATE", "cuGraphLaunch:100:60,cuGraphLaunch:400:60,cuGraphLaunch:401:60", 1);
	open_session(&o);
	want = malloc(STEPS * TABLE_WORDS * sizeof(*want));
	got = malloc(STEPS * TABLE_WORDS * sizeof(*got));
	exec = capture(NULL);
	r = begin(slots, SLOTS);
	live_prefill(s, r, lengths, SLOTS);
	LIVE_OK(s, swakv_stream_set_replay(s, 0, true));
	for (size_t i = 0; i < STEPS; i++) {
		prepare(r);
		memcpy(want + i * TABLE_WORDS, layout.host_table, TABLE_WORDS * sizeof(*want));
		LIVE_OK(s, swakv_stream_replay(s, 0, exec, &fence));
		OK(driver_copy_to_host(d, swakv_stream_cuda(s, 0), got + i * TABLE_WORDS, layout.table,
				       TABLE_WORDS * sizeof(*got)));
		LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
	}
	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	cr_expect(swakv_fence_reached(s, fence));
	for (size_t i = 0; i < STEPS; i++)
		cr_assert_arr_eq(got + i * TABLE_WORDS, want + i * TABLE_WORDS, TABLE_WORDS * sizeof(*got), "step %zu",
				 i);
	OK(driver_graph_destroy(d, exec));
	swakv_request_free(r);
	free(want);
	free(got);
}

Test(graph, a_thousand_replays_leave_the_table_right_with_steps_in_flight)
{
	replays_leave_the_table_right();
}

/* In one call a step, which is collected a step later: replay is on for the length of the call, and off beside it. */
Test(graph, a_call_a_step_leaves_the_table_right)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = SWAKV_WRITER_COUNTER, .graph_steps = 2 };
	const int32_t slots[SLOTS] = { 2, 0, 1 }, lengths[SLOTS] = { 45, 300, 33 };
	struct swakv_turn t = { .size = sizeof(t), .what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE };
	struct swakv_cycle c = { .size = sizeof(c), .turns = &t, .n = 1 };

	open_session(&o);
	c.graph = capture(NULL);
	t.request = begin(slots, SLOTS);
	live_prefill(s, t.request, lengths, SLOTS);
	prepare(t.request);
	for (int i = 0; i <= STEPS / 4; i++) {
		LIVE_OK(s, swakv_step_cycle(s, &c));
		cr_assert_eq(t.fence.kind, SWAKV_FENCE_LINE);
		if (i % 16 == 15) { /* a step whose entries go on the stream, between replayed ones */
			struct swakv_cycle plain = c;

			plain.graph = NULL;
			LIVE_OK(s, swakv_step_cycle(s, &plain));
			c.ticket = plain.ticket;
		}
		if (i % 5 == 4) {
			LIVE_OK(s, swakv_wait(s, c.ticket));
			c.ticket = 0;
			cr_assert_eq(t.result, 0);
			live_expect_rows_equal(s, t.request);
		}
	}
	LIVE_OK(s, swakv_wait(s, c.ticket));
	live_expect_rows_equal(s, t.request);
	OK(driver_graph_destroy(d, c.graph));
	swakv_request_free(t.request);
}

Test(graph, a_launch_that_fails_leaves_the_step_prepared)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = SWAKV_WRITER_COUNTER, .graph_steps = 2 };
	const struct swakv_fence failed = { .kind = SWAKV_FENCE_FAILED };
	struct swakv_turn t = { .size = sizeof(t), .what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE };
	struct swakv_cycle c = { .size = sizeof(c), .turns = &t, .n = 1 };
	int32_t slot = 0, length = 3 * PAGE_TOKENS;

	if (getenv("SWAKV_TEST_CUDA_LIBRARY"))
		cr_skip_test("a real driver does not fail when it is asked to");
	setenv("FAKECUDA_FAIL", "cuGraphLaunch:3:2", 1);
	open_session(&o);
	c.graph = capture(NULL);
	t.request = begin(&slot, 1);
	live_prefill(s, t.request, &length, 1);
	prepare(t.request);
	LIVE_OK(s, swakv_step_cycle(s, &c));
	LIVE_OK(s, swakv_step_cycle(s, &c));
	cr_expect_eq(swakv_step_cycle(s, &c), SWAKV_EDEVICE, "%s", swakv_session_error(s));
	cr_expect_eq(c.ticket, 0);
	cr_expect_eq(t.result, 0, "the turn before it was collected");
	cr_expect_eq(swakv_decode_complete(t.request, failed, NULL), SWAKV_EPOISONED);
	swakv_request_free(t.request);
}

Test(graph, a_thousand_replays_leave_the_table_of_joined_pages_right)
{
	live_form = SWAKV_JOINED;
	replays_leave_the_table_right();
}

/* Steps that are replayed and steps that are not follow each other in any order. */
Test(graph, replays_and_plain_steps_take_turns)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = SWAKV_WRITER_COUNTER, .graph_steps = 1 };
	int32_t slot = 1, length = 60;
	struct swakv_fence fence;
	swakv_request *r;
	void *exec;

	open_session(&o);
	exec = capture(NULL);
	r = begin(&slot, 1);
	live_prefill(s, r, &length, 1);
	for (int i = 0; i < 200; i++) {
		bool replay = i % 7 < 4;

		LIVE_OK(s, swakv_stream_set_replay(s, 0, replay));
		prepare(r);
		if (replay)
			LIVE_OK(s, swakv_stream_replay(s, 0, exec, &fence));
		else
			LIVE_OK(s, swakv_stream_mark(s, 0, &fence));
		live_expect_rows_equal(s, r);
		LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
	}
	OK(driver_graph_destroy(d, exec));
	swakv_request_free(r);
}

Test(graph, a_mark_that_would_leave_entries_behind_is_refused)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = SWAKV_WRITER_COUNTER, .graph_steps = 1 };
	int32_t slot = 0, length = 3 * PAGE_TOKENS;
	struct swakv_fence fence;
	swakv_request *r;
	void *exec;

	open_session(&o);
	exec = capture(NULL);
	r = begin(&slot, 1);
	live_prefill(s, r, &length, 1);
	LIVE_OK(s, swakv_stream_set_replay(s, 0, true));
	prepare(r); /* maps a page */
	cr_expect_eq(swakv_stream_mark(s, 0, &fence), SWAKV_EPHASE);
	cr_expect(strstr(swakv_session_error(s), "replay"), "%s", swakv_session_error(s));
	/* Turned off in time they go on the stream, and so they do when the library marks it. */
	LIVE_OK(s, swakv_stream_set_replay(s, 0, false));
	LIVE_OK(s, swakv_stream_mark(s, 0, &fence));
	live_expect_rows_equal(s, r);
	LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
	LIVE_OK(s, swakv_stream_set_replay(s, 0, true));
	for (int i = 0; i < 2 * PAGE_TOKENS; i++) {
		prepare(r);
		LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	}
	prepare(r);
	LIVE_OK(s, swakv_stream_replay(s, 0, exec, &fence));
	live_expect_rows_equal(s, r);
	LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
	OK(driver_graph_destroy(d, exec));
	swakv_request_free(r);
}

/* More entries than a buffer holds go ahead of the replay. */
Test(graph, a_prepare_of_many_entries_is_right_with_replays)
{
	enum { MANY = 64 };
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = SWAKV_WRITER_COUNTER, .graph_steps = 2 };
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_SLIDING,
				       .window = 12 * PAGE_TOKENS,
				       .page_tokens = PAGE_TOKENS,
				       .layers = 1,
				       .kv_heads = 1,
				       .head_dim = HEAD_DIM,
				       .dtype = SWAKV_F16 };
	const struct swakv_model m = { .size = sizeof(m),
				       .name = "graph",
				       .groups = &g,
				       .n_groups = 1,
				       .max_batch = MANY,
				       .max_seq = 40 * PAGE_TOKENS };
	int32_t slots[MANY], lengths[MANY];
	struct swakv_session_info info = { .size = sizeof(info) };
	struct swakv_fence fence;
	char why[512] = "";
	swakv_request *r;
	void *exec;

	live_start(&live, "64M");
	cr_assert_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), 0, "%s", why);
	LIVE_OK(s, swakv_stream_bind_cuda2(s, 0, &o));
	swakv_session_get_info(s, &info);
	cr_assert_eq(driver_open(&d, NULL, info.device_uuid, 0, why), 0, "%s", why);
	exec = capture(NULL);
	for (int i = 0; i < MANY; i++) {
		slots[i] = i;
		lengths[i] = 12 * PAGE_TOKENS;
	}
	r = begin(slots, MANY);
	LIVE_OK(s, swakv_stream_set_replay(s, 0, true));
	LIVE_OK(s, swakv_prefill_prepare(r, lengths, MANY, NULL));
	LIVE_OK(s, swakv_stream_replay(s, 0, exec, &fence));
	live_expect_rows_equal(s, r);
	LIVE_OK(s, swakv_prefill_complete(r, fence, NULL));
	for (int i = 0; i < 2 * PAGE_TOKENS; i++) {
		prepare(r);
		LIVE_OK(s, swakv_stream_replay(s, 0, exec, &fence));
		live_expect_rows_equal(s, r);
		LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
	}
	OK(driver_graph_destroy(d, exec));
	swakv_request_free(r);
}

/* ---- replay: the results ------------------------------------------------------------------------------- */

/* What the captured kernels read and write; registered, so that the host has it, too. */
struct shared {
	int32_t slots[SLOTS];
	int64_t positions[SLOTS];
	int64_t endpoints[SLOTS];
	float k[SLOTS][HEAD_DIM];
	float v[SLOTS][HEAD_DIM];
	float q[SLOTS][HEAD_DIM];
	float out[SLOTS][HEAD_DIM];
};
static struct shared *shared;
static uint64_t shared_device;

static float value(char what, int slot, int64_t token, int dim)
{
	uint64_t x = ((uint64_t)what << 40) + ((uint64_t)slot << 32) + (uint64_t)token * HEAD_DIM + (uint64_t)dim;

	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
	return (float)((double)(x >> 40) / (double)(1 << 24) - 0.5);
}

static struct kernel_pages pages_of_layout(void)
{
	struct kernel_pages pages = {
		.table = layout.table,
		.k = layout.k_base,
		.v = layout.v_first,
		.page_stride = layout.page_stride,
		.layer_stride = layout.layer_stride,
		.width = layout.width,
		.num_pages = layout.num_pages,
		.page_tokens = PAGE_TOKENS,
		.kv_heads = 1,
		.k_head_dim = HEAD_DIM,
		.v_head_dim = HEAD_DIM,
		.dtype = KERNEL_F32,
		.joined = layout.form == SWAKV_JOINED,
	};

	kernel_pages_rows(&pages);
	return pages;
}

#define DEVICE(field) (shared_device + offsetof(struct shared, field))

static void launch_step(void *stream)
{
	const struct kernel_kv_write write = {
		.pages = pages_of_layout(),
		.slots = DEVICE(slots),
		.positions = DEVICE(positions),
		.k = DEVICE(k),
		.v = DEVICE(v),
		.n_tokens = SLOTS,
	};
	const struct kernel_attention attention = {
		.pages = pages_of_layout(),
		.slots = DEVICE(slots),
		.endpoints = DEVICE(endpoints),
		.q = DEVICE(q),
		.out = DEVICE(out),
		.window = WINDOW,
		.scale = 0.3f,
		.n = SLOTS,
		.q_heads = 1,
	};

	OK(driver_run_kv_write(d, stream, &write));
	OK(driver_run_attention(d, stream, &attention));
}

/* Sequence i has @token tokens before this one. */
static void step_inputs(const int64_t *tokens)
{
	for (int i = 0; i < SLOTS; i++) {
		shared->positions[i] = tokens[i];
		shared->endpoints[i] = tokens[i] + 1;
		for (int dim = 0; dim < HEAD_DIM; dim++) {
			shared->k[i][dim] = value('k', i, tokens[i], dim);
			shared->v[i][dim] = value('v', i, tokens[i], dim);
			shared->q[i][dim] = value('q', i, tokens[i], dim);
			shared->out[i][dim] = NAN;
		}
	}
}

/* Attention of sequence i at its token, from nothing but what its K and V were. */
static void check_result(int i, int64_t token)
{
	int64_t first = token + 1 > WINDOW ? token + 1 - WINDOW : 0;
	double weights[WINDOW], sum = 0;

	for (int64_t t = first; t <= token; t++) {
		double score = 0;

		for (int dim = 0; dim < HEAD_DIM; dim++)
			score += (double)value('q', i, token, dim) * (double)value('k', i, t, dim);
		weights[t - first] = exp(score * (double)0.3f);
		sum += weights[t - first];
	}
	for (int dim = 0; dim < HEAD_DIM; dim++) {
		double want = 0;

		for (int64_t t = first; t <= token; t++)
			want += weights[t - first] / sum * (double)value('v', i, t, dim);
		cr_assert_float_eq(shared->out[i][dim], want, 1e-5, "sequence %d, token %lld, dim %d: %f, not %f", i,
				   (long long)token, dim, (double)shared->out[i][dim], want);
	}
}

/* K and V of a prefill, written token by token through the same kernel, outside the graph. */
static void fill_prefill(const int32_t *lengths)
{
	void *stream = swakv_stream_cuda(s, 0);

	for (int32_t t = 0; t < lengths[0]; t++) {
		int64_t tokens[SLOTS];

		for (int i = 0; i < SLOTS; i++) {
			tokens[i] = t < lengths[i] ? t : lengths[i] - 1;
		}
		step_inputs(tokens);
		launch_step(stream);
		OK(driver_stream_synchronize(d, stream));
	}
}

static void replayed_steps_give_the_right_results(void)
{
	const struct swakv_cuda_options o = { .size = sizeof(o), .writer = SWAKV_WRITER_COUNTER, .graph_steps = 2 };
	const int32_t slots[SLOTS] = { 2, 0, 1 }, lengths[SLOTS] = { 61, 45, 7 };
	int64_t tokens[SLOTS] = { lengths[0], lengths[1], lengths[2] };
	size_t bytes = (sizeof(*shared) + 4095) / 4096 * 4096;
	struct swakv_fence fence;
	swakv_request *r;
	void *exec;

	open_session(&o);
	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(shared, MAP_FAILED);
	OK(driver_host_register(d, shared, bytes, &shared_device));
	memcpy(shared->slots, slots, sizeof(slots));
	r = begin(slots, SLOTS);
	LIVE_OK(s, swakv_prefill_prepare(r, lengths, SLOTS, NULL));
	fill_prefill(lengths);
	LIVE_OK(s, swakv_stream_mark(s, 0, &fence));
	LIVE_OK(s, swakv_prefill_complete(r, fence, NULL));
	exec = capture(launch_step);
	LIVE_OK(s, swakv_stream_set_replay(s, 0, true));
	for (int step = 0; step < STEPS; step++) {
		step_inputs(tokens);
		prepare(r);
		LIVE_OK(s, swakv_stream_replay(s, 0, exec, &fence));
		LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
		while (!swakv_fence_reached(s, fence))
			usleep(20);
		for (int i = 0; i < SLOTS; i++)
			check_result(i, tokens[i]++);
	}
	OK(driver_graph_destroy(d, exec));
	OK(driver_host_unregister(d, shared));
	swakv_request_free(r);
}

Test(graph, a_thousand_replayed_steps_give_the_right_results)
{
	replayed_steps_give_the_right_results();
}

Test(graph, a_thousand_replayed_steps_over_joined_pages_do_so_too)
{
	live_form = SWAKV_JOINED;
	replayed_steps_give_the_right_results();
}
