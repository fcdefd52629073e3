/* SPDX-License-Identifier: Apache-2.0 */
/* Steps over several requests, compaction, and a slot that changes its stream. */
#include <string.h>

#include "client_fixture.h"

TestSuite(client_request, .init = client_setup, .fini = client_teardown);

/* ---- steps over several requests ------------------------------------------------------------------------ */

Test(client_request, step_has_a_result_for_each_request)
{
	const struct wire_entry_fault faults[] = {
		{ 1, 0, { .code = SWAKV_ELIMIT, .reason = FAULT_CAPACITY, .seq = 0, .got = 64, .want = 64 } }
	};
	const struct wire_update u[] = { { CELL(2, 1), 4 } };
	const struct wire_row v[] = { { 2, 1, 0, 0 } };
	struct fake_delivery d = DELIVERY(u, v);
	struct swakv_step steps[3];
	struct fake_command c;
	const struct wire_step_entry *e = (const void *)c.payload;
	swakv_ticket t;

	d.faults = faults;
	d.n_faults = 1;
	for (int i = 0; i < 3; i++)
		steps[i] = (struct swakv_step){ .size = sizeof(struct swakv_step),
						.request = begin(i == 1, i),
						.result = 77 };
	cr_assert_eq(swakv_step_prepare(session, steps, 3, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c);
	cr_assert_eq(c.head.n, 3);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(e[i].tokens, 1);
	fake_deliver(&fake, &c, &d);
	cr_expect_eq(steps[0].result, 77, "written when collected");
	cr_expect_eq(swakv_wait(session, t), SWAKV_ELIMIT);
	cr_expect_eq(steps[0].result, 0);
	cr_expect_eq(steps[1].result, SWAKV_ELIMIT);
	cr_expect_eq(steps[2].result, 0);
	cr_expect_str_eq(swakv_session_error(session),
			 "entry 1: sequence 0: at 64 tokens, and may hold no more than 64: the request is finishing");
	cr_expect_eq(device(2, 0, 1), 4);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1);
	cr_expect_eq(load_acquire(&fake.lines[1].armed), 0, "only the refused request is on stream 1");
}

Test(client_request, fault_of_no_entry_is_refused)
{
	const struct wire_entry_fault faults[] = { { 1, 0, { .code = SWAKV_ELIMIT, .reason = FAULT_CAPACITY } } };
	struct fake_delivery d = { .faults = faults, .n_faults = 1 };

	cr_expect_eq(decode(begin(0, 0), &d), SWAKV_EGONE);
}

/* ---- compaction ------------------------------------------------------------------------------------------- */

static int compact(swakv_request *r, const int32_t *map, uint32_t n, int32_t new_batch, uint32_t flags, void *mapping)
{
	const struct fake_delivery none = { 0 };
	struct fake_command c;
	swakv_ticket t;
	int e;

	cr_assert_eq(swakv_compact_begin(r, map, n, new_batch, flags, (uint64_t)(uintptr_t)mapping, &t), 0);
	fake_take(&fake, WIRE_OP_COMPACT_BEGIN, &c);
	cr_expect_eq(c.head.n, n);
	cr_expect_eq(((struct wire_compact *)(void *)c.payload)->flags, flags);
	cr_expect_eq(memcmp(c.payload + sizeof(struct wire_compact), map, n * sizeof(*map)), 0);
	fake_deliver(&fake, &c, &none);
	e = swakv_wait(session, t);
	cr_expect_eq(swakv_request_batch(r), n, "the new numbering holds from the completion on");
	if (e < 0)
		return e;
	cr_assert_eq(swakv_compact_complete(r, SWAKV_DONE, &t), 0);
	fake_take(&fake, WIRE_OP_COMPACT_COMPLETE, &c);
	fake_deliver(&fake, &c, &none);
	return swakv_wait(session, t);
}

/* Flags of a begin on @stream, which is refused. */
static uint32_t flags_of_begin(uint32_t stream)
{
	const struct swakv_begin_options o = {
		.size = sizeof(o), .stream = stream, .slots = (int32_t[]){ 1 }, .n_slots = 1
	};
	struct wire_begin body;
	struct fake_command c;
	swakv_request *r;
	swakv_ticket t;

	cr_assert_eq(swakv_request_begin(session, &o, &r, &t), 0);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	memcpy(&body, c.payload, sizeof(body));
	fake_refuse(&fake, &c, FAULT_NO_PAGES, 9, 1);
	cr_expect_eq(swakv_wait(session, t), SWAKV_ENOPAGES);
	return body.flags;
}

