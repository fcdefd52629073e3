/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - where a layer group's pages and its table lie, as the worker's kernels need it */
#ifndef SWAKV_CLIENT_LAYOUT_H
#define SWAKV_CLIENT_LAYOUT_H

#include <stdint.h>

#include <swakv/swakv.h>

struct wire_group;
struct wire_welcome;

/*
 * What follows from @g, which was declared as group @group, and the checked welcome
 * @w, in a pool that is mapped at @pool; @host_tables: where the host tables are.
 */
struct swakv_layout layout_derive(const struct wire_welcome *w, uint32_t group, const struct wire_group *g,
				  uint64_t pool, const void *host_tables);

#endif
