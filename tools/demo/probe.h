/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.h - one vector of K and V, read back from where the checker itself finds it
 *
 * The kernels that write pages and those that read them share one address rule
 * (paging.h): were it wrong, both would agree, and attention would show it only
 * where vectors overlap. So in each step one vector of each layer group is read
 * at an address of this file's own arithmetic and compared bit by bit.
 */
#ifndef DEMO_PROBE_H
#define DEMO_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "kvgen.h"

#define PROBE_MAX_DIM 512 /* elements of a vector that are compared; of a longer one the first */

/* Which vector: one that the sequence's window holds. */
struct probe {
	uint64_t sequence;
	int64_t position;
	uint32_t layer; /* of the group */
	uint32_t head;
};

/* A vector of the window that ends at @endpoint; @nth chooses another one each time. */
struct probe probe_choose(const struct swakv_layout *l, uint64_t sequence, int64_t endpoint, uint64_t nth);

/* Address of the first byte of @p's K, or V, in the pages of its group; @page is the K id in its column of the table.
 */
uint64_t probe_address(const struct swakv_layout *l, const struct probe *p, int32_t page, bool v);

/* Column of the table that @p's position falls into. */
int32_t probe_column(const struct swakv_layout *l, const struct probe *p);

/* Address of the scale of that vector; of FP8 only. */
uint64_t probe_scale_address(const struct swakv_layout *l, const struct probe *p, int32_t page, bool v);

/* Bytes of the vector that are compared. */
size_t probe_bytes(const struct swakv_layout *l);

/*
 * True when @bits, as read, and of FP8 @scale, are those of layer @first_layer + p->layer. *@wrong: the first byte that
 * is not, or probe_bytes() when the scale is not.
 */
bool probe_holds(const struct probe *p, const struct swakv_layout *l, const struct kvgen *gen, uint32_t first_layer,
		 bool v, const void *bits, float scale, uint32_t *wrong);

#endif
