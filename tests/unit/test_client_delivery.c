/* SPDX-License-Identifier: Apache-2.0 */
/* From an answer to the device table: checks, versions, routing, and what is armed before what. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_broker.h"

static struct fake fake;
static swakv_session *session;

/* What the callbacks saw, in order. */
static struct event {
	char what; /* 'u' on_updates, 'a' apply, 'w' write_word, 'c' copy, 's' synchronize */
	uint32_t stream;
	size_t n;
	uint64_t armed, word, value;
	struct swakv_update first;
} events[64];
static int n_events;
static int apply_result, write_result;

static struct event *event_add(char what, uint32_t stream)
{
	struct event *e = &events[n_events++];

	cr_assert_lt(n_events, 64);
	*e = (struct event){ .what = what,
			     .stream = stream,
			     .armed = load_acquire(&fake.lines[stream].armed),
			     .word = load_acquire(&fake.lines[stream].word) };
	return e;
}

static void on_updates(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct event *e = event_add('u', stream);

	e->n = n;
	e->first = updates[0];
}

static uint32_t streams[FAKE_STREAMS] = { 0, 1 };

static int custom_apply(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct event *e = event_add('a', *(uint32_t *)arg);

	cr_expect_eq(group, 0);
	e->n = n;
	e->first = updates[0];
	return apply_result;
}

static int custom_write_word(void *arg, uint64_t *word, uint64_t value)
{
	struct event *e = event_add('w', *(uint32_t *)arg);

	e->value = value;
	if (write_result == 0)
		store_release((shm_u64 *)word, value);
	return write_result;
}

static int custom_synchronize(void *arg)
{
	event_add('s', *(uint32_t *)arg);
	return apply_result || write_result;
}

static int custom_copy(void *arg, uint64_t dst, const void *src, size_t bytes)
{
	event_add('c', *(uint32_t *)arg)->n = bytes;
	memcpy((void *)(uintptr_t)dst, src, bytes);
	return 0;
}

static const struct swakv_stream_ops ops = {
	.apply = custom_apply, .write_word = custom_write_word, .synchronize = custom_synchronize, .copy = custom_copy
};

static void setup(void)
{
	struct swakv_attach_options o = { .on_updates = on_updates };

	fake_open(&fake);
	session = fake_attach(&fake, &o);
}

static shm_u32 gate; /* work of host streams that waits for the test */

static void teardown(void)
{
	store_release(&gate, 1);
	fake_end(&fake, session);
}

TestSuite(client_delivery, .init = setup, .fini = teardown);

static void bind_custom(void)
{
	for (uint32_t i = 0; i < FAKE_STREAMS; i++)
		cr_assert_eq(swakv_stream_bind_custom(session, i, &ops, &streams[i]), 0);
}

static uint64_t row_faults(void)
{
	struct swakv_session_counters c;

	swakv_session_get_counters(session, &c);
	return c.row_faults;
}

#define CELL(row, column) ((row)*FAKE_WIDTH + (column))
#define N(array)          (sizeof(array) / sizeof((array)[0]))
#define DELIVERY(u, r)    ((struct fake_delivery){ .updates = (u), .n_updates = N(u), .rows = (r), .n_rows = N(r) })

static int32_t device(int row, int half, int column)
{
	return fake.device[(row * 2 + half) * FAKE_WIDTH + column];
}

static void assert_device_row(int row, const int32_t k[FAKE_WIDTH])
{
	for (int i = 0; i < FAKE_WIDTH; i++) {
		cr_expect_eq(device(row, 0, i), k[i], "row %d column %d: K is %d", row, i, device(row, 0, i));
		cr_expect_eq(device(row, 1, i), k[i] < 0 ? -1 : k[i] + FAKE_PAGES, "row %d column %d: V is %d", row, i,
			     device(row, 1, i));
	}
}

/* A decode step of @r, answered with @d. */
static int decode(swakv_request *r, const struct fake_delivery *d)
{
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_decode_prepare(r, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c);
	fake_deliver(&fake, &c, d);
	return swakv_wait(session, t);
}

static int complete(swakv_request *r, struct swakv_fence fence)
{
	const struct fake_delivery none = { 0 };
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_decode_complete(r, fence, &t), 0);
	fake_take(&fake, WIRE_OP_STEP_COMPLETE, &c);
	fake_deliver(&fake, &c, &none);
	return swakv_wait(session, t);
}

static swakv_request *begin(uint32_t stream, int32_t slot)
{
	return fake_begin(&fake, session, stream, &slot, 1);
}

/* ---- what arrives ------------------------------------------------------------------------------ */

