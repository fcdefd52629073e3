/* SPDX-License-Identifier: Apache-2.0 */
/* kv_table.h - inside of <swakv/page_table.h>: what its edits and its uploads share */
#ifndef SWAKV_KV_TABLE_H
#define SWAKV_KV_TABLE_H

#include <swakv/page_table.h>

#include "fault.h"

struct swakv_page_table {
	int32_t *cells; /* borrowed: [n_rows][2][width] */
	int32_t *sent;  /* [n_rows][2][width]: what the device view holds, once `started` */
	struct kv_id {
		int32_t id, column;
	} * order; /* [width]: scratch, to find a page that is twice in a row */
	uint64_t device;
	int32_t n_rows, width, num_pages;
	enum swakv_page_table_kind kind;
	bool identity;
	bool started; /* the device view has been filled */
	char why[192];
};

/* The row's K ids, then its V ids; @row is in range. */
static inline int32_t *kv_table_row(const struct swakv_page_table *t, int32_t row)
{
	return t->cells + (int64_t)row * 2 * t->width;
}

#endif
