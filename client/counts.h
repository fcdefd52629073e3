/* SPDX-License-Identifier: Apache-2.0 */
/* counts.h - tokens that each sequence of a request advances by, or keeps, as they travel */
#ifndef SWAKV_CLIENT_COUNTS_H
#define SWAKV_CLIENT_COUNTS_H

#include "request.h"

struct counts {
	const int32_t *list; /* NULL: one more, or all */
	uint32_t n;
};

static inline bool counts_are_listed(const struct swakv_request *r, const struct counts *k)
{
	uint32_t i = 1;

	if (!k->list)
		return false;
	while (i < k->n && k->list[i] == k->list[0])
		i++;
	return i < k->n || k->n != r->n || k->list[0] < 1; /* what is wrong is the broker's to say */
}

/* Counts that travel behind the entries. */
static inline uint32_t counts_listed(const struct swakv_request *r, const struct counts *k)
{
	return counts_are_listed(r, k) ? k->n : 0;
}

static inline int32_t counts_in_entry(const struct swakv_request *r, const struct counts *k, int32_t otherwise)
{
	if (!k->list)
		return otherwise;
	return counts_are_listed(r, k) ? -(int32_t)k->n : k->list[0];
}

#endif
