/* SPDX-License-Identifier: Apache-2.0 */
/* The client library on a real broker: lifecycle, window facts (spec sections 2 and 7), poison, deaths. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "live.h"

static struct live live;

static void setup(void)
{
	live_start(&live, "16M");
}

static void teardown(void)
{
	live_stop(&live);
}

TestSuite(live, .init = setup, .fini = teardown, .timeout = 100);

/* The updates of the last answer. */
static struct swakv_update updates[8192];
static size_t n_updates;

static void on_updates(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *u, size_t n)
{
	cr_assert_leq(n_updates + n, sizeof(updates) / sizeof(updates[0]));
	memcpy(updates + n_updates, u, n * sizeof(*u));
	n_updates += n;
}

static const struct swakv_attach_options watched = { .size = sizeof(watched), .on_updates = on_updates };

static swakv_request *begin(swakv_session *s, uint32_t stream, const int32_t *slots, uint32_t n)
{
	const struct swakv_begin_options o = { .size = sizeof(o), .stream = stream, .slots = slots, .n_slots = n };
	swakv_request *r;
	int e;

	/* a word that has been reached may be seen by the broker a moment later */
	for (int i = 0; (e = swakv_request_begin(s, &o, &r, NULL)) == SWAKV_EPENDING && i < LIVE_PATIENCE; i++)
		usleep(1000);
	cr_assert_eq(e, 0, "begin: %s: %s", swakv_error_name(e), swakv_session_error(s));
	return r;
}

static swakv_request *begin_one(swakv_session *s, int32_t slot)
{
	return begin(s, 0, &slot, 1);
}

static int32_t host_page(swakv_session *s, int slot, int column)
{
	struct swakv_layout l = { .size = sizeof(l) };

	LIVE_OK(s, swakv_session_get_layout(s, 0, &l));
	return l.host_table[slot * live_halves(&l) * l.width + column];
}

/* The state must hold this many pages of each kind; returns it in *@st (to be cleared). */
static void expect_state(swakv_session *s, swakv_request *r, int64_t endpoint, int64_t pending, int32_t begin_page,
			 int32_t end_page, struct swakv_sequence_state *st)
{
	st->size = sizeof(*st);
	LIVE_OK(s, swakv_sequence_get_state(r, 0, st));
	cr_expect_eq(st->endpoint, endpoint, "endpoint %lld", (long long)st->endpoint);
	cr_expect_eq(st->pending_endpoint, pending, "pending endpoint %lld", (long long)st->pending_endpoint);
	cr_expect_eq(st->retained_begin, begin_page, "begin %d", st->retained_begin);
	cr_expect_eq(st->retained_end, end_page, "end %d", st->retained_end);
	cr_expect_eq(st->n_bindings + st->n_retiring + st->n_reserved + st->n_staged,
		     (uint32_t)swakv_session_private_pages(s),
		     "bound + retiring + reserved + staged is the reservation");
}

/* ---- the worked numbers of spec section 2 -------------------------------------------------------- */

