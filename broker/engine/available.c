/* SPDX-License-Identifier: Apache-2.0 */
/*
 * available.c - see available.h
 *
 * Counted over joined stretches of extents that the class holds or could take,
 * since a page that straddles two of them becomes whole there. A provision takes
 * from the same stretches, so for one class alone the count is exact.
 */
#include "available.h"

/* Moves when pool_available() of @c may: an extent changed hands, or one of another class became empty or not. */
static uint64_t pool_epoch(const struct pool *p, const struct page_class *c)
{
	return p->hands + p->turns - c->turns;
}

/* Free pages that class @c loses with its empty extent @x. */
static int32_t pages_lost(const struct pool *p, const struct page_class *c, int32_t x)
{
	int32_t border[BORDERS], lost = (int32_t)pages_count(p, c, x, x + 1);
	int n = border_pages(p, c, x, border);

	for (int i = 0; i < n; i++)
		lost += c->state[border[i]] == PAGE_FREE;
	return lost;
}

bool extent_serves(const struct pool *p, int32_t x, int index, bool others)
{
	const struct page_class *holder;

	if (p->extents[x].choice)
		return false;
	if (p->extent_class[x] == index || p->extent_class[x] < 0)
		return true;
	if (!others || p->extents[x].n_live > 0)
		return false;
	holder = p->classes[p->extent_class[x]];
	return holder->promised == 0 || holder->n_free - pages_lost(p, holder, x) >= holder->promised;
}

int32_t extents_next_stretch(struct pool *p, int32_t x, int index, bool others, int32_t *first)
{
	int32_t from = x;

	while (x < p->n_extents && !extent_serves(p, x, index, others))
		x++;
	*first = x;
	while (x < p->n_extents && extent_serves(p, x, index, others))
		x++;
	p->looked += (uint64_t)(x - from);
	return x;
}

int pool_class_index(const struct pool *p, const struct page_class *c)
{
	for (int i = 0; i < p->n_classes; i++)
		if (p->classes[i] == c)
			return i;
	return -1;
}

/* Usable pages of class @index that touch a chosen extent: however many of them are free, they are withheld. */
static int64_t pages_touching(struct pool *p, const struct page_class *c, int index)
{
	int64_t n = 0;

	if (p->n_chosen > 0)
		p->looked += (uint64_t)p->n_extents;
	for (int32_t x = 0; x < p->n_extents && p->n_chosen > 0; x++) {
		int32_t border[BORDERS], n_border;

		if (!p->extents[x].choice || p->extent_class[x] != index)
			continue;
		n += pages_count(p, c, x, x + 1);
		n_border = border_pages(p, c, x, border);
		for (int i = 0; i < n_border; i++) {
			int32_t first, last;

			page_extents(p, c, border[i], &first, &last);
			while (first < x && !p->extents[first].choice)
				first++;
			/* in the first chosen one that it touches */
			n += first == x && page_is_whole(p, c, index, border[i]);
		}
	}
	return n;
}

int64_t pool_available(struct pool *p, struct page_class *c)
{
	uint64_t now = pool_epoch(p, c);

	if (c->cached_at != now) {
		int index = pool_class_index(p, c);
		int32_t first;
		int64_t usable = 0;

		for (int32_t x = 0; x < p->n_extents;) {
			x = extents_next_stretch(p, x, index, true, &first);
			usable += pages_count(p, c, first, x);
		}
		c->cached_available = usable - (c->n_usable - pages_touching(p, c, index));
		c->cached_at = now;
	}
	return c->n_free + c->cached_available;
}
