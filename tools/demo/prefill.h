/* SPDX-License-Identifier: Apache-2.0 */
/* prefill.h - K and V of a context, written into the pages that are mapped */
#ifndef DEMO_PREFILL_H
#define DEMO_PREFILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "device.h"

struct worker;
struct sequence;

#define PREFILL_TOKENS 256 /* tokens of one layer a block holds */
#define PREFILL_BLOCKS 4

/* Blocks of tokens on their way to the device, used in turn. */
struct prefill {
	struct {
		struct buffer buffer;
		bool in_flight;
		struct swakv_fence fence;
	} blocks[PREFILL_BLOCKS];
	size_t positions, k, v, k_scales, v_scales; /* offsets in a block; the slots come first */
	uint32_t next;
};

/* 0 or a code. */
int prefill_init(struct prefill *p, struct worker *w);
void prefill_deinit(struct prefill *p, struct worker *w);
/* Enqueues K and V of @seq's tokens [0, context) as far as their pages are mapped. 0 or a code. */
int prefill_write(struct prefill *p, struct worker *w, const struct sequence *seq);

#endif