Test(client_delivery, updates_reach_the_table_with_their_v_half)
{
	swakv_request *r = begin(0, 2);
	const struct wire_update first[] = { { CELL(2, 0), 5 }, { CELL(2, 1), 3 } };
	const struct wire_update second[] = { { CELL(2, 0), -1 }, { CELL(2, 2), 15 } };
	const struct wire_row row1[] = { { 2, 1, 0, 0 } }, row2[] = { { 2, 2, 0, 0 } };

	cr_expect_eq(fake_prefill(&fake, session, r, &DELIVERY(first, row1)), 0);
	assert_device_row(2, (int32_t[]){ 5, 3, -1, -1 });
	cr_expect_eq(decode(r, &DELIVERY(second, row2)), 0);
	assert_device_row(2, (int32_t[]){ -1, 3, 15, -1 });
	assert_device_row(1, (int32_t[]){ -1, -1, -1, -1 });
	cr_assert_eq(n_events, 2);
	cr_expect_eq(events[1].n, 2);
	cr_expect_eq(events[1].first.slot, 2);
	cr_expect_eq(events[1].first.column, 0);
	cr_expect_eq(events[1].first.page, -1);
	cr_expect_eq(events[1].first.old_page, 5);
	cr_expect_eq(row_faults(), 0);
}

/* Each is refused before a stream sees anything of the answer, also what was good in it. */
static void assert_refused(const struct fake_delivery *d, const char *words)
{
	swakv_request *r;

	bind_custom();
	r = begin(0, 0);
	cr_expect_eq(fake_prefill(&fake, session, r, d), SWAKV_EGONE);
	cr_expect_not_null(strstr(swakv_session_error(session), words), "%s", swakv_session_error(session));
	cr_expect_eq(n_events, 0);
	cr_expect_not(swakv_request_valid(r));
}

static const struct wire_row row0[] = { { 0, 1, 0, 0 } };

Test(client_delivery, page_outside_the_pool_is_refused)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 }, { CELL(0, 3), FAKE_PAGES } };

	assert_refused(&DELIVERY(u, row0), "page 16 to slot 0, column 3; the pool has pages 0 to 15");
}

Test(client_delivery, page_below_empty_is_refused)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 }, { CELL(0, 1), -2 } };

	assert_refused(&DELIVERY(u, row0), "page -2");
}

Test(client_delivery, cell_outside_the_table_is_refused)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 }, { CELL(FAKE_BATCH, 0), 1 } };

	assert_refused(&DELIVERY(u, row0), "row 4");
}

Test(client_delivery, update_of_a_row_that_is_not_named_is_refused)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 }, { CELL(1, 0), 2 } };

	assert_refused(&DELIVERY(u, row0), "row 1 that its answer does not name");
}

Test(client_delivery, row_outside_the_table_is_refused)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 } };
	const struct wire_row rows[] = { { 0, 1, 0, 0 }, { FAKE_BATCH, 1, 0, 0 } };

	assert_refused(&DELIVERY(u, rows), "row 4");
}

Test(client_delivery, more_updates_than_the_message_holds_are_refused)
{
	const struct wire_delivery head = { .n_updates = UINT32_MAX, .n_rows = 1 };
	struct fake_command c;
	swakv_request *r;
	int32_t length = 16;
	swakv_ticket t;

	bind_custom();
	r = begin(0, 0);
	cr_assert_eq(swakv_prefill_prepare(r, &length, 1, &t), 0);
	fake_take(&fake, WIRE_OP_PREFILL_PREPARE, &c);
	fake_answer(&fake, &c, 0, 0, &head, sizeof(head));
	cr_expect_eq(swakv_wait(session, t), SWAKV_EGONE);
	cr_expect_eq(n_events, 0);
}

Test(client_delivery, host_row_with_an_impossible_page_is_refused)
{
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = row0, .n_rows = 1 };

	fake_row(&fake, 0, (int32_t[]){ 1, FAKE_PAGES, -1, -1 }, 1);
	assert_refused(&d, "page 16 in slot 0, column 1");
}

/* ---- rows and versions -------------------------------------------------------------------------- */

Test(client_delivery, rows_by_reference_are_copied_from_the_host_table)
{
	int32_t slots[] = { 1, 3 };
	swakv_request *r = fake_begin(&fake, session, 0, slots, 2);
	const struct wire_row rows[] = { { 1, 1, 0, 0 }, { 3, 1, 0, 0 } };
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = rows, .n_rows = 2 };

	fake_row(&fake, 1, (int32_t[]){ -1, 4, 5, -1 }, 1);
	fake_row(&fake, 3, (int32_t[]){ 6, -1, -1, 7 }, 1);
	cr_expect_eq(fake_prefill(&fake, session, r, &d), 0);
	assert_device_row(1, (int32_t[]){ -1, 4, 5, -1 });
	assert_device_row(3, (int32_t[]){ 6, -1, -1, 7 });
	cr_assert_eq(n_events, 1);
	cr_expect_eq(events[0].n, 4, "only what differs is written");
	cr_expect_eq(row_faults(), 0);
}

