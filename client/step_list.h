/* SPDX-License-Identifier: Apache-2.0 */
/* step_list.h - the caller's list of what a step has to do, before anything of it is used */
#ifndef SWAKV_CLIENT_STEP_LIST_H
#define SWAKV_CLIENT_STEP_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "request.h"
#include "session.h"
#include "sized.h"

/*
 * True when the @n elements of @kind at @list, the argument @name, can be used. Otherwise nothing of it was
 * written, and *@r, if it is not an error already, is that with its sentence.
 */
bool step_list_check(struct swakv_session *s, const struct sized *kind, const char *name, const void *list, uint32_t n,
		     int *r);

/* The sentence for a request that entry @i cannot be of. */
void step_request_refuse(struct swakv_session *s, uint32_t i, const struct swakv_request *request);
/* 0 when @request, of entry @i, is one of @s; else SWAKV_EINVALID with its sentence. */
static inline int step_request_check(struct swakv_session *s, uint32_t i, const struct swakv_request *request)
{
	if (request && request->session == s)
		return 0;
	step_request_refuse(s, i, request);
	return SWAKV_EINVALID;
}

#endif
