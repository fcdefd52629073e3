/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - how a layer group lies in the pool: what the worker declares, and what it takes the answer for */
#ifndef DEMO_LAYOUT_H
#define DEMO_LAYOUT_H

#include <stdint.h>

#include <swakv/swakv.h>

#include "kernels.h"
#include "presets.h"

/* What is declared of group @group of @p. Scales of FP8 are the page's extra bytes. */
struct swakv_group layout_declare(const struct preset *p, uint32_t group);

/*
 * Holds @l against what was declared, for @max_batch rows of up to @max_seq tokens in the pool of
 * @info. NULL: fine; else what is wrong, static.
 */
const char *layout_fault(const struct swakv_layout *l, const struct preset *p, uint32_t group,
			 const struct swakv_session_info *info, uint32_t max_batch, int64_t max_seq);

/* Rows of ids that a slot has in the table: K's and V's, or of joined pages one. */
static inline uint32_t layout_id_rows(const struct swakv_layout *l)
{
	return l->form == SWAKV_JOINED ? 1 : 2;
}

/* What the kernels get. */
struct kernel_pages layout_pages(const struct swakv_layout *l);

#endif