Test(live, window_of_1024_maps_and_retires_where_it_should)
{
	swakv_session *s = live_attach(&watched, 1024, 128, 1, 1, 8192);
	swakv_request *r = begin_one(s, 0);
	struct swakv_sequence_state st = { .size = sizeof(st) };
	int32_t length = 4000;
	int64_t free_before;

	cr_expect_eq(swakv_session_private_pages(s), 19);
	LIVE_OK(s, swakv_session_free_pages(s, &free_before));
	live_prefill(s, r, &length, 1);
	expect_state(s, r, 4000, -1, 23, 32, &st);
	cr_expect_eq(st.n_bindings, 9);
	cr_expect_eq(st.bindings[0].logical_page, 23);
	swakv_sequence_state_clear(&st);
	for (int e = 4000; e < 4096; e++) {
		n_updates = 0;
		live_decode(s, r);
		cr_expect_eq(n_updates, 0, "nothing changes at %d", e);
	}
	n_updates = 0;
	live_decode_prepare(s, r);
	expect_state(s, r, 4096, 4097, 24, 33, &st);
	cr_expect_eq(st.n_new, 1);
	cr_expect_eq(st.new_bindings[0].logical_page, 32);
	cr_expect_eq(st.n_retiring, 0);
	cr_assert_eq(n_updates, 2, "%zu", n_updates);
	for (int i = 0; i < 2; i++)
		cr_expect(updates[i].column == 23 ? updates[i].page == -1 : updates[i].column == 32);
	swakv_sequence_state_clear(&st);
	LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	for (int e = 4097; e < 4223; e++) {
		n_updates = 0;
		live_decode(s, r);
		cr_expect_eq(n_updates, 0, "nothing changes at %d", e);
	}
	n_updates = 0;
	live_decode_prepare(s, r);
	expect_state(s, r, 4223, 4224, 25, 33, &st);
	cr_expect_eq(n_updates, 0, "maps nothing");
	cr_assert_eq(st.n_retiring, 1);
	cr_expect_eq(st.retiring[0].logical_page, 24);
	swakv_sequence_state_clear(&st);
	LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	LIVE_OK(s, swakv_request_finish(r, NULL));
	swakv_request_free(r);
	live_expect_free(s, free_before + 19);
	swakv_session_close(s);
}

/* ---- spec sections 7.11 to 7.13 ---------------------------------------------------------------------- */

Test(live, retired_page_is_reused_last_in_first_out)
{
	swakv_session *s = live_attach(&watched, 129, 128, 1, 1, 1024);
	swakv_request *r = begin_one(s, 0);
	int32_t length = 384, page1;

	live_prefill(s, r, &length, 1);
	page1 = live_device_page(s, 0, 1);
	cr_assert_geq(page1, 0);
	cr_expect_eq(live_device_page(s, 0, 0), -1);
	live_decode(s, r); /* page 1 leaves the window */
	live_settle(s, r);
	for (int e = 385; e < 513; e++)
		live_decode(s, r);
	cr_expect_eq(live_device_page(s, 0, 4), page1);
	cr_expect_eq(live_device_page(s, 0, 1), -1);
	swakv_request_free(r);
	swakv_session_close(s);
}

Test(live, window_of_whole_pages_maps_and_clears_in_one_prepare)
{
	swakv_session *s = live_attach(&watched, 256, 128, 1, 1, 2048);
	swakv_request *r = begin_one(s, 0);
	int32_t length = 384;
	int both = 0;

	live_prefill(s, r, &length, 1);
	for (int e = 384; e < 1200; e++) {
		n_updates = 0;
		live_decode(s, r);
		/* K and V: 4 entries are 2 updates */
		if (e % 128 == 0 && e > 384) {
			cr_expect_eq(n_updates, 2, "%zu updates at %d", n_updates, e);
			both++;
		} else {
			cr_expect_leq(n_updates, 1, "%zu updates at %d", n_updates, e);
		}
	}
	cr_expect_eq(both, 6);
	swakv_request_free(r);
	swakv_session_close(s);
}

Test(live, window_of_odd_size_changes_one_entry_at_a_time)
{
	swakv_session *s = live_attach(&watched, 129, 128, 1, 1, 2048);
	swakv_request *r = begin_one(s, 0);
	int32_t length = 384;
	size_t total = 0;

	live_prefill(s, r, &length, 1);
	for (int e = 384; e < 1200; e++) {
		n_updates = 0;
		live_decode(s, r);
		cr_expect_leq(n_updates, 1, "%zu updates at %d", n_updates, e);
		total += n_updates;
	}
	cr_expect_eq(total, 7 + 7, "%zu", total);
	swakv_request_free(r);
	swakv_session_close(s);
}

