/* SPDX-License-Identifier: Apache-2.0 */
/* test_extent_view.c - how full an extent is, and whose pages are in it */
#include "engine_fixture.h"
#include "extent_view.h"
#include "managed.h"

#define PAGES_AN_EXTENT 8
#define EXTENTS         8

static struct engine *make(uint32_t scrub)
{
	uint64_t extent = PAGES_AN_EXTENT * 16 * TOKEN_BYTES;
	struct engine *e = engine_new(
		&(struct engine_config){ .half_bytes = EXTENTS * extent, .extent_bytes = extent, .scrub = scrub });

	cr_assert_not_null(e);
	cr_assert_eq(engine_extents(e), (uint32_t)EXTENTS);
	return e;
}

static void open_worker(struct worker *w, struct engine *e, uint32_t tag)
{
	worker_open(w, e, make_model(64, 16, 4, 16 * 16), EXTENTS * PAGES_AN_EXTENT * 16 * TOKEN_BYTES, tag);
}

static struct extent_view view(const struct engine *e, uint32_t x)
{
	struct extent_view v;

	engine_extent_view(e, x, &v);
	return v;
}

/* Live pages of all extents, those in quarantine, free ones. */
static void sums(const struct engine *e, uint32_t *live, uint32_t *quarantined, uint32_t *free_pages)
{
	*live = *quarantined = *free_pages = 0;
	for (uint32_t x = 0; x < EXTENTS; x++) {
		*live += view(e, x).live;
		*quarantined += view(e, x).quarantined;
		*free_pages += view(e, x).free;
	}
}

Test(extent_view, pages_are_counted_from_lease_to_quarantine_to_free)
{
	struct engine *e = make(WIRE_SCRUB_OWNER_CHANGE);
	uint32_t live, quarantined, free_pages;
	struct worker w;
	uint64_t h;

	cr_assert_eq(view(e, 0).page_class, -1);
	open_worker(&w, e, 1);
	h = begin(&w, 0);
	prefill(&w, h, 16 * 5);
	sums(e, &live, &quarantined, &free_pages);
	cr_assert_gt(live, 0U);
	cr_assert_eq(quarantined, 0U);
	cr_assert_eq((live + free_pages) % PAGES_AN_EXTENT, 0U);
	session_end(w.s);
	sums(e, &live, &quarantined, &free_pages);
	cr_assert_gt(live, 0U);
	cr_assert_eq(quarantined, live);
	session_reclaim(w.s);
	sums(e, &live, &quarantined, &free_pages);
	cr_assert_eq(live + quarantined, 0U);
	worker_close(&w);
	engine_free(e);
}

/* @n pages of @w, each counted in its extent. */
static void take(struct worker *w, uint32_t n, uint32_t of[EXTENTS])
{
	const struct take t = { .min = n, .max = n, .flags = WIRE_TAKE_OVERWRITES };
	int32_t ids[EXTENTS * PAGES_AN_EXTENT];
	uint32_t got;

	cr_assert_eq(pages_take(w->s, &t, ids, &got, &w->f), 0);
	for (uint32_t i = 0; i < got; i++)
		of[(ids[i] < 0 ? ~ids[i] : ids[i]) / PAGES_AN_EXTENT]++;
}

Test(extent_view, whose_pages_they_are_is_who_bound_most_of_them)
{
	uint32_t of_a[EXTENTS] = { 0 }, of_b[EXTENTS] = { 0 };
	struct engine *e = make(WIRE_SCRUB_OWNER_CHANGE);
	struct worker a, b;
	struct extent_users u;

	open_worker(&a, e, 1);
	open_worker(&b, e, 2);
	cr_assert_neq(session_serial(a.s, 0), session_serial(b.s, 0));
	u = engine_extent_users(e, 0, 16, 0);
	cr_assert_eq(u.most, 0U, "nobody's yet");
	cr_assert_eq(u.highest, 0U);
	take(&a, 13, of_a); /* an extent and most of a second, */
	take(&b, 2, of_b);  /* of which b has the rest, */
	take(&b, 9, of_b);
	for (uint32_t x = 0; x < EXTENTS; x++) {
		u = engine_extent_users(e, x, 16, x);
		cr_assert_eq(view(e, x).live, of_a[x] + of_b[x]);
		cr_assert_eq(u.lowest != u.highest, of_a[x] > 0 && of_b[x] > 0);
		if (of_a[x] != of_b[x])
			cr_assert_eq(u.most, session_serial(of_a[x] > of_b[x] ? a.s : b.s, 0));
		else if (of_a[x] == 0)
			cr_assert_eq(u.most, 0U);
	}
	cr_assert_eq(engine_extent_users(e, 0, 1, 3).most, session_serial(a.s, 0), "one look will do");
	worker_close(&a);
	worker_close(&b);
	engine_free(e);
}

Test(extent_view, without_scrubbing_nobody_is_known)
{
	struct engine *e = make(WIRE_SCRUB_NEVER);
	struct worker w;

	open_worker(&w, e, 1);
	prefill(&w, begin(&w, 0), 16 * 8);
	for (uint32_t x = 0; x < EXTENTS; x++)
		cr_assert_eq(engine_extent_users(e, x, 16, 0).most, 0U);
	worker_close(&w);
	engine_free(e);
}