Test(client_delivery, version_that_does_not_follow_rereads_the_row)
{
	swakv_request *r = begin(0, 2);
	const struct wire_update u1[] = { { CELL(2, 0), 5 } };
	const struct wire_update u3[] = { { CELL(2, 2), 8 } };
	const struct wire_row v1[] = { { 2, 1, 0, 0 } }, v3[] = { { 2, 3, 0, 0 } }, v4[] = { { 2, 4, 0, 0 } };

	cr_expect_eq(fake_prefill(&fake, session, r, &DELIVERY(u1, v1)), 0);
	/* delivery 2, which put page 7 into column 1 and took column 0 out, was lost */
	fake_row(&fake, 2, (int32_t[]){ -1, 7, 8, -1 }, 3);
	cr_expect_eq(decode(r, &DELIVERY(u3, v3)), 0);
	cr_expect_eq(row_faults(), 1);
	assert_device_row(2, (int32_t[]){ -1, 7, 8, -1 });
	cr_expect_eq(events[1].n, FAKE_WIDTH, "the whole row is written");
	/* and all is well from here on */
	cr_expect_eq(decode(r, &DELIVERY(u1, v4)), 0);
	cr_expect_eq(row_faults(), 1);
	assert_device_row(2, (int32_t[]){ 5, 7, 8, -1 });
}

Test(client_delivery, repeated_version_is_a_fault)
{
	swakv_request *r = begin(0, 2);
	const struct wire_update u1[] = { { CELL(2, 0), 5 } }, u2[] = { { CELL(2, 1), 6 } };
	const struct wire_row v1[] = { { 2, 1, 0, 0 } };

	cr_expect_eq(fake_prefill(&fake, session, r, &DELIVERY(u1, v1)), 0);
	fake_row(&fake, 2, (int32_t[]){ 5, 6, -1, -1 }, 2);
	cr_expect_eq(decode(r, &DELIVERY(u2, v1)), 0);
	cr_expect_eq(row_faults(), 1);
	assert_device_row(2, (int32_t[]){ 5, 6, -1, -1 });
}

Test(client_delivery, row_read_ahead_skips_what_it_contains)
{
	swakv_request *r = begin(0, 2);
	const struct wire_update u2[] = { { CELL(2, 1), 6 } }, u3[] = { { CELL(2, 1), 9 } };
	const struct wire_row v1[] = { { 2, 1, 0, 0 } }, v2[] = { { 2, 2, 0, 0 } }, v3[] = { { 2, 3, 0, 0 } };
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = v1, .n_rows = 1 };

	/* the host row already has delivery 2 and a change on top of it */
	fake_row(&fake, 2, (int32_t[]){ 5, 7, -1, -1 }, 2);
	cr_expect_eq(fake_prefill(&fake, session, r, &d), 0);
	cr_expect_eq(decode(r, &DELIVERY(u2, v2)), 0);
	assert_device_row(2, (int32_t[]){ 5, 7, -1, -1 });
	cr_expect_eq(decode(r, &DELIVERY(u3, v3)), 0);
	assert_device_row(2, (int32_t[]){ 5, 9, -1, -1 });
	cr_expect_eq(row_faults(), 0);
}

Test(client_delivery, row_that_stays_locked_ends_the_session)
{
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = row0, .n_rows = 1 };

	store_release(&fake.rows[0].sequence, 1);
	assert_refused(&d, "died while it wrote row 0");
}

static void *unlock_soon(void *arg)
{
	usleep(20000);
	fake_row(&fake, 0, (int32_t[]){ 3, 2, 1, 0 }, 1);
	store_release(&fake.rows[0].sequence, 2);
	return NULL;
}

Test(client_delivery, row_that_is_being_written_is_waited_for)
{
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = row0, .n_rows = 1 };
	pthread_t thread;

	store_release(&fake.rows[0].sequence, 1);
	pthread_create(&thread, NULL, unlock_soon, NULL);
	cr_expect_eq(fake_prefill(&fake, session, begin(0, 0), &d), 0);
	pthread_join(thread, NULL);
	assert_device_row(0, (int32_t[]){ 3, 2, 1, 0 });
}

/* ---- which stream --------------------------------------------------------------------------------- */

