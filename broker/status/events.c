/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - see events.h */
#include "events.h"

#include <string.h>

#include "ring/channel.h"

struct status_event *event_note(struct event_ring *ring, uint64_t now, enum status_event_kind kind,
				const struct channel *c)
{
	struct status_event *x = &ring->of[status_event_place(ring->ever++)];

	*x = (struct status_event){ .at_ns = now, .kind = kind };
	if (!c)
		return x;
	x->session = c->id;
	x->generation = c->generation;
	x->pid = c->pid;
	x->uid = c->uid;
	strlcpy(x->model, c->model_name, sizeof(x->model));
	return x;
}

struct status_event *event_note_model(struct event_ring *ring, uint64_t now, enum status_event_kind kind,
				      const char *name)
{
	struct status_event *x = event_note(ring, now, kind, NULL);

	strlcpy(x->model, name, sizeof(x->model));
	return x;
}

void events_copy(const struct event_ring *ring, struct status_event out[STATUS_MAX_EVENTS], uint64_t ever)
{
	uint64_t first = status_event_first(ring->ever);

	for (uint64_t k = ever > first ? ever : first; k < ring->ever; k++)
		out[status_event_place(k)] = ring->of[status_event_place(k)];
}
