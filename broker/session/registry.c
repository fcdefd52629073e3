/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - see registry.h */
#include "registry.h"

#include <stdlib.h>

#include "client.h"
#include "status_page.h"

_Static_assert(REGISTRY_MAX_SESSIONS <= STATUS_MAX_SESSIONS,
	       "the guard of memory has a place for each session of the page");

void registry_init(struct registry *r)
{
	*r = (struct registry){ 0 };
	TAILQ_INIT(&r->clients);
	TAILQ_INIT(&r->done);
}

void registry_deinit(struct registry *r)
{
	struct client *c;

	if (!r->clients.tqh_last)
		return;
	while ((c = TAILQ_FIRST(&r->clients)))
		client_drop(c);
	registry_free_done(r);
}

void registry_add(struct registry *r, struct client *c)
{
	TAILQ_INSERT_TAIL(&r->clients, c, link);
}

void registry_number(struct registry *r, struct client *c, struct channel *ch)
{
	uint32_t i = 0;

	while (r->by_id[i])
		i++;
	r->by_id[i] = c;
	ch->id = i + 1;
	ch->generation = ++r->generation[i];
	ch->tag = ++r->next_tag & 0xffff;
}

void registry_forget(struct registry *r, uint32_t id)
{
	r->by_id[id - 1] = NULL;
}

uint32_t registry_watch(struct registry *r)
{
	uint32_t i = 0;

	while (r->watched[i])
		i++;
	r->watched[i] = true;
	return i;
}

void registry_unwatch(struct registry *r, uint32_t place)
{
	r->watched[place] = false;
}

struct client *registry_find(const struct registry *r, uint32_t id)
{
	return id >= 1 && id <= REGISTRY_MAX_SESSIONS ? r->by_id[id - 1] : NULL;
}

void registry_done(struct registry *r, struct client *c)
{
	if (r->next == c)
		r->next = TAILQ_NEXT(c, link);
	TAILQ_REMOVE(&r->clients, c, link);
	TAILQ_INSERT_TAIL(&r->done, c, link);
}

void registry_free_done(struct registry *r)
{
	struct client *c;

	while ((c = TAILQ_FIRST(&r->done))) {
		TAILQ_REMOVE(&r->done, c, link);
		free(c->handshake);
		free(c);
	}
}

void registry_each(struct registry *r, void (*visit)(struct client *c))
{
	for (struct client *c = TAILQ_FIRST(&r->clients); c; c = r->next) {
		r->next = TAILQ_NEXT(c, link);
		visit(c);
	}
}

bool registry_any_importer(const struct registry *r)
{
	const struct client *c;

	TAILQ_FOREACH (c, &r->clients, link)
		if (client_holds_pool(c))
			return true;
	return false;
}

uint64_t registry_next_deadline(const struct registry *r)
{
	const struct client *c;
	uint64_t next = 0;

	TAILQ_FOREACH (c, &r->clients, link)
		if (c->deadline && (next == 0 || c->deadline < next))
			next = c->deadline;
	return next;
}

void registry_deadlines(struct registry *r, uint64_t now)
{
	for (struct client *c = TAILQ_FIRST(&r->clients); c; c = r->next) {
		r->next = TAILQ_NEXT(c, link);
		if (c->deadline && now >= c->deadline)
			client_deadline_passed(c);
	}
}