Test(client_request, an_unordered_stream_is_said_at_begin)
{
	cr_expect_eq(flags_of_begin(1), 0);
	cr_expect_eq(swakv_stream_set_unordered(session, 1, true), 0);
	cr_expect_eq(flags_of_begin(1), WIRE_BEGIN_UNORDERED);
	cr_expect_eq(flags_of_begin(0), 0);
	cr_expect_eq(swakv_stream_set_unordered(session, 1, false), 0);
	cr_expect_eq(flags_of_begin(1), 0);
	cr_expect_eq(swakv_stream_set_unordered(session, WIRE_MAX_STREAMS, true), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_set_unordered(NULL, 0, true), SWAKV_EINVALID);
}

Test(client_request, survivors_keep_their_slots)
{
	int32_t slots[] = { 3, 0, 2 }, map[] = { 1, -1, 0 }, copy[3] = { 9, 9, 9 };
	swakv_request *r = fake_begin(&fake, session, 0, slots, 3);

	cr_expect_eq(compact(r, map, 3, 2, 0, copy), 0);
	cr_expect_eq(swakv_request_batch(r), 2);
	cr_expect_eq(swakv_request_slot(r, 0), 2);
	cr_expect_eq(swakv_request_slot(r, 1), 3);
	cr_expect_eq(memcmp(copy, map, sizeof(map)), 0, "the mapping is delivered to the device");
	cr_expect_eq(load_acquire(&fake.lines[0].word), load_acquire(&fake.lines[0].armed));
}

Test(client_request, moved_rows_are_in_the_first_slots)
{
	int32_t slots[] = { 3, 0, 2 }, map[] = { 1, -1, 0 };
	swakv_request *r = fake_begin(&fake, session, 0, slots, 3);

	cr_expect_eq(compact(r, map, 3, 2, SWAKV_COMPACT_MOVE_ROWS, NULL), 0);
	cr_expect_eq(swakv_request_batch(r), 2);
	cr_expect_eq(swakv_request_slot(r, 0), 3);
	cr_expect_eq(swakv_request_slot(r, 1), 0);
}

Test(client_request, mapping_is_copied_behind_the_armed_line)
{
	int32_t slots[] = { 3, 0 }, map[] = { 1, 0 }, copy[2];
	swakv_request *r;

	bind_custom();
	r = fake_begin(&fake, session, 1, slots, 2);
	cr_expect_eq(compact(r, map, 2, 2, 0, copy), 0);
	cr_assert_geq(n_events, 1);
	cr_expect_eq(events[0].what, 'c');
	cr_expect_eq(events[0].n, sizeof(map));
	cr_expect_eq(events[0].armed, 1);
	cr_expect_eq(swakv_request_slot(r, 0), 0);
	cr_expect_eq(swakv_request_slot(r, 1), 3);
}

Test(client_request, refused_compaction_changes_no_numbering)
{
	int32_t slots[] = { 3, 0 }, map[] = { 1, 1 };
	swakv_request *r = fake_begin(&fake, session, 1, slots, 2);
	struct fake_command c;
	swakv_ticket t;

	/* how many there should be is the broker's to say: the request may be in the wrong phase for it */
	cr_assert_eq(swakv_compact_begin(r, map, 1, 1, 0, 0, &t), 0);
	fake_take(&fake, WIRE_OP_COMPACT_BEGIN, &c);
	fake_refuse(&fake, &c, FAULT_NOT_EXECUTING, 1, 0);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EPHASE);
	cr_assert_eq(swakv_compact_begin(r, map, 2, 2, 0, 0, &t), 0);
	fake_take(&fake, WIRE_OP_COMPACT_BEGIN, &c);
	fake_refuse(&fake, &c, FAULT_MAP_TWICE, 1, 0);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EINVALID);
	cr_expect_eq(swakv_request_batch(r), 2);
	cr_expect_eq(load_acquire(&fake.lines[1].armed), 0);
}

/* ---- a slot that changes its stream ---------------------------------------------------------------------------- */

/* A begin of slot 0 on stream 0 whose BEGIN is @c: granted by the broker, and given back by the library. */
static void expect_given_back(swakv_ticket t, swakv_request **next, const struct fake_command *begun)
{
	struct fake_command c;

	fake_answer(&fake, begun, 0x55, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, t), SWAKV_EPENDING);
	cr_expect_null(*next);
	cr_expect_not_null(strstr(swakv_session_error(session), "slot 0 is still behind value 2"), "%s",
			   swakv_session_error(session));
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	cr_expect_eq(c.head.request, 0x55);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
}

