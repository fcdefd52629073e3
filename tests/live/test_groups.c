/* SPDX-License-Identifier: Apache-2.0 */
/* Models with several layer groups on a real broker: extend, partial acceptance, rewind, reserve. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "live.h"

enum { SLOTS = 4, PAGE_TOKENS = 16, MAX_SEQ = 1024 };

static struct live live;
static swakv_session *s;

/* A sliding group, a full one with larger pages, and a sliding one with a longer window. */
static void attach(int64_t max_advance, uint32_t max_rewind, enum swakv_chunk chunk)
{
	const struct swakv_group g[] = {
		{ .size = sizeof(g[0]),
		  .kind = SWAKV_SLIDING,
		  .window = 40,
		  .page_tokens = PAGE_TOKENS,
		  .layers = 1,
		  .kv_heads = 1,
		  .head_dim = 8,
		  .dtype = SWAKV_F16 },
		{ .size = sizeof(g[0]),
		  .kind = SWAKV_FULL,
		  .page_tokens = 2 * PAGE_TOKENS,
		  .layers = 3,
		  .kv_heads = 2,
		  .head_dim = 8,
		  .dtype = SWAKV_F16 },
		{ .size = sizeof(g[0]),
		  .kind = SWAKV_SLIDING,
		  .window = 100,
		  .page_tokens = PAGE_TOKENS,
		  .layers = 2,
		  .kv_heads = 1,
		  .head_dim = 8,
		  .v_head_dim = 4,
		  .dtype = SWAKV_F32 },
	};
	const struct swakv_model m = {
		.size = sizeof(m),
		.name = "groups",
		.groups = g,
		.n_groups = 3,
		.max_batch = SLOTS,
		.max_seq = MAX_SEQ,
		.max_advance = max_advance,
		.max_rewind = max_rewind,
		.chunk = chunk,
	};
	char why[512] = "";

	live_start(&live, "16M");
	cr_assert_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), 0, "%s", why);
	if (live_is_cuda())
		LIVE_OK(s, swakv_stream_bind_cuda(s, 0, NULL));
}

static void teardown(void)
{
	swakv_session_close(s);
	live_stop(&live);
}

TestSuite(live_groups, .fini = teardown, .timeout = 100);

static swakv_request *begin(const int32_t *slots, uint32_t n, int64_t max_tokens)
{
	const struct swakv_begin_options o = {
		.size = sizeof(o), .slots = slots, .n_slots = n, .max_tokens = max_tokens
	};
	swakv_request *r;

	LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
	return r;
}

/* Sequence @seq in @group: endpoint, and the pages that its row holds. */
static void expect_state(swakv_request *r, uint32_t seq, uint32_t group, int64_t endpoint, int32_t begin_page,
			 int32_t end_page)
{
	struct swakv_sequence_state st = { .size = sizeof(st) };

	LIVE_OK(s, swakv_sequence_get_group_state(r, seq, group, &st));
	cr_expect_eq(st.endpoint, endpoint, "group %u: endpoint %lld", group, (long long)st.endpoint);
	cr_expect_eq(st.retained_begin, begin_page, "group %u: begin %d", group, st.retained_begin);
	cr_expect_eq(st.retained_end, end_page, "group %u: end %d", group, st.retained_end);
	swakv_sequence_state_clear(&st);
}

static void expect_endpoint(swakv_request *r, uint32_t seq, int64_t endpoint)
{
	struct swakv_sequence_state st = { .size = sizeof(st) };

	LIVE_OK(s, swakv_sequence_get_state(r, seq, &st));
	cr_expect_eq(st.endpoint, endpoint, "sequence %u: endpoint %lld", seq, (long long)st.endpoint);
	swakv_sequence_state_clear(&st);
}

/* A word that has been reached may be seen by the broker a moment later. */
static void expect_free(uint32_t group, int64_t pages)
{
	int64_t now = -1;

	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	for (int i = 0; i < LIVE_PATIENCE && now != pages; i++) {
		LIVE_OK(s, swakv_session_group_free_pages(s, group, &now));
		if (now != pages)
			usleep(1000);
	}
	cr_expect_eq(now, pages, "group %u: %lld pages are free, expected %lld", group, (long long)now,
		     (long long)pages);
}

