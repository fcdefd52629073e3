/* SPDX-License-Identifier: Apache-2.0 */
/* A page table of one's own: the behaviours of spec sections 5 and 7, one fact a test. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/page_table.h>

#define MARKER 0x5eed

static swakv_page_table *t;
#define UPDATE(at, list, n)                                                                                            \
	{                                                                                                              \
		.size = sizeof(struct swakv_page_table_row), .row = (at), .count = (n), .ids = (list)                  \
	}

static struct swakv_page_table_view is = { .size = sizeof(is) };
static int32_t *cells;

/* A device view whose copies happen only when it is told to: until then they read from the upload's memory. */
static struct device {
	int32_t view[4096];
	struct {
		uint64_t dst;
		const int32_t *src; /* NULL: fill with -1 */
		size_t n;
	} queue[256];
	int n_queued, calls, fail_at;
} dev;

static int enqueue(uint64_t dst, const int32_t *src, size_t n)
{
	if (++dev.calls == dev.fail_at)
		return 1;
	dev.queue[dev.n_queued].dst = dst;
	dev.queue[dev.n_queued].src = src;
	dev.queue[dev.n_queued++].n = n;
	return 0;
}

static int device_copy(void *arg, uint64_t dst, const void *src, size_t bytes)
{
	return enqueue(dst, src, bytes / sizeof(int32_t));
}

static int device_fill(void *arg, uint64_t dst, int32_t value, size_t n)
{
	cr_assert_eq(value, -1);
	return enqueue(dst, NULL, n);
}

static void device_run(void)
{
	for (int i = 0; i < dev.n_queued; i++)
		for (size_t k = 0; k < dev.queue[i].n; k++)
			((int32_t *)(uintptr_t)dev.queue[i].dst)[k] = dev.queue[i].src ? dev.queue[i].src[k] : -1;
	dev.n_queued = 0;
}

static const struct swakv_page_table_sink sink = { sizeof(sink), device_copy, device_fill, NULL };

static void make(int32_t rows, int32_t width, int32_t pages, enum swakv_page_table_kind kind)
{
	struct swakv_page_table_options o = { .size = sizeof(o),
					      .device = (uintptr_t)dev.view,
					      .n_rows = rows,
					      .width = width,
					      .num_pages = pages,
					      .kind = kind };

	o.cells = cells = malloc((size_t)rows * 2 * (size_t)width * sizeof(*cells));
	cr_assert_eq(swakv_page_table_new(&o, &t, NULL, 0), 0);
	cr_assert_eq(swakv_page_table_get_view(t, &is), 0);
	memset(&dev, 0, sizeof(dev));
}

static void expect_why(const char *text)
{
	cr_assert_str_eq(swakv_page_table_error(t), text);
}

static void teardown(void)
{
	swakv_page_table_free(t);
	free(cells);
	t = NULL;
	cells = NULL;
}

TestSuite(page_table, .fini = teardown);

static int32_t k(int32_t row, int32_t c)
{
	return swakv_page_table_row(t, row)[c];
}

static int32_t v(int32_t row, int32_t c)
{
	return swakv_page_table_row(t, row)[is.width + c];
}

static void expect_row(int32_t row, const int32_t *ids, int32_t n)
{
	for (int32_t c = 0; c < is.width; c++) {
		int32_t want = c < n ? ids[c] : -1;

		cr_assert_eq(k(row, c), want, "row %d column %d: %d, expected %d", row, c, k(row, c), want);
		cr_assert_eq(v(row, c), want < 0 ? -1 : want + is.num_pages);
	}
}
#define ROW(row, ...) expect_row(row, (int32_t[]){ __VA_ARGS__ }, sizeof((int32_t[]){ __VA_ARGS__ }) / 4)
#define EMPTY(row)    expect_row(row, NULL, 0)

/* Uploads entries and expects so many in so many ranges; then runs the device. */
static void expect_entries(int64_t entries, int32_t ranges)
{
	swakv_page_table_upload *up;

	cr_assert_eq(swakv_page_table_upload_entries(t, &sink, &up), 0);
	cr_assert_eq(swakv_page_table_upload_entries_sent(up), entries);
	cr_assert_eq(swakv_page_table_upload_copies(up), ranges);
	device_run();
	swakv_page_table_upload_free(up);
	cr_assert_arr_eq(dev.view, cells, (size_t)is.n_rows * 2 * (size_t)is.width * sizeof(*cells));
}