Test(client_delivery, updates_go_to_the_stream_of_their_slot)
{
	swakv_request *a, *b;
	const struct wire_update ua[] = { { CELL(0, 0), 1 } };
	const struct wire_update ub[] = { { CELL(0, 0), -1 }, { CELL(1, 0), 2 }, { CELL(0, 1), 3 } };
	const struct wire_row va[] = { { 0, 1, 0, 0 } }, vb[] = { { 0, 2, 0, 0 }, { 1, 1, 0, 0 } };
	struct fake_command c;
	swakv_ticket t;

	bind_custom();
	a = begin(1, 0);
	cr_expect_eq(fake_prefill(&fake, session, a, &DELIVERY(ua, va)), 0);
	cr_assert_eq(n_events, 2);
	cr_expect_eq(events[1].what, 'a');
	cr_expect_eq(events[1].stream, 1);
	/* a ends; its row's clears travel with b's prepare, and still go to stream 1 */
	cr_assert_eq(swakv_request_abandon(a, &t), 0);
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_assert_eq(swakv_wait(session, t), 0);
	n_events = 0;
	b = begin(0, 1);
	cr_expect_eq(fake_prefill(&fake, session, b, &DELIVERY(ub, vb)), 0);
	cr_assert_eq(n_events, 5);
	cr_expect_eq(events[1].what, 'a');
	cr_expect_eq(events[1].stream, 0);
	cr_expect_eq(events[1].n, 1);
	cr_expect_eq(events[3].what, 'a');
	cr_expect_eq(events[3].stream, 1);
	cr_expect_eq(events[3].n, 2);
	cr_expect_eq(events[3].first.column, 0);
}

/* ---- armed before anything of the step is enqueued -------------------------------------------------- */

Test(client_delivery, line_is_armed_before_the_updates_are_enqueued)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 } };
	const struct wire_row v[] = { { 0, 1, 0, 0 } };

	bind_custom();
	cr_expect_eq(fake_prefill(&fake, session, begin(0, 0), &DELIVERY(u, v)), 0);
	cr_assert_eq(n_events, 2);
	cr_expect_eq(events[0].what, 'u');
	cr_expect_eq(events[0].armed, 1, "on_updates may enqueue work: the line must be armed");
	cr_expect_eq(events[1].what, 'a');
	cr_expect_eq(events[1].armed, 1, "the updates were enqueued on a line that looks idle");
	cr_expect_eq(events[1].word, 0);
}

Test(client_delivery, line_is_armed_before_the_write_of_its_word_is_enqueued)
{
	struct swakv_fence fence;

	bind_custom();
	for (uint64_t n = 1; n <= 3; n++) {
		cr_assert_eq(swakv_stream_mark(session, 0, &fence), 0);
		cr_expect_eq(fence.value, n);
		cr_expect_eq(fence.line, 0);
		cr_assert_eq(n_events, (int)n);
		cr_expect_eq(events[n - 1].what, 'w');
		cr_expect_eq(events[n - 1].value, n);
		cr_expect_eq(events[n - 1].armed, n, "the word was written before the line was armed");
		cr_expect(swakv_fence_reached(session, fence));
	}
	fence.value++;
	cr_expect_not(swakv_fence_reached(session, fence));
}

Test(client_delivery, step_without_updates_arms_its_line_too)
{
	const struct fake_delivery none = { 0 };
	struct swakv_fence fence;

	bind_custom();
	cr_expect_eq(fake_prefill(&fake, session, begin(1, 0), &none), 0);
	cr_expect_eq(n_events, 0);
	cr_expect_eq(load_acquire(&fake.lines[1].armed), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 0);
	cr_assert_eq(swakv_stream_mark(session, 1, &fence), 0);
	cr_expect_eq(fence.value, 1, "the mark is the value that was armed");
}

Test(client_delivery, refused_step_arms_nothing)
{
	const struct wire_entry_fault faults[] = {
		{ 0, 0, { .code = SWAKV_EPENDING, .reason = FAULT_PAGES_PENDING, .seq = -1, .got = 1, .want = 2 } }
	};
	struct fake_delivery d = { .faults = faults, .n_faults = 1 };
	swakv_request *r;

	bind_custom();
	r = begin(1, 0);
	cr_expect_eq(decode(r, &d), SWAKV_EPENDING);
	cr_expect_not_null(strstr(swakv_session_error(session), "2 pages are needed, 1 are at hand"));
	cr_expect_eq(load_acquire(&fake.lines[1].armed), 0);
}

Test(client_delivery, mark_of_one_step_leaves_the_line_armed_for_the_other)
{
	const struct fake_delivery none = { 0 };
	swakv_request *a, *b;
	struct swakv_fence fa, fb;

	bind_custom();
	a = begin(0, 0);
	b = begin(0, 1);
	cr_expect_eq(decode(a, &none), 0);
	cr_expect_eq(decode(b, &none), 0);
	cr_assert_eq(swakv_stream_mark(session, 0, &fa), 0);
	cr_expect_eq(fa.value, 1);
	cr_expect_eq(events[0].armed, 2, "b's step is still to come: the line must not look idle at 1");
	cr_expect_eq(complete(a, fa), 0);
	cr_expect_gt(load_acquire(&fake.lines[0].armed), load_acquire(&fake.lines[0].word));
	cr_assert_eq(swakv_stream_mark(session, 0, &fb), 0);
	cr_expect_eq(fb.value, 2);
	cr_expect_eq(complete(b, fb), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 2);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 2);
}

