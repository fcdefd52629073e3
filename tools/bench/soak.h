/* SPDX-License-Identifier: Apache-2.0 */
/* soak.h - many sleeps of broker and worker, and no wake-up lost */
#ifndef SWAKV_BENCH_SOAK_H
#define SWAKV_BENCH_SOAK_H

#include <stdbool.h>
#include <stdint.h>

struct bench;

/* Until both sides together have slept @sleeps times; records what was counted. False: a wake-up was lost. */
bool soak_run(struct bench *b, uint64_t sleeps);

#endif
