/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_counted.c - long walks of a command are counted, so that they are cut
 *
 * What is not counted is not cut, however long it is. Each walk here is counted
 * at least once for each thing that it visits.
 */
#include "agenda.h"
#include "engine_worker.h"
#include "internal.h"
#include "request.h"

enum { P = 16, BATCH = 1024 };

static void setup(void)
{
	open_with(BATCH, P, P, BATCH, 4 * P);
	engine_on_pause(e, 1 << 30, NULL, NULL); /* never: all that a call does is in one count */
	engine_looked(e);
}

TestSuite(counted, .init = setup, .fini = teardown);

/* @n sequences of one page, in slots from @first on; its handle in *@h. */
static int take(int32_t first, uint32_t n, uint64_t wait, uint64_t *h)
{
	int32_t slots[BATCH];
	struct begin b = { .max_tokens = P, .slots = slots, .n_slots = n, .wait = wait, .ticket = (uint64_t)first };

	for (uint32_t i = 0; i < n; i++)
		slots[i] = first + (int32_t)i;
	return request_begin_waiting(w.s, &b, h, &w.f);
}

static uint64_t taken(int32_t first, uint32_t n)
{
	uint64_t h;

	cr_assert_eq(take(first, n, 0, &h), 0);
	return h;
}

Test(counted, entries_of_a_step_that_are_refused)
{
	static struct wire_step_entry entries[BATCH];
	static struct wire_entry_fault faults[BATCH];
	const struct step step = { .entries = entries, .n = BATCH };
	uint32_t n_faults;

	for (int i = 0; i < BATCH; i++)
		entries[i] = (struct wire_step_entry){ .request = 1u << 20, .tokens = 1 };
	cr_assert_eq(step_prepare(w.s, &step, faults, &n_faults, &w.d, &w.f), 0);
	cr_assert_eq(n_faults, BATCH);
	cr_expect_geq(engine_spent(e), BATCH);
}

/* With all pages given out whoever comes is told whether it waits for its own points. */
Test(counted, sequences_that_may_have_pages_behind_points)
{
	const struct take one = { .min = 1, .max = 1 };
	int32_t page;
	uint32_t n;

	taken(0, BATCH / 2);
	taken(BATCH / 2, BATCH / 2);
	engine_looked(e);
	cr_assert_eq(pages_take(w.s, &one, &page, &n, &w.f), SWAKV_ENOPAGES);
	cr_expect_geq(engine_spent(e), BATCH);
}

Test(counted, sequences_that_an_agenda_puts_in_order)
{
	uint64_t h = taken(0, BATCH);
	struct request *r;

	cr_assert_eq(request_find(w.s, h, &r, &w.f), 0);
	engine_looked(e);
	agenda_build(w.s, r);
	cr_expect_geq(engine_spent(e), BATCH);
}

/* However few wait with however many slots. */
Test(counted, slots_of_those_that_wait_are_few_a_call)
{
	enum { WAITS = 15, EACH = 64 };
	const struct take rest = { .min = BATCH - EACH, .max = BATCH - EACH };
	uint64_t held = taken(0, EACH), h;
	static int32_t pages[BATCH];
	struct admission out;
	uint32_t n_calls = 0, n;

	cr_assert_eq(pages_take(w.s, &rest, pages, &n, &w.f), 0);
	engine_stamp(e, 1);
	for (int32_t i = 0; i < WAITS; i++)
		cr_assert_eq(take(EACH * (i + 1), EACH, 1000000, &h), SWAKV_EAGAIN);
	engine_stamp(e, 2);
	while (engine_due(e) <= 2)
		cr_assert_not(engine_admit(e, &out));
	cr_assert_eq(finish(&w, held, fence_done), 0); /* enough for one of them */
	cr_assert(engine_admit(e, &out));
	cr_assert_eq(out.code, 0);
	do {
		n_calls++;
		cr_assert_not(engine_admit(e, &out));
	} while (engine_due(e) == 2);
	cr_expect_geq(n_calls, (WAITS - 1) * EACH / (256 + EACH));
}
