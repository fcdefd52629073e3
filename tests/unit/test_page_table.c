/* SPDX-License-Identifier: Apache-2.0 */
/* Page table as a module: the behaviours of spec sections 5 and 7, one fact a test. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "page_table.h"

#define MARKER 0x5eed

static struct page_table t;
static int32_t *cells;
static struct wire_row_head *heads;
static struct fault f;

/* A device view whose copies happen only when it is told to: until then they read from the upload's memory. */
static struct device {
	int32_t view[4096];
	struct {
		int64_t at, n;
		const int32_t *src; /* NULL: fill with -1 */
	} queue[256];
	int n_queued, calls, fail_at;
} dev;

static int enqueue(int64_t at, const int32_t *src, int64_t n)
{
	if (++dev.calls == dev.fail_at)
		return 1;
	dev.queue[dev.n_queued].at = at;
	dev.queue[dev.n_queued].src = src;
	dev.queue[dev.n_queued++].n = n;
	return 0;
}

static int device_copy(void *arg, int64_t at, const int32_t *src, int64_t n)
{
	return enqueue(at, src, n);
}

static int device_fill(void *arg, int64_t at, int32_t value, int64_t n)
{
	cr_assert_eq(value, -1);
	return enqueue(at, NULL, n);
}

static void device_run(void)
{
	for (int i = 0; i < dev.n_queued; i++)
		for (int64_t k = 0; k < dev.queue[i].n; k++)
			dev.view[dev.queue[i].at + k] = dev.queue[i].src ? dev.queue[i].src[k] : -1;
	dev.n_queued = 0;
}

static const struct page_table_sink sink = { device_copy, device_fill, NULL };

static void make(int32_t rows, int32_t width, int32_t pages, enum page_table_mode mode)
{
	cells = malloc((size_t)rows * 2 * (size_t)width * sizeof(*cells));
	heads = malloc((size_t)rows * sizeof(*heads));
	cr_assert_eq(page_table_init(&t, cells, heads, rows, width, pages), 0);
	t.mode = mode;
	memset(&dev, 0, sizeof(dev));
}

static void teardown(void)
{
	page_table_deinit(&t);
	free(cells);
	free(heads);
}

TestSuite(page_table, .fini = teardown);

static int32_t k(int32_t row, int32_t c)
{
	return page_table_host_row(&t, row)[c];
}

static int32_t v(int32_t row, int32_t c)
{
	return page_table_host_row(&t, row)[t.width + c];
}

static void expect_row(int32_t row, const int32_t *ids, int32_t n)
{
	for (int32_t c = 0; c < t.width; c++) {
		int32_t want = c < n ? ids[c] : -1;

		cr_assert_eq(k(row, c), want, "row %d column %d: %d, expected %d", row, c, k(row, c), want);
		cr_assert_eq(v(row, c), want < 0 ? -1 : want + t.num_pages);
	}
}
#define ROW(row, ...) expect_row(row, (int32_t[]){ __VA_ARGS__ }, sizeof((int32_t[]){ __VA_ARGS__ }) / 4)
#define EMPTY(row)    expect_row(row, NULL, 0)

/* Uploads entries and expects so many in so many ranges; then runs the device. */
static void expect_entries(int64_t entries, int32_t ranges)
{
	struct page_table_upload *up;

	cr_assert_eq(page_table_upload_entries(&t, &sink, &up, &f), 0);
	cr_assert_eq(up ? up->n_entries : 0, entries);
	cr_assert_eq(up ? up->n_ranges : 0, ranges);
	device_run();
	free(up);
	cr_assert_arr_eq(dev.view, cells, (size_t)t.n_rows * 2 * (size_t)t.width * sizeof(*cells));
}

Test(page_table, identity_ids_do_not_depend_on_the_pool_but_the_shift_does)
{
	make(3, 4, 12, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_identity(&t, &f), 0);
	ROW(0, 0, 1, 2, 3);
	ROW(2, 8, 9, 10, 11);
	cr_assert_eq(v(1, 2), 6 + 12);
	teardown();
	make(3, 4, 17, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_identity(&t, &f), 0);
	ROW(2, 8, 9, 10, 11);
	cr_assert_eq(v(1, 2), 6 + 17);
	cr_assert_eq(page_table_num_pages(&t), 17);
	cr_assert_eq(page_table_width(&t), 4);
	cr_assert_null(page_table_host_row(&t, 3));
	cr_assert_null(page_table_host_row(&t, -1));
}

