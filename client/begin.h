/* SPDX-License-Identifier: Apache-2.0 */
/* begin.h - a request that is to begin, or has begun and waits for its slots */
#ifndef SWAKV_CLIENT_BEGIN_H
#define SWAKV_CLIENT_BEGIN_H

#include <stdbool.h>
#include <stddef.h>

struct call;
struct swakv_begin_options;
struct swakv_request;
struct swakv_session;
struct wire_begin;

/*
 * What @options ask for, as a request that has not begun (one reference, the
 * caller's; its slots go behind @body); NULL with the code in *@code and the sentence set.
 */
struct swakv_request *begin_make(struct swakv_session *s, const struct swakv_begin_options *options,
				 struct wire_begin *body, int *code);
/*
 * The broker has admitted @r, whose handle is set. 0; SWAKV_EPENDING, with the
 * sentence in @why: a slot has clears under way on another stream, so it was given
 * back. So it is when it is not @wanted any more.
 */
int begin_granted(struct swakv_session *s, struct swakv_request *r, bool wanted, char *why, size_t why_size);
/* A begin that is held because its slots are not through yet: true when that is over, with its result. */
bool begin_settled(struct swakv_session *s, struct call *c);

#endif
