/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's page table: what a delivery of its changes holds (spec section 5). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "page_table.h"

static struct page_table t;
static int32_t cells[2 * 64];
static struct wire_row_head heads[1];

Test(table_delivery, sizes_must_be_positive_and_v_ids_fit)
{
	static int32_t cell[2];
	static struct wire_row_head head;

	cr_assert_lt(page_table_init(&t, cell, &head, 0, 1, 1, false), 0);
	cr_assert_lt(page_table_init(&t, cell, &head, 1, 0, 1, false), 0);
	cr_assert_lt(page_table_init(&t, cell, &head, 1, 1, 0, false), 0);
	cr_assert_lt(page_table_init(&t, cell, &head, 1, 1, INT32_MAX / 2 + 1, false), 0);
	cr_assert_eq(page_table_init(&t, cell, &head, 1, 1, INT32_MAX / 2, false), 0);
	page_table_deinit(&t);
}

Test(table_delivery, delivery_is_exact_however_many_ranges_change)
{
	struct wire_update updates[WIRE_MAX_INLINE_UPDATES];
	struct wire_row rows[1];
	struct delivery d = { .updates = updates, .rows = rows };
	uint32_t seed = 1;

	cr_assert_eq(page_table_init(&t, cells, heads, 1, 64, 64, false), 0);
	for (int round = 0; round < 2000; round++) {
		int32_t before[64];
		uint32_t n = 0;

		memcpy(before, t.sent, sizeof(before));
		page_table_open(&t, 0);
		for (int i = 0; i < 12; i++) {
			int32_t c = (int32_t)((seed = seed * 1103515245 + 12345) >> 16) % 64;

			page_table_put(&t, 0, c, page_table_get(&t, 0, c) < 0 ? c : -1);
		}
		page_table_close(&t, 0);
		d.n_updates = d.n_rows = d.flags = 0;
		page_table_collect(&t, 0, &d);
		for (int32_t c = 0; c < 64; c++)
			n += before[c] != page_table_get(&t, 0, c);
		cr_assert_eq(d.n_updates, n);
		cr_assert_eq(d.n_rows, n > 0);
		for (uint32_t i = 0; i < d.n_updates; i++)
			before[d.updates[i].cell] = d.updates[i].page;
		cr_assert_arr_eq(before, page_table_row(&t, 0), sizeof(before));
	}
	page_table_deinit(&t);
}
