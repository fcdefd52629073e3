/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wants.h - pages that the broker asks for, as far as the caller has been told (swakv_pages_wanted())
 *
 * The broker counts how often it asks for more. A caller that has asked once what
 * is wanted of a group has been told up to that count; from then on what goes
 * beyond makes the session's descriptor readable (events.h), whoever took the
 * broker's byte, until the caller asks again. The broker decides anew every few
 * milliseconds: what was given since then is taken off here, so that who looks
 * again at once does not give twice.
 */
#ifndef SWAKV_CLIENT_WANTS_H
#define SWAKV_CLIENT_WANTS_H

#include <stdbool.h>
#include <stdint.h>

#include <swakv/pages.h>

#include "wire.h"

struct swakv_session;

struct wants {
	uint32_t heeded; /* a bit for each group of which the caller has asked */
	bool untold;     /* there is more than it knows */
	uint64_t told[WIRE_MAX_GROUPS];
	shm_u64 given[WIRE_MAX_GROUPS]; /* pages that it has ever given, from when the give is sent on */
};

/* Pages of @group that are still asked for: less what was given since the broker decided that. */
int64_t wants_left(const struct swakv_session *s, uint32_t group);
/* Of these, up to @max ranges of ids that help most, to @out: how many. */
uint32_t wants_ranges(const struct swakv_session *s, uint32_t group, struct swakv_page_range *out, uint32_t max);
/* @n pages of @group are being given; negative: they are not, after all. */
void wants_given(struct swakv_session *s, uint32_t group, int64_t n);

/* Looks at the boards: true when there is more than the caller knows, for the first time since it was told. */
bool wants_grew(struct swakv_session *s);
/* The caller is being told of @group. True when there is nothing more than it knows, for the first time. */
bool wants_told(struct swakv_session *s, uint32_t group);

#endif
