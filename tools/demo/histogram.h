/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.h - log-linear histogram of durations: 32 steps to a factor of two, flat memory */
#ifndef DEMO_HISTOGRAM_H
#define DEMO_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SHIFT 5
#define HISTOGRAM_STEPS (1u << HISTOGRAM_SHIFT)

/* Zero-initialised is empty. */
struct histogram {
	uint64_t n;
	uint64_t counts[(64 - HISTOGRAM_SHIFT + 1) * HISTOGRAM_STEPS];
};

void histogram_add(struct histogram *h, uint64_t value);
/*
 * Upper end of the step that holds the @share (0 to 1) smallest values: at most
 * 1/32 above the true one. 0 when empty.
 */
uint64_t histogram_quantile(const struct histogram *h, double share);

#endif
