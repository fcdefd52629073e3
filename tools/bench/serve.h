/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - one worker's share of a trace, with continuous batching */
#ifndef SWAKV_BENCH_SERVE_H
#define SWAKV_BENCH_SERVE_H

#include <stdint.h>

#include <swakv/swakv.h>

struct lane;

/*
 * Serves rows @index, @index + @n, ... of the trace in file @path: each a
 * request of one sequence, as many at a time as the session has slots, one step
 * over all of them. The step times (prepare and complete) go to @l->latency,
 * tokens to @l->ops. Exits on failure.
 */
void serve_trace(swakv_session *s, const char *path, uint32_t index, uint32_t n, struct lane *l);

#endif
