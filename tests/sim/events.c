/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - a binary heap; an entry whose token is no longer its event's is passed over */
#include "events.h"

#include <stdlib.h>

void events_free(struct events *e)
{
	free(e->heap);
	*e = (struct events){ 0 };
}

static bool before(const struct event_entry *a, const struct event_entry *b)
{
	return a->at != b->at ? a->at < b->at : a->token < b->token;
}

static void swap(struct events *e, uint32_t i, uint32_t k)
{
	struct event_entry x = e->heap[i];

	e->heap[i] = e->heap[k];
	e->heap[k] = x;
}

static void sift_up(struct events *e, uint32_t i)
{
	for (; i > 0 && before(&e->heap[i], &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap(e, i, (i - 1) / 2);
}

static void sift_down(struct events *e, uint32_t i)
{
	for (;;) {
		uint32_t least = i, l = 2 * i + 1;

		for (uint32_t k = l; k < l + 2 && k < e->n; k++)
			if (before(&e->heap[k], &e->heap[least]))
				least = k;
		if (least == i)
			return;
		swap(e, i, least);
		i = least;
	}
}

void event_at(struct events *e, struct event *event, uint64_t at)
{
	if (e->n == e->cap) {
		e->cap = e->cap ? 2 * e->cap : 256;
		e->heap = realloc(e->heap, e->cap * sizeof(*e->heap));
		if (!e->heap)
			abort();
	}
	event->token = ++e->tokens;
	e->heap[e->n] = (struct event_entry){ at, event->token, event };
	sift_up(e, e->n++);
}

void event_cancel(struct event *event)
{
	event->token = 0;
}

struct event *events_next(struct events *e, uint64_t until, uint64_t *now)
{
	while (e->n > 0 && e->heap[0].at <= until) {
		struct event_entry first = e->heap[0];

		e->heap[0] = e->heap[--e->n];
		sift_down(e, 0);
		if (!first.event || first.event->token != first.token)
			continue;
		first.event->token = 0;
		*now = first.at > *now ? first.at : *now;
		return first.event;
	}
	return NULL;
}

void events_forget(struct events *e, const struct event *event)
{
	for (uint32_t i = 0; i < e->n; i++)
		if (e->heap[i].event == event)
			e->heap[i].event = NULL;
}