Test(page_table, identity_ids_do_not_depend_on_the_pool_but_the_shift_does)
{
	make(3, 4, 12, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_identity(t), 0);
	ROW(0, 0, 1, 2, 3);
	ROW(2, 8, 9, 10, 11);
	cr_assert_eq(v(1, 2), 6 + 12);
	teardown();
	make(3, 4, 17, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_identity(t), 0);
	ROW(2, 8, 9, 10, 11);
	cr_assert_eq(v(1, 2), 6 + 17);
	cr_assert_eq(is.num_pages, 17);
	cr_assert_eq(is.width, 4);
	cr_assert_null(swakv_page_table_row(t, 3));
	cr_assert_null(swakv_page_table_row(t, -1));
}

Test(page_table, identity_that_does_not_fit_is_refused_without_change)
{
	make(3, 4, 11, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_identity(t), SWAKV_EINVALID);
	EMPTY(0);
	cr_assert_not(swakv_page_table_is_identity(t));
}

Test(page_table, identity_ends_with_the_next_edit_even_of_the_same_ids)
{
	int32_t same[] = { 0, 1 };

	make(2, 2, 4, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_identity(t), 0);
	cr_assert(swakv_page_table_is_identity(t));
	cr_assert_eq(swakv_page_table_set_row(t, 0, same, 2), 0);
	cr_assert_not(swakv_page_table_is_identity(t));
	cr_assert_eq(swakv_page_table_set_identity(t), 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 0, 0), 0);
	cr_assert_not(swakv_page_table_is_identity(t));
}

Test(page_table, set_row_clears_the_rest_of_the_row)
{
	int32_t ids[] = { 3, 7 };

	make(2, 4, 10, SWAKV_TABLE_DENSE);
	cr_assert_eq(swakv_page_table_set_row(t, 1, ids, 2), 0);
	ROW(1, 3, 7);
	cr_assert_eq(v(1, 0), 13);
	cr_assert_eq(v(1, 1), 17);
	EMPTY(0);
	cr_assert_eq(swakv_page_table_set_row(t, 1, NULL, 0), 0);
	EMPTY(1);
}

Test(page_table, set_rows_commits_as_one)
{
	int32_t a[] = { 8, 9 }, b[] = { 4 };
	struct swakv_page_table_row rows[] = { UPDATE(0, a, 2), UPDATE(1, NULL, 0), UPDATE(2, b, 1) };

	make(3, 3, 12, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_identity(t), 0);
	cr_assert_eq(swakv_page_table_set_rows(t, rows, 3), 0);
	ROW(0, 8, 9);
	cr_assert_eq(v(0, 0), 20);
	EMPTY(1);
	ROW(2, 4);
	cr_assert_eq(v(2, 0), 16);
	cr_assert_not(swakv_page_table_is_identity(t));
}

Test(page_table, set_rows_with_one_bad_row_changes_none)
{
	int32_t one[] = { 1 }, good[] = { 2, 3 }, bad[] = { 5 };
	struct swakv_page_table_row rows[] = { UPDATE(0, good, 2), UPDATE(1, bad, 1) };
	struct swakv_page_table_row twice[] = { UPDATE(0, good, 2), UPDATE(0, one, 1) };

	make(2, 3, 5, SWAKV_TABLE_DENSE);
	cr_assert_eq(swakv_page_table_set_row(t, 0, one, 1), 0);
	cr_assert_eq(swakv_page_table_set_rows(t, rows, 2), SWAKV_EINVALID);
	expect_why("update 1: page id 5 is outside 0 to 4");
	ROW(0, 1);
	cr_assert_eq(swakv_page_table_set_rows(t, twice, 2), SWAKV_EINVALID);
	expect_why("update 1: row 0 is set by update 0 already");
	ROW(0, 1);
}