Test(client_delivery, line_armed_for_clears_alone_is_marked_at_once)
{
	swakv_request *b;
	const struct wire_update ub[] = { { CELL(0, 0), -1 } };
	const struct wire_row vb[] = { { 0, 1, 0, 0 } };

	bind_custom();
	begin(1, 0);
	b = begin(0, 1);
	cr_expect_eq(decode(b, &DELIVERY(ub, vb)), 0);
	cr_assert_eq(n_events, 3);
	cr_expect_eq(events[1].what, 'a');
	cr_expect_eq(events[1].stream, 1);
	cr_expect_eq(events[1].armed, 1);
	cr_expect_eq(events[2].what, 'w');
	cr_expect_eq(load_acquire(&fake.lines[1].word), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 0, "b's step is not marked by the library");
}

Test(client_delivery, completion_that_is_done_lets_the_word_catch_up)
{
	const struct fake_delivery none = { 0 };
	swakv_request *r;

	bind_custom();
	r = begin(0, 0);
	cr_expect_eq(decode(r, &none), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 0);
	cr_expect_eq(complete(r, SWAKV_DONE), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 1);
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1);
}

Test(client_delivery, completion_that_is_done_does_not_mark_anothers_step)
{
	const struct fake_delivery none = { 0 };
	swakv_request *a, *b;

	bind_custom();
	a = begin(0, 0);
	b = begin(0, 1);
	cr_expect_eq(decode(a, &none), 0);
	cr_expect_eq(decode(b, &none), 0);
	cr_expect_eq(complete(a, SWAKV_DONE), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 0);
	cr_expect_eq(complete(b, SWAKV_DONE), 0);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 1);
}

Test(client_delivery, abandon_marks_what_was_given_to_the_stream)
{
	const struct fake_delivery none = { 0 };
	struct fake_command c;
	struct wire_fence fence;
	swakv_request *r;
	swakv_ticket t;

	bind_custom();
	r = begin(1, 0);
	cr_expect_eq(decode(r, &none), 0);
	cr_assert_eq(swakv_request_abandon(r, &t), 0);
	cr_assert_eq(n_events, 1);
	cr_expect_eq(events[0].what, 'w');
	fake_take(&fake, WIRE_OP_ABANDON, &c);
	memcpy(&fence, c.payload, sizeof(fence));
	cr_expect_eq(fence.kind, WIRE_FENCE_LINE);
	cr_expect_eq(fence.line, 1);
	cr_expect_eq(fence.value, 1);
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_assert_eq(swakv_wait(session, t), 0);
}

/* ---- a stream that fails ------------------------------------------------------------------------------ */

