/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - the pool extent by extent, for the status page */
#ifndef SWAKV_BROKER_MAP_H
#define SWAKV_BROKER_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/extent_view.h"
#include "status_page.h"

struct ring_thread;

/* What is remembered from one picture to the next; the ring thread's. */
struct extent_map {
	uint32_t n;                 /* extents */
	struct extent_users *users; /* [n] */
	uint32_t next;              /* where the next look begins */
	uint32_t turn;              /* counts looks at all of them */
	uint32_t n_names;           /* of sessions: */
	struct extent_map_name {
		uint32_t serial;
		uint16_t id;
	} names[STATUS_MAX_SESSIONS * WIRE_MAX_GROUPS]; /* by serial */
};

/* NULL: memory is short. */
struct extent_map *extent_map_new(uint32_t n_extents);
/* NULL is ignored. Returns NULL. */
struct extent_map *extent_map_free(struct extent_map *m);
/* The sessions that are shown are these: to be told before others are served. */
void extent_map_name_sessions(struct extent_map *m, const struct ring_thread *t);
/*
 * Fills the extents of @s, whose classes are filled already, in slices: others may be served in between. A
 * few thousand pages are looked at, whose they are; of more extents than that some keep what was known of them.
 */
void extent_map_fill(struct extent_map *m, struct status_snapshot *s, struct ring_thread *t);

#endif