/* Ends @r, whose slot is 0, and lets the clear of its row travel with a step of @other on the same stream. */
static void end_and_clear(swakv_request *r, swakv_request *other)
{
	const struct wire_update clear[] = { { CELL(0, 0), -1 } };
	const struct wire_row v2[] = { { 0, 2, 0, 0 } };
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_request_finish(r, &t), 0);
	fake_take(&fake, WIRE_OP_FINISH, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_assert_eq(swakv_wait(session, t), 0);
	cr_assert_eq(swakv_stream_launch_host(session, 1, wait_for_gate, NULL), 0);
	if (other)
		cr_assert_eq(decode(other, &DELIVERY(clear, v2)), 0);
}

/* A begin of slot 0 on stream 0 that may wait for @wait_ms, granted while the slot's clears are under way on stream 1.
 */
static swakv_ticket begin_early(uint32_t wait_ms, swakv_request **next, swakv_request **other)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } };
	static int32_t slot = 0;
	const struct swakv_begin_options o = {
		.size = sizeof(o), .stream = 0, .slots = &slot, .n_slots = 1, .wait_ms = wait_ms
	};
	struct fake_command c;
	swakv_request *r;
	swakv_ticket t;

	cr_assert_eq(swakv_stream_bind_host(session, 1, true), 0);
	r = begin(1, 0);
	*other = begin(1, 1);
	cr_assert_eq(decode(r, &DELIVERY(u, v1)), 0);
	cr_assert_eq(complete(r, SWAKV_DONE), 0);
	cr_assert_eq(swakv_stream_synchronize(session, 1), 0);
	end_and_clear(r, *other);
	cr_assert_eq(swakv_request_begin(session, &o, next, &t), 0);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	fake_answer(&fake, &c, 0x55, 0, NULL, 0);
	return t;
}

/* The begin @t of begin_early() ends without its slots: what was granted is abandoned, and there is no handle. */
static void given_back(swakv_ticket t, swakv_request **next, swakv_request *other)
{
	struct fake_command c;

	cr_expect_eq(swakv_wait(session, t), SWAKV_EPENDING);
	cr_expect_null(*next);
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	cr_expect_eq(c.head.request, 0x55);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	store_release(&gate, 1);
	cr_assert_eq(complete(other, SWAKV_DONE), 0);
}

Test(client_request, a_begin_that_may_wait_waits_for_clears_under_way)
{
	swakv_request *next, *other;
	swakv_ticket t = begin_early(60000, &next, &other);

	cr_expect_eq(swakv_poll(session, t), SWAKV_EAGAIN);
	cr_expect_null(next);
	store_release(&gate, 1);
	cr_assert_eq(complete(other, SWAKV_DONE), 0);
	cr_expect_eq(swakv_wait(session, t), 0, "%s", swakv_session_error(session));
	cr_assert_not_null(next);
	cr_expect(swakv_request_valid(next));
}

Test(client_request, a_begin_that_waits_at_the_broker_is_withdrawn_by_its_number)
{
	const struct swakv_begin_options o = {
		.size = sizeof(o), .slots = (int32_t[]){ 1 }, .n_slots = 1, .wait_ms = 60000
	};
	struct fake_command waiting, c;
	swakv_ticket begun, withdrawn;
	swakv_request *r;

	cr_assert_eq(swakv_request_begin(session, &o, &r, &begun), 0);
	fake_take(&fake, WIRE_OP_BEGIN, &waiting);
	cr_assert_eq(swakv_request_withdraw(session, begun, &withdrawn), 0);
	fake_take(&fake, WIRE_OP_WITHDRAW, &c);
	cr_expect_eq(c.head.request, begun, "it names the begin");
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, withdrawn), 0);
	cr_expect_eq(swakv_poll(session, begun), SWAKV_EAGAIN, "its own answer is still to come");
	fake_refuse(&fake, &waiting, FAULT_WITHDRAWN, 0, 0);
	cr_expect_eq(swakv_wait(session, begun), SWAKV_ENOPAGES);
	cr_expect_null(r, "a begin that waits has no handle yet");
	swakv_request_free(r);
}