Test(page_table, dense_row_refuses_bad_ids_gaps_and_null)
{
	int32_t one[] = { 1 }, low[] = { -2 }, high[] = { 5 }, gap[] = { 1, -1, 2 };

	make(1, 3, 5, SWAKV_TABLE_DENSE);
	cr_assert_eq(swakv_page_table_set_row(t, 0, one, 1), 0);
	cr_assert_eq(swakv_page_table_set_row(t, 0, low, 1), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_set_row(t, 0, high, 1), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_set_row(t, 0, gap, 3), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_set_row(t, 0, NULL, 1), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_set_row(t, 0, one, 4), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_set_row(t, 0, one, -1), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 2, 4), SWAKV_EINVALID);
	expect_why("row 0: column 2: a dense row has no holes, its live part ends at 1");
	ROW(0, 1);
}

Test(page_table, dense_row_is_cleared_from_its_end_only)
{
	int32_t ids[] = { 1, 2, 3 };

	make(1, 4, 5, SWAKV_TABLE_DENSE);
	cr_assert_eq(swakv_page_table_set_row(t, 0, ids, 3), 0);
	cr_assert_eq(swakv_page_table_clear_entry(t, 0, 1), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_clear_entry(t, 0, 2), 0);
	ROW(0, 1, 2);
}

Test(page_table, sparse_row_has_holes_and_rows_may_share_a_page)
{
	make(2, 8, 24, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 1, 7), 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 2, 3), 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 6, 11), 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 1, 0, 7), 0);
	cr_assert_eq(swakv_page_table_check(t), 0);
	ROW(0, -1, 7, 3, -1, -1, -1, 11);
	cr_assert_eq(swakv_page_table_clear_entry(t, 0, 2), 0);
	ROW(0, -1, 7, -1, -1, -1, -1, 11);
}

Test(page_table, page_twice_in_a_row_is_refused)
{
	make(1, 8, 16, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 1, 5), 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 6, 5), SWAKV_EINVALID);
	expect_why("row 0: page id 5 is in the row already, at column 1");
	cr_assert_eq(k(0, 6), -1);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 1, 5), 0, "the same again is no second time");
}

Test(page_table, single_entries_refuse_what_is_out_of_range)
{
	static const int32_t bad[][3] = { { -1, 0, 0 }, { 1, 0, 0 },  { 0, -1, 0 },
					  { 0, 8, 0 },  { 0, 0, -1 }, { 0, 0, 16 } };

	make(1, 8, 16, SWAKV_TABLE_SPARSE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(swakv_page_table_set_entry(t, bad[i][0], bad[i][1], bad[i][2]), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_clear_entry(t, 1, 0), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_clear_entry(t, 0, 8), SWAKV_EINVALID);
	EMPTY(0);
}

Test(page_table, sizes_must_be_positive_and_v_ids_fit)
{
	static int32_t cell[2];
	const struct swakv_page_table_options good = {
		.size = sizeof(good), .cells = cell, .n_rows = 1, .width = 1, .num_pages = INT32_MAX / 2
	};
	struct swakv_page_table_options bad[] = { good, good, good, good, good, good };
	char why[160];

	bad[0].n_rows = 0;
	bad[1].width = -1;
	bad[2].num_pages = 0;
	bad[3].num_pages = INT32_MAX / 2 + 1;
	bad[4].cells = NULL;
	bad[5].kind = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(swakv_page_table_new(&bad[i], &t, why, sizeof(why)), SWAKV_EINVALID, "options %zu", i);
		cr_assert_null(t);
	}
	cr_assert_str_eq(why, "kind 7: use SWAKV_TABLE_SPARSE or SWAKV_TABLE_DENSE");
	cr_assert_eq(swakv_page_table_new(&good, &t, NULL, 0), 0);
}

Test(page_table, null_is_refused_or_ignored)
{
	swakv_page_table_upload *up;

	cr_assert_eq(swakv_page_table_set_identity(NULL), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_set_entry(NULL, 0, 0, 0), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_upload_rows(NULL, &sink, &up), SWAKV_EINVALID);
	cr_assert_null(swakv_page_table_row(NULL, 0));
	swakv_page_table_free(NULL);
	swakv_page_table_upload_free(NULL);
	make(1, 2, 4, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_rows(t, NULL, 1), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_compact_rows(t, NULL, 1, 1), SWAKV_EINVALID);
	cr_assert_eq(swakv_page_table_upload_rows(t, NULL, &up), SWAKV_EINVALID);
	EMPTY(0);
}

