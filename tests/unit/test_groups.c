/* SPDX-License-Identifier: Apache-2.0 */
/* Models of several layer groups on one pool: sliding ones with windows of their own, and full ones. */
#include "engine_fixture.h"

static struct engine *e;
static struct worker w;

enum { P = 16, HALF = 64 * P * 3 * TOKEN_BYTES };

/* A window of 32 tokens, one of 128, and full attention; pages of one, two and three layers. */
static struct model three_groups(int32_t batch, int64_t max_seq)
{
	return (struct model){ .n_groups = 3,
			       .n_streams = 2,
			       .max_batch = batch,
			       .max_seq = max_seq,
			       .groups = { make_group(32, P, TOKEN_BYTES), make_group(128, P, 2 * TOKEN_BYTES),
					   make_group(0, P, 3 * TOKEN_BYTES) } };
}

/* A window (0: full attention) beside full attention, with pages of one and of @layers layers. */
static struct model two_groups(int32_t batch, int64_t max_seq, int64_t window, uint32_t layers)
{
	return (struct model){ .n_groups = 2,
			       .n_streams = 1,
			       .max_batch = batch,
			       .max_seq = max_seq,
			       .groups = { make_group(window, P, TOKEN_BYTES),
					   make_group(0, P, layers * TOKEN_BYTES) } };
}

static void open_on(uint64_t half, uint64_t extent, struct model m)
{
	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = extent });
	cr_assert_not_null(e);
	worker_open(&w, e, m, half, 1);
}

static void teardown(void)
{
	if (!e)
		return;
	worker_close(&w);
	engine_free(e);
}

TestSuite(groups, .fini = teardown);

static struct class_counts class_of(uint32_t group)
{
	struct class_counts c;

	cr_assert(engine_class_count(e, session_class(w.s, group), &c));
	return c;
}

Test(groups, each_group_slides_with_its_own_window)
{
	uint64_t h;

	open_on(HALF, HALF / 16, three_groups(2, 512));
	h = begin(&w, 0);
	prefill(&w, h, 300); /* pages 0 to 18 */
	cr_assert_str_eq(mapped(&w, 0, 0), "16,17,18");
	cr_assert_str_eq(mapped(&w, 1, 0), "10,11,12,13,14,15,16,17,18");
	cr_assert_str_eq(mapped(&w, 2, 0), "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18");
	decode(&w, h, 5); /* 305 tokens */
	cr_assert_str_eq(mapped(&w, 0, 0), "17,18,19");
	cr_assert_str_eq(mapped(&w, 1, 0), "11,12,13,14,15,16,17,18,19");
	cr_assert_eq(group_state(&w, h, 0, 2).retained_begin, 0);
	cr_assert_eq(group_state(&w, h, 0, 2).retained_end, 20);
	cr_assert_eq(group_state(&w, h, 0, 2).window, 0);
	cr_assert_eq(group_state(&w, h, 0, 0).window, 32);
}

Test(groups, a_full_group_reserves_for_max_tokens_and_a_sliding_one_no_more)
{
	int32_t slot = 0;
	uint64_t h;

	open_on(HALF, HALF / 16, three_groups(2, 512));
	cr_assert_eq(w.geometry[0].private_pages, 7);  /* 2 * 3 + 1 */
	cr_assert_eq(w.geometry[1].private_pages, 19); /* 2 * 9 + 1 */
	cr_assert_eq(w.geometry[2].private_pages, 32); /* 512 / 16 */
	cr_assert_eq(request_begin(w.s, 0, 160, &slot, 1, &h, &w.f), 0);
	check_all(e);
	cr_assert_eq(class_of(0).leased, 7);
	cr_assert_eq(class_of(1).leased, 10);
	cr_assert_eq(class_of(2).leased, 10);
}

Test(groups, a_request_admits_all_groups_or_none)
{
	struct model m = two_groups(8, 512, 32, 2);
	int32_t slots[2] = { 0, 1 };
	uint64_t h;

	/* 4 extents of 32 small or 16 large pages: a request takes 7 small and 32 large ones. */
	open_on(4ull * 32 * P * TOKEN_BYTES, 32ull * P * TOKEN_BYTES, m);
	cr_assert_eq(begin_on(&w, 0, &h, 1, slots), 0);
	cr_assert_eq(class_of(0).leased, 7);
	cr_assert_eq(class_of(1).leased, 32);
	cr_assert_eq(begin_on(&w, 0, &h, 1, slots + 1), SWAKV_ENOPAGES);
	cr_assert_eq(h, 0);
	cr_assert_eq(class_of(0).leased, 7);
	cr_assert_eq(class_of(1).leased, 32);
}

