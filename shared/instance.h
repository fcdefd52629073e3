/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - what a broker may be called (a part of file names, and no option of a tool), and where its socket is */
#ifndef SWAKV_INSTANCE_H
#define SWAKV_INSTANCE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire.h"

#define INSTANCE_NAME_RULE "1 to 31 of A-Z a-z 0-9 . _ -, not beginning with . or -"

static inline bool instance_name_valid(const char *name)
{
	static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(name);

	return n > 0 && n < WIRE_NAME && strspn(name, good) == n && name[0] != '.' && name[0] != '-';
}

/*
 * The @i-th folder in which the socket of a broker is looked for, NULL: there
 * are no more. A user's own brokers come before those of the machine; a broker
 * that is not told otherwise lies in the first. $XDG_RUNTIME_DIR counts only as
 * an absolute path.
 */
static inline const char *instance_folder(unsigned int i)
{
	const char *own = getenv("XDG_RUNTIME_DIR");
	unsigned int n_own = own && own[0] == '/';

	return i < n_own ? own : i == n_own ? "/run" : NULL;
}

/* Room for the path of a broker's socket: the administrator's lies beside it, with four bytes more (admin_wire.h). */
#define SOCKET_PATH_SIZE 104

/* Path of the socket of broker @name below @folder. As snprintf(). */
static inline int instance_socket(char *buf, size_t size, const char *folder, const char *name)
{
	return snprintf(buf, size, "%s/swakv/%s.sock", folder, name);
}

_Static_assert(WIRE_NAME - 1 == 31, "the rule names the length");

#endif