Test(live, leaving_page_stays_mapped_during_its_last_step)
{
	swakv_session *s = live_attach(&watched, 129, 128, 1, 1, 1024);
	swakv_request *r = begin_one(s, 0);
	struct swakv_sequence_state st = { .size = sizeof(st) };
	int32_t length = 384, page1;
	int64_t free_then, free_now;

	live_prefill(s, r, &length, 1);
	page1 = live_device_page(s, 0, 1);
	LIVE_OK(s, swakv_session_free_pages(s, &free_then));
	LIVE_OK(s, swakv_decode_prepare(r, NULL));
	expect_state(s, r, 384, 385, 2, 4, &st);
	cr_assert_eq(st.n_retiring, 1);
	cr_expect_eq(st.retiring[0].logical_page, 1);
	cr_expect_eq(st.retiring[0].page, page1);
	swakv_sequence_state_clear(&st);
	cr_expect_eq(live_device_page(s, 0, 1), page1, "the step may still read it");
	cr_expect_eq(host_page(s, 0, 1), page1);
	LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	cr_expect_eq(host_page(s, 0, 1), -1);
	cr_expect_eq(live_device_page(s, 0, 1), page1, "on the device it goes with the next prepare");
	LIVE_OK(s, swakv_decode_prepare(r, NULL));
	cr_expect_eq(live_device_page(s, 0, 1), -1);
	LIVE_OK(s, swakv_session_free_pages(s, &free_now));
	cr_expect_eq(free_now, free_then, "it stays leased all the while");
	swakv_request_free(r);
	swakv_session_close(s);
}

/* ---- completion points ---------------------------------------------------------------------------------- */

static _Atomic bool gate_open;

static void gate(void *arg)
{
	while (!gate_open)
		usleep(500);
}

Test(live, pages_wait_for_the_word_before_others_get_them)
{
	swakv_session *s = live_attach(&watched, 129, 128, 1, 1, 1024);
	struct swakv_sequence_state st = { .size = sizeof(st) };
	struct swakv_fence fence;
	int32_t length = 384;
	int64_t before, now;
	swakv_request *r;

	if (!live_is_cuda())
		LIVE_OK(s, swakv_stream_bind_host(s, 0, true));
	LIVE_OK(s, swakv_session_free_pages(s, &before));
	r = begin_one(s, 0);
	live_prefill(s, r, &length, 1);
	LIVE_OK(s, swakv_decode_prepare(r, NULL));
	live_launch(s, 0, gate, NULL);
	LIVE_OK(s, swakv_stream_mark(s, 0, &fence));
	LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
	expect_state(s, r, 385, -1, 2, 4, &st);
	cr_expect_eq(st.n_staged, 0, "%u staged", st.n_staged);
	cr_expect_eq(st.n_reserved, 5, "%u reserved: the page that the step left is the sequence's own", st.n_reserved);
	swakv_sequence_state_clear(&st);
	LIVE_OK(s, swakv_request_finish(r, NULL));
	LIVE_OK(s, swakv_session_free_pages(s, &now));
	cr_expect_eq(now, before - 7, "%lld pages are free while the step runs", (long long)now);
	cr_expect_not(swakv_fence_reached(s, fence));
	gate_open = true;
	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	cr_expect(swakv_fence_reached(s, fence));
	live_expect_free(s, before);
	swakv_request_free(r);
	swakv_session_close(s);
}

/* ---- many of everything ------------------------------------------------------------------------------------ */

Test(live, long_prefill_comes_by_reference)
{
	enum { BATCH = 64, WINDOW = 1024 };
	swakv_session *s = live_attach(&watched, WINDOW, 16, 1, BATCH, 4096);
	int32_t slots[BATCH], lengths[BATCH];
	struct swakv_session_counters c = { .size = sizeof(c) };
	swakv_request *r;

	for (int i = 0; i < BATCH; i++) {
		slots[i] = BATCH - 1 - i;
		lengths[i] = 4000 + i;
	}
	r = begin(s, 0, slots, BATCH);
	live_prefill(s, r, lengths, BATCH);
	cr_expect_geq(n_updates, BATCH * WINDOW / 16);
	live_expect_tables_equal(s, BATCH);
	for (int i = 0; i < 30; i++) {
		LIVE_OK(s, swakv_decode_prepare(r, NULL));
		live_expect_tables_equal(s, BATCH);
		LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	}
	swakv_session_get_counters(s, &c);
	cr_expect_eq(c.row_faults, 0);
	cr_expect_eq(c.rescues, 0);
	swakv_request_free(r);
	swakv_session_close(s);
}

