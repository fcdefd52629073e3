/* SPDX-License-Identifier: Apache-2.0 */
/* From an answer to the device table: checks, versions, routing. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client_fixture.h"

TestSuite(client_delivery, .init = client_setup, .fini = client_teardown);

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

Test(client_delivery, columns_one_behind_the_row_are_refused)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 } };
	const struct wire_row rows[] = { { 0, 1, 0, FAKE_WIDTH + 1 } };

	assert_refused(&DELIVERY(u, rows), "columns 0 to 5 of a row of 4");
}

Test(client_delivery, columns_that_end_where_they_begin_are_refused)
{
	const struct wire_update u[] = { { CELL(0, 0), 1 } };
	const struct wire_row rows[] = { { 0, 1, 2, 2 } };

	assert_refused(&DELIVERY(u, rows), "columns 2 to 2");
}

Test(client_delivery, all_columns_may_be_named)
{
	const struct wire_row rows[] = { { 0, 1, 0, FAKE_WIDTH } };
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = rows, .n_rows = 1 };

	fake_row(&fake, 0, (int32_t[]){ 1, 2, 3, 4 }, 1);
	cr_expect_eq(fake_prefill(&fake, session, begin(0, 0), &d), 0);
	assert_device_row(0, (int32_t[]){ 1, 2, 3, 4 });
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

/* The answer names a part of the row; the broker has written another part since. */
static swakv_request *row_moved_on(const struct wire_row *named, uint32_t version)
{
	swakv_request *r = begin(0, 2);
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = named, .n_rows = 1 };

	fake_row(&fake, 2, (int32_t[]){ 9, 4, 5, 8 }, version);
	cr_expect_eq(fake_prefill(&fake, session, r, &d), 0);
	return r;
}

/* What comes later is skipped, as the row that was read holds it: so it must be there, whole. */
Test(client_delivery, row_by_reference_that_has_moved_on_is_read_whole)
{
	const struct wire_row named[] = { { 2, 1, 1, 3 } }, second[] = { { 2, 2, 0, 0 } };
	const struct wire_update u[] = { { CELL(2, 0), 9 }, { CELL(2, 3), 8 } };
	swakv_request *r = row_moved_on(named, 2);

	assert_device_row(2, (int32_t[]){ 9, 4, 5, 8 });
	cr_expect_eq(decode(r, &DELIVERY(u, second)), 0);
	assert_device_row(2, (int32_t[]){ 9, 4, 5, 8 });
	cr_expect_eq(row_faults(), 0);
}

Test(client_delivery, row_by_reference_as_it_was_named_is_read_in_part)
{
	const struct wire_row named[] = { { 2, 1, 1, 3 } };

	row_moved_on(named, 1);
	assert_device_row(2, (int32_t[]){ -1, 4, 5, -1 });
}

/* All of it was there when an earlier answer had the row read: nothing is read again, nor taken for lost. */
Test(client_delivery, row_by_reference_that_was_read_already_is_left)
{
	const struct wire_row named[] = { { 2, 1, 1, 3 } }, second[] = { { 2, 2, 0, 4 } }, third[] = { { 2, 3, 0, 1 } };
	struct fake_delivery d = { .flags = WIRE_DELIVERY_BY_REFERENCE, .rows = second, .n_rows = 1 };
	swakv_request *r = row_moved_on(named, 2);

	fake_row(&fake, 2, (int32_t[]){ 1, 4, 5, 8 }, 3);
	cr_expect_eq(decode(r, &d), 0);
	assert_device_row(2, (int32_t[]){ 9, 4, 5, 8 });
	d.rows = third;
	cr_expect_eq(decode(r, &d), 0);
	assert_device_row(2, (int32_t[]){ 1, 4, 5, 8 });
	cr_expect_eq(row_faults(), 0);
}

/* A version that does not follow, by reference: every column counts, not only those that are named. */
Test(client_delivery, row_by_reference_whose_version_does_not_follow_is_read_whole)
{
	const struct wire_row named[] = { { 2, 5, 1, 3 } };

	row_moved_on(named, 5);
	assert_device_row(2, (int32_t[]){ 9, 4, 5, 8 });
	cr_expect_eq(row_faults(), 1);
}

/* Versions are numbers that wrap: what is newer is told by the difference. */
Test(client_delivery, versions_wrap)
{
	const struct wire_row named[] = { { 2, UINT32_MAX, 0, 0 } }, next[] = { { 2, 0, 0, 0 } },
			      last[] = { { 2, 1, 0, 0 } };
	const struct wire_update u[] = { { CELL(2, 1), 3 } }, w[] = { { CELL(2, 1), 2 } };
	swakv_request *r = row_moved_on(named, UINT32_MAX);

	cr_expect_eq(row_faults(), 1);
	cr_expect_eq(decode(r, &DELIVERY(u, next)), 0);
	assert_device_row(2, (int32_t[]){ 9, 3, 5, 8 });
	cr_expect_eq(decode(r, &DELIVERY(w, last)), 0);
	assert_device_row(2, (int32_t[]){ 9, 2, 5, 8 });
	cr_expect_eq(row_faults(), 1);
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
