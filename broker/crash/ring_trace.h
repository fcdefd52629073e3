/* SPDX-License-Identifier: Apache-2.0 */
/* ring_trace.h - the last commands that the ring thread began to execute, for the dump of a crash */
#ifndef SWAKV_BROKER_RING_TRACE_H
#define SWAKV_BROKER_RING_TRACE_H

#include <stdint.h>

#define RING_TRACE_COMMANDS 16 /* a power of two */

struct ring_trace {
	uint32_t n; /* so far; the last is at (n - 1) % RING_TRACE_COMMANDS */
	struct {
		uint32_t session;
		uint32_t op; /* as the client gave it */
	} last[RING_TRACE_COMMANDS];
};

/* Every command comes by here: no more than a few instructions. */
static inline void ring_trace_add(struct ring_trace *t, uint32_t session, uint32_t op)
{
	uint32_t i = t->n++ % RING_TRACE_COMMANDS;

	t->last[i].session = session;
	t->last[i].op = op;
}

#endif
