/* SPDX-License-Identifier: Apache-2.0 */
/* Models with several layer groups, and steps of more than one token, as the library says and hears them. */
#include <criterion/criterion.h>
#include <string.h>

#include "fake_broker.h"

static struct fake fake;
static swakv_session *session;

/* What the stream of the test and on_updates saw, in order. */
static struct event {
	char what; /* 'u' on_updates, 'a' apply, 'w' write_word */
	uint32_t group;
	size_t n;
	uint64_t armed;
	struct swakv_update first;
} events[16];
static int n_events, failing_group;

static struct event *event_add(char what, uint32_t group)
{
	struct event *e = &events[n_events++];

	cr_assert_lt(n_events, 16);
	*e = (struct event){ .what = what, .group = group, .armed = load_acquire(&fake.lines[0].armed) };
	return e;
}

static void on_updates(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct event *e = event_add('u', group);

	e->n = n;
	e->first = updates[0];
}

static int custom_apply(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct event *e = event_add('a', group);

	e->n = n;
	e->first = updates[0];
	return (int)group == failing_group;
}

static int custom_write_word(void *arg, uint64_t *word, uint64_t value)
{
	event_add('w', 0);
	store_release((shm_u64 *)word, value);
	return 0;
}

static int custom_synchronize(void *arg)
{
	return 0;
}

static void setup(void)
{
	struct swakv_attach_options o = { .size = sizeof(o), .on_updates = on_updates };

	failing_group = -1;
	fake_open(&fake);
	fake_add_group(&fake);
	session = fake_attach(&fake, &o);
}

static void teardown(void)
{
	fake_end(&fake, session);
}

TestSuite(client_groups, .init = setup, .fini = teardown);

static void bind_custom(void)
{
	static const struct swakv_stream_ops ops = { .size = sizeof(ops),
						     .apply = custom_apply,
						     .write_word = custom_write_word,
						     .synchronize = custom_synchronize };

	cr_assert_eq(swakv_stream_bind_custom(session, 0, &ops, NULL), 0);
}

#define N(array)           (sizeof(array) / sizeof((array)[0]))
#define ROW(group, slot)   ((group)*FAKE_BATCH + (slot))
#define SLIDING(slot, col) ((slot)*FAKE_WIDTH + (col))
#define FULL(slot, col)    (FAKE_BATCH * FAKE_WIDTH + (slot)*FAKE_FULL_WIDTH + (col))
#define DELIVERY(u, r)     ((struct fake_delivery){ .updates = (u), .n_updates = N(u), .rows = (r), .n_rows = N(r) })

static swakv_request *begin(int32_t slot)
{
	return fake_begin(&fake, session, 0, &slot, 1);
}

static int32_t sliding(int row, int half, int column)
{
	return fake.device[(row * 2 + half) * FAKE_WIDTH + column];
}

static int32_t full(int row, int half, int column)
{
	return fake.full_device[(row * 2 + half) * FAKE_FULL_WIDTH + column];
}

/* ---- attach ------------------------------------------------------------------------------ */

Test(client_groups, hello_says_all_of_the_model)
{
	cr_expect_eq(fake.hello.n_groups, 2);
	cr_expect_eq(fake.hello.groups[0].kind, WIRE_GROUP_SLIDING);
	cr_expect_eq(fake.hello.groups[1].kind, WIRE_GROUP_FULL);
	cr_expect_eq(fake.hello.groups[1].window, 0);
	cr_expect_eq(fake.hello.groups[1].page_tokens, 32);
	cr_expect_eq(fake.hello.flags, WIRE_HELLO_CHUNK_MAPPED);
	cr_expect_eq(fake.hello.max_advance, 3);
	cr_expect_eq(fake.hello.in_flight, 4);
	cr_expect_eq(fake.hello.max_rewind, 5);
}

