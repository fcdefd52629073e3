/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.h - what an attach takes of what there is only so much of
 *
 * Connections, sessions, the table area and page sizes. One session has at most
 * half of the table area. Where more than one user may attach, one user has at
 * most half of each. Control thread only.
 */
#ifndef SWAKV_BROKER_PLACES_H
#define SWAKV_BROKER_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"
#include "device/area.h"
#include "device/backend.h"
#include "handshake.h"
#include "ledger.h"
#include "page_sizes.h"
#include "ring/session_memory.h"

struct places {
	const struct config *config;
	bool many_users;      /* may attach */
	uint64_t table_share; /* of one session, bytes */
	struct ledger ledger;
	struct area tables;
	struct page_sizes sizes;
};

/* @c is borrowed. 0 or -ENOMEM. */
int places_init(struct places *p, const struct config *c, const struct backend_pool *pool);
/* All that was taken must have been given back. Safe to repeat, and on zeroes. */
void places_deinit(struct places *p);

/*
 * A place for @uid, *@out, which is charged with it until charge_release(). 0; or
 * a code with *@r filled: which limit it is, whose, its value, and what to do.
 */
int places_half_open(struct places *p, uid_t uid, struct charge *out, struct refusal *r);
int places_session(struct places *p, uid_t uid, struct charge *out, struct refusal *r);
/* As many may linger as there are sessions at most. False: it is to stay what it is. */
bool places_linger(struct places *p, uid_t uid, struct charge *out);
/* True when no more may connect. */
bool places_crowded(const struct places *p);

/* Device tables and page sizes of one session. All zero: none. */
struct room {
	struct area *area;
	struct charge charge;
	struct area_piece *tables[WIRE_MAX_GROUPS];
	struct page_size_use sizes[WIRE_MAX_GROUPS];
};

/* Of a session of @model with @l and @g, for @uid. 0; or a code as above, and nothing taken. */
int room_take(struct room *room, struct places *p, uid_t uid, const char *model, const struct session_layout *l,
	      const struct geometry *g, struct refusal *r);
/* Safe to repeat. */
void room_give(struct room *room);

#endif
