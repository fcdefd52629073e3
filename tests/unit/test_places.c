/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "session/places.h"

enum { ALICE = 1000, BOB = 1001, CAROL = 1002 };

static struct config config;
static struct backend_pool pool = { .table_area_bytes = 64 << 10, .half_bytes = 64 << 20, .extent_bytes = 1 << 20 };
static struct places places;
static struct refusal r;

static void open_places(void)
{
	cr_assert_eq(places_init(&places, &config, &pool), 0);
}

static void setup(void)
{
	struct config_error e;

	config_init(&config);
	config.max_sessions = 8;
	config.max_half_open = 5;
	config.allow_uid = (struct config_ids){ .n = 3, .ids = { ALICE, BOB, CAROL } };
	cr_assert_eq(config_finish(&config, "test", &e), 0, "%s", e.text);
	open_places();
}

static void teardown(void)
{
	for (int i = 0; i < LEDGER_N_ITEMS; i++)
		cr_assert_eq(places.ledger.used[i], 0, "item %d is still charged", i);
	cr_assert(LIST_EMPTY(&places.ledger.accounts));
	cr_assert_eq(places.tables.used, 0);
	cr_assert_eq(places.sizes.n_common, 0);
	places_deinit(&places);
	places_deinit(&places);
}

TestSuite(places, .init = setup, .fini = teardown);

static void again(void)
{
	places_deinit(&places);
	open_places();
}

#define REFUSED(call, reason_, words)                                                                                  \
	do {                                                                                                           \
		int code = call;                                                                                       \
                                                                                                                       \
		cr_assert_lt(code, 0);                                                                                 \
		cr_assert_eq(r.fault.reason, reason_, "%s", r.text);                                                   \
		cr_assert(strstr(r.text, words), "\"%s\" lacks \"%s\"", r.text, words);                                \
		cr_assert_lt(strlen(r.text), sizeof(r.text) - 1, "cut: %s", r.text);                                   \
	} while (0)

/* A session of one group: a table of @table bytes, pages of @page bytes. */
static int take(struct room *room, uid_t uid, const char *model, uint64_t table, uint64_t page)
{
	struct session_layout l = { .n_groups = 1, .cells_bytes = { table } };
	struct geometry g = { .page_bytes = page };

	return room_take(room, &places, uid, model, &l, &g, &r);
}

Test(places, of_several_users_one_has_half_of_the_sessions)
{
	struct charge taken[8] = { 0 }, more = { 0 };

	for (int i = 0; i < 4; i++)
		cr_assert_eq(places_session(&places, ALICE, &taken[i], &r), 0, "%s", r.text);
	REFUSED(places_session(&places, ALICE, &more, &r), FAULT_UID_SESSIONS, "uid 1000 has 4 sessions");
	cr_assert(strstr(r.text, "max_sessions (8)"), "%s", r.text);
	for (int i = 4; i < 8; i++)
		cr_assert_eq(places_session(&places, BOB, &taken[i], &r), 0, "%s", r.text);
	REFUSED(places_session(&places, CAROL, &more, &r), FAULT_SESSIONS_FULL, "8 sessions");
	charge_release(&taken[0]);
	charge_release(&taken[0]);
	REFUSED(places_session(&places, BOB, &more, &r), FAULT_UID_SESSIONS, "uid 1001 has 4 sessions");
	cr_assert_eq(places_session(&places, CAROL, &taken[0], &r), 0, "%s", r.text);
	for (int i = 0; i < 8; i++)
		charge_release(&taken[i]);
}

Test(places, a_lower_limit_for_each_user_is_named)
{
	struct charge taken = { 0 }, more;

	config.max_sessions_per_uid = 1;
	again();
	cr_assert_eq(places_session(&places, ALICE, &taken, &r), 0, "%s", r.text);
	REFUSED(places_session(&places, ALICE, &more, &r), FAULT_UID_SESSIONS, "max_sessions_per_uid is 1");
	charge_release(&taken);
}

Test(places, of_several_users_one_has_half_of_the_half_open)
{
	struct charge taken[4] = { 0 }, more = { 0 };

	for (int i = 0; i < 2; i++) {
		cr_assert_eq(places_half_open(&places, ALICE, &taken[i], &r), 0, "%s", r.text);
		cr_assert_eq(places_half_open(&places, BOB, &taken[2 + i], &r), 0, "%s", r.text);
	}
	REFUSED(places_half_open(&places, ALICE, &more, &r), FAULT_UID_HALF_OPEN, "uid 1000 has 2 connections");
	cr_assert_not(places_crowded(&places));
	cr_assert_eq(places_half_open(&places, CAROL, &more, &r), 0, "%s", r.text);
	cr_assert(places_crowded(&places));
	charge_release(&more);
	for (int i = 0; i < 4; i++)
		charge_release(&taken[i]);
}

