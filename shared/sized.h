/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sized.h - public structs, which the program may know in an older or a newer version
 *
 * Each begins with a uint32_t, its size in the program (spec section 9). A later
 * version only appends members, whose 0 means what was before them. The members
 * of version 1 end with @last: a struct that is smaller is refused, and so is
 * one that is larger than the library's own and holds more than zeroes there.
 */
#ifndef SWAKV_SIZED_H
#define SWAKV_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* No version of a public struct is larger, so a greater size is one that was never set. */
#define SIZED_MOST 4096

/* What the library knows of a struct. */
struct sized {
	const char *name; /* as in C, without "struct" */
	uint32_t size;    /* here */
	uint32_t first;   /* of version 1 */
};
#define SIZED_INIT(type, last)                                                                                         \
	{                                                                                                              \
#type, sizeof(struct type), offsetof(struct type, last) + sizeof(((struct type *)0)->last)             \
	}
#define SIZED(type, last) ((struct sized)SIZED_INIT(type, last))

static inline uint32_t sized_of(const void *p)
{
	uint32_t size;

	memcpy(&size, p, sizeof(size));
	return size;
}

/* True when @p can be used; otherwise @why gets the sentence (NULL: not wanted). */
bool sized_check(const struct sized *kind, const void *p, char *why, size_t why_size);
/*
 * Fills @own, kind->size bytes, from the program's @p: 0 where its version has
 * nothing yet. False with the sentence in @why when @p cannot be used.
 */
bool sized_take(const struct sized *kind, void *own, const void *p, char *why, size_t why_size);
/* Fills the program's @p, which has been checked, from @own; never beyond its size, which stays as it is. */
void sized_give(const struct sized *kind, void *p, const void *own);
/*
 * True when the @n elements at @p can be used: the distance between them is the
 * size of the first, which all others must say, too. *@bad, if not NULL, is the index of the
 * one at fault.
 */
bool sized_check_list(const struct sized *kind, const void *p, uint32_t n, uint32_t *bad, char *why, size_t why_size);
/* Element @i of a list that has been checked. */
static inline const void *sized_at(const void *p, uint32_t i)
{
	return (const char *)p + (size_t)i * sized_of(p);
}

#endif
