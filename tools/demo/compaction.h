/* SPDX-License-Identifier: Apache-2.0 */
/* compaction.h - dropping sequences from a request, and whether the device was told the same */
#ifndef DEMO_COMPACTION_H
#define DEMO_COMPACTION_H

#include <stdbool.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "device.h"
#include "options.h"

struct worker;

#define COMPACTION_OPEN 16 /* mappings that may wait for their check */

/* Mappings on their way to the device and back. */
struct compaction {
	struct buffer buffer; /* int32[COMPACTION_OPEN][GROUP_MAX] */
	struct {
		bool in_flight;
		struct swakv_fence fence;
		uint32_t n;
		int32_t expected[GROUP_MAX];
	} open[COMPACTION_OPEN];
	uint32_t next;
};

/* 0 or a code. */
int compaction_init(struct compaction *c, struct worker *w);
void compaction_deinit(struct compaction *c, struct worker *w);
/*
 * Compacts @request, rows kept: @old_to_new has @n entries, @n_left sequences
 * stay. The pages of those that go must be poisoned already. 0 or a code.
 */
int compaction_run(struct compaction *c, struct worker *w, swakv_request *request, const int32_t *old_to_new,
		   uint32_t n, uint32_t n_left);
/* Waits for and checks every mapping that is still open. 0 or a code. */
int compaction_check(struct compaction *c, struct worker *w);

#endif
