/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - table updates, from the broker's answer to the streams */
#ifndef SWAKV_CLIENT_DELIVERY_H
#define SWAKV_CLIENT_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>

struct swakv_session;
struct call;

/*
 * Takes the payload of an answered prepare, complete or compaction: entry
 * faults go to @c->entries, updates to the streams. Arms the streams of the
 * entries that succeeded when @arms is set. 0, SWAKV_EDEVICE (a stream failed)
 * or SWAKV_EGONE (the broker's answer is impossible; nothing was applied).
 */
int delivery_take(struct swakv_session *s, struct call *c, const unsigned char *payload, size_t len, bool arms);

#endif
