/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - what a broker may be called: a part of file names, and no option of a tool */
#ifndef SWAKV_INSTANCE_H
#define SWAKV_INSTANCE_H

#include <stdbool.h>
#include <string.h>

#include "wire.h"

#define INSTANCE_NAME_RULE "1 to 31 of A-Z a-z 0-9 . _ -, not beginning with . or -"

static inline bool instance_name_valid(const char *name)
{
	static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(name);

	return n > 0 && n < WIRE_NAME && strspn(name, good) == n && name[0] != '.' && name[0] != '-';
}

_Static_assert(WIRE_NAME - 1 == 31, "the rule names the length");

#endif
