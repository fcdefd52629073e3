/* SPDX-License-Identifier: Apache-2.0 */
/*
 * times.h - a log-linear histogram of durations, flat, for memory that others read
 *
 * Four steps to a factor of two, from 2 us to 69 s. A step holds what is above the
 * one below it, and not above its own bound: so what is at most a bound is a sum of
 * whole steps. Every fourth bound is a power of two.
 */
#ifndef SWAKV_TIMES_H
#define SWAKV_TIMES_H

#include <stdint.h>

#define TIMES_UNIT_SHIFT 11 /* 2,048 ns */
#define TIMES_OCTAVES    23 /* from the fifth step on */
#define TIMES_STEPS      (4 * (TIMES_OCTAVES + 1) + 1)
#define TIMES_LAST       (TIMES_STEPS - 1) /* whatever is above all bounds */

struct times {
	uint64_t sum_ns;
	uint64_t counts[TIMES_STEPS];
};

/* The step that @ns falls into. */
static inline uint32_t times_step(uint64_t ns)
{
	uint64_t units = (ns - (ns > 0)) >> TIMES_UNIT_SHIFT;
	uint32_t power = (63 ^ (uint32_t)__builtin_clzll(units | 4)) - 2;
	uint64_t step = 4 * power + (units >> power);

	return step < TIMES_LAST ? (uint32_t)step : TIMES_LAST;
}

/* Bound of @step, in ns: what is in it is not above. Of TIMES_LAST: UINT64_MAX. */
static inline uint64_t times_bound(uint32_t step)
{
	uint32_t power = step < 4 ? 0 : step / 4 - 1;

	if (step >= TIMES_LAST)
		return UINT64_MAX;
	return (uint64_t)(step - 4 * power + 1) << power << TIMES_UNIT_SHIFT;
}

static inline void times_add(struct times *t, uint64_t ns)
{
	t->sum_ns += ns;
	if (ns <= UINT64_C(1) << TIMES_UNIT_SHIFT) /* as most are of what is over at once */
		t->counts[0]++;
	else
		t->counts[times_step(ns)]++;
}

/* How many there are in steps 0 to @step. */
static inline uint64_t times_up_to(const struct times *t, uint32_t step)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i <= step && i < TIMES_STEPS; i++)
		n += t->counts[i];
	return n;
}

static inline uint64_t times_count(const struct times *t)
{
	return times_up_to(t, TIMES_LAST);
}

/* A bound below which @share of them are, in ns; the last one's is the one before. 0: there is none. */
static inline uint64_t times_quantile(const struct times *t, double share)
{
	uint64_t n = times_count(t), seen = 0;
	double wanted = share * (double)n;

	for (uint32_t i = 0; i < TIMES_LAST && n > 0; i++) {
		seen += t->counts[i];
		if (seen > 0 && (double)seen >= wanted)
			return times_bound(i);
	}
	return n ? times_bound(TIMES_LAST - 1) : 0;
}

#endif
