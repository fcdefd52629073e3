/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the one clock: CLOCK_MONOTONIC in nanoseconds (vdso, no system call) */
#ifndef SWAKV_CLOCK_H
#define SWAKV_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

static inline uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

#endif