enum { SLOTS = 12, LIVES = 6, STREAMS = 3, MAX_SEQ = 512 };

/* Some of the free slots; how many. */
static uint32_t pick_slots(const bool used[SLOTS], int32_t out[SLOTS])
{
	uint32_t n = 0, most = 1 + (uint32_t)(rand() % 4);

	for (int tries = 0; tries < 40 && n < most; tries++) {
		int slot = rand() % SLOTS;
		bool twice = used[slot];

		for (uint32_t i = 0; i < n; i++)
			twice |= out[i] == slot;
		if (!twice)
			out[n++] = slot;
	}
	return n;
}

static void mark_slots(const swakv_request *r, bool used[SLOTS], bool value)
{
	for (uint32_t i = 0; i < swakv_request_batch(r); i++)
		used[swakv_request_slot(r, i)] = value;
}

static swakv_request *random_begin(swakv_session *s, bool used[SLOTS])
{
	struct swakv_begin_options o = { .size = sizeof(o), .stream = (uint32_t)(rand() % STREAMS) };
	int32_t slots[SLOTS], lengths[SLOTS];
	swakv_request *r;
	int e;

	o.slots = slots;
	o.n_slots = pick_slots(used, slots);
	if (o.n_slots == 0)
		return NULL;
	e = swakv_request_begin(s, &o, &r, NULL);
	if (e == SWAKV_EPENDING)
		return NULL;
	cr_assert_eq(e, 0, "%s", swakv_session_error(s));
	mark_slots(r, used, true);
	for (uint32_t i = 0; i < o.n_slots; i++)
		lengths[i] = 1 + rand() % 400;
	live_prefill(s, r, lengths, o.n_slots);
	return r;
}

static void random_compact(swakv_session *s, swakv_request *r, bool used[SLOTS])
{
	uint32_t n = swakv_request_batch(r), kept = 0;
	int32_t map[SLOTS];

	for (uint32_t i = 0; i < n; i++)
		map[i] = rand() % 4 ? (int32_t)kept++ : -1;
	for (uint32_t i = 0; i < n; i++) /* survivors in reverse order */
		if (map[i] >= 0)
			map[i] = (int32_t)kept - 1 - map[i];
	mark_slots(r, used, false);
	LIVE_OK(s, swakv_compact_begin(r, map, n, (int32_t)kept, rand() % 2 ? SWAKV_COMPACT_MOVE_ROWS : 0, 0, NULL));
	LIVE_OK(s, swakv_compact_complete(r, SWAKV_DONE, NULL));
	mark_slots(r, used, true);
}

static void random_end(swakv_session *s, swakv_request *r, bool used[SLOTS])
{
	mark_slots(r, used, false);
	if (rand() % 2) {
		LIVE_OK(s, swakv_request_finish(r, NULL));
	} else if (rand() % 2) {
		(void)swakv_decode_prepare(r, NULL);
		LIVE_OK(s, swakv_request_abandon(r, NULL));
	}
	swakv_request_free(r);
}

/* Every slot of every live request must lie where the broker says it does. */
static void expect_slots(swakv_session *s, swakv_request *r)
{
	for (uint32_t i = 0; i < swakv_request_batch(r); i++) {
		struct swakv_sequence_state st = { .size = sizeof(st) };

		LIVE_OK(s, swakv_sequence_get_state(r, i, &st));
		cr_expect_eq(st.slot, swakv_request_slot(r, i));
		for (uint32_t k = 0; k < st.n_bindings; k++)
			cr_expect_eq(host_page(s, st.slot, st.bindings[k].logical_page), st.bindings[k].page);
		swakv_sequence_state_clear(&st);
	}
}