Test(client_groups, each_group_has_its_layout)
{
	struct swakv_layout a = { .size = sizeof(a) }, b = { .size = sizeof(b) };

	cr_assert_eq(swakv_session_get_layout(session, 0, &a), 0);
	cr_assert_eq(swakv_session_get_layout(session, 1, &b), 0);
	cr_expect_eq(swakv_session_get_layout(session, 2, &b), SWAKV_EINVALID);
	cr_expect_eq(a.kind, SWAKV_SLIDING);
	cr_expect_eq(b.kind, SWAKV_FULL);
	cr_expect_eq(b.window, 0);
	cr_expect_eq(b.width, FAKE_FULL_WIDTH);
	cr_expect_eq(b.num_pages, FAKE_FULL_PAGES);
	cr_expect_eq(b.table - a.table, 1024);
	cr_expect_eq((const char *)b.host_table - (const char *)a.host_table, 2048 - 512);
	cr_expect_eq(swakv_session_private_pages(session), FAKE_WIDTH + FAKE_FULL_WIDTH);
	for (int i = 0; i < FAKE_BATCH * 2 * FAKE_FULL_WIDTH; i++)
		cr_expect_eq(fake.full_device[i], -1);
}

/* ---- deliveries ---------------------------------------------------------------------------- */

static const struct wire_update both[] = { { SLIDING(2, 3), 15 }, { FULL(2, 0), 7 }, { SLIDING(2, 0), 1 } };
static const struct wire_row rows_of_both[] = { { ROW(0, 2), 1, 0, 0 }, { ROW(1, 2), 1, 0, 0 } };

Test(client_groups, updates_reach_the_table_of_their_group)
{
	cr_expect_eq(fake_prefill(&fake, session, begin(2), &DELIVERY(both, rows_of_both)), 0);
	cr_expect_eq(sliding(2, 0, 3), 15);
	cr_expect_eq(sliding(2, 1, 3), 15 + FAKE_PAGES);
	cr_expect_eq(sliding(2, 0, 0), 1);
	cr_expect_eq(full(2, 0, 0), 7);
	cr_expect_eq(full(2, 1, 0), 7 + FAKE_FULL_PAGES);
	cr_expect_eq(full(2, 0, 1), -1);
	cr_expect_eq(sliding(1, 0, 0), -1);
}

Test(client_groups, line_is_armed_and_marked_once_for_all_groups)
{
	bind_custom();
	cr_expect_eq(fake_prefill(&fake, session, begin(2), &DELIVERY(both, rows_of_both)), 0);
	cr_assert_eq(n_events, 4);
	for (int i = 0; i < 4; i++) {
		cr_expect_eq(events[i].what, i & 1 ? 'a' : 'u');
		cr_expect_eq(events[i].group, (uint32_t)i / 2);
		cr_expect_eq(events[i].n, i < 2 ? 2 : 1);
		cr_expect_eq(events[i].armed, 1);
		cr_expect_eq(events[i].first.slot, 2);
	}
	cr_expect_eq(events[0].first.column, 3);
	cr_expect_eq(events[3].first.column, 0);
	cr_expect_eq(events[3].first.page, 7);
}

