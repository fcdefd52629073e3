/* SPDX-License-Identifier: Apache-2.0 */
/* orders.h - virtual administrators: they connect, ask, or do not, and leave */
#ifndef SWAKV_SIM_ORDERS_H
#define SWAKV_SIM_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "events.h"

struct world;
struct connection;
struct process;

struct administrator {
	struct world *world;
	struct process *process; /* NULL: nobody is there */
	struct connection *connection;
	struct event act, news;
	bool may, asked, alone;
	uint16_t op;
	bool off;
	int32_t model; /* -1: all */
};

/* @a comes, unless it is there. */
void orders_come(struct world *w, struct administrator *a);
/* True when a begin of @model that was sent at @sent may have been refused by an order. */
bool orders_drained(const struct world *w, uint32_t model, uint64_t sent);

#endif
