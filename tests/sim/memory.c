/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdlib.h>

bool memory_init(struct memory *m, uint64_t half_bytes)
{
	m->grains = half_bytes / MEMORY_GRAIN;
	m->tags = calloc(m->grains, sizeof(*m->tags));
	return m->tags != NULL;
}

void memory_free(struct memory *m)
{
	free(m->tags);
	*m = (struct memory){ 0 };
}

void memory_write(struct memory *m, uint64_t page_bytes, int32_t page, uint64_t tag)
{
	uint64_t n = page_bytes / MEMORY_GRAIN, first = (uint64_t)page * n;

	for (uint64_t i = first; i < first + n && i < m->grains; i++)
		m->tags[i] = tag;
}

bool memory_is(const struct memory *m, uint64_t page_bytes, int32_t page, uint64_t tag, uint64_t *found)
{
	uint64_t n = page_bytes / MEMORY_GRAIN, first = (uint64_t)page * n;

	for (uint64_t i = first; i < first + n; i++) {
		*found = i < m->grains ? m->tags[i] : 0;
		if (*found != tag)
			return false;
	}
	return true;
}