Test(page_table, identity_that_does_not_fit_is_refused_without_change)
{
	make(3, 4, 11, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_identity(&t, &f), SWAKV_EINVALID);
	EMPTY(0);
	cr_assert_not(page_table_is_identity(&t));
}

Test(page_table, identity_ends_with_the_next_edit_even_of_the_same_ids)
{
	int32_t same[] = { 0, 1 };

	make(2, 2, 4, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_identity(&t, &f), 0);
	cr_assert(page_table_is_identity(&t));
	cr_assert_eq(page_table_set_row(&t, 0, same, 2, &f), 0);
	cr_assert_not(page_table_is_identity(&t));
	cr_assert_eq(page_table_set_identity(&t, &f), 0);
	cr_assert_eq(page_table_set_entry(&t, 0, 0, 0, &f), 0);
	cr_assert_not(page_table_is_identity(&t));
}

Test(page_table, set_row_clears_the_rest_of_the_row)
{
	int32_t ids[] = { 3, 7 };

	make(2, 4, 10, PAGE_TABLE_DENSE);
	cr_assert_eq(page_table_set_row(&t, 1, ids, 2, &f), 0);
	ROW(1, 3, 7);
	cr_assert_eq(v(1, 0), 13);
	cr_assert_eq(v(1, 1), 17);
	EMPTY(0);
	cr_assert_eq(page_table_set_row(&t, 1, NULL, 0, &f), 0);
	EMPTY(1);
}

Test(page_table, set_rows_commits_as_one)
{
	int32_t a[] = { 8, 9 }, b[] = { 4 };
	struct page_table_row rows[] = { { 0, a, 2 }, { 1, NULL, 0 }, { 2, b, 1 } };

	make(3, 3, 12, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_identity(&t, &f), 0);
	cr_assert_eq(page_table_set_rows(&t, rows, 3, &f), 0);
	ROW(0, 8, 9);
	cr_assert_eq(v(0, 0), 20);
	EMPTY(1);
	ROW(2, 4);
	cr_assert_eq(v(2, 0), 16);
	cr_assert_not(page_table_is_identity(&t));
}

