/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wants.h - pages that the broker asks for, as far as the caller has been told (swakv_pages_wanted())
 *
 * The broker counts how often it asks for more. A caller that has asked once what
 * is wanted of a group has been told up to that count; from then on what goes
 * beyond makes the session's descriptor readable (events.h), whoever took the
 * broker's byte, until the caller asks again.
 */
#ifndef SWAKV_CLIENT_WANTS_H
#define SWAKV_CLIENT_WANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct swakv_session;

struct wants {
	uint32_t heeded; /* a bit for each group of which the caller has asked */
	bool untold;     /* there is more than it knows */
	uint64_t told[WIRE_MAX_GROUPS];
};

/* Looks at the boards: true when there is more than the caller knows, for the first time since it was told. */
bool wants_grew(struct swakv_session *s);
/* The caller is being told of @group. True when there is nothing more than it knows, for the first time. */
bool wants_told(struct swakv_session *s, uint32_t group);

#endif
