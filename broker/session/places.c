/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

#include <inttypes.h>
#include <stdio.h>

#include "admin/admin.h"
#include "device/plan.h"

static uint64_t share(const struct places *p, uint64_t all)
{
	if (!p->many_users)
		return all;
	return all > 1 ? all / 2 : all;
}

static void set_limit(struct places *p, enum ledger_item item, uint64_t all)
{
	p->ledger.limits[item] = (struct ledger_limit){ .all = all, .one = share(p, all) };
}

int places_init(struct places *p, const struct config *c, const struct backend_pool *pool)
{
	struct ledger_limit *sessions = &p->ledger.limits[LEDGER_SESSIONS];
	int r;

	*p = (struct places){ .config = c,
			      .many_users = config_many_users(c),
			      .table_share = plan_table_share(pool->table_area_bytes) };
	ledger_init(&p->ledger);
	area_init(&p->tables, pool->table_area_bytes);
	r = page_sizes_init(&p->sizes, &p->ledger, c, pool->half_bytes);
	set_limit(p, LEDGER_HALF_OPEN, c->max_half_open);
	set_limit(p, LEDGER_SESSIONS, c->max_sessions);
	set_limit(p, LEDGER_LINGERING, c->max_sessions);
	set_limit(p, LEDGER_TABLES, p->tables.bytes);
	/* Two users of one size both pay: the sum may exceed what there is. */
	p->ledger.limits[LEDGER_PAGE_SIZES] = (struct ledger_limit){ UINT64_MAX, share(p, p->sizes.max_common) };
	p->ledger.limits[LEDGER_ADMINS] =
		(struct ledger_limit){ ADMIN_MAX_CONNECTIONS,
				       config_many_admins(c) ? ADMIN_MAX_CONNECTIONS / 2 : ADMIN_MAX_CONNECTIONS };
	if (c->max_sessions_per_uid < sessions->one)
		sessions->one = c->max_sessions_per_uid;
	return r;
}

void places_deinit(struct places *p)
{
	area_deinit(&p->tables);
	page_sizes_deinit(&p->sizes);
}

bool places_crowded(const struct places *p)
{
	return p->ledger.used[LEDGER_HALF_OPEN] >= p->ledger.limits[LEDGER_HALF_OPEN].all;
}

static int no_memory(struct refusal *r)
{
	return refusal_set(r, FAULT_BROKER_MEMORY, sizeof(struct charge), 0);
}

int places_half_open(struct places *p, uid_t uid, struct charge *out, struct refusal *r)
{
	uint64_t used = ledger_of(&p->ledger, uid, LEDGER_HALF_OPEN), one = p->ledger.limits[LEDGER_HALF_OPEN].one;
	char text[sizeof(r->text)];

	switch (ledger_charge(&p->ledger, uid, LEDGER_HALF_OPEN, 1, out)) {
	case LEDGER_CHARGED:
		return 0;
	case LEDGER_SHARE_TAKEN:
		snprintf(text, sizeof(text),
			 "uid %u has %" PRIu64 " connection%s not said hello, a user's half of max_half_open (%" PRIu32
			 "): end one, or raise that",
			 uid, used, used == 1 ? " that has" : "s that have", p->config->max_half_open);
		return refusal_text(r, FAULT_UID_HALF_OPEN, (int64_t)used, (int64_t)one, text);
	case LEDGER_ALL_TAKEN: /* not asked then */
	default:
		return no_memory(r);
	}
}

int places_session(struct places *p, uid_t uid, struct charge *out, struct refusal *r)
{
	uint64_t used = ledger_of(&p->ledger, uid, LEDGER_SESSIONS), one = p->ledger.limits[LEDGER_SESSIONS].one;
	const struct config *c = p->config;
	char text[sizeof(r->text)];

	switch (ledger_charge(&p->ledger, uid, LEDGER_SESSIONS, 1, out)) {
	case LEDGER_CHARGED:
		return 0;
	case LEDGER_ALL_TAKEN:
		return refusal_set(r, FAULT_SESSIONS_FULL, (int64_t)p->ledger.used[LEDGER_SESSIONS], c->max_sessions);
	case LEDGER_SHARE_TAKEN:
		if (one == c->max_sessions_per_uid)
			snprintf(text, sizeof(text),
				 "uid %u has %" PRIu64 " session%s, and max_sessions_per_uid is %" PRIu64
				 ": close one, or raise that",
				 uid, used, used == 1 ? "" : "s", one);
		else
			snprintf(text, sizeof(text),
				 "uid %u has %" PRIu64 " session%s, a user's half of max_sessions (%" PRIu32
				 ") where several users may attach: close one, or raise that",
				 uid, used, used == 1 ? "" : "s", c->max_sessions);
		return refusal_text(r, FAULT_UID_SESSIONS, (int64_t)used, (int64_t)one, text);
	default:
		return no_memory(r);
	}
}

