/* SPDX-License-Identifier: Apache-2.0 */
/* status_layout.h - where the parts of the status page lie: for its writer and its reader */
#ifndef SWAKV_STATUS_LAYOUT_H
#define SWAKV_STATUS_LAYOUT_H

#include <string.h>

#include "status_page.h"

#define PAGE_ALIGN(n)  (((size_t)(n) + 4095) & ~(size_t)4095)
#define HEAD_BYTES     PAGE_ALIGN(sizeof(struct status_head))
#define SNAPSHOT_BYTES PAGE_ALIGN(sizeof(struct status_snapshot))
#define PAGE_BYTES     (HEAD_BYTES + 2 * SNAPSHOT_BYTES)

/* All is copied in whole words. */
_Static_assert(offsetof(struct status_snapshot, number) == 0, "the number is the first word");
_Static_assert(offsetof(struct status_snapshot, classes) % 8 == 0, "counters");
_Static_assert(sizeof(struct status_class) % 8 == 0 && sizeof(struct status_session) % 8 == 0, "classes, sessions");
_Static_assert(sizeof(struct status_model) % 8 == 0 && offsetof(struct status_snapshot, models) % 8 == 0, "models");
_Static_assert(sizeof(struct status_request) % 8 == 0 && sizeof(struct status_sequence) % 8 == 0, "requests");
_Static_assert(sizeof(struct status_tally) % 8 == 0 && sizeof(struct status_denial) % 8 == 0, "tallies, denials");
_Static_assert(sizeof(struct wire_binding) % 8 == 0 && offsetof(struct status_snapshot, bindings) % 8 == 0, "bindings");
_Static_assert(sizeof(struct status_extent) == 16 && offsetof(struct status_snapshot, extents) % 8 == 0, "extents");
_Static_assert(sizeof(struct status_event) % 8 == 0 && offsetof(struct status_snapshot, events) % 8 == 0, "events");

static inline size_t snapshot_offset(uint64_t number)
{
	return HEAD_BYTES + (number & 1) * SNAPSHOT_BYTES;
}

struct part {
	size_t offset;
	size_t bytes;
};
enum { N_PARTS = 11 };

static inline size_t events_listed(const struct status_snapshot *s)
{
	return (size_t)(s->events_ever - status_event_first(s->events_ever));
}

/* The used parts of a snapshot with the counts in @s, without its first word. */
static inline void used_parts(const struct status_snapshot *s, struct part parts[N_PARTS])
{
	const struct part used[N_PARTS] = {
		{ sizeof(s->number), offsetof(struct status_snapshot, classes) - sizeof(s->number) },
		{ offsetof(struct status_snapshot, classes), s->n_classes * sizeof(s->classes[0]) },
		{ offsetof(struct status_snapshot, models), s->n_models * sizeof(s->models[0]) },
		{ offsetof(struct status_snapshot, sessions), s->n_sessions * sizeof(s->sessions[0]) },
		{ offsetof(struct status_snapshot, tallies), s->n_tallies * sizeof(s->tallies[0]) },
		{ offsetof(struct status_snapshot, denials), s->n_denials * sizeof(s->denials[0]) },
		{ offsetof(struct status_snapshot, requests), s->n_requests * sizeof(s->requests[0]) },
		{ offsetof(struct status_snapshot, sequences), s->n_sequences * sizeof(s->sequences[0]) },
		{ offsetof(struct status_snapshot, bindings), s->n_bindings * sizeof(s->bindings[0]) },
		{ offsetof(struct status_snapshot, extents), s->n_extents * sizeof(s->extents[0]) },
		{ offsetof(struct status_snapshot, events), events_listed(s) * sizeof(s->events[0]) },
	};

	memcpy(parts, used, sizeof(used));
}

#endif