Test(places, a_single_user_has_it_all)
{
	struct charge taken[8] = { 0 };

	config.allow_uid = (struct config_ids){ .n = 2, .ids = { geteuid(), 0 } };
	again();
	for (int i = 0; i < 8; i++)
		cr_assert_eq(places_session(&places, ALICE, &taken[i], &r), 0, "%s", r.text);
	for (int i = 0; i < 8; i++)
		charge_release(&taken[i]);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(places_half_open(&places, ALICE, &taken[i], &r), 0, "%s", r.text);
	for (int i = 0; i < 5; i++)
		charge_release(&taken[i]);
}

/* Root is nobody's rival: it may attach anywhere, and set the limits. */
Test(places, root_is_not_one_of_several_users)
{
	config.allow_uid = (struct config_ids){ .n = 3, .ids = { 0, geteuid(), 0 } };
	cr_assert_not(config_many_users(&config));
	config.allow_uid = (struct config_ids){ .n = 1, .ids = { geteuid() + 1 } };
	cr_assert_eq(config_many_users(&config), geteuid() != 0, "the broker's own user may attach, too");
	config.allow_uid = (struct config_ids){ .n = 2, .ids = { geteuid() + 1, geteuid() + 1 } };
	cr_assert_eq(config_many_users(&config), geteuid() != 0);
	config.allow_uid = (struct config_ids){ .n = 2, .ids = { geteuid() + 1, geteuid() + 2 } };
	cr_assert(config_many_users(&config));
}

Test(places, a_group_is_several_users)
{
	cr_assert(config_many_users(&config));
	config.allow_uid.n = 0;
	cr_assert_not(config_many_users(&config));
	config.allow_gid = (struct config_ids){ .n = 1, .ids = { 7 } };
	cr_assert(config_many_users(&config));
}

/* Even where it is the only one that may attach. */
Test(places, one_session_has_half_of_the_table_area)
{
	struct room a = { 0 }, b = { 0 };

	config.allow_uid.n = 0;
	again();
	REFUSED(take(&a, ALICE, "m", (32 << 10) + 1, 64), FAULT_TABLE_NEVER, "half of the table area");
	cr_assert_eq(r.fault.code, SWAKV_ENEVER);
	cr_assert_eq(take(&a, ALICE, "m", 32 << 10, 64), 0, "%s", r.text);
	cr_assert_eq(take(&b, ALICE, "m", 32 << 10, 64), 0, "%s", r.text);
	room_give(&a);
	room_give(&a);
	room_give(&b);
}

Test(places, of_several_users_one_has_half_of_the_table_area)
{
	struct room a = { 0 }, b = { 0 }, c = { 0 };

	cr_assert_eq(take(&a, ALICE, "m", 24 << 10, 64), 0, "%s", r.text);
	REFUSED(take(&b, ALICE, "m", 24 << 10, 64), FAULT_UID_TABLES, "uid 1000 has 24576");
	cr_assert_eq(r.fault.code, SWAKV_ENOPAGES);
	cr_assert_eq(take(&b, ALICE, "m", 8 << 10, 64), 0, "%s", r.text);
	cr_assert_eq(take(&c, BOB, "m", 32 << 10, 64), 0, "%s", r.text);
	room_give(&a);
	room_give(&b);
	room_give(&c);
}

/* Some of its tables could be had: they go back. */
Test(places, a_session_that_gets_not_all_tables_gets_none)
{
	struct area_piece *first = area_take(&places.tables, 8 << 10), *gap = area_take(&places.tables, 8 << 10),
			  *last = area_take(&places.tables, 44 << 10); /* 4 KiB are left behind it */
	struct session_layout l = { .n_groups = 3, .cells_bytes = { 8 << 10, 4 << 10, 4 << 10 } };
	struct geometry g[3] = { { .page_bytes = 64 }, { .page_bytes = 128 }, { .page_bytes = 256 } };
	struct room room = { 0 };

	area_give(&places.tables, gap);
	REFUSED(room_take(&room, &places, ALICE, "m", &l, g, &r), FAULT_TABLE_AREA, "4096");
	cr_assert_eq(places.tables.used, 52 << 10);
	cr_assert_eq(places.ledger.used[LEDGER_TABLES], 0);
	l.n_groups = 2;
	cr_assert_eq(room_take(&room, &places, ALICE, "m", &l, g, &r), 0, "%s", r.text);
	cr_assert_eq(places.ledger.used[LEDGER_PAGE_SIZES], 2);
	room_give(&room);
	area_give(&places.tables, first);
	area_give(&places.tables, last);
}

