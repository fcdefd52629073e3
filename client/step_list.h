/* SPDX-License-Identifier: Apache-2.0 */
/* step_list.h - the caller's list of what a step has to do, before anything of it is used */
#ifndef SWAKV_CLIENT_STEP_LIST_H
#define SWAKV_CLIENT_STEP_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "session.h"
#include "sized.h"

/*
 * True when the @n elements of @kind at @list, the argument @name, can be used. Otherwise nothing of it was
 * written, and *@r, if it is not an error already, is that with its sentence.
 */
bool step_list_check(struct swakv_session *s, const struct sized *kind, const char *name, const void *list, uint32_t n,
		     int *r);

#endif
