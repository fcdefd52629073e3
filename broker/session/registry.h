/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - all clients, and which session has which number
 *
 * Control thread only.
 */
#ifndef SWAKV_BROKER_REGISTRY_H
#define SWAKV_BROKER_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "device/gpu_watch.h"

#define REGISTRY_MAX_SESSIONS GPU_WATCH_PLACES

struct channel;
struct client;
TAILQ_HEAD(client_list, client);

struct registry {
	struct client_list clients;
	struct client_list done; /* to be freed when no event can name them any more */
	struct client *next;     /* whom the loop under way visits next: what one suffers may finish another */
	uint32_t next_tag;
	struct client *by_id[REGISTRY_MAX_SESSIONS];
	uint32_t generation[REGISTRY_MAX_SESSIONS];
	bool watched[GPU_WATCH_PLACES]; /* places of processes at the watch over the GPU */
};

void registry_init(struct registry *r);
/* Drops and frees every client; the ring thread must have ended. Safe on zeroes, and to repeat. */
void registry_deinit(struct registry *r);

/* Owned by the registry from now on. */
void registry_add(struct registry *r, struct client *c);
/* Gives @ch of @c the lowest number that is free. There is one: sessions are counted. */
void registry_number(struct registry *r, struct client *c, struct channel *ch);
/* The number @id is free again. */
void registry_forget(struct registry *r, uint32_t id);
/*
 * A place for a process at the watch over the GPU, the lowest that is free. There is one: processes of sessions are
 * counted as sessions are.
 */
uint32_t registry_watch(struct registry *r);
void registry_unwatch(struct registry *r, uint32_t place);
/* The client of session @id, 1 and above, or NULL. */
struct client *registry_find(const struct registry *r, uint32_t id);
/* Nothing of @c is left: it is freed by the next registry_free_done(). */
void registry_done(struct registry *r, struct client *c);
/* At the end of a turn of the loop, when no event of that turn can name them any more. */
void registry_free_done(struct registry *r);

/* ---- what concerns all of them ---- */

/* Calls @visit with each client, which may be done afterwards. */
void registry_each(struct registry *r, void (*visit)(struct client *c));
/* True when some process may still have the pool mapped, as far as that matters for freeing it. */
bool registry_any_importer(const struct registry *r);
/* CLOCK_MONOTONIC of the earliest deadline, 0: none. */
uint64_t registry_next_deadline(const struct registry *r);
/* Acts on the deadlines that have passed. */
void registry_deadlines(struct registry *r, uint64_t now);

#endif