Test(client_delivery, failed_updates_are_told_and_the_row_is_written_again)
{
	const struct wire_update u1[] = { { CELL(0, 0), 1 } }, u2[] = { { CELL(0, 1), 2 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v2[] = { { 0, 2, 0, 0 } };
	swakv_request *r;

	bind_custom();
	r = begin(0, 0);
	apply_result = 5;
	cr_expect_eq(decode(r, &DELIVERY(u1, v1)), SWAKV_EDEVICE);
	cr_expect_not_null(strstr(swakv_session_error(session), "apply returned 5"), "%s",
			   swakv_session_error(session));
	cr_expect(swakv_request_valid(r));
	cr_expect_eq(swakv_stream_mark(session, 0, NULL), SWAKV_EDEVICE, "nothing more is proven on this stream");
	cr_expect_eq(load_acquire(&fake.lines[0].armed), 1);
	apply_result = 0;
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect_eq(swakv_stream_mark(session, 0, NULL), 0);
	n_events = 0;
	fake_row(&fake, 0, (int32_t[]){ 1, 2, -1, -1 }, 2);
	cr_expect_eq(decode(r, &DELIVERY(u2, v2)), 0);
	cr_assert_eq(n_events, 2);
	cr_expect_eq(events[1].n, FAKE_WIDTH);
	cr_expect_eq(row_faults(), 0);
}

static struct wire_fence shutdown_fences[FAKE_STREAMS];

static void serve_shutdown(struct fake *f, const struct fake_command *c)
{
	if (c->head.op == WIRE_OP_SHUTDOWN) {
		cr_expect_eq(c->head.n, FAKE_STREAMS);
		memcpy(shutdown_fences, c->payload, sizeof(shutdown_fences));
	}
	if (c->head.op == WIRE_OP_SHUTDOWN && shutdown_fences[0].kind == WIRE_FENCE_FAILED)
		fake_refuse(f, c, FAULT_STILL_POISONED, 5, 0);
	else
		fake_answer(f, c, 0, 0, NULL, 0);
}

Test(client_delivery, shutdown_tells_which_streams_failed)
{
	const struct fake_delivery none = { 0 };

	bind_custom();
	cr_expect_eq(decode(begin(0, 0), &none), 0);
	write_result = 1;
	cr_expect_eq(swakv_stream_mark(session, 0, NULL), SWAKV_EDEVICE);
	fake.serve = serve_shutdown;
	fake_serve(&fake);
	cr_expect_eq(swakv_session_shutdown(session), SWAKV_EPOISONED);
	cr_expect_str_eq(swakv_session_error(session), "completion failed again: 5 pages stay in quarantine");
	cr_expect_eq(shutdown_fences[0].kind, WIRE_FENCE_FAILED);
	write_result = 0;
	cr_expect_eq(swakv_session_shutdown(session), 0);
	cr_expect_eq(shutdown_fences[0].kind, WIRE_FENCE_DONE);
	cr_expect_eq(shutdown_fences[1].kind, WIRE_FENCE_DONE);
	cr_expect_eq(load_acquire(&fake.lines[0].word), 1, "the word catches up with what was synchronised");
}

/* ---- steps over several requests ------------------------------------------------------------------------ */

Test(client_delivery, step_has_a_result_for_each_request)
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
		steps[i] = (struct swakv_step){ .request = begin(i == 1, i), .result = 77 };
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

Test(client_delivery, fault_of_no_entry_is_refused)
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

Test(client_delivery, survivors_keep_their_slots)
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

Test(client_delivery, moved_rows_are_in_the_first_slots)
{
	int32_t slots[] = { 3, 0, 2 }, map[] = { 1, -1, 0 };
	swakv_request *r = fake_begin(&fake, session, 0, slots, 3);

	cr_expect_eq(compact(r, map, 3, 2, SWAKV_COMPACT_MOVE_ROWS, NULL), 0);
	cr_expect_eq(swakv_request_batch(r), 2);
	cr_expect_eq(swakv_request_slot(r, 0), 3);
	cr_expect_eq(swakv_request_slot(r, 1), 0);
}

Test(client_delivery, mapping_is_copied_behind_the_armed_line)
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

Test(client_delivery, refused_compaction_changes_no_numbering)
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

/* ---- host streams ---------------------------------------------------------------------------------------------- */

static shm_u32 seen[3];
static void wait_for_gate(void *arg)
{
	while (!load_acquire(&gate))
		usleep(1000);
}

static void look(void *arg)
{
	store_release((shm_u32 *)arg, (uint32_t)fake.device[0] * 100 + (uint32_t)load_acquire(&fake.lines[0].word));
}

Test(client_delivery, threaded_stream_keeps_the_order)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } };
	const struct wire_row v[] = { { 0, 1, 0, 0 } };
	struct swakv_fence fence;
	swakv_request *r;

	cr_assert_eq(swakv_stream_bind_host(session, 0, true), 0);
	r = begin(0, 0);
	cr_assert_eq(swakv_stream_launch_host(session, 0, wait_for_gate, NULL), 0);
	cr_expect_eq(decode(r, &DELIVERY(u, v)), 0);
	cr_assert_eq(swakv_stream_launch_host(session, 0, look, &seen[0]), 0);
	cr_assert_eq(swakv_stream_mark(session, 0, &fence), 0);
	cr_assert_eq(swakv_stream_launch_host(session, 0, look, &seen[1]), 0);
	cr_expect_eq(fake.device[0], -1, "the update waits for the work before it");
	cr_expect_not(swakv_fence_reached(session, fence));
	store_release(&gate, 1);
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect(swakv_fence_reached(session, fence));
	cr_expect_eq(load_acquire(&seen[0]), 700);
	cr_expect_eq(load_acquire(&seen[1]), 701);
}

static void look_at_signals(void *arg)
{
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	store_release((shm_u32 *)arg, sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1) ? 1 : 2);
}

Test(client_delivery, signals_stay_with_the_callers_threads)
{
	sigset_t before, after;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	cr_assert_eq(swakv_stream_bind_host(session, 0, true), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	cr_expect_eq(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM), "the caller's own mask stays");
	cr_assert_eq(swakv_stream_launch_host(session, 0, look_at_signals, &seen[0]), 0);
	cr_expect_eq(swakv_stream_synchronize(session, 0), 0);
	cr_expect_eq(load_acquire(&seen[0]), 1, "a signal could be handled on the stream's thread");
}

