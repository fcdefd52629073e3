/* SPDX-License-Identifier: Apache-2.0 */
/* What is wanted of a worker, less what it has given since the broker decided that. */
#include "client_fixture.h"
#include "wire_board.h"

TestSuite(client_wants, .init = client_setup, .fini = client_teardown);

static struct wire_board *board(void)
{
	return (struct wire_board *)(fake.memory + fake.welcome.boards_offset);
}

/* As the broker: of a worker that had given @given pages it wants @n. */
static void decide(uint64_t n, uint64_t given)
{
	store_release(&board()->since, 77);
	store_release(&board()->wanted, n);
	store_release(&board()->given, given);
}

/* A give of pages [0, n) is under way. */
static swakv_ticket give(uint32_t n, struct fake_command *c)
{
	int32_t ids[16];
	swakv_ticket t;

	for (uint32_t i = 0; i < n; i++)
		ids[i] = (int32_t)i;
	cr_assert_eq(swakv_pages_give(session, 0, ids, n, NULL, 0, &t), 0);
	fake_take(&fake, WIRE_OP_GIVE, c);
	return t;
}

static int64_t wanted(void)
{
	return swakv_pages_wanted(session, 0, NULL);
}

Test(client_wants, what_is_being_given_is_not_wanted_again)
{
	struct fake_command c;
	uint64_t since = 1;
	swakv_ticket t;

	decide(5, 0);
	cr_expect_eq(wanted(), 5);
	t = give(3, &c);
	cr_expect_eq(wanted(), 2, "it is under way");
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_poll(session, t), 0);
	cr_expect_eq(wanted(), 2);
	t = give(4, &c);
	cr_expect_eq(swakv_pages_wanted(session, 0, &since), 0);
	cr_expect_eq(since, 0, "nothing is wanted since any time");
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_poll(session, t), 0);
}

Test(client_wants, what_the_broker_had_seen_of_it_counts_for_nothing)
{
	struct fake_command c;
	swakv_ticket t = give(4, &c);

	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_poll(session, t), 0);
	decide(6, 4);
	cr_expect_eq(wanted(), 6);
	decide(6, 3);
	cr_expect_eq(wanted(), 5);
}

Test(client_wants, what_was_not_given_after_all_is_wanted_again)
{
	struct fake_command c;
	swakv_ticket t;

	decide(5, 0);
	t = give(3, &c);
	fake_refuse(&fake, &c, FAULT_GIVE_PAGE, 2, 0);
	cr_expect_eq(swakv_poll(session, t), SWAKV_EINVALID);
	cr_expect_eq(wanted(), 5);
	t = give(3, &c);
	fake_refuse(&fake, &c, FAULT_GIVE_FAILED, 3, 0);
	cr_expect_eq(swakv_poll(session, t), SWAKV_EPOISONED);
	cr_expect_eq(wanted(), 2, "they are in quarantine");
}

Test(client_wants, a_board_that_was_spoilt_adds_nothing_and_takes_nothing_off)
{
	decide(5, 1000);
	cr_expect_eq(wanted(), 5);
	decide(5, UINT64_MAX);
	cr_expect_eq(wanted(), 4, "as if one had been given since");
	decide(5, (uint64_t)INT64_MAX + 2);
	cr_expect_eq(wanted(), 0);
	decide(UINT64_MAX, 0);
	cr_expect_geq(wanted(), 0);
}

static void tell(uint32_t i, int32_t first, int32_t end)
{
	struct wire_ranges *r = (struct wire_ranges *)(fake.memory + fake.welcome.ranges_offset);

	store_release(&r->of[i], wire_range((struct page_range){ first, end }));
}

Test(client_wants, which_pages_help_most_is_read_as_long_as_some_are_wanted)
{
	struct swakv_page_range r[SWAKV_MAX_RANGES];
	struct fake_command c;
	swakv_ticket t;

	tell(0, 1, 3);
	tell(1, 5, 6);
	cr_expect_eq(swakv_pages_wanted_ranges(session, 0, r, SWAKV_MAX_RANGES), 0U, "none are wanted");
	decide(2, 0);
	cr_assert_eq(swakv_pages_wanted_ranges(session, 0, r, SWAKV_MAX_RANGES), 2U);
	cr_expect(r[0].first == 1 && r[0].end == 3 && r[1].first == 5 && r[1].end == 6);
	cr_expect_eq(swakv_pages_wanted_ranges(session, 0, r, 1), 1U);
	cr_expect_eq(swakv_pages_wanted_ranges(session, 0, NULL, 1), 0U);
	cr_expect_eq(swakv_pages_wanted_ranges(session, 1, r, 1), 0U, "there is no such group");
	cr_expect_eq(swakv_pages_wanted_ranges(NULL, 0, r, 1), 0U);
	t = give(2, &c);
	cr_expect_eq(swakv_pages_wanted_ranges(session, 0, r, SWAKV_MAX_RANGES), 0U, "they are being given");
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_poll(session, t), 0);
}

Test(client_wants, ranges_that_were_spoilt_are_left_out)
{
	struct swakv_page_range r[SWAKV_MAX_RANGES];

	decide(2, 0);
	tell(0, -1, 3);
	tell(1, 3, 3);
	tell(2, 4, 3);
	tell(3, 0, FAKE_PAGES + 1);
	tell(4, 0, INT32_MAX);
	tell(5, INT32_MIN, INT32_MIN + 1);
	tell(6, 2, FAKE_PAGES);
	cr_assert_eq(swakv_pages_wanted_ranges(session, 0, r, SWAKV_MAX_RANGES), 1U);
	cr_expect(r[0].first == 2 && r[0].end == FAKE_PAGES);
}