Test(page_table, set_rows_with_one_bad_row_changes_none)
{
	int32_t one[] = { 1 }, good[] = { 2, 3 }, bad[] = { 5 };
	struct page_table_row rows[] = { { 0, good, 2 }, { 1, bad, 1 } };
	struct page_table_row twice[] = { { 0, good, 2 }, { 0, one, 1 } };

	make(2, 3, 5, PAGE_TABLE_DENSE);
	cr_assert_eq(page_table_set_row(&t, 0, one, 1, &f), 0);
	cr_assert_eq(page_table_set_rows(&t, rows, 2, &f), SWAKV_EINVALID);
	cr_assert_eq(f.seq, 1);
	ROW(0, 1);
	cr_assert_eq(page_table_set_rows(&t, twice, 2, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_SLOT_TWICE);
	ROW(0, 1);
}

Test(page_table, dense_row_refuses_bad_ids_gaps_and_null)
{
	int32_t one[] = { 1 }, low[] = { -2 }, high[] = { 5 }, gap[] = { 1, -1, 2 };

	make(1, 3, 5, PAGE_TABLE_DENSE);
	cr_assert_eq(page_table_set_row(&t, 0, one, 1, &f), 0);
	cr_assert_eq(page_table_set_row(&t, 0, low, 1, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_set_row(&t, 0, high, 1, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_set_row(&t, 0, gap, 3, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_set_row(&t, 0, NULL, 1, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_set_row(&t, 0, one, 4, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_set_row(&t, 0, one, -1, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_set_entry(&t, 0, 2, 4, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_TABLE_GAP);
	ROW(0, 1);
}

Test(page_table, dense_row_is_cleared_from_its_end_only)
{
	int32_t ids[] = { 1, 2, 3 };

	make(1, 4, 5, PAGE_TABLE_DENSE);
	cr_assert_eq(page_table_set_row(&t, 0, ids, 3, &f), 0);
	cr_assert_eq(page_table_clear_entry(&t, 0, 1, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_clear_entry(&t, 0, 2, &f), 0);
	ROW(0, 1, 2);
}

Test(page_table, sparse_row_has_holes_and_rows_may_share_a_page)
{
	make(2, 8, 24, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_entry(&t, 0, 1, 7, &f), 0);
	cr_assert_eq(page_table_set_entry(&t, 0, 2, 3, &f), 0);
	cr_assert_eq(page_table_set_entry(&t, 0, 6, 11, &f), 0);
	cr_assert_eq(page_table_set_entry(&t, 1, 0, 7, &f), 0);
	cr_assert_eq(page_table_check(&t, &f), 0);
	ROW(0, -1, 7, 3, -1, -1, -1, 11);
	cr_assert_eq(page_table_clear_entry(&t, 0, 2, &f), 0);
	ROW(0, -1, 7, -1, -1, -1, -1, 11);
}

Test(page_table, page_twice_in_a_row_is_refused)
{
	make(1, 8, 16, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_entry(&t, 0, 1, 5, &f), 0);
	cr_assert_eq(page_table_set_entry(&t, 0, 6, 5, &f), SWAKV_EINVALID);
	cr_assert_eq(f.want, 1);
	cr_assert_eq(k(0, 6), -1);
	cr_assert_eq(page_table_set_entry(&t, 0, 1, 5, &f), 0, "the same again is no second time");
}

Test(page_table, single_entries_refuse_what_is_out_of_range)
{
	static const int32_t bad[][3] = { { -1, 0, 0 }, { 1, 0, 0 },  { 0, -1, 0 },
					  { 0, 8, 0 },  { 0, 0, -1 }, { 0, 0, 16 } };

	make(1, 8, 16, PAGE_TABLE_SPARSE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(page_table_set_entry(&t, bad[i][0], bad[i][1], bad[i][2], &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_clear_entry(&t, 1, 0, &f), SWAKV_EINVALID);
	cr_assert_eq(page_table_clear_entry(&t, 0, 8, &f), SWAKV_EINVALID);
	EMPTY(0);
}

Test(page_table, sizes_must_be_positive_and_v_ids_fit)
{
	static int32_t cell[2];
	static struct wire_row_head head;

	make(1, 1, 1, PAGE_TABLE_SPARSE);
	teardown();
	cr_assert_lt(page_table_init(&t, cell, &head, 0, 1, 1), 0);
	cr_assert_lt(page_table_init(&t, cell, &head, 1, 0, 1), 0);
	cr_assert_lt(page_table_init(&t, cell, &head, 1, 1, 0), 0);
	cr_assert_lt(page_table_init(&t, cell, &head, 1, 1, INT32_MAX / 2 + 1), 0);
	cr_assert_eq(page_table_init(&t, cell, &head, 1, 1, INT32_MAX / 2), 0);
	cells = NULL;
	heads = NULL;
}

/* ---- compaction ---- */

static void three_rows(void)
{
	int32_t a[] = { 1, 2 }, b[] = { 3 }, c[] = { 4, 5 }, d[] = { 6 };
	struct page_table_row rows[] = { { 0, a, 2 }, { 1, b, 1 }, { 2, c, 2 }, { 3, d, 1 } };

	make(4, 3, 9, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_rows(&t, rows, 4, &f), 0);
}

Test(page_table, compact_rows_permutes_and_clears_beyond)
{
	int32_t map[] = { 2, -1, 0, 1 }, swap[] = { 1, 0 }, cycle[] = { 1, 2, 0 };

	three_rows();
	cr_assert_eq(page_table_compact_rows(&t, map, 4, 3, &f), 0);
	ROW(0, 4, 5);
	ROW(1, 6);
	ROW(2, 1, 2);
	EMPTY(3);
	cr_assert_eq(page_table_compact_rows(&t, cycle, 3, 3, &f), 0);
	ROW(0, 1, 2);
	ROW(1, 4, 5);
	ROW(2, 6);
	cr_assert_eq(page_table_compact_rows(&t, swap, 2, 2, &f), 0);
	ROW(0, 4, 5);
	ROW(1, 1, 2);
	EMPTY(2);
}

Test(page_table, compact_rows_refuses_bad_mappings_without_change)
{
	static const struct {
		int32_t map[4];
		int32_t n, new_batch;
	} bad[] = {
		{ { 0, -1, 1 }, 3, 1 }, { { 0, -1, 1 }, 3, 3 }, { { 0, 0, 1 }, 3, 2 },    { { 0, 1, -2 }, 3, 2 },
		{ { 0 }, 1, 2 },        { { 0 }, 1, -1 },       { { 0, 1, 2, 3 }, 5, 4 },
	};

	three_rows();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(page_table_compact_rows(&t, bad[i].map, bad[i].n, bad[i].new_batch, &f), SWAKV_EINVALID,
			     "mapping %zu", i);
	ROW(0, 1, 2);
	ROW(1, 3);
	ROW(2, 4, 5);
	ROW(3, 6);
}

/* ---- invariants ---- */

Test(page_table, check_names_the_first_violation)
{
	char text[160];

	make(2, 4, 8, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_entry(&t, 1, 0, 3, &f), 0);
	cells[2 * 4 + 2] = 3;
	cells[3 * 4 + 2] = 3 + 8;
	cr_assert_eq(page_table_check(&t, &f), SWAKV_EINVALID);
	fault_format(&f, text, sizeof(text));
	cr_assert_str_eq(text, "sequence 1: page id 3 is in the row already, at column 0");
	cells[2 * 4 + 2] = 9;
	cells[3 * 4 + 2] = 9 + 8;
	cr_assert_eq(page_table_check(&t, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_TABLE_ID);
	cells[2 * 4 + 2] = 4;
	cr_assert_eq(page_table_check(&t, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_TABLE_V_ID);
	cells[3 * 4 + 2] = 4 + 8;
	cr_assert_eq(page_table_check(&t, &f), 0);
	t.mode = PAGE_TABLE_DENSE;
	cr_assert_eq(page_table_check(&t, &f), SWAKV_EINVALID);
	cr_assert_eq(f.reason, FAULT_TABLE_GAP);
}

/* ---- upload ---- */

Test(page_table, row_upload_sends_all_first_then_dirty_rows_only)
{
	struct page_table_upload *up;
	int32_t one[] = { 1 };

	make(4, 3, 9, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_upload_rows(&t, &sink, &up, &f), 0);
	cr_assert_eq(up->n_entries, 4 * 6);
	cr_assert_eq(up->n_ranges, 1);
	device_run();
	free(up);
	cr_assert_eq(page_table_upload_rows(&t, &sink, &up, &f), 0);
	cr_assert_null(up, "nothing to do, nothing called");
	cr_assert_eq(dev.calls, 1);
	dev.view[0] = MARKER;
	cr_assert_eq(page_table_set_row(&t, 1, one, 1, &f), 0);
	cr_assert_eq(page_table_set_row(&t, 2, one, 1, &f), 0);
	cr_assert_eq(page_table_upload_rows(&t, &sink, &up, &f), 0);
	cr_assert_eq(up->n_entries, 12);
	cr_assert_eq(up->n_ranges, 1, "adjacent rows are one range");
	device_run();
	free(up);
	cr_assert_eq(dev.view[0], MARKER, "a clean row does not travel");
	cr_assert_eq(dev.view[6], 1);
}

Test(page_table, what_is_there_already_or_undone_is_not_sent)
{
	struct page_table_upload *up;
	int32_t one[] = { 1 };

	make(2, 3, 9, PAGE_TABLE_SPARSE);
	cr_assert_eq(page_table_set_row(&t, 0, one, 1, &f), 0);
	cr_assert_eq(page_table_upload_rows(&t, &sink, &up, &f), 0);
	free(up);
	cr_assert_eq(page_table_set_row(&t, 0, one, 1, &f), 0);
	cr_assert_eq(page_table_upload_rows(&t, &sink, &up, &f), 0);
	cr_assert_null(up);
	cr_assert_eq(page_table_set_entry(&t, 0, 2, 5, &f), 0);
	cr_assert_eq(page_table_clear_entry(&t, 0, 2, &f), 0);
	cr_assert_eq(page_table_upload_rows(&t, &sink, &up, &f), 0);
	cr_assert_null(up);
	cr_assert_eq(page_table_upload_entries(&t, &sink, &up, &f), 0);
	cr_assert_null(up);
}

Test(page_table, entry_upload_sends_two_int32_a_mapping)
{
	make(2, 16, 40, PAGE_TABLE_SPARSE);
	memset(dev.view, 0x77, sizeof(dev.view));
	cr_assert_eq(page_table_set_entry(&t, 1, 12, 31, &f), 0);
	expect_entries(2, 2);
	cr_assert_eq(page_table_set_entry(&t, 1, 12, 31, &f), 0);
	expect_entries(0, 0);
	cr_assert_eq(page_table_set_entry(&t, 1, 8, 4, &f), 0);
	cr_assert_eq(page_table_set_entry(&t, 1, 9, 6, &f), 0);
	expect_entries(4, 2);
	cr_assert_eq(page_table_clear_entry(&t, 1, 12, &f), 0);
	expect_entries(2, 2);
}

Test(page_table, failed_copy_leaves_everything_dirty)
{
	struct page_table_upload *up;

	make(2, 16, 40, PAGE_TABLE_SPARSE);
	expect_entries(0, 0);
	cr_assert_eq(page_table_set_entry(&t, 0, 2, 31, &f), 0);
	for (int nth = 1; nth <= 2; nth++) {
		dev.calls = 0;
		dev.fail_at = nth;
		cr_assert_eq(page_table_upload_entries(&t, &sink, &up, &f), SWAKV_EDEVICE);
		device_run();
		free(up);
	}
	dev.fail_at = 0;
	expect_entries(2, 2);
}

Test(page_table, two_uploads_without_a_wait_do_not_disturb_each_other)
{
	struct page_table_upload *first, *second;

	make(1, 8, 40, PAGE_TABLE_SPARSE);
	expect_entries(0, 0);
	cr_assert_eq(page_table_set_entry(&t, 0, 2, 31, &f), 0);
	cr_assert_eq(page_table_upload_entries(&t, &sink, &first, &f), 0);
	cr_assert_eq(page_table_set_entry(&t, 0, 2, 7, &f), 0);
	cr_assert_eq(first->staged[0], 31, "what was enqueued is not touched by a later edit");
	cr_assert_eq(page_table_upload_entries(&t, &sink, &second, &f), 0);
	device_run();
	cr_assert_eq(dev.view[2], 7);
	cr_assert_eq(dev.view[8 + 2], 47);
	free(first);
	free(second);
}

Test(page_table, broken_table_is_not_sent)
{
	struct page_table_upload *up;

	make(1, 8, 40, PAGE_TABLE_SPARSE);
	cells[3] = 40;
	cr_assert_eq(page_table_upload_rows(&t, &sink, &up, &f), SWAKV_EINVALID);
	cr_assert_null(up);
	cr_assert_eq(dev.calls, 0);
	cells[3] = -1;
}

/* ---- deliveries ---- */

Test(page_table, delivery_is_exact_however_many_ranges_change)
{
	struct wire_update updates[WIRE_MAX_INLINE_UPDATES];
	struct wire_row rows[1];
	struct delivery d = { .updates = updates, .rows = rows };
	uint32_t seed = 1;

	make(1, 64, 64, PAGE_TABLE_SPARSE);
	for (int round = 0; round < 2000; round++) {
		int32_t before[64];
		uint32_t n = 0;

		memcpy(before, t.sent, sizeof(before));
		page_table_open(&t, 0);
		for (int i = 0; i < 12; i++) {
			int32_t c = (int32_t)((seed = seed * 1103515245 + 12345) >> 16) % 64;

			page_table_put(&t, 0, c, k(0, c) < 0 ? c : -1);
		}
		page_table_close(&t, 0);
		d.n_updates = d.n_rows = d.flags = 0;
		page_table_collect(&t, 0, &d);
		for (int32_t c = 0; c < 64; c++)
			n += before[c] != k(0, c);
		cr_assert_eq(d.n_updates, n);
		cr_assert_eq(d.n_rows, n > 0);
		for (uint32_t i = 0; i < d.n_updates; i++)
			before[d.updates[i].cell] = d.updates[i].page;
		cr_assert_arr_eq(before, page_table_host_row(&t, 0), sizeof(before));
	}
}