/* True when every sequence of @r can go on by two tokens. */
static bool has_room(swakv_session *s, swakv_request *r)
{
	bool room = true;

	for (uint32_t i = 0; i < swakv_request_batch(r); i++) {
		struct swakv_sequence_state st = { .size = sizeof(st) };

		LIVE_OK(s, swakv_sequence_get_state(r, i, &st));
		room &= st.endpoint + 2 <= MAX_SEQ;
		swakv_sequence_state_clear(&st);
	}
	return room && swakv_request_batch(r) > 0;
}

/*
 * An answer carries the rows of its own request and, on its stream, those whose
 * request has ended. When all have had one, nothing is left to carry.
 */
static void settle(swakv_session *s, swakv_request *lives[LIVES], bool used[SLOTS])
{
	for (int i = 0; i < LIVES; i++) {
		if (lives[i] && (i < STREAMS || !has_room(s, lives[i]))) {
			random_end(s, lives[i], used);
			lives[i] = NULL;
		} else if (lives[i]) {
			live_decode(s, lives[i]);
		}
	}
	for (uint32_t i = 0; i < STREAMS; i++)
		LIVE_OK(s, swakv_stream_synchronize(s, i));
	for (uint32_t i = 0; i < STREAMS; i++) {
		int32_t slot = 0, length = 30;

		while (used[slot])
			slot++;
		used[slot] = true;
		lives[i] = begin(s, i, &slot, 1);
		live_prefill(s, lives[i], &length, 1);
	}
	for (int i = STREAMS; i < LIVES; i++)
		if (lives[i])
			LIVE_OK(s, swakv_decode_prepare(lives[i], NULL));
	live_expect_tables_equal(s, SLOTS);
}

static void random_lives(swakv_session *s, int rounds)
{
	swakv_request *lives[LIVES] = { 0 };
	bool used[SLOTS] = { 0 };

	for (int round = 0; round < rounds; round++) {
		int i = rand() % LIVES;

		if (!lives[i]) {
			lives[i] = random_begin(s, used);
		} else if (rand() % 12 == 0) {
			random_end(s, lives[i], used);
			lives[i] = NULL;
		} else if (rand() % 6 == 0 && swakv_request_batch(lives[i]) > 0) {
			random_compact(s, lives[i], used);
			expect_slots(s, lives[i]);
		} else if (swakv_request_batch(lives[i]) > 0) {
			struct swakv_fence fence;
			struct swakv_request_state state = { .size = sizeof(state) };
			int e = swakv_decode_prepare(lives[i], NULL);

			if (e == SWAKV_ELIMIT) {
				random_end(s, lives[i], used);
				lives[i] = NULL;
				continue;
			}
			cr_assert_eq(e, 0, "%s", swakv_session_error(s));
			live_expect_rows_equal(s, lives[i]);
			LIVE_OK(s, swakv_request_get_state(lives[i], &state));
			LIVE_OK(s, swakv_stream_mark(s, state.stream, &fence));
			LIVE_OK(s, swakv_decode_complete(lives[i], rand() % 3 ? fence : SWAKV_DONE, NULL));
		}
	}
	settle(s, lives, used);
	for (int i = 0; i < LIVES; i++)
		swakv_request_free(lives[i]);
}

