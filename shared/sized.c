/* SPDX-License-Identifier: Apache-2.0 */
/* sized.c - see sized.h */
#include "sized.h"

#include <inttypes.h>
#include <stdio.h>

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

bool sized_check(const struct sized *kind, const void *p, char *why, size_t why_size)
{
	const unsigned char *byte = p;
	uint32_t size = sized_of(p);

	if (size < kind->first || size > SIZED_MOST) {
		if (why && why_size)
			snprintf(why, why_size,
				 "size of struct %s is %" PRIu32 ", not %" PRIu32 ": set it to sizeof(struct %s)",
				 kind->name, size, kind->size, kind->name);
		return false;
	}
	for (uint32_t i = kind->size; i < size; i++) {
		if (byte[i] == 0)
			continue;
		if (why && why_size)
			snprintf(why, why_size,
				 "byte %" PRIu32 " of struct %s is %d, and this library knows %" PRIu32
				 " of its %" PRIu32 " bytes: others must be 0, or ask swakv_has() first",
				 i, kind->name, byte[i], kind->size, size);
		return false;
	}
	return true;
}

bool sized_take(const struct sized *kind, void *own, const void *p, char *why, size_t why_size)
{
	uint32_t known;

	if (!sized_check(kind, p, why, why_size))
		return false;
	known = least(sized_of(p), kind->size);
	memcpy(own, p, known);
	memset((char *)own + known, 0, kind->size - known);
	return true;
}

void sized_give(const struct sized *kind, void *p, const void *own)
{
	const size_t head = sizeof(uint32_t);

	memcpy((char *)p + head, (const char *)own + head, least(sized_of(p), kind->size) - head);
}

bool sized_check_list(const struct sized *kind, const void *p, uint32_t n, uint32_t *bad, char *why, size_t why_size)
{
	for (uint32_t i = 0; i < n; i++) {
		const void *element = sized_at(p, i);

		if (bad)
			*bad = i;
		if (i > 0 && sized_of(element) != sized_of(p)) {
			if (why && why_size)
				snprintf(why, why_size,
					 "size of struct %s is %" PRIu32 " here and %" PRIu32
					 " in the first of the list: all say sizeof(struct %s)",
					 kind->name, sized_of(element), sized_of(p), kind->name);
			return false;
		}
		if (!sized_check(kind, element, why, why_size))
			return false;
	}
	return true;
}
