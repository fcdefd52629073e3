/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h */
#include "pool.h"

#include <errno.h>
#include <stdlib.h>

#include "extents.h"

int pool_init(struct pool *p, uint64_t half_bytes, uint64_t extent_bytes)
{
	uint64_t n;

	*p = (struct pool){ .half_bytes = half_bytes, .extent_bytes = extent_bytes, .first_moved = -1, .hands = 1 };
	if (half_bytes == 0 || extent_bytes == 0 || extent_bytes > half_bytes)
		return -EINVAL;
	n = half_bytes / extent_bytes + (half_bytes % extent_bytes != 0);
	if (n > INT32_MAX)
		return -EINVAL;
	p->n_extents = p->n_unassigned = (int32_t)n;
	p->extent_class = malloc(n * sizeof(*p->extent_class));
	p->extents = calloc(n, sizeof(*p->extents));
	p->candidates = calloc(4 * n + 2, sizeof(*p->candidates));
	if (!p->extent_class || !p->extents || !p->candidates)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		p->extent_class[i] = -1;
	for (uint64_t i = 0; i < n; i++)
		p->extents[i].runs[0].unknown = p->extents[i].runs[1].unknown = INT32_MAX;
	return 0;
}

void pool_deinit(struct pool *p)
{
	for (int i = 0; i < p->n_classes; i++)
		page_class_free(p->classes[i]);
	free(p->extent_class);
	free(p->extents);
	free(p->candidates);
	*p = (struct pool){ 0 };
}

static int32_t class_trim(struct pool *p, struct page_class *c, int32_t budget)
{
	int32_t n = 0;

	for (; n < budget && c->n_empty > 0; n++) {
		int32_t bare = c->lists[EXTENT_BARE].last;

		extent_return(p, bare >= 0 ? bare : c->lists[EXTENT_EMPTY].last);
	}
	return n;
}

int32_t pool_trim(struct pool *p, int32_t budget)
{
	int32_t n = 0;

	for (int i = 0; i < p->n_classes && n < budget && p->n_empty > 0; i++)
		n += class_trim(p, p->classes[i], budget - n);
	return n;
}

/* ---- classes ------------------------------------------------------------------ */

/* The class at @index goes: what it held before keeps no record of it. It is the caller's. */
static struct page_class *class_drop(struct pool *p, int index)
{
	class_trim(p, p->classes[index], INT32_MAX);
	for (int32_t x = 0; x < p->n_extents; x++)
		if (p->extents[x].former == index + 1)
			p->extents[x].former = EXTENT_OF_MANY;
	return p->classes[index];
}

/* Where a new class goes: a place of its own, or that of one that nobody uses and that has no live page; -1: none. */
static int class_place(const struct pool *p)
{
	if (p->n_classes < POOL_MAX_CLASSES)
		return p->n_classes;
	for (int i = 0; i < p->n_classes; i++)
		if (p->classes[i]->n_sessions == 0 && p->classes[i]->n_extents == p->classes[i]->n_empty)
			return i;
	return -1;
}

struct page_class *pool_class(struct pool *p, struct page_key key, struct page_class **spare, int *index)
{
	struct page_class *c;

	for (int i = 0; i < p->n_classes; i++) {
		if (page_key_equal(p->classes[i]->key, key)) {
			*index = i;
			return p->classes[i];
		}
	}
	*index = class_place(p);
	if (*index < 0)
		return NULL;
	c = *spare ? *spare : page_class_make(key, (key.joined ? 2 : 1) * p->half_bytes / key.bytes);
	if (!c)
		return NULL;
	page_class_join(c, p);
	*spare = *index < p->n_classes ? class_drop(p, *index) : NULL;
	p->n_classes += *index == p->n_classes;
	p->classes[*index] = c;
	return c;
}
