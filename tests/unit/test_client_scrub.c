/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that held somebody else's KV are clean before the table names them. */
#include <string.h>

#include "client_fixture.h"

TestSuite(client_scrub, .init = client_setup, .fini = client_teardown);

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

Test(client_scrub, dirty_pages_are_filled_with_zeroes_and_no_others)
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

Test(client_scrub, dirty_pages_of_rows_by_reference_are_those_of_the_host_table)
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

Test(client_scrub, a_dirty_page_is_clean_before_the_table_names_it)
{
	struct swakv_stream_ops looking = ops;
	const struct wire_update u[] = { { CELL(0, 0), 5 } };
	const struct wire_row v[] = { { 0, 1, 0, 0 } };
	const struct wire_scrub dirty[] = { { 0, 0, 1, 0 } };
	struct fake_delivery d = DELIVERY(u, v);
	swakv_request *r;

	looking.apply = apply_looks;
	cr_assert_eq(swakv_stream_bind_custom(session, 0, &looking, &streams[0]), 0);
	r = begin(0, 0);
	spoil_pages();
	d.scrubs = dirty;
	d.n_scrubs = 1;
	cr_expect_eq(fake_prefill(&fake, session, r, &d), 0);
	cr_expect(zero_at_apply);
}

Test(client_scrub, scrubs_outside_the_table_end_the_session)
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

/* What was to follow the scrub has not reached the device: the row is written whole with whatever comes next. */
Test(client_scrub, the_row_of_a_scrub_that_failed_is_written_again)
{
	const struct wire_update u[] = { { CELL(0, 0), 5 } }, clear[] = { { CELL(0, 1), -1 } };
	const struct wire_row v1[] = { { 0, 1, 0, 0 } }, v2[] = { { 0, 2, 0, 0 } };
	const struct wire_scrub dirty[] = { { 0, 0, 1, 0 } };
	const struct fake_delivery none = { 0 };
	struct fake_delivery d = DELIVERY(u, v1);
	struct fake_command c;
	swakv_request *r, *other;
	const int32_t keep[] = { 0 };
	swakv_ticket t;

	bind_custom();
	other = begin(0, 1);
	cr_assert_eq(fake_prefill(&fake, session, other, &none), 0);
	cr_assert_eq(complete(other, SWAKV_DONE), 0);
	r = begin(0, 0);
	d.scrubs = dirty;
	d.n_scrubs = 1;
	write_result = 1;
	cr_assert_eq(swakv_stream_mark(session, 0, NULL), SWAKV_EDEVICE);
	cr_assert_eq(fake_prefill(&fake, session, r, &d), SWAKV_EDEVICE);
	write_result = 0;
	cr_assert_eq(swakv_stream_synchronize(session, 0), 0);
	fake_row(&fake, 0, (int32_t[]){ 5, -1, -1, -1 }, 2);
	n_events = 0;
	cr_assert_eq(swakv_compact_begin(other, keep, 1, 1, 0, 0, &t), 0);
	fake_take(&fake, WIRE_OP_COMPACT_BEGIN, &c);
	fake_deliver(&fake, &c, &DELIVERY(clear, v2));
	cr_expect_eq(swakv_wait(session, t), 0, "%s", swakv_session_error(session));
	cr_assert_geq(n_events, 2);
	cr_expect_eq(events[1].what, 'a');
	cr_expect_eq(events[1].n, FAKE_WIDTH, "%zu entries", events[1].n);
}