static void extend(swakv_request *r, const int32_t *tokens, const int32_t *accepted, uint32_t n)
{
	struct swakv_fence fence;

	LIVE_OK(s, swakv_extend_prepare(r, tokens, n, NULL));
	live_expect_tables_equal(s, SLOTS);
	LIVE_OK(s, swakv_stream_mark(s, 0, &fence));
	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	LIVE_OK(s, swakv_extend_complete(r, fence, accepted, accepted ? n : 0, NULL));
}

Test(live_groups, all_groups_move_with_each_call)
{
	const int32_t slots[] = { 3, 1 }, lengths[] = { 100, 33 }, map[] = { -1, 0 };
	int64_t before[3], now;
	swakv_request *r;

	attach(0, 0, SWAKV_CHUNK_RETAINED);
	swakv_request_free(begin(slots, 2, 0)); /* from here on each class has the extents that it needs */
	for (uint32_t g = 0; g < 3; g++)
		LIVE_OK(s, swakv_session_group_free_pages(s, g, &before[g]));
	r = begin(slots, 2, 0);
	live_prefill(s, r, lengths, 2);
	live_expect_tables_equal(s, SLOTS);
	expect_state(r, 0, 0, 100, 3, 7);
	expect_state(r, 0, 1, 100, 0, 4);
	expect_state(r, 0, 2, 100, 0, 7);
	expect_state(r, 1, 1, 33, 0, 2);
	for (int i = 0; i < 150; i++) {
		live_decode_prepare(s, r);
		live_expect_tables_equal(s, SLOTS);
		LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	}
	expect_state(r, 0, 0, 250, 13, 16);
	expect_state(r, 0, 1, 250, 0, 8);
	expect_state(r, 0, 2, 250, 9, 16);
	LIVE_OK(s, swakv_compact_begin(r, map, 2, 1, SWAKV_COMPACT_MOVE_ROWS, 0, NULL));
	live_expect_tables_equal(s, SLOTS);
	LIVE_OK(s, swakv_compact_complete(r, SWAKV_DONE, NULL));
	expect_state(r, 0, 1, 183, 0, 6);
	cr_expect_eq(swakv_request_slot(r, 0), 3);
	live_decode_prepare(s, r);
	live_expect_tables_equal(s, SLOTS);
	LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	LIVE_OK(s, swakv_request_finish(r, NULL));
	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	for (uint32_t g = 0; g < 3; g++)
		expect_free(g, before[g]);
	cr_expect_eq(swakv_session_group_free_pages(s, 3, &now), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(s), "group 3 is outside 0 to 2"), "%s", swakv_session_error(s));
	swakv_request_free(r);
}

Test(live_groups, a_part_of_a_step_may_stay)
{
	const int32_t slots[] = { 0, 2 }, lengths[] = { 60, 7 };
	swakv_request *r;

	attach(8, 0, SWAKV_CHUNK_MAPPED);
	r = begin(slots, 2, 0);
	live_prefill(s, r, lengths, 2);
	extend(r, (int32_t[]){ 5, 8 }, (int32_t[]){ 0, 3 }, 2);
	expect_endpoint(r, 0, 60);
	expect_endpoint(r, 1, 10);
	extend(r, (int32_t[]){ 4, 4 }, NULL, 2);
	expect_endpoint(r, 0, 64);
	expect_endpoint(r, 1, 14);
	for (int i = 0; i < 60; i++)
		extend(r, (int32_t[]){ 1 + i % 8, 8 - i % 8 }, (int32_t[]){ 1 + i % 8 - (i % 8 > 3), i % 2 }, 2);
	live_decode_prepare(s, r);
	live_expect_tables_equal(s, SLOTS);
	LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	cr_expect_eq(swakv_extend_prepare(r, (int32_t[]){ 1, 0 }, 2, NULL), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(s), "sequence 1"), "%s", swakv_session_error(s));
	cr_expect_eq(swakv_extend_prepare(r, (int32_t[]){ 1, 1, 1 }, 3, NULL), SWAKV_EINVALID);
	LIVE_OK(s, swakv_extend_prepare(r, (int32_t[]){ 2, 2 }, 2, NULL));
	cr_expect_eq(swakv_extend_complete(r, SWAKV_DONE, (int32_t[]){ 1, 3 }, 2, NULL), SWAKV_EINVALID);
	LIVE_OK(s, swakv_extend_complete(r, SWAKV_DONE, (int32_t[]){ 1, 2 }, 2, NULL));
	swakv_request_free(r);
}