bool places_linger(struct places *p, uid_t uid, struct charge *out)
{
	return ledger_charge(&p->ledger, uid, LEDGER_LINGERING, 1, out) == LEDGER_CHARGED;
}

/* ---- room -------------------------------------------------------------------- */

static int charge_tables(struct room *room, struct places *p, uid_t uid, uint64_t bytes, struct refusal *r)
{
	uint64_t used = ledger_of(&p->ledger, uid, LEDGER_TABLES), one = p->ledger.limits[LEDGER_TABLES].one;
	char text[sizeof(r->text)];

	switch (ledger_charge(&p->ledger, uid, LEDGER_TABLES, bytes, &room->charge)) {
	case LEDGER_CHARGED:
		return 0;
	case LEDGER_ALL_TAKEN:
		return refusal_set(r, FAULT_TABLE_AREA, (int64_t)bytes, (int64_t)area_largest(&p->tables));
	case LEDGER_SHARE_TAKEN:
		snprintf(text, sizeof(text),
			 "the device tables need %" PRIu64 " bytes; uid %u has %" PRIu64 " of a user's half of the "
			 "table area, %" PRIu64 ": end a session, or give the broker a larger table_area",
			 bytes, uid, used, one);
		return refusal_text(r, FAULT_UID_TABLES, (int64_t)bytes, (int64_t)one, text);
	default:
		return no_memory(r);
	}
}

static int take_tables(struct room *room, struct places *p, uid_t uid, const struct session_layout *l,
		       struct refusal *r)
{
	uint64_t sum = 0;
	int code;

	for (uint32_t i = 0; i < l->n_groups; i++)
		sum += area_rounded(l->cells_bytes[i]);
	if (sum > p->table_share)
		return refusal_set(r, FAULT_TABLE_NEVER, (int64_t)sum, (int64_t)p->table_share);
	code = charge_tables(room, p, uid, sum, r);
	room->area = &p->tables;
	for (uint32_t i = 0; code == 0 && i < l->n_groups; i++) {
		room->tables[i] = area_take(&p->tables, l->cells_bytes[i]);
		if (!room->tables[i])
			code = refusal_set(r, FAULT_TABLE_AREA, (int64_t)l->cells_bytes[i],
					   (int64_t)area_largest(&p->tables));
	}
	return code;
}

static int take_size(struct page_size_use *use, struct places *p, uid_t uid, const char *model, struct page_key key,
		     struct refusal *r)
{
	uint64_t bytes = key.bytes;
	uint64_t used = ledger_of(&p->ledger, uid, LEDGER_PAGE_SIZES), one = p->ledger.limits[LEDGER_PAGE_SIZES].one;
	char text[sizeof(r->text)];

	switch (page_size_use(&p->sizes, uid, model, key, use)) {
	case LEDGER_CHARGED:
		return 0;
	case LEDGER_ALL_TAKEN:
		return refusal_set(r, FAULT_PAGE_SIZES, (int64_t)bytes, p->sizes.max_common);
	case LEDGER_SHARE_TAKEN:
		snprintf(text, sizeof(text),
			 "uid %u uses %" PRIu64 " page size%s, a user's half of the %" PRIu32
			 " there are, and pages of "
			 "%" PRIu64 " bytes are one more: end the sessions of one, or give the model a section",
			 uid, used, used == 1 ? "" : "s", p->sizes.max_common, bytes);
		return refusal_text(r, FAULT_UID_PAGE_SIZES, (int64_t)bytes, (int64_t)one, text);
	default:
		return no_memory(r);
	}
}

int room_take(struct room *room, struct places *p, uid_t uid, const char *model, const struct session_layout *l,
	      const struct geometry *g, struct refusal *r)
{
	int code;

	*room = (struct room){ 0 };
	code = take_tables(room, p, uid, l, r);
	for (uint32_t i = 0; code == 0 && i < l->n_groups; i++)
		code = take_size(&room->sizes[i], p, uid, model, geometry_key(&g[i]), r);
	if (code)
		room_give(room);
	return code;
}

void room_give(struct room *room)
{
	for (uint32_t i = 0; i < WIRE_MAX_GROUPS; i++) {
		room->tables[i] = area_give(room->area, room->tables[i]);
		page_size_leave(&room->sizes[i]);
	}
	charge_release(&room->charge);
}