Test(groups, classes_that_need_the_same_extents_are_admitted_jointly)
{
	struct model m = two_groups(4, 256, 0, 2);
	int32_t slot = 0;
	uint64_t h;

	/* Either class alone would find its 16 pages in the one extent; both together do not. */
	open_on(32ull * P * TOKEN_BYTES, 32ull * P * TOKEN_BYTES, m);
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), SWAKV_ENEVER);
	cr_assert_eq(w.f.reason, FAULT_NEVER_TOGETHER);
	cr_assert_eq(class_of(0).leased + class_of(1).leased, 0);
	cr_assert_eq(class_of(0).available, 32);
	cr_assert_eq(class_of(1).available, 16);
}

Test(groups, what_the_pool_could_never_hold_at_once_is_told_so)
{
	struct model m = two_groups(4, 400, 0, 1);
	int32_t slot = 0;
	uint64_t h;

	open_on(32ull * P * TOKEN_BYTES, 32ull * P * TOKEN_BYTES, m); /* 25 pages a group, 32 in all */
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), SWAKV_ENEVER);
}

Test(groups, groups_of_one_page_size_share_a_class)
{
	struct model m = two_groups(2, 256, 32, 1);
	int32_t slot = 0;
	uint64_t h;

	open_on(32ull * P * TOKEN_BYTES, 32ull * P * TOKEN_BYTES, m);
	cr_assert_eq(session_class(w.s, 0), session_class(w.s, 1));
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), 0);
	cr_assert_eq(class_of(0).leased, 7 + 16);
	slot = 1;
	cr_assert_eq(begin_on(&w, 0, &h, 1, &slot), SWAKV_ENOPAGES, "9 pages are left, 23 are needed");
	slot = 1;
	cr_assert_eq(request_begin(w.s, 0, 64, &slot, 1, &h, &w.f), 0, "4 and 4");
	check_all(e);
	cr_assert_eq(class_of(0).leased, 23 + 8);
}

Test(groups, rows_and_cells_of_a_delivery_are_counted_over_all_groups)
{
	int32_t length = 20;
	uint64_t h;

	open_on(HALF, HALF / 16, three_groups(2, 512));
	h = begin(&w, 1);
	cr_assert_eq(prefill_prepare(&w, h, 1, &length), 0);
	cr_assert_eq(w.d.n_rows, 3);
	cr_assert_eq(w.d.n_updates, 6);
	for (uint32_t g = 0; g < 3; g++) {
		cr_assert_eq(w.d.rows[g].row, 2 * g + 1);
		for (uint32_t i = 0; i < 2; i++)
			cr_assert_eq(w.d.updates[2 * g + i].cell, g * 2 * 32 + 32 + i);
	}
}

