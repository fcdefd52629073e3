/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - one decode step in flight: what it sends, what it computes, and the check of that */
#ifndef DEMO_FRAME_H
#define DEMO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "device.h"
#include "presets.h"
#include "probe.h"

struct worker;
struct sequence;

struct frame_entry {
	struct sequence *seq;
	int64_t endpoint; /* this step's: its token is at endpoint - 1 */
};

/* What a step has of one layer group: offsets in the buffer, of arrays [layers][n][heads][dim], and of the table. */
struct frame_part {
	size_t k, v, q, out, table;
	size_t k_scales, v_scales; /* of arrays [layers][n][heads] */
	int32_t *expected;         /* [batch][2][width], joined: [batch][1][width]: what the device table must hold */
	struct probe probe;
	size_t probed; /* offset of the probe's K, behind it its V, then the scales of both */
};

struct frame {
	struct buffer buffer;
	size_t slots, positions, endpoints,
		heads_end; /* offsets in the buffer: arrays of [batch], and where they end */
	struct frame_part parts[PRESET_MAX_GROUPS];
	struct frame_entry *entries; /* [batch] */
	uint32_t n;
	bool whole; /* every request of the session is in this step */
	bool in_flight;
	struct swakv_fence fence;
};

/* 0 or a code. */
int frame_init(struct frame *f, struct worker *w);
void frame_deinit(struct frame *f, struct worker *w);

/* Adds a sequence whose next token has been prepared, and moves its endpoint. */
void frame_add(struct frame *f, struct sequence *seq);
/* Enqueues the step: KV write, attention, probe, read back, poison of sequences that end, mark. 0 or a code. */
int frame_submit(struct frame *f, struct worker *w);
/*
 * Waits for the step if it is in flight and checks every result. 0 or a code;
 * wrong results are counted, not a failure.
 */
int frame_check(struct frame *f, struct worker *w);

#endif