static void live_through_random_lives(void)
{
	const struct swakv_attach_options o = { .size = sizeof(o), .n_streams = STREAMS };
	swakv_session *s = live_attach(&o, 70, 16, 1, SLOTS, MAX_SEQ);
	struct swakv_session_counters c = { .size = sizeof(c) };
	struct swakv_session_info info = { .size = sizeof(info) };
	int64_t free_pages;

	srand(20231);
	LIVE_OK(s, swakv_session_free_pages(s, &free_pages));
	for (uint32_t i = 1; !live_is_cuda() && i < STREAMS; i++)
		LIVE_OK(s, swakv_stream_bind_host(s, i, true));
	random_lives(s, 4000);
	live_expect_free(s, free_pages);
	swakv_session_get_counters(s, &c);
	cr_expect_eq(c.row_faults, 0);
	cr_expect_eq(c.rescues, 0);
	swakv_session_get_info(s, &info);
	cr_expect_eq(info.cuda, live_is_cuda());
	swakv_session_close(s);
}

Test(live, device_table_equals_host_table_through_random_lives)
{
	live_through_random_lives();
}

Test(live, the_table_of_joined_pages_does_so_too)
{
	live_form = SWAKV_JOINED;
	live_through_random_lives();
}

Test(live, two_sessions_in_one_process_do_not_meet)
{
	swakv_session *a = live_attach(NULL, 70, 16, 1, SLOTS, 512), *b = live_attach(NULL, 256, 32, 3, SLOTS, 512);
	struct swakv_session_info ia = { .size = sizeof(ia) }, ib = { .size = sizeof(ib) };
	struct swakv_layout la = { .size = sizeof(la) }, lb = { .size = sizeof(lb) };
	int32_t slots[] = { 0, 1, 2 }, lengths[] = { 100, 200, 300 };
	swakv_request *ra, *rb;

	swakv_session_get_info(a, &ia);
	swakv_session_get_info(b, &ib);
	cr_expect_eq(ia.pool, ib.pool, "one import a process");
	cr_expect_neq(ia.session_id, ib.session_id);
	LIVE_OK(a, swakv_session_get_layout(a, 0, &la));
	LIVE_OK(b, swakv_session_get_layout(b, 0, &lb));
	cr_expect_neq(la.table, lb.table);
	ra = begin(a, 0, slots, 3);
	rb = begin(b, 0, slots, 3);
	live_prefill(a, ra, lengths, 3);
	live_prefill(b, rb, lengths, 3);
	for (int i = 0; i < 3; i++)
		for (int32_t x = 0; x < la.width; x++)
			for (int k = 0; k < 3; k++)
				for (int32_t y = 0; y < lb.width; y++) {
					int64_t p = live_device_page(a, i, x), q = live_device_page(b, k, y);
					uint64_t pa = la.k_base + (uint64_t)p * la.page_stride;
					uint64_t qb = lb.k_base + (uint64_t)q * lb.page_stride;

					if (p >= 0 && q >= 0)
						cr_assert(pa + la.page_stride <= qb || qb + lb.page_stride <= pa);
				}
	swakv_session_close(a);
	live_decode(b, rb);
	swakv_session_close(b);
}

/* ---- calls in flight -------------------------------------------------------------------------------------------- */

Test(live, calls_overlap)
{
	swakv_session *s = live_attach(NULL, 70, 16, 1, SLOTS, 512);
	swakv_request *r[SLOTS];
	swakv_ticket t[SLOTS];
	struct swakv_step steps[SLOTS];
	int32_t slots[SLOTS], length = 90;

	for (int i = 0; i < SLOTS; i++) {
		struct swakv_begin_options o = { .size = sizeof(o), .slots = &slots[i], .n_slots = 1 };

		slots[i] = i;
		LIVE_OK(s, swakv_request_begin(s, &o, &r[i], &t[i]));
	}
	for (int i = SLOTS - 1; i >= 0; i--) {
		int e;

		while ((e = swakv_poll(s, t[i])) == SWAKV_EAGAIN)
			;
		cr_assert_eq(e, 0);
		LIVE_OK(s, swakv_prefill_prepare(r[i], &length, 1, &t[i]));
	}
	for (int i = 0; i < SLOTS; i++) {
		LIVE_OK(s, swakv_wait(s, t[i]));
		LIVE_OK(s, swakv_prefill_complete(r[i], SWAKV_DONE, NULL));
		steps[i] =
			(struct swakv_step){ .size = sizeof(struct swakv_step), .request = r[i], .fence = SWAKV_DONE };
	}
	for (int i = 0; i < 50; i++) {
		LIVE_OK(s, swakv_step_prepare(s, steps, SLOTS, NULL));
		live_expect_tables_equal(s, SLOTS);
		LIVE_OK(s, swakv_step_complete(s, steps, SLOTS, NULL));
	}
	swakv_session_close(s);
}

