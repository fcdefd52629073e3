/* SPDX-License-Identifier: Apache-2.0 */
#include "histogram.h"

/* Values below STEPS have a step each; above, each factor of two has STEPS of them. */
static unsigned step_of(uint64_t value)
{
	if (value < HISTOGRAM_STEPS)
		return (unsigned)value;
	unsigned power = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SHIFT;

	return power * HISTOGRAM_STEPS + (unsigned)(value >> power);
}

static uint64_t upper_end(unsigned step)
{
	if (step < HISTOGRAM_STEPS)
		return step;
	unsigned power = step / HISTOGRAM_STEPS - 1;
	uint64_t low = (uint64_t)(step % HISTOGRAM_STEPS + HISTOGRAM_STEPS) << power;

	return low + ((1ull << power) - 1);
}

void histogram_add(struct histogram *h, uint64_t value)
{
	h->n++;
	h->counts[step_of(value)]++;
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
	uint64_t wanted = (uint64_t)(share * (double)h->n), seen = 0;

	if (wanted >= h->n)
		wanted = h->n ? h->n - 1 : 0;
	for (unsigned i = 0; i < sizeof(h->counts) / sizeof(h->counts[0]); i++) {
		seen += h->counts[i];
		if (seen > wanted)
			return upper_end(i);
	}
	return 0;
}