Test(places, of_several_users_one_has_half_of_the_page_sizes)
{
	static struct room alice[32], bob[32];
	struct room more = { 0 };

	for (uint64_t i = 0; i < 32; i++) {
		cr_assert_eq(take(&alice[i], ALICE, "m", 16, 64 * (i + 1)), 0, "%s", r.text);
		cr_assert_eq(take(&bob[i], BOB, "m", 16, 64 * (i + 33)), 0, "%s", r.text);
	}
	REFUSED(take(&more, ALICE, "m", 16, 6400), FAULT_PAGE_SIZES, "6400 bytes");
	cr_assert_eq(take(&more, CAROL, "m", 16, 64), 0, "a size that is there is no new one: %s", r.text);
	room_give(&more);
	room_give(&bob[0]);
	REFUSED(take(&more, ALICE, "m", 16, 6400), FAULT_UID_PAGE_SIZES, "uid 1000 uses 32 page sizes");
	cr_assert_eq(take(&more, CAROL, "m", 16, 6400), 0, "%s", r.text);
	room_give(&more);
	for (uint64_t i = 0; i < 32; i++) {
		room_give(&alice[i]);
		room_give(&bob[i]);
	}
}

/* Whoever founded a size may leave: it stays for the others, who pay for it themselves. */
Test(places, a_page_size_is_paid_for_by_those_who_use_it)
{
	struct room a = { 0 }, b = { 0 }, c = { 0 };

	cr_assert_eq(take(&a, ALICE, "m", 16, 64), 0);
	cr_assert_eq(take(&b, BOB, "m", 16, 64), 0);
	cr_assert_eq(take(&c, BOB, "m", 16, 64), 0);
	cr_assert_eq(ledger_of(&places.ledger, BOB, LEDGER_PAGE_SIZES), 1);
	room_give(&a);
	cr_assert_eq(ledger_of(&places.ledger, ALICE, LEDGER_PAGE_SIZES), 0);
	cr_assert_eq(places.sizes.n_common, 1);
	room_give(&b);
	cr_assert_eq(places.sizes.n_common, 1);
	room_give(&c);
	cr_assert_eq(places.sizes.n_common, 0);
}

static struct config_model *section(const char *name, uint32_t layers)
{
	struct config_model *m = &config.models[config.n_models++];

	*m = (struct config_model){ .limits_only = layers == 0,
				    .model = { .n_groups = 1, .n_streams = 1, .max_batch = 4, .max_seq = 4096 } };
	m->model.groups[0] = (struct wire_group){ .kind = WIRE_GROUP_FULL,
						  .page_tokens = 16,
						  .layers = layers,
						  .kv_heads = 1,
						  .k_head_dim = 64,
						  .v_head_dim = 64,
						  .dtype = WIRE_F16 };
	snprintf(m->name, sizeof(m->name), "%s", name);
	return m;
}

Test(places, what_sections_need_is_kept)
{
	static struct room rooms[ENGINE_MAX_CLASSES];
	struct room said = { 0 }, unsaid[3] = { 0 };
	const uint64_t page = 3 * 16 * 64 * 2;
	int n = 0;

	config.allow_uid.n = 0;
	section("said", 3);
	section("unsaid", 0);
	again();
	while (n < ENGINE_MAX_CLASSES && take(&rooms[n], ALICE, "any", 16, 64 * (uint64_t)(n + 1)) == 0)
		n++;
	cr_assert_eq(n, ENGINE_MAX_CLASSES - 1 - PAGE_SIZES_UNSAID);
	cr_assert_eq(r.fault.reason, FAULT_PAGE_SIZES, "%s", r.text);
	cr_assert_eq(take(&said, BOB, "said", 16, page), 0, "%s", r.text);
	for (int i = 0; i < PAGE_SIZES_UNSAID; i++)
		cr_assert_eq(take(&unsaid[i], BOB, "unsaid", 16, 100000 + (uint64_t)i), 0, "%s", r.text);
	REFUSED(take(&unsaid[PAGE_SIZES_UNSAID], BOB, "unsaid", 16, 200000), FAULT_PAGE_SIZES, "200000");
	room_give(&unsaid[0]);
	cr_assert_eq(take(&unsaid[0], BOB, "unsaid", 16, 200000), 0, "%s", r.text);
	for (int i = 0; i < PAGE_SIZES_UNSAID; i++)
		room_give(&unsaid[i]);
	room_give(&said);
	cr_assert_eq(take(&said, BOB, "said", 16, page), 0, "it is kept again: %s", r.text);
	room_give(&said);
	while (n > 0)
		room_give(&rooms[--n]);
}

/* Sums of charges go back to 0 whatever the order. */
Test(places, charges_of_many_users_at_random_all_come_back)
{
	struct charge taken[64] = { 0 };
	unsigned int seed = 5;

	for (int i = 0; i < 20000; i++) {
		size_t at = (size_t)rand_r(&seed) % 64;
		uid_t uid = (uid_t)(rand_r(&seed) % 9);
		uint64_t before = ledger_of(&places.ledger, uid, LEDGER_SESSIONS);

		if (taken[at].ledger)
			charge_release(&taken[at]);
		else if (places_session(&places, uid, &taken[at], &r) == 0)
			cr_assert_leq(ledger_of(&places.ledger, uid, LEDGER_SESSIONS), 4);
		else
			cr_assert(before == 4 || places.ledger.used[LEDGER_SESSIONS] == 8, "%s", r.text);
	}
	for (int i = 0; i < 64; i++)
		charge_release(&taken[i]);
}