Test(client_groups, rows_of_a_failed_stream_are_written_again_in_every_group)
{
	const struct wire_update next[] = { { FULL(2, 1), 3 } };
	const struct wire_row row[] = { { ROW(1, 2), 2, 1, 2 } };
	struct fake_command c;
	swakv_request *r;
	swakv_ticket t;

	bind_custom();
	r = begin(2);
	failing_group = 1;
	cr_expect_eq(fake_prefill(&fake, session, r, &DELIVERY(both, rows_of_both)), SWAKV_EDEVICE);
	failing_group = -1;
	cr_assert_eq(swakv_stream_synchronize(session, 0), 0);
	memcpy(fake.tables + fake.welcome.tables[1].host_offset + (size_t)2 * 2 * FAKE_FULL_WIDTH * 4,
	       (int32_t[]){ 7, 3 }, 8);
	n_events = 0;
	cr_assert_eq(swakv_decode_prepare(r, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c);
	fake_deliver(&fake, &c, &DELIVERY(next, row));
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_assert_eq(n_events, 2);
	cr_expect_eq(events[1].group, 1);
	cr_expect_eq(events[1].n, FAKE_FULL_WIDTH, "the row is written whole");
}

/* Each ends the session before a stream sees anything of the answer. */
static void assert_refused(const struct fake_delivery *d, const char *words)
{
	swakv_request *r;

	bind_custom();
	r = begin(0);
	cr_expect_eq(fake_prefill(&fake, session, r, d), SWAKV_EGONE);
	cr_expect_not_null(strstr(swakv_session_error(session), words), "%s", swakv_session_error(session));
	cr_expect_eq(n_events, 0);
}

Test(client_groups, row_behind_the_last_groups_is_refused)
{
	const struct wire_update u[] = { { SLIDING(0, 0), 1 } };
	const struct wire_row v[] = { { ROW(2, 0), 1, 0, 0 } };

	assert_refused(&DELIVERY(u, v), "row 8 of no slot, the tables have 8 rows");
}

Test(client_groups, cell_behind_the_last_groups_is_refused)
{
	const struct wire_update u[] = { { FULL(FAKE_BATCH, 0), 1 } };
	const struct wire_row v[] = { { ROW(1, 0), 1, 0, 0 } };

	assert_refused(&DELIVERY(u, v), "its answer does not name");
}

Test(client_groups, cell_of_another_groups_row_is_refused)
{
	const struct wire_update u[] = { { FULL(0, 0), 1 } };
	const struct wire_row v[] = { { ROW(0, 0), 1, 0, 0 } };

	assert_refused(&DELIVERY(u, v), "row 4 that its answer does not name");
}

Test(client_groups, page_of_another_groups_pool_is_refused)
{
	const struct wire_update u[] = { { FULL(0, 0), FAKE_FULL_PAGES } };
	const struct wire_row v[] = { { ROW(1, 0), 1, 0, 0 } };

	assert_refused(&DELIVERY(u, v), "page 8 to slot 0, column 0; the pool has pages 0 to 7");
}

Test(client_groups, columns_of_a_wider_group_are_refused)
{
	const struct wire_update u[] = { { FULL(0, 0), 1 } };
	const struct wire_row v[] = { { ROW(1, 0), 1, 0, FAKE_WIDTH } };

	assert_refused(&DELIVERY(u, v), "columns 0 to 4 of a row of 2");
}

Test(client_groups, scrub_of_a_wider_group_is_refused)
{
	const struct wire_update u[] = { { FULL(0, 0), 1 } };
	const struct wire_row v[] = { { ROW(1, 0), 1, 0, 0 } };
	const struct wire_scrub dirty[] = { { ROW(1, 0), 1, 2, 0 } };
	struct fake_delivery d = DELIVERY(u, v);

	d.scrubs = dirty;
	d.n_scrubs = 1;
	assert_refused(&d, "dirty");
}

Test(client_groups, dirty_pages_are_those_of_their_group)
{
	const struct wire_scrub dirty[] = { { ROW(1, 2), 0, 1, 0 } };
	const struct wire_layout *l = &fake.welcome.layouts[1];
	struct fake_delivery d = DELIVERY(both, rows_of_both);
	const unsigned char *k = fake.pool + l->k_base + 7 * FAKE_FULL_BYTES;
	const unsigned char *v = fake.pool + l->v_base + (7 + FAKE_FULL_PAGES) * FAKE_FULL_BYTES;

	d.scrubs = dirty;
	d.n_scrubs = 1;
	cr_expect_eq(fake_prefill(&fake, session, begin(2), &d), 0);
	for (int i = 0; i < FAKE_FULL_BYTES; i++)
		cr_expect(k[i] == 0 && v[i] == 0);
	cr_expect_eq(k[-1], 0x77);
	cr_expect_eq(v[-1], 0x77);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static const struct fake_delivery nothing;

/* The next step command, answered. */
static void take_step(uint16_t op, struct fake_command *c)
{
	fake_take(&fake, op, c);
	fake_deliver(&fake, c, &nothing);
}

Test(client_groups, counts_that_all_share_travel_in_the_entry)
{
	swakv_request *r = fake_begin(&fake, session, 0, (int32_t[]){ 1, 0 }, 2);
	struct fake_command c;
	const struct wire_step_entry *e = (const void *)c.payload;
	swakv_ticket t;

	cr_assert_eq(swakv_extend_prepare(r, (int32_t[]){ 3, 3 }, 2, &t), 0);
	take_step(WIRE_OP_STEP_PREPARE, &c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(c.head.request, 0);
	cr_expect_eq(e->tokens, 3);
	cr_assert_eq(swakv_extend_complete(r, SWAKV_DONE, NULL, 0, &t), 0);
	take_step(WIRE_OP_STEP_COMPLETE, &c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(c.head.request, 0);
	cr_expect_eq(e->accepted, 0);
}

Test(client_groups, counts_that_differ_are_listed_behind_the_entry)
{
	swakv_request *r = fake_begin(&fake, session, 0, (int32_t[]){ 1, 0 }, 2);
	struct fake_command c;
	const struct wire_step_entry *e = (const void *)c.payload;
	const int32_t *counts = (const void *)(e + 1);
	swakv_ticket t;

	cr_assert_eq(swakv_extend_prepare(r, (int32_t[]){ 3, 9 }, 2, &t), 0);
	take_step(WIRE_OP_STEP_PREPARE, &c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(c.head.n, 1);
	cr_expect_eq(c.head.request, 2);
	cr_expect_eq(e->tokens, -2);
	cr_expect_eq(counts[0], 3);
	cr_expect_eq(counts[1], 9);
	/* none kept is not "all", which is what 0 in the entry means */
	cr_assert_eq(swakv_extend_complete(r, SWAKV_DONE, (int32_t[]){ 0, 0 }, 2, &t), 0);
	take_step(WIRE_OP_STEP_COMPLETE, &c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(c.head.request, 2);
	cr_expect_eq(e->accepted, -2);
	cr_expect_eq(counts[0], 0);
	cr_expect_eq(counts[1], 0);
}

Test(client_groups, a_wrong_number_of_counts_is_the_brokers_to_refuse)
{
	swakv_request *r = begin(1);
	struct fake_command c;
	const struct wire_step_entry *e = (const void *)c.payload;
	swakv_ticket t;

	cr_assert_eq(swakv_extend_prepare(r, (int32_t[]){ 3, 3 }, 2, &t), 0);
	take_step(WIRE_OP_STEP_PREPARE, &c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(e->tokens, -2);
	cr_expect_eq(c.head.request, 2);
	cr_expect_eq(swakv_extend_prepare(r, NULL, 1, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_extend_prepare(r, (int32_t[]){ 3 }, 0, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_extend_complete(r, SWAKV_DONE, NULL, 1, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_extend_prepare(r, (int32_t[]){ 3 }, UINT32_MAX, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_extend_prepare(NULL, (int32_t[]){ 3 }, 1, NULL), SWAKV_EINVALID);
	cr_expect_not(fake_has_command(&fake));
}

Test(client_groups, one_step_serves_requests_with_different_counts)
{
	swakv_request *a = fake_begin(&fake, session, 0, (int32_t[]){ 0, 1 }, 2);
	swakv_request *b = begin(2), *d = begin(3);
	struct swakv_step steps[] = { { .size = sizeof(steps[0]), .request = a, .tokens = (int32_t[]){ 1, 5 } },
				      { .size = sizeof(steps[0]), .request = b },
				      { .size = sizeof(steps[0]), .request = d, .tokens = (int32_t[]){ -7 } } };
	struct fake_command c;
	const struct wire_step_entry *e = (const void *)c.payload;
	const int32_t *counts = (const void *)(e + 3);
	swakv_ticket t;

	cr_assert_eq(swakv_step_prepare(session, steps, 3, &t), 0);
	take_step(WIRE_OP_STEP_PREPARE, &c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(c.head.n, 3);
	cr_expect_eq(c.head.request, 3);
	cr_expect_eq(e[0].tokens, -2);
	cr_expect_eq(e[1].tokens, 1);
	cr_expect_eq(e[2].tokens, -1, "a negative number of tokens is no number of counts");
	cr_expect_eq(counts[0], 1);
	cr_expect_eq(counts[1], 5);
	cr_expect_eq(counts[2], -7);
	steps[0].accepted = (int32_t[]){ 1, 2 };
	cr_assert_eq(swakv_step_complete(session, steps, 3, &t), 0);
	take_step(WIRE_OP_STEP_COMPLETE, &c);
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(c.head.request, 2);
	cr_expect_eq(e[0].accepted, -2);
	cr_expect_eq(e[1].accepted, 0);
	cr_expect_eq(e[2].accepted, 0);
	cr_expect_eq(counts[1], 2);
}

Test(client_groups, rewind_and_reserve_say_what_they_are_given)
{
	swakv_request *r = begin(1);
	struct fake_command c;
	swakv_ticket t;
	int64_t n;

	cr_assert_eq(swakv_rewind(r, (int32_t[]){ 4 }, 1, &t), 0);
	fake_take(&fake, WIRE_OP_REWIND, &c);
	cr_expect_eq(c.head.n, 1);
	cr_expect_eq(((const int32_t *)(const void *)c.payload)[0], 4);
	fake_refuse(&fake, &c, FAULT_REWIND_LIMIT, 10, 12);
	cr_expect_eq(swakv_wait(session, t), SWAKV_ELIMIT);
	cr_expect(swakv_request_valid(r));
	cr_expect_eq(swakv_rewind(r, NULL, 1, NULL), SWAKV_EINVALID);
	cr_assert_eq(swakv_request_reserve(r, 1ll << 40, &t), 0);
	fake_take(&fake, WIRE_OP_RESERVE, &c);
	memcpy(&n, c.payload, sizeof(n));
	cr_expect_eq(n, 1ll << 40);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t), 0);
}

Test(client_groups, begin_says_how_long_it_may_wait)
{
	const struct swakv_begin_options o = {
		.size = sizeof(o), .slots = (int32_t[]){ 1 }, .n_slots = 1, .max_tokens = 9, .wait_ms = 77
	};
	struct wire_begin body;
	struct fake_command c;
	swakv_request *r;
	swakv_ticket t;

	cr_assert_eq(swakv_request_begin(session, &o, &r, &t), 0);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	memcpy(&body, c.payload, sizeof(body));
	cr_expect_eq(body.wait_ms, 77);
	cr_expect_eq(body.max_tokens, 9);
	cr_expect_eq(body.reserved, 0);
	fake_refuse(&fake, &c, FAULT_NO_PAGES, 9, 1);
	cr_expect_eq(swakv_wait(session, t), SWAKV_ENOPAGES);
}

/* Answers a query of state with the group it is about as the window, and one of pages with it as the number. */
static void serve_group(struct fake *f, const struct fake_command *c)
{
	struct wire_sequence_state state = { .pending_endpoint = -1, .pending_map = -2 };
	struct wire_query_state q;

	if (c->head.op == WIRE_OP_QUERY_STATE) {
		memcpy(&q, c->payload, sizeof(q));
		state.window = q.group;
		fake_answer(f, c, 0, 0, &state, sizeof(state));
	} else {
		fake_answer(f, c, 100 + c->head.n, 0, NULL, 0);
	}
}

Test(client_groups, queries_are_about_a_group)
{
	swakv_request *r = begin(0);
	struct swakv_sequence_state state = { .size = sizeof(state) };
	int64_t pages = 0;

	fake.serve = serve_group;
	fake_serve(&fake);
	cr_assert_eq(swakv_sequence_get_group_state(r, 0, 1, &state), 0);
	cr_expect_eq(state.window, 1);
	swakv_sequence_state_clear(&state);
	cr_assert_eq(swakv_sequence_get_state(r, 0, &state), 0);
	cr_expect_eq(state.window, 0);
	swakv_sequence_state_clear(&state);
	cr_expect_eq(swakv_session_group_free_pages(session, 1, &pages), 0);
	cr_expect_eq(pages, 101);
	cr_expect_eq(swakv_session_free_pages(session, &pages), 0);
	cr_expect_eq(pages, 100);
	fake.serve = NULL;
}