Test(groups, compaction_moves_the_rows_of_every_group)
{
	int32_t slots[3] = { 0, 1, 2 }, lengths[3] = { 40, 200, 300 }, map[3] = { -1, 1, 0 };
	char first[128], second[128];
	uint64_t h;

	open_on(4 * HALF, HALF / 16, three_groups(3, 512));
	cr_assert_eq(begin_on(&w, 0, &h, 3, slots), 0);
	cr_assert_eq(prefill_prepare(&w, h, 3, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	for (uint32_t g = 0; g < 3; g++) {
		struct delivery *d = &w.d;

		snprintf(first, sizeof(first), "%s", mapped(&w, g, 1));
		snprintf(second, sizeof(second), "%s", mapped(&w, g, 2));
		if (g == 0) {
			cr_assert_eq(request_compact_begin(w.s, h, map, 3, 2, WIRE_COMPACT_MOVE_ROWS, d, &w.f), 0);
			cr_assert_eq(request_compact_complete(w.s, h, &fence_done, 0, d, &w.f), 0);
			check_all(e);
			cr_assert_str_eq(mapped(&w, 0, 0), second);
			cr_assert_str_eq(mapped(&w, 0, 1), first);
			cr_assert_str_eq(mapped(&w, 0, 2), "");
		}
	}
	cr_assert_str_eq(mapped(&w, 1, 0), "10,11,12,13,14,15,16,17,18");
	cr_assert_str_eq(mapped(&w, 2, 1), "0,1,2,3,4,5,6,7,8,9,10,11,12");
	cr_assert_str_eq(mapped(&w, 2, 2), "");
}

Test(groups, finish_and_death_return_the_pages_of_every_group)
{
	uint64_t h;

	open_on(HALF, HALF / 16, three_groups(2, 512));
	h = begin(&w, 0);
	prefill(&w, h, 100);
	cr_assert_eq(decode_prepare(&w, h), 0);
	cr_assert_eq(decode_complete(&w, h, fence_line(&w, 0, 1)), 0);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_assert_gt(class_of(0).leased + class_of(1).leased + class_of(2).leased, 0);
	reach(&w, 0, 1);
	for (uint32_t g = 0; g < 3; g++)
		cr_assert_eq(class_of(g).leased, 0);
	h = begin(&w, 0);
	prefill(&w, h, 100);
	session_end(w.s);
	check_all(e);
	cr_assert_eq(class_of(2).quarantined, 32);
	cr_assert_eq(session_reclaim(w.s), 7 + 19 + 32);
}

Test(groups, reserve_lengthens_every_group_or_none)
{
	int32_t slot = 0;
	uint64_t h;

	open_on(HALF, HALF / 16, three_groups(2, 512));
	cr_assert_eq(request_begin(w.s, 0, 32, &slot, 1, &h, &w.f), 0);
	prefill(&w, h, 32);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_ELIMIT, "and the request is finishing");
	cr_assert_eq(request_reserve(w.s, h, 64, &w.f), SWAKV_EPHASE);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	cr_assert_eq(request_begin(w.s, 0, 32, &slot, 1, &h, &w.f), 0);
	prefill(&w, h, 32);
	cr_assert_eq(request_reserve(w.s, h, 31, &w.f), SWAKV_EINVALID);
	cr_assert_eq(request_reserve(w.s, h, 513, &w.f), SWAKV_EINVALID);
	cr_assert_eq(request_reserve(w.s, h, 320, &w.f), 0);
	check_all(e);
	cr_assert_eq(class_of(0).leased, 7);
	cr_assert_eq(class_of(1).leased, 19);
	cr_assert_eq(class_of(2).leased, 20);
	decode(&w, h, 288);
	cr_assert_eq(decode_prepare(&w, h), SWAKV_ELIMIT);
}

Test(groups, a_full_group_has_no_window_and_a_sliding_one_has)
{
	struct model m = three_groups(2, 512);
	struct geometry g[WIRE_MAX_GROUPS];
	struct fault f;

	m.groups[2].window = 7;
	cr_assert_eq(model_check(&m, HALF, g, &f), SWAKV_EINVALID);
	m = three_groups(2, 512);
	m.groups[1].window = 0;
	cr_assert_eq(model_check(&m, HALF, g, &f), SWAKV_EINVALID);
	cr_assert_eq(f.seq, 1, "the second group is at fault, and not %d", f.seq);
	m = three_groups(2, 512);
	m.n_groups = WIRE_MAX_GROUPS + 1;
	cr_assert_eq(model_check(&m, HALF, g, &f), SWAKV_EINVALID);
	m.n_groups = 0;
	cr_assert_eq(model_check(&m, HALF, g, &f), SWAKV_EINVALID);
}

Test(groups, a_geometry_whose_element_offsets_exceed_31_bits_is_flagged)
{
	/* 16 layers of 8 heads of 128 in f16, 16 tokens: 512 KiB a page; 2^31 elements are 8,192 ids, K and V. */
	struct model m = {
		.n_groups = 1, .n_streams = 1, .max_batch = 1, .max_seq = 16, .groups = { make_group(16, 16, 16) }
	};
	struct geometry g[WIRE_MAX_GROUPS];
	struct fault f;

	m.groups[0].layers = 16;
	m.groups[0].kv_heads = 8;
	m.groups[0].k_head_dim = m.groups[0].v_head_dim = 128;
	cr_assert_eq(model_check(&m, 4096ull << 19, g, &f), 0);
	cr_assert_eq(g[0].num_pages, 4096);
	cr_assert_not(g[0].wide, "the last element is number 2^31 - 1");
	cr_assert_eq(model_check(&m, 4097ull << 19, g, &f), 0);
	cr_assert(g[0].wide);
}
