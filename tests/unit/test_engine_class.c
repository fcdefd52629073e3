/* SPDX-License-Identifier: Apache-2.0 */
/* Page classes share a pool by extents; models that none can serve. */
#include "engine_worker.h"

TestSuite(engine_class, .fini = teardown);

/* ---- extents and classes ---- */

Test(engine_class, two_page_sizes_share_one_pool_without_overlap)
{
	struct model small = make_model(32, 16, 4, 8192), large = make_model(64, 64, 4, 8192);
	uint64_t half = 1 << 18;
	struct worker a, b;

	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 3000 });
	worker_open(&a, e, small, half, 1);
	worker_open(&b, e, large, half, 2);
	for (int32_t i = 0; i < 4; i++) {
		prefill(&a, begin(&a, i), 100);
		prefill(&b, begin(&b, i), 100);
	}
	for (int32_t i = 0; i < 4; i++) {
		for (int32_t c = 0; c < a.g.width; c++) {
			int64_t from = (int64_t)k_id(&a, i, c) * (int64_t)a.g.page_bytes;

			for (int32_t j = 0; from >= 0 && j < 4 * b.g.width; j++) {
				int64_t to = (int64_t)k_id(&b, j / b.g.width, j % b.g.width) * (int64_t)b.g.page_bytes;

				cr_assert(to < 0 || from + (int64_t)a.g.page_bytes <= to ||
					  to + (int64_t)b.g.page_bytes <= from);
			}
		}
	}
	worker_close(&a);
	worker_close(&b);
	e = engine_free(e);
}

Test(engine_class, one_class_alone_gets_the_whole_pool)
{
	uint64_t half = (uint64_t)100 * 16 * TOKEN_BYTES;
	int32_t slots[14], i;
	uint64_t h;

	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 1000 });
	worker_open(&w, e, make_model(32, 16, 14, 8192), half, 1);
	cr_assert_eq(session_free_pages(w.s, 0), 100);
	for (i = 0; i < 14; i++)
		slots[i] = i;
	cr_assert_eq(begin_on(&w, 0, &h, 14, slots), 0); /* 98 pages */
	cr_assert_eq(session_free_pages(w.s, 0), 2);
}

/* What the pages of a class take of its extents, and what is left of these. */
static void assert_bytes(int64_t pages, uint32_t extents, uint64_t lent)
{
	struct engine_counts n;
	struct class_counts k;

	engine_count(e, &n);
	cr_assert(engine_class_count(e, 0, &k));
	cr_expect_eq(k.pages, pages);
	cr_expect_eq(k.extents, extents);
	cr_expect_eq(n.held, (uint64_t)pages * 512);
	cr_expect_eq(n.unusable, lent - n.held);
	cr_expect_eq(n.free, n.total - lent);
}

Test(engine_class, bytes_of_extents_that_are_part_of_no_page_are_unusable)
{
	uint64_t h;

	e = engine_new(&(struct engine_config){ .half_bytes = 5900, .extent_bytes = 300 });
	worker_open(&w, e, make_model(32, 16, 2, 8192), 5900, 1);
	assert_bytes(0, 0, 0);
	cr_assert_eq(begin_on(&w, 0, &h, 1, (int32_t[]){ 0 }), 0); /* 7 pages of 256 bytes in each half */
	assert_bytes(7, 6, 3600);
	cr_assert_eq(begin_on(&w, 0, &h, 1, (int32_t[]){ 1 }), 0);
	assert_bytes(14, 12, 7200);
	worker_close(&w);
	engine_trim(e, UINT32_MAX);
	assert_bytes(0, 0, 0);
	e = engine_free(e);
}

/* Attaching with ever new page sizes does not use the classes up. */
Test(engine_class, class_that_nobody_uses_makes_room_for_another)
{
	uint64_t half = (uint64_t)1 << 20;

	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = half / 16 });
	for (uint32_t layers = 1; layers <= 200; layers++) {
		struct model m = make_model(32, 16, 4, 8192);

		m.groups[0].layers = layers;
		worker_open(&w, e, m, half, 1);
		worker_close(&w);
	}
	e = engine_free(e);
}

/* ---- models ---- */

/* The session of page size @i, counted from 0, on its own. */
static void open_size(struct worker *x, uint32_t i, uint64_t half)
{
	struct model m = make_model(16, 16, 1, 64);

	m.groups[0] = make_group(16, 16, 16 * (i + 1));
	worker_open(x, e, m, half, i + 1);
}

Test(engine_class, the_65th_page_size_is_refused_and_has_room_when_one_ends)
{
	static struct worker of[ENGINE_MAX_CLASSES + 1];
	const uint64_t half = 8 << 20;
	const uint32_t last = ENGINE_MAX_CLASSES;
	struct model m = make_model(16, 16, 1, 64);
	struct wire_row_head row;
	int32_t cells[2 * 64 / 16];
	const struct session_tables tables = { .cells = cells, .rows = &row };

	e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 1 << 16 });
	for (uint32_t i = 0; i < last; i++) {
		open_size(&of[i], i, half);
		prefill(&of[i], begin(&of[i], 0), 16);
	}
	m.groups[0] = make_group(16, 16, 16 * (last + 1));
	cr_assert_null(session_new(e, &m, &tables, last + 1));
	check_all(e);
	worker_close(&of[7]); /* its pages are back: its place is free */
	open_size(&of[last], last, half);
	prefill(&of[last], begin(&of[last], 0), 16);
	check_all(e);
	for (uint32_t i = 0; i <= last; i++)
		if (i != 7)
			worker_close(&of[i]);
	e = engine_free(e);
}

Test(engine_class, impossible_models_are_refused_with_a_reason)
{
	struct geometry g[WIRE_MAX_GROUPS];
	struct fault f;
	struct model m = make_model(0, 16, 1, 64);

	e = NULL;
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 24, 1, 64);
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 16, 0, 64);
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 16, 1, 0);
	cr_assert_eq(model_check(&m, 1 << 20, g, &f), SWAKV_EINVALID);
	m = make_model(32, 16, 1, 64);
	cr_assert_eq(model_check(&m, 16 * TOKEN_BYTES - 1, g, &f), SWAKV_ENEVER);
	cr_assert_eq(model_check(&m, 16 * TOKEN_BYTES, g, &f), 0);
	/* the most pages whose V ids fit 32 bits, and one more */
	cr_assert_eq(model_check(&m, (uint64_t)(INT32_MAX / 2) * 16 * TOKEN_BYTES, g, &f), 0);
	cr_assert_eq(model_check(&m, (uint64_t)(INT32_MAX / 2 + 1) * 16 * TOKEN_BYTES, g, &f), SWAKV_EINVALID);
}