Test(client_delivery, close_waits_for_the_streams)
{
	cr_assert_eq(swakv_stream_bind_host(session, 0, true), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(swakv_stream_launch_host(session, 0, i ? look : wait_for_gate, &seen[i]), 0);
	cr_expect_eq(load_acquire(&seen[2]), 0);
	store_release(&gate, 1);
	fake_serve(&fake);
	swakv_session_close(session);
	cr_expect_neq(load_acquire(&seen[2]), 0);
	session = NULL;
}

Test(client_delivery, stream_is_bound_once)
{
	cr_expect_eq(swakv_stream_bind_host(session, 1, false), 0);
	cr_expect_eq(swakv_stream_bind_host(session, 1, true), SWAKV_EBUSY);
	cr_expect_eq(swakv_stream_bind_custom(session, 1, &ops, NULL), SWAKV_EBUSY);
	cr_expect_eq(swakv_stream_bind_custom(session, 0, NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_stream_bind_cuda(session, 0, NULL), SWAKV_EUNSUPPORTED);
	cr_expect_eq(swakv_stream_bind_host(session, FAKE_STREAMS, false), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(session), "stream 2 is outside 0 to 1"));
	cr_expect_null(swakv_stream_cuda(session, 1));
	cr_expect_eq(swakv_stream_bind_custom(session, 0, &ops, &streams[0]), 0);
	cr_expect_eq(swakv_stream_launch_host(session, 0, look, &seen[0]), SWAKV_EUNSUPPORTED);
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

Test(client_delivery, slot_with_clears_under_way_is_not_given_to_another_stream)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } }, next_u[] = { { CELL(0, 0), 9 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v3[] = { { 0, 3, 0, 0 } };
	int32_t slot = 0;
	const struct swakv_begin_options o = { .stream = 0, .slots = &slot, .n_slots = 1 };
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

Test(client_delivery, slot_with_clears_under_way_stays_with_its_own_stream)
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

Test(client_delivery, begin_under_way_when_the_clears_come_is_given_back)
{
	const struct wire_update u[] = { { CELL(0, 0), 7 } }, clear[] = { { CELL(0, 0), -1 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v2[] = { { 0, 2, 0, 0 } };
	int32_t slot = 0;
	const struct swakv_begin_options o = { .stream = 0, .slots = &slot, .n_slots = 1 };
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

/* ---- queries ------------------------------------------------------------------------------------------------------
 */

static const struct wire_sequence_state sequence = {
	.slot = 2,
	.generation = 4,
	.endpoint = 40,
	.pending_endpoint = 41,
	.window = 32,
	.page_tokens = 16,
	.retained_begin = 0,
	.retained_end = 3,
	.n_bound = 3,
	.n_reserved = 2,
	.n_new = 1,
	.n_retiring = 1,
	.n_staged = 1,
	.length = 40,
	.pending_map = -2,
	.change = 1,
};
static const struct wire_binding sequence_pages[] = { { 1, 10 }, { 2, 11 }, { 3, 12 }, { -1, 3 },
						      { -1, 4 }, { 3, 12 }, { 0, 9 },  { -1, 8 } };
static int state_queries, state_changes;

/* Gives three bindings at a time, and lets the sequence change after the first chunk `state_changes` times. */
static void serve_state(struct fake *f, const struct fake_command *c)
{
	struct {
		struct wire_sequence_state state;
		struct wire_binding pages[3];
	} chunk = { .state = sequence };
	struct wire_query_state q;
	uint32_t n;

	if (c->head.op != WIRE_OP_QUERY_STATE) {
		fake_answer(f, c, 0, 0, NULL, 0);
		return;
	}
	memcpy(&q, c->payload, sizeof(q));
	state_queries++;
	chunk.state.change = 1 + (uint64_t)(state_queries < 2 * state_changes ? state_queries : 2 * state_changes);
	n = (uint32_t)N(sequence_pages) - q.first;
	n = n < 3 ? n : 3;
	memcpy(chunk.pages, &sequence_pages[q.first], n * sizeof(chunk.pages[0]));
	fake_answer(f, c, 0, n, &chunk, sizeof(chunk));
}

Test(client_delivery, state_comes_in_chunks_and_starts_anew_when_it_changed)
{
	swakv_request *r = begin(0, 2);
	struct swakv_sequence_state state;

	state_changes = 2;
	fake.serve = serve_state;
	fake_serve(&fake);
	cr_assert_eq(swakv_sequence_get_state(r, 0, &state), 0, "%s", swakv_session_error(session));
	cr_expect_eq(state_queries, 2 * 2 + 3, "%d queries", state_queries);
	cr_expect_eq(state.slot, 2);
	cr_expect_eq(state.generation, 4);
	cr_expect_eq(state.endpoint, 40);
	cr_expect_eq(state.pending_endpoint, 41);
	cr_expect_eq(state.pending_map, -2);
	cr_expect_eq(state.input_length, 40);
	cr_assert_eq(state.n_bindings, 3);
	cr_expect_eq(state.bindings[2].logical_page, 3);
	cr_expect_eq(state.bindings[2].page, 12);
	cr_assert_eq(state.n_reserved, 2);
	cr_expect_eq(state.reserved[1], 4);
	cr_expect_eq(state.new_bindings[0].page, 12);
	cr_expect_eq(state.retiring[0].logical_page, 0);
	cr_expect_eq(state.retiring[0].page, 9);
	cr_expect_eq(state.staged[0], 8);
	swakv_sequence_state_clear(&state);
	cr_expect_null(state.bindings);
	fake.serve = NULL;
}

/* ---- pages that held somebody else's KV -------------------------------------------------------- */

static unsigned char *page_bytes(int32_t page, int half)
{
	const struct wire_layout *l = &fake.welcome.layouts[0];
	uint64_t base = half ? l->v_base : l->k_base;

	return fake.pool + base + (uint64_t)(page + half * FAKE_PAGES) * FAKE_PAGE_BYTES;
}

static bool page_is(int32_t page, unsigned char value)
{
	for (int i = 0; i < FAKE_PAGE_BYTES; i++)
		if (page_bytes(page, 0)[i] != value || page_bytes(page, 1)[i] != value)
			return false;
	return true;
}

static void spoil_pages(void)
{
	memset(page_bytes(0, 0), 0xff, (size_t)2 * FAKE_PAGES * FAKE_PAGE_BYTES + FAKE_HALF_REST);
}

Test(client_delivery, dirty_pages_are_filled_with_zeroes_and_no_others)
{
	const struct wire_update u[] = { { CELL(2, 0), 5 }, { CELL(2, 1), 7 }, { CELL(2, 2), 9 } };
	const struct wire_row v[] = { { 2, 1, 0, 0 } };
	const struct wire_scrub dirty[] = { { 2, 1, 2, 0 } };
	struct fake_delivery d = DELIVERY(u, v);
	swakv_request *r = begin(0, 2);

	spoil_pages();
	d.scrubs = dirty;
	d.n_scrubs = 1;
	cr_expect_eq(fake_prefill(&fake, session, r, &d), 0);
	for (int32_t page = 0; page < FAKE_PAGES; page++)
		cr_expect(page_is(page, page == 7 || page == 9 ? 0 : 0xff), "page %d", page);
	assert_device_row(2, (int32_t[]){ 5, 7, 9, -1 });
}

Test(client_delivery, dirty_pages_of_rows_by_reference_are_those_of_the_host_table)
{
	const struct wire_row v[] = { { 1, 1, 0, 0 } };
	const struct wire_scrub dirty[] = { { 1, 0, 3, 0 } };
	const struct fake_delivery d = {
		.flags = WIRE_DELIVERY_BY_REFERENCE, .rows = v, .n_rows = 1, .scrubs = dirty, .n_scrubs = 1
	};
	swakv_request *r = begin(0, 1);

	spoil_pages();
	fake_row(&fake, 1, (int32_t[]){ 3, -1, 4, 8 }, 1);
	cr_expect_eq(fake_prefill(&fake, session, r, &d), 0);
	for (int32_t page = 0; page < FAKE_PAGES; page++)
		cr_expect(page_is(page, page == 3 || page == 4 ? 0 : 0xff), "page %d", page);
}

static bool zero_at_apply;

static int apply_looks(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	zero_at_apply = page_is(updates[0].page, 0);
	return 0;
}

Test(client_delivery, a_dirty_page_is_clean_before_the_table_names_it)
{
	const struct swakv_stream_ops looking = { apply_looks, custom_write_word, custom_synchronize, NULL };
	const struct wire_update u[] = { { CELL(0, 0), 5 } };
	const struct wire_row v[] = { { 0, 1, 0, 0 } };
	const struct wire_scrub dirty[] = { { 0, 0, 1, 0 } };
	struct fake_delivery d = DELIVERY(u, v);
	swakv_request *r;

	cr_assert_eq(swakv_stream_bind_custom(session, 0, &looking, &streams[0]), 0);
	r = begin(0, 0);
	spoil_pages();
	d.scrubs = dirty;
	d.n_scrubs = 1;
	cr_expect_eq(fake_prefill(&fake, session, r, &d), 0);
	cr_expect(zero_at_apply);
}

Test(client_delivery, scrubs_outside_the_table_end_the_session)
{
	static const struct wire_scrub lies[] = { { FAKE_BATCH, 0, 1, 0 },
						  { 0, 0, FAKE_WIDTH + 1, 0 },
						  { 0, FAKE_WIDTH + 1, 0, 0 },
						  { 0, 1, UINT32_MAX, 0 } };
	const struct wire_update u[] = { { CELL(0, 0), 5 } };

	for (size_t i = 0; i < N(lies); i++) {
		struct fake_delivery d = DELIVERY(u, row0);

		if (i > 0) {
			fake_end(&fake, session);
			fake_open(&fake);
			session = fake_attach(&fake, NULL);
			n_events = 0;
		}
		d.scrubs = &lies[i];
		d.n_scrubs = 1;
		assert_refused(&d, "dirty");
	}
}
