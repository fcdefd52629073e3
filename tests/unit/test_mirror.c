/* SPDX-License-Identifier: Apache-2.0 */
/* Which pages the demo worker may fill with NaN, and when: against a device that only keeps a record. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mirror.h"

enum { BATCH = 2, WIDTH = 8, PRIVATE = 3 };

static struct mirror m;
static struct device device;
static const struct kernel_pages pages = { .width = WIDTH, .num_pages = 100, .page_tokens = 16 };

/* The record. */
static int32_t filled[64];
static size_t n_filled, n_fills, n_synchronized;

int device_buffer_new(struct device *d, struct buffer *b, size_t bytes)
{
	*b = (struct buffer){ calloc(1, bytes), 0, bytes };
	b->address = (uint64_t)(uintptr_t)b->host;
	return 0;
}

void device_buffer_free(struct device *d, struct buffer *b)
{
	free(b->host);
	*b = (struct buffer){ 0 };
}

int device_upload(struct device *d, const struct buffer *b, size_t offset, size_t bytes)
{
	return 0;
}

int device_fill(struct device *d, const struct kernel_fill *p)
{
	const int32_t *list = (const int32_t *)(uintptr_t)p->page_list;

	cr_assert_gt(p->n_pages, 0);
	cr_assert_eq(p->pages.num_pages, 100);
	cr_assert_eq(p->pattern, 0x7fff);
	for (int32_t i = 0; i < p->n_pages; i++)
		filled[n_filled++] = list[i];
	n_fills++;
	return 0;
}

int swakv_stream_synchronize(swakv_session *s, uint32_t stream)
{
	n_synchronized++;
	return 0;
}

static void setup(void)
{
	cr_assert_eq(mirror_init(&m, &device, &pages, BATCH, PRIVATE, true), 0);
	n_filled = n_fills = n_synchronized = 0;
}

static void teardown(void)
{
	mirror_deinit(&m);
	mirror_deinit(&m);
}

TestSuite(mirror, .init = setup, .fini = teardown);

static void update(int32_t slot, int32_t column, int32_t page, int32_t old_page)
{
	const struct swakv_update u = { slot, column, page, old_page };

	mirror_updates(&m, 0, 0, &u, 1);
	cr_assert_eq(m.error, 0);
}

Test(mirror, begins_empty_and_follows_the_updates)
{
	for (int32_t c = 0; c < WIDTH; c++)
		cr_assert_eq(mirror_page(&m, 1, c), -1);
	update(1, 3, 42, -1);
	cr_assert_eq(mirror_page(&m, 1, 3), 42);
	cr_assert_eq(mirror_page(&m, 0, 3), -1);
	update(1, 3, -1, 42);
	cr_assert_eq(mirror_page(&m, 1, 3), -1);
}

Test(mirror, page_that_leaves_the_window_is_poisoned_once)
{
	update(0, 1, 7, -1);
	cr_assert_eq(n_filled, 0);
	update(0, 1, -1, 7);
	cr_assert_eq(n_filled, 1);
	cr_assert_eq(filled[0], 7);
	update(0, 1, -1, -1);
	cr_assert_eq(n_filled, 1);
}

Test(mirror, one_fill_for_all_pages_of_an_answer)
{
	const struct swakv_update in[] = { { 0, 0, 1, -1 }, { 0, 1, 2, -1 }, { 1, 0, 3, -1 } };
	const struct swakv_update out[] = { { 0, 0, -1, 1 }, { 1, 0, -1, 3 }, { 0, 2, 1, -1 } };

	mirror_updates(&m, 0, 0, in, 3);
	mirror_updates(&m, 0, 0, out, 3);
	cr_assert_eq(n_fills, 1);
	cr_assert_eq(n_filled, 2);
	cr_assert_eq(filled[0], 1);
	cr_assert_eq(filled[1], 3);
	cr_assert_eq(mirror_page(&m, 0, 2), 1);
}

Test(mirror, ended_sequence_poisons_its_whole_row_and_no_other)
{
	update(0, 2, 5, -1);
	update(0, 3, 6, -1);
	update(1, 3, 8, -1);
	cr_assert_eq(mirror_poison_row(&m, 0), 0);
	cr_assert_eq(n_fills, 1);
	cr_assert_eq(n_filled, 2);
	cr_assert_eq(filled[0], 5);
	cr_assert_eq(filled[1], 6);
}

Test(mirror, late_clear_of_an_ended_sequence_touches_nobodys_page)
{
	update(0, 2, 5, -1);
	cr_assert_eq(mirror_poison_row(&m, 0), 0);
	cr_assert_eq(n_filled, 1);
	update(0, 2, -1, 5);
	cr_assert_eq(n_filled, 1, "page 5 may belong to another worker by now");
	cr_assert_eq(mirror_page(&m, 0, 2), -1);
}

Test(mirror, next_owner_of_a_slot_replaces_entries_without_poison)
{
	update(0, 2, 5, -1);
	cr_assert_eq(mirror_poison_row(&m, 0), 0);
	update(0, 2, 9, 5);
	cr_assert_eq(n_filled, 1);
	cr_assert_eq(mirror_page(&m, 0, 2), 9);
	update(0, 2, -1, 9);
	cr_assert_eq(n_filled, 2);
	cr_assert_eq(filled[1], 9);
}

Test(mirror, without_poison_nothing_is_filled)
{
	mirror_deinit(&m);
	cr_assert_eq(mirror_init(&m, &device, &pages, BATCH, PRIVATE, false), 0);
	update(0, 1, 7, -1);
	update(0, 1, -1, 7);
	update(0, 1, 7, -1);
	cr_assert_eq(mirror_poison_row(&m, 0), 0);
	cr_assert_eq(mirror_reserve(&m), 0);
	cr_assert_eq(n_fills, 0);
}

Test(mirror, list_is_used_again_only_after_the_stream_was_idle)
{
	size_t n = 0;

	while (!n_synchronized) {
		cr_assert_eq(mirror_reserve(&m), 0);
		cr_assert_lt(n++, 1000);
		n_filled = 0;
		update(0, 1, 7, -1);
		update(0, 1, -1, 7);
		cr_assert_eq(n_filled, 1);
		cr_assert_eq(filled[0], 7);
	}
	cr_assert_leq(m.n_list, m.list_cap);
	cr_assert_gt(n, BATCH * PRIVATE);
}

Test(mirror, update_outside_the_table_is_an_error_that_stays)
{
	const struct swakv_update bad[] = {
		{ BATCH, 0, 1, -1 }, { -1, 0, 1, -1 }, { 0, WIDTH, 1, -1 }, { 0, -1, 1, -1 }
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		m.error = 0;
		mirror_updates(&m, 0, 0, &bad[i], 1);
		cr_assert_eq(m.error, SWAKV_EINVALID);
		cr_assert_eq(mirror_reserve(&m), SWAKV_EINVALID);
	}
}
