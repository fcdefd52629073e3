/* SPDX-License-Identifier: Apache-2.0 */
#include "area.h"

#include <stdlib.h>

void area_init(struct area *a, uint64_t bytes)
{
	*a = (struct area){ .bytes = bytes / AREA_ALIGN * AREA_ALIGN };
	TAILQ_INIT(&a->pieces);
}

void area_deinit(struct area *a)
{
	struct area_piece *p;

	if (!a->pieces.tqh_last) /* never initialised */
		return;
	while ((p = TAILQ_FIRST(&a->pieces)))
		area_give(a, p); /* NOLINT(clang-analyzer-unix.Malloc): it loses sight of the one that was removed */
}

struct area_piece *area_take(struct area *a, uint64_t bytes)
{
	struct area_piece *next, *p;
	uint64_t at = 0;

	if (bytes == 0 || bytes > a->bytes)
		return NULL;
	bytes = area_rounded(bytes);
	TAILQ_FOREACH (next, &a->pieces, link) {
		if (next->offset - at >= bytes)
			break;
		at = next->offset + next->bytes;
	}
	if (!next && a->bytes - at < bytes)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->offset = at;
	p->bytes = bytes;
	if (next)
		TAILQ_INSERT_BEFORE(next, p, link);
	else
		TAILQ_INSERT_TAIL(&a->pieces, p, link);
	a->used += bytes;
	return p;
}

struct area_piece *area_give(struct area *a, struct area_piece *p)
{
	if (p) {
		TAILQ_REMOVE(&a->pieces, p, link);
		a->used -= p->bytes;
		free(p);
	}
	return NULL;
}

uint64_t area_largest(const struct area *a)
{
	const struct area_piece *p;
	uint64_t at = 0, largest = 0;

	TAILQ_FOREACH (p, &a->pieces, link) {
		if (p->offset - at > largest)
			largest = p->offset - at;
		at = p->offset + p->bytes;
	}
	return a->bytes - at > largest ? a->bytes - at : largest;
}