/* ---- what is refused ------------------------------------------------------------ */

Test(live, refusals_have_their_codes)
{
	swakv_session *s = live_attach(NULL, 129, 128, 1, 2, 1024);
	struct swakv_begin_options o;
	int32_t slot = 2, length = 2000;
	swakv_request *r, *none;

	o = (struct swakv_begin_options){ .size = sizeof(struct swakv_begin_options), .slots = &slot, .n_slots = 1 };
	cr_expect_eq(swakv_request_begin(s, &o, &none, NULL), SWAKV_EINVALID);
	cr_expect_null(none);
	cr_expect_not_null(strstr(swakv_session_error(s), "slot 2"), "%s", swakv_session_error(s));
	slot = 0;
	r = begin_one(s, 0);
	cr_expect_eq(swakv_request_begin(s, &o, &none, NULL), SWAKV_EBUSY);
	cr_expect_eq(swakv_prefill_prepare(r, &length, 1, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_decode_prepare(r, NULL), SWAKV_EPHASE);
	length = 1024;
	live_prefill(s, r, &length, 1);
	cr_expect_eq(swakv_decode_prepare(r, NULL), SWAKV_ELIMIT);
	cr_expect_eq(swakv_decode_prepare(r, NULL), SWAKV_EPHASE);
	LIVE_OK(s, swakv_request_finish(r, NULL));
	cr_expect_eq(swakv_decode_prepare(r, NULL), SWAKV_EINVALID);
	swakv_request_free(r);
	swakv_session_close(s);
}

Test(live, failed_completion_poisons_until_shutdown)
{
	swakv_session *s = live_attach(NULL, 129, 128, 1, 2, 1024);
	struct swakv_begin_options o;
	int32_t slot = 0, length = 300;
	int64_t free_pages;
	swakv_request *r, *none;

	LIVE_OK(s, swakv_session_free_pages(s, &free_pages));
	r = begin_one(s, 0);
	LIVE_OK(s, swakv_prefill_prepare(r, &length, 1, NULL));
	cr_expect_eq(swakv_prefill_complete(r, (struct swakv_fence){ SWAKV_FENCE_FAILED, 0, 0 }, NULL),
		     SWAKV_EPOISONED);
	cr_expect_not(swakv_request_valid(r));
	o = (struct swakv_begin_options){ .size = sizeof(struct swakv_begin_options), .slots = &slot, .n_slots = 1 };
	cr_expect_eq(swakv_request_begin(s, &o, &none, NULL), SWAKV_EPOISONED);
	LIVE_OK(s, swakv_session_shutdown(s));
	live_expect_free(s, free_pages);
	swakv_request_free(r);
	r = begin_one(s, 0);
	live_prefill(s, r, &length, 1);
	live_expect_tables_equal(s, 1);
	swakv_session_close(s);
}

/* ---- ends ------------------------------------------------------------ */

/* Closes a session with a transition pending while another one looks, and is returned: the pages free before and after.
 */
static swakv_session *close_with_a_transition(bool idle, int64_t *before, int64_t *after)
{
	swakv_session *watch = live_attach(NULL, 129, 128, 1, 1, 1024), *s = live_attach(NULL, 129, 128, 1, 2, 1024);
	int32_t slots[] = { 0, 1 }, lengths[] = { 300, 300 };
	struct swakv_fence fence;
	int64_t meanwhile;
	swakv_request *r;

	LIVE_OK(watch, swakv_session_free_pages(watch, before));
	r = begin(s, 0, slots, 2);
	LIVE_OK(s, swakv_prefill_prepare(r, lengths, 2, NULL));
	LIVE_OK(watch, swakv_session_free_pages(watch, &meanwhile));
	cr_expect_lt(meanwhile, *before);
	if (idle) {
		LIVE_OK(s, swakv_stream_mark(s, 0, &fence));
		LIVE_OK(s, swakv_stream_synchronize(s, 0));
	}
	swakv_session_close(s);
	LIVE_OK(watch, swakv_session_free_pages(watch, after));
	return watch;
}

Test(live, pages_are_free_when_close_of_an_idle_session_returns)
{
	int64_t before, after;
	swakv_session *watch = close_with_a_transition(true, &before, &after);

	cr_expect_eq(after, before, "%lld pages are free, %lld were", (long long)after, (long long)before);
	swakv_session_close(watch);
}

Test(live, pages_of_work_under_way_come_back_after_close)
{
	int64_t before, after;
	swakv_session *watch = close_with_a_transition(false, &before, &after);

	live_expect_free(watch, before);
	swakv_session_close(watch);
}

/* Thousands of answers for an event loop that looks nowhere but at its descriptor: if one were not told, it would hang.
 */
Test(live, an_event_loop_is_told_of_every_answer)
{
	const struct swakv_attach_options o = { .size = sizeof(o), .flags = SWAKV_ATTACH_EVENTS };
	swakv_session *s = live_attach(&o, 129, 128, 1, 2, 1024);
	struct pollfd p = { .fd = swakv_session_fd(s), .events = POLLIN };
	uint32_t out = 0;
	swakv_ticket t[3] = { 0 };

	cr_assert_geq(p.fd, 0, "%s", swakv_session_error(s));
	for (uint32_t i = 0; i < 9000 || out; i++) {
		uint32_t k = i % 3;

		if (t[k]) {
			int e;

			while ((e = swakv_poll(s, t[k])) == SWAKV_EAGAIN)
				cr_assert_eq(poll(&p, 1, LIVE_PATIENCE), 1, "answer %u: nobody told", i);
			cr_assert_eq(e, 0);
			t[k] = 0;
			out--;
		}
		if (i % 50 == 49)
			LIVE_OK(s, swakv_session_ping(s, NULL)); /* takes answers of others, too */
		if (i < 9000) {
			LIVE_OK(s, swakv_session_ping(s, &t[k]));
			out++;
		}
	}
	swakv_session_take(s);
	cr_expect_eq(poll(&p, 1, 0), 0, "nothing is left");
	live_kill(&live);
	cr_expect_eq(poll(&p, 1, LIVE_PATIENCE), 1);
	cr_expect_eq(swakv_session_take(s), SWAKV_EGONE);
	swakv_session_close(s);
}

static void *kill_soon(void *arg)
{
	usleep(50000);
	live_kill(&live);
	return NULL;
}

Test(live, killed_broker_hangs_nobody)
{
	swakv_session *s = live_attach(NULL, 129, 128, 1, 2, 1024);
	swakv_request *r = begin_one(s, 0);
	int32_t length = 300;
	pthread_t thread;
	int e = 0;

	live_prefill(s, r, &length, 1);
	cr_assert_eq(pthread_create(&thread, NULL, kill_soon, NULL), 0);
	while (e == 0)
		e = swakv_session_ping(s, NULL);
	cr_expect_eq(e, SWAKV_EGONE, "%s", swakv_error_name(e));
	pthread_join(thread, NULL);
	cr_expect_eq(swakv_decode_prepare(r, NULL), SWAKV_EGONE);
	cr_expect_not(swakv_request_valid(r));
	/* what was mapped can still be used, so that work under way does not fault */
	cr_expect_geq(live_device_page(s, 0, 1), 0);
	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	swakv_request_free(r);
	swakv_session_close(s);
}