Test(live_groups, settled_tokens_may_be_taken_back)
{
	const int32_t slot = 1, length = 90;
	swakv_request *r;

	attach(4, 10, SWAKV_CHUNK_RETAINED);
	r = begin(&slot, 1, 0);
	live_prefill(s, r, &length, 1);
	LIVE_OK(s, swakv_rewind(r, (int32_t[]){ 10 }, 1, NULL));
	expect_endpoint(r, 0, 80);
	cr_expect_eq(swakv_rewind(r, (int32_t[]){ 1 }, 1, NULL), SWAKV_ELIMIT, "10 below the longest is the limit");
	cr_expect(swakv_request_valid(r));
	for (int i = 0; i < 30; i++) {
		live_decode_prepare(s, r);
		live_expect_tables_equal(s, SLOTS);
		LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
		if (i % 5 == 4)
			LIVE_OK(s, swakv_rewind(r, (int32_t[]){ 3 }, 1, NULL));
	}
	expect_endpoint(r, 0, 80 + 30 - 6 * 3);
	expect_state(r, 0, 1, 92, 0, 3);
	swakv_request_free(r);
}

Test(live_groups, one_step_serves_decodes_and_chunks)
{
	const int32_t slots[][2] = { { 0, 1 }, { 2 }, { 3 } }, lengths[][2] = { { 30, 50 }, { 70 }, { 20 } };
	struct swakv_step steps[3] = { 0 };

	attach(0, 0, SWAKV_CHUNK_RETAINED);
	for (int i = 0; i < 3; i++) {
		steps[i].size = sizeof(steps[i]);
		steps[i].request = begin(slots[i], i ? 1 : 2, 0);
		live_prefill(s, steps[i].request, lengths[i], i ? 1 : 2);
	}
	steps[0].tokens = (int32_t[]){ 1, 30 };
	steps[2].tokens = (int32_t[]){ 64 };
	LIVE_OK(s, swakv_step_prepare(s, steps, 3, NULL));
	live_expect_tables_equal(s, SLOTS);
	LIVE_OK(s, swakv_step_complete(s, steps, 3, NULL));
	expect_endpoint(steps[0].request, 0, 31);
	expect_endpoint(steps[0].request, 1, 80);
	expect_endpoint(steps[1].request, 0, 71);
	expect_endpoint(steps[2].request, 0, 84);
	for (int i = 0; i < 3; i++)
		swakv_request_free(steps[i].request);
}

Test(live_groups, a_request_may_reserve_more)
{
	const int32_t slot = 0, length = 60;
	struct swakv_sequence_state st = { .size = sizeof(st) };
	swakv_request *r;

	attach(0, 0, SWAKV_CHUNK_RETAINED);
	r = begin(&slot, 1, 64);
	LIVE_OK(s, swakv_sequence_get_group_state(r, 0, 1, &st));
	cr_expect_eq(st.n_reserved, 2);
	swakv_sequence_state_clear(&st);
	live_prefill(s, r, &length, 1);
	LIVE_OK(s, swakv_request_reserve(r, 256, NULL));
	LIVE_OK(s, swakv_sequence_get_group_state(r, 0, 1, &st));
	cr_expect_eq(st.n_reserved + st.n_bindings, 8);
	swakv_sequence_state_clear(&st);
	for (int i = 0; i < 100; i++)
		live_decode(s, r);
	expect_endpoint(r, 0, 160);
	cr_expect_eq(swakv_request_reserve(r, 100, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_request_reserve(r, MAX_SEQ + 1, NULL), SWAKV_EINVALID);
	swakv_request_free(r);
}
