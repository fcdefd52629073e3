/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_name.h - what a model may be called
 *
 * A name is the key of a model's limits, so it is whole everywhere or refused,
 * never cut. It stands in logs, terminals and labels: what cannot be printed is
 * no part of it. Nor is a blank at its end or beginning, which nobody sees and a
 * configuration file does not keep.
 */
#ifndef SWAKV_MODEL_NAME_H
#define SWAKV_MODEL_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "wire.h"

#define MODEL_NAME_RULE "1 to 127 printable ASCII characters, no blank first or last"
_Static_assert(WIRE_MODEL_NAME - 1 == 127, "the rule names the length");

/* @name is terminated. */
static inline bool model_name_valid(const char *name)
{
	size_t n = 0;

	for (; name[n]; n++)
		if (n == WIRE_MODEL_NAME - 1 || name[n] < ' ' || name[n] > '~')
			return false;
	return n > 0 && name[0] != ' ' && name[n - 1] != ' ';
}

/* As it came in a message: terminated, valid, and zero behind its end. */
static inline bool model_name_received(const char name[WIRE_MODEL_NAME])
{
	size_t n = strnlen(name, WIRE_MODEL_NAME);

	if (n == WIRE_MODEL_NAME || !model_name_valid(name))
		return false;
	while (++n < WIRE_MODEL_NAME)
		if (name[n])
			return false;
	return true;
}

#endif
