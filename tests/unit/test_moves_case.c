/* SPDX-License-Identifier: Apache-2.0 */
/* test_moves_case.c - 64 live pages of 256 bytes that kept a pool of 64 MiB from pages of another size (spec section
 * 12) */
#include "engine_fixture.h"
#include "extent.h"

enum { MIB = 1 << 20, LIVE = 64, HALF = 32 * MIB, SMALL = 256, LARGE = 4096 };

static uint64_t step_all(struct worker *w, const uint64_t *handles, uint64_t value)
{
	struct wire_step_entry entries[LIVE];
	struct wire_entry_fault faults[LIVE];
	struct step step = { entries, NULL, LIVE, 0 };
	uint32_t n;

	for (int i = 0; i < LIVE; i++)
		entries[i] = (struct wire_step_entry){ .request = handles[i], .tokens = 1 };
	cr_assert_eq(step_prepare(w->s, &step, faults, &n, &w->d, &w->f), 0);
	cr_assert_eq(n, 0);
	for (int i = 0; i < LIVE; i++)
		entries[i] = (struct wire_step_entry){ .request = handles[i], .fence = fence_line(w, 0, value) };
	cr_assert_eq(step_complete(w->s, &step, w->armed, faults, &n, &w->f), 0);
	cr_assert_eq(n, 0);
	session_reach(w->s, 0, value);
	return w->d.n_moves;
}

/* A request in each extent, with a page of SMALL bytes a half; all else is free. */
static void scatter(struct engine *e, struct worker *w, struct worker *filler, uint64_t *handles)
{
	int32_t most = HALF / SMALL, n = 0, *ids = malloc(((size_t)most + WIRE_MAX_PAGES) * sizeof(*ids));
	uint32_t got, each = (uint32_t)(extent_default(HALF, LARGE) / SMALL) - 1;

	for (int32_t i = 0; i < LIVE; i++) {
		const struct take t = { .min = each, .max = each };

		handles[i] = begin(w, i);
		cr_assert_eq(pages_take(filler->s, &t, ids + n, &got, &filler->f), 0);
		n += (int32_t)got;
	}
	for (int32_t i = 0; i < n; i += (int32_t)each) {
		const struct give g = { .ids = ids + i, .n = each };

		cr_assert_eq(pages_give(filler->s, &g, filler->armed, &filler->f), 0);
	}
	free(ids);
	for (int i = 0; i < LIVE; i++)
		prefill(w, handles[i], 1);
	check_all(e);
}

static struct model model_of(uint32_t tokens, int64_t max_seq, uint32_t flags)
{
	struct model m = make_model(1, tokens, LIVE, max_seq);

	m.groups[0] = make_group(0, tokens, TOKEN_BYTES);
	m.groups[0].flags = flags;
	return m;
}

Test(moves_case, of_64_mib_with_64_scattered_pages_of_256_bytes_95_percent_come_back_within_ten_steps)
{
	const int32_t slot = 0;
	int64_t wanted = HALF / LARGE * 95 / 100;
	struct begin b = { .slots = &slot, .n_slots = 1, .wait = 60000, .ticket = 7, .max_tokens = wanted * 256 };
	struct engine *e = engine_new(&(struct engine_config){ .half_bytes = HALF,
							       .extent_bytes = extent_default(HALF, LARGE),
							       .stamps_a_ms = 1,
							       .wait_claim = 100000 });
	struct worker small, filler, large;
	uint64_t handles[LIVE], h, moved = 0;
	struct admission a = { 0 };
	int steps = 0;

	worker_open(&small, e, model_of(16, 16, WIRE_GROUP_MOVABLE), HALF, 1);
	worker_open(&filler, e, model_of(16, 16, 0), HALF, 2);
	worker_open(&large, e, model_of(256, HALF / LARGE * 256, 0), HALF, 3);
	cr_assert_eq(session_join(large.s, "large"), 0);
	engine_stamp(e, 1);
	scatter(e, &small, &filler, handles);
	cr_assert_eq(request_begin_waiting(large.s, &b, &h, &large.f), SWAKV_EAGAIN);
	cr_assert_eq(session_free_pages(large.s, 0), 0, "a page in every extent");
	for (; !a.session && steps < 10; steps++) {
		engine_stamp(e, (uint64_t)(2 + 30 * steps));
		engine_press(e);
		moved += step_all(&small, handles, (uint64_t)steps + 1);
		cr_assert(engine_admit(e, &a) == (a.session != NULL));
	}
	check_all(e);
	cr_assert_eq(a.session, large.s, "%d steps have moved %d pages, and %d pages can be had", steps, (int)moved,
		     (int)session_free_pages(large.s, 0));
	cr_assert_eq(a.code, 0);
	cr_expect_leq(moved, LIVE);
	worker_close(&large);
	worker_close(&filler);
	worker_close(&small);
	engine_free(e);
}

/* The same of pages that a claim waits for: it has chosen the extents, and they are the ones that come empty. */
Test(moves_case, what_a_claim_has_chosen_comes_empty)
{
	const int32_t slot = 0;
	struct begin b = { .slots = &slot, .n_slots = 1, .wait = 60000, .ticket = 7, .max_tokens = HALF / LARGE * 128 };
	struct engine *e = engine_new(&(struct engine_config){
		.half_bytes = HALF, .extent_bytes = extent_default(HALF, LARGE), .stamps_a_ms = 1, .wait_claim = 1 });
	struct worker small, filler, large;
	uint64_t handles[LIVE], h;
	struct admission a = { 0 };

	worker_open(&small, e, model_of(16, 16, WIRE_GROUP_MOVABLE), HALF, 1);
	worker_open(&filler, e, model_of(16, 16, 0), HALF, 2);
	worker_open(&large, e, model_of(256, HALF / LARGE * 256, 0), HALF, 3);
	cr_assert_eq(session_join(large.s, "large"), 0);
	engine_stamp(e, 1);
	scatter(e, &small, &filler, handles);
	cr_assert_eq(request_begin_waiting(large.s, &b, &h, &large.f), SWAKV_EAGAIN);
	for (uint64_t step = 0; !a.session && step < 10; step++) {
		engine_stamp(e, 10 + 30 * step);
		cr_assert(engine_admit(e, &a) == (a.session != NULL));
		engine_press(e);
		step_all(&small, handles, step + 1);
	}
	cr_assert_eq(a.session, large.s);
	cr_assert_eq(a.code, 0);
	check_all(e);
	worker_close(&large);
	worker_close(&filler);
	worker_close(&small);
	engine_free(e);
}