Test(client_request, only_a_begin_in_flight_can_be_withdrawn)
{
	cr_expect_eq(swakv_request_withdraw(session, 4711, NULL), SWAKV_EINVALID);
	cr_expect_str_eq(swakv_session_error(session), "ticket 1267 is not that of a begin or take in flight");
	cr_expect_eq(swakv_request_withdraw(NULL, 4711, NULL), SWAKV_EINVALID);
	cr_expect_not(fake_has_command(&fake), "nothing was sent");
}

Test(client_request, a_begin_that_waits_for_its_slots_is_given_back_when_withdrawn)
{
	swakv_request *next, *other;
	swakv_ticket t = begin_early(60000, &next, &other), withdrawn;
	struct fake_command c;

	cr_expect_eq(swakv_poll(session, t), SWAKV_EAGAIN);
	cr_assert_eq(swakv_request_withdraw(session, t, &withdrawn), 0);
	fake_take(&fake, WIRE_OP_WITHDRAW, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(session, withdrawn), 0);
	given_back(t, &next, other);
}

Test(client_request, a_begin_whose_time_is_up_before_its_slots_are_through_is_given_back)
{
	swakv_request *next, *other;
	swakv_ticket t = begin_early(1, &next, &other);

	given_back(t, &next, other);
}

Test(client_request, slot_with_clears_under_way_is_not_given_to_another_stream)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } }, next_u[] = { { CELL(0, 0), 9 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v3[] = { { 0, 3, 0, 0 } };
	int32_t slot = 0;
	const struct swakv_begin_options o = { .size = sizeof(o), .stream = 0, .slots = &slot, .n_slots = 1 };
	swakv_request *r, *other, *next;
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_stream_bind_host(session, 1, true), 0);
	r = begin(1, 0);
	other = begin(1, 1);
	cr_assert_eq(decode(r, &DELIVERY(u, v1)), 0);
	cr_assert_eq(complete(r, SWAKV_DONE), 0);
	cr_assert_eq(swakv_stream_synchronize(session, 1), 0);
	end_and_clear(r, other);
	cr_assert_eq(swakv_request_begin(session, &o, &next, &t), 0);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	expect_given_back(t, &next, &c);
	/* when the stream is through with it the slot may move */
	store_release(&gate, 1);
	cr_assert_eq(complete(other, SWAKV_DONE), 0);
	cr_assert_eq(swakv_stream_synchronize(session, 1), 0);
	next = fake_begin(&fake, session, 0, &slot, 1);
	cr_assert_eq(decode(next, &DELIVERY(next_u, v3)), 0);
	cr_expect_eq(device(0, 0, 0), 9);
}

Test(client_request, slot_with_clears_under_way_stays_with_its_own_stream)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } };
	int32_t slot = 0;
	swakv_request *r, *other;

	cr_assert_eq(swakv_stream_bind_host(session, 1, true), 0);
	r = begin(1, 0);
	other = begin(1, 1);
	cr_assert_eq(decode(r, &DELIVERY(u, v1)), 0);
	cr_assert_eq(complete(r, SWAKV_DONE), 0);
	end_and_clear(r, other);
	cr_expect(swakv_request_valid(fake_begin(&fake, session, 1, &slot, 1)));
}

Test(client_request, begin_under_way_when_the_clears_come_is_given_back)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } }, clear[] = { { CELL(0, 0), -1 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v2[] = { { 0, 2, 0, 0 } };
	int32_t slot = 0;
	const struct swakv_begin_options o = { .size = sizeof(o), .stream = 0, .slots = &slot, .n_slots = 1 };
	struct fake_command c[2];
	swakv_request *r, *other, *next;
	swakv_ticket t[2];

	cr_assert_eq(swakv_stream_bind_host(session, 1, true), 0);
	r = begin(1, 0);
	other = begin(1, 1);
	cr_assert_eq(decode(r, &DELIVERY(u, v1)), 0);
	cr_assert_eq(complete(r, SWAKV_DONE), 0);
	cr_assert_eq(swakv_stream_synchronize(session, 1), 0);
	end_and_clear(r, NULL);
	cr_assert_eq(swakv_decode_prepare(other, &t[0]), 0);
	cr_assert_eq(swakv_request_begin(session, &o, &next, &t[1]), 0);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c[0]);
	fake_take(&fake, WIRE_OP_BEGIN, &c[1]);
	fake_deliver(&fake, &c[0], &DELIVERY(clear, v2));
	cr_assert_eq(swakv_wait(session, t[0]), 0);
	expect_given_back(t[1], &next, &c[1]);
}
