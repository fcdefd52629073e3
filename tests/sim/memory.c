/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - see memory.h; a split page lies in both halves, a joined one in one run that is in either */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

bool memory_init(struct memory *m, uint64_t half_bytes)
{
	m->half = half_bytes / MEMORY_GRAIN;
	m->tags = calloc(2 * m->half, sizeof(*m->tags));
	m->taken = calloc(2 * m->half, sizeof(*m->taken));
	return m->tags && m->taken;
}

void memory_free(struct memory *m)
{
	free(m->tags);
	free(m->taken);
	*m = (struct memory){ 0 };
}

/* Grains of a page, of its K half where it has two. */
static uint64_t grains_of(const struct geometry *g)
{
	return g->page_bytes / MEMORY_GRAIN;
}

static uint64_t first_of(const struct geometry *g, int32_t page)
{
	return (uint64_t)page * grains_of(g);
}

bool memory_has(const struct memory *m, const struct geometry *g, int32_t page)
{
	uint64_t first = first_of(g, page), end = first + grains_of(g);

	return page >= 0 && (end <= m->half || (g->shape.joined && first >= m->half && end <= 2 * m->half));
}

void memory_write(struct memory *m, const struct geometry *g, int32_t page, uint64_t tag)
{
	uint64_t n = grains_of(g), first = first_of(g, page);

	for (uint64_t i = first; i < first + n; i++)
		m->tags[i] = tag;
	for (uint64_t i = first + m->half; !g->shape.joined && i < first + m->half + n; i++)
		m->tags[i] = tag;
}

void memory_copy(struct memory *m, const struct geometry *g, int32_t from, int32_t to)
{
	uint64_t n = grains_of(g);

	for (int half = 0; half < (g->shape.joined ? 1 : 2); half++)
		memmove(m->tags + first_of(g, to) + (uint64_t)half * m->half,
			m->tags + first_of(g, from) + (uint64_t)half * m->half, n * sizeof(*m->tags));
}

static bool all_are(const uint64_t *tags, uint64_t n, uint64_t tag, uint64_t *found)
{
	for (uint64_t i = 0; i < n; i++)
		if (tags[i] != tag) {
			*found = tags[i];
			return false;
		}
	return true;
}

bool memory_is(const struct memory *m, const struct geometry *g, int32_t page, uint64_t tag, uint64_t *found)
{
	const uint64_t *tags = m->tags + first_of(g, page);

	return all_are(tags, grains_of(g), tag, found) &&
	       (g->shape.joined || all_are(tags + m->half, grains_of(g), tag, found));
}

static bool none_is_anothers(const uint64_t *tags, uint64_t n, uint32_t number, uint64_t *found)
{
	for (uint64_t i = 0; i < n; i++)
		if (tags[i] && memory_tag_worker(tags[i]) != number) {
			*found = tags[i];
			return false;
		}
	return true;
}

bool memory_is_own(const struct memory *m, const struct geometry *g, int32_t page, uint32_t number, uint64_t *found)
{
	const uint64_t *tags = m->tags + first_of(g, page);

	return none_is_anothers(tags, grains_of(g), number, found) &&
	       (g->shape.joined || none_is_anothers(tags + m->half, grains_of(g), number, found));
}

/* Both halves of a split page, or the run of a joined one, are @number's; who had some of it before. */
static uint32_t note(struct memory *m, const struct geometry *g, int32_t page, uint32_t number)
{
	uint64_t first = first_of(g, page);
	uint32_t before = 0;

	for (int half = 0; half < (g->shape.joined ? 1 : 2); half++, first += m->half)
		for (uint64_t i = first; i < first + grains_of(g); i++) {
			before = m->taken[i] ? m->taken[i] : before;
			m->taken[i] = number;
		}
	return before;
}

uint32_t memory_take(struct memory *m, const struct geometry *g, int32_t page, uint32_t number)
{
	return note(m, g, page, number);
}

void memory_give(struct memory *m, const struct geometry *g, int32_t page)
{
	note(m, g, page, 0);
}

uint32_t memory_taker(const struct memory *m, const struct geometry *g, int32_t page)
{
	uint64_t first = first_of(g, page);

	for (int half = 0; half < (g->shape.joined ? 1 : 2); half++, first += m->half)
		for (uint64_t i = first; i < first + grains_of(g); i++)
			if (m->taken[i])
				return m->taken[i];
	return 0;
}