/* ---- compaction ---- */

static void three_rows(void)
{
	int32_t a[] = { 1, 2 }, b[] = { 3 }, c[] = { 4, 5 }, d[] = { 6 };
	struct swakv_page_table_row rows[] = { UPDATE(0, a, 2), UPDATE(1, b, 1), UPDATE(2, c, 2), UPDATE(3, d, 1) };

	make(4, 3, 9, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_rows(t, rows, 4), 0);
}

Test(page_table, compact_rows_permutes_and_clears_beyond)
{
	int32_t map[] = { 2, -1, 0, 1 }, swap[] = { 1, 0 }, cycle[] = { 1, 2, 0 };

	three_rows();
	cr_assert_eq(swakv_page_table_compact_rows(t, map, 4, 3), 0);
	ROW(0, 4, 5);
	ROW(1, 6);
	ROW(2, 1, 2);
	EMPTY(3);
	cr_assert_eq(swakv_page_table_compact_rows(t, cycle, 3, 3), 0);
	ROW(0, 1, 2);
	ROW(1, 4, 5);
	ROW(2, 6);
	cr_assert_eq(swakv_page_table_compact_rows(t, swap, 2, 2), 0);
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
		cr_assert_eq(swakv_page_table_compact_rows(t, bad[i].map, bad[i].n, bad[i].new_batch), SWAKV_EINVALID,
			     "mapping %zu", i);
	ROW(0, 1, 2);
	ROW(1, 3);
	ROW(2, 4, 5);
	ROW(3, 6);
}

/* ---- invariants ---- */

Test(page_table, check_names_the_first_violation)
{
	make(2, 4, 8, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_entry(t, 1, 0, 3), 0);
	cells[2 * 4 + 2] = 3;
	cells[3 * 4 + 2] = 3 + 8;
	cr_assert_eq(swakv_page_table_check(t), SWAKV_EINVALID);
	expect_why("row 1: page id 3 is in the row already, at column 0");
	cells[2 * 4 + 2] = 9;
	cells[3 * 4 + 2] = 9 + 8;
	cr_assert_eq(swakv_page_table_check(t), SWAKV_EINVALID);
	expect_why("row 1: page id 9 is outside 0 to 7");
	cells[2 * 4 + 2] = 4;
	cr_assert_eq(swakv_page_table_check(t), SWAKV_EINVALID);
	expect_why("row 1: column 2: the V id is not the K id plus num_pages (it is 17)");
	cells[3 * 4 + 2] = 4 + 8;
	cr_assert_eq(swakv_page_table_check(t), 0);
}

Test(page_table, check_of_a_dense_row_finds_its_hole)
{
	make(1, 4, 8, SWAKV_TABLE_DENSE);
	cells[2] = 4;
	cells[4 + 2] = 4 + 8;
	cr_assert_eq(swakv_page_table_check(t), SWAKV_EINVALID);
	expect_why("row 0: column 2: a dense row has no holes, its live part ends at 0");
}

Test(page_table, first_of_several_pages_twice_is_named)
{
	static const int32_t ids[] = { 5, 2, 9, 2, 5, 9 };

	make(1, 6, 16, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_row(t, 0, ids, 6), SWAKV_EINVALID);
	expect_why("row 0: page id 2 is in the row already, at column 1");
}

/* ---- upload ---- */

Test(page_table, row_upload_sends_all_first_then_dirty_rows_only)
{
	swakv_page_table_upload *up;
	int32_t one[] = { 1 };

	make(4, 3, 9, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_upload_rows(t, &sink, &up), 0);
	cr_assert_eq(swakv_page_table_upload_entries_sent(up), 4 * 6);
	cr_assert_eq(swakv_page_table_upload_copies(up), 1);
	device_run();
	swakv_page_table_upload_free(up);
	cr_assert_eq(swakv_page_table_upload_rows(t, &sink, &up), 0);
	cr_assert_null(up, "nothing to do, nothing called");
	cr_assert_eq(dev.calls, 1);
	dev.view[0] = MARKER;
	cr_assert_eq(swakv_page_table_set_row(t, 1, one, 1), 0);
	cr_assert_eq(swakv_page_table_set_row(t, 2, one, 1), 0);
	cr_assert_eq(swakv_page_table_upload_rows(t, &sink, &up), 0);
	cr_assert_eq(swakv_page_table_upload_entries_sent(up), 12);
	cr_assert_eq(swakv_page_table_upload_copies(up), 1, "adjacent rows are one range");
	device_run();
	swakv_page_table_upload_free(up);
	cr_assert_eq(dev.view[0], MARKER, "a clean row does not travel");
	cr_assert_eq(dev.view[6], 1);
}

