/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - words for the values of an enum: the list stands beside the enum, and each value must have one */
#ifndef SWAKV_NAMES_H
#define SWAKV_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Defines @name, a table of the words in @list, of which there must be @count: one for each value from 0 on. */
#define NAMES(name, count, ...)                                                                                        \
	static const char *const name[] = { __VA_ARGS__ };                                                             \
	_Static_assert(sizeof(name) / sizeof(name[0]) == (count), #count " values, and a word for each of them")

#define NAME_OF(names, value) name_of((names), sizeof(names) / sizeof((names)[0]), (value))

/* "unknown" when there is none: the value may come from another version. Static. */
static inline const char *name_of(const char *const *names, size_t n, int64_t value)
{
	return value >= 0 && (uint64_t)value < n ? names[value] : "unknown";
}

#endif