Test(page_table, what_is_there_already_or_undone_is_not_sent)
{
	swakv_page_table_upload *up;
	int32_t one[] = { 1 };

	make(2, 3, 9, SWAKV_TABLE_SPARSE);
	cr_assert_eq(swakv_page_table_set_row(t, 0, one, 1), 0);
	cr_assert_eq(swakv_page_table_upload_rows(t, &sink, &up), 0);
	swakv_page_table_upload_free(up);
	cr_assert_eq(swakv_page_table_set_row(t, 0, one, 1), 0);
	cr_assert_eq(swakv_page_table_upload_rows(t, &sink, &up), 0);
	cr_assert_null(up);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 2, 5), 0);
	cr_assert_eq(swakv_page_table_clear_entry(t, 0, 2), 0);
	cr_assert_eq(swakv_page_table_upload_rows(t, &sink, &up), 0);
	cr_assert_null(up);
	cr_assert_eq(swakv_page_table_upload_entries(t, &sink, &up), 0);
	cr_assert_null(up);
}

Test(page_table, entry_upload_sends_two_int32_a_mapping)
{
	make(2, 16, 40, SWAKV_TABLE_SPARSE);
	memset(dev.view, 0x77, sizeof(dev.view));
	cr_assert_eq(swakv_page_table_set_entry(t, 1, 12, 31), 0);
	expect_entries(2, 2);
	cr_assert_eq(swakv_page_table_set_entry(t, 1, 12, 31), 0);
	expect_entries(0, 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 1, 8, 4), 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 1, 9, 6), 0);
	expect_entries(4, 2);
	cr_assert_eq(swakv_page_table_clear_entry(t, 1, 12), 0);
	expect_entries(2, 2);
}

Test(page_table, failed_copy_leaves_everything_dirty)
{
	swakv_page_table_upload *up;

	make(2, 16, 40, SWAKV_TABLE_SPARSE);
	expect_entries(0, 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 2, 31), 0);
	for (int nth = 1; nth <= 2; nth++) {
		dev.calls = 0;
		dev.fail_at = nth;
		cr_assert_eq(swakv_page_table_upload_entries(t, &sink, &up), SWAKV_EDEVICE);
		device_run();
		swakv_page_table_upload_free(up);
	}
	dev.fail_at = 0;
	expect_entries(2, 2);
}

Test(page_table, two_uploads_without_a_wait_do_not_disturb_each_other)
{
	swakv_page_table_upload *first, *second;

	make(1, 8, 40, SWAKV_TABLE_SPARSE);
	expect_entries(0, 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 2, 31), 0);
	cr_assert_eq(swakv_page_table_upload_entries(t, &sink, &first), 0);
	cr_assert_eq(swakv_page_table_set_entry(t, 0, 2, 7), 0);
	cr_assert_eq(dev.queue[0].src[0], 31, "what was enqueued is not touched by a later edit");
	cr_assert_eq(swakv_page_table_upload_entries(t, &sink, &second), 0);
	device_run();
	cr_assert_eq(dev.view[2], 7);
	cr_assert_eq(dev.view[8 + 2], 47);
	swakv_page_table_upload_free(first);
	swakv_page_table_upload_free(second);
}

Test(page_table, broken_table_is_not_sent)
{
	swakv_page_table_upload *up;

	make(1, 8, 40, SWAKV_TABLE_SPARSE);
	cells[3] = 40;
	cr_assert_eq(swakv_page_table_upload_rows(t, &sink, &up), SWAKV_EINVALID);
	cr_assert_null(up);
	cr_assert_eq(dev.calls, 0);
	cells[3] = -1;
}
