/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wait_random.c - who can be admitted is, at once
 *
 * Three models with pages of three sizes, some of which lie across extents,
 * begin with patience and end at random in a pool of few extents. Whenever the
 * engine says that nobody is admitted now, it is told to look at all who wait
 * once more: whoever is admitted then had been forgotten.
 */
#include "engine_fixture.h"
#include "internal.h"

enum { EXTENT = 3072, N_EXTENTS = 10, MODELS = 3, BATCH = 24, LIVES = 20 };

static struct engine *e;
static struct worker w[MODELS];
static struct life {
	struct worker *w;
	uint64_t handle; /* 0: it waits */
	uint64_t ticket;
	int32_t slots[4], n;
} lives[LIVES];
static bool used[MODELS][BATCH];
static uint64_t stamp, tickets, n_admitted, n_forced;

static void setup(void)
{
	/* 1,024, 1,280, 3,072 and 1,792 bytes a page of a half: three an extent, two and a part, one, one and a part.
	 */
	static const uint32_t bytes[MODELS][2] = { { 64, 80 }, { 80, 192 }, { 192, 112 } };

	e = engine_new(&(struct engine_config){
		.half_bytes = EXTENT * N_EXTENTS, .extent_bytes = EXTENT, .stamps_a_ms = 10, .wait_claim = 500 });
	cr_assert_not_null(e);
	for (uint32_t i = 0; i < MODELS; i++) {
		struct model m = { .n_groups = 2,
				   .n_streams = 2,
				   .max_batch = BATCH,
				   .max_seq = 64,
				   .groups = { make_group(0, 16, bytes[i][0]), make_group(0, 32, bytes[i][1]) } };
		char name[] = { (char)('a' + i), '\0' };

		worker_open(&w[i], e, m, EXTENT * N_EXTENTS, i + 1);
		cr_assert_eq(session_join(w[i].s, name), 0);
	}
}

static void teardown(void)
{
	for (int i = 0; i < MODELS; i++)
		worker_close(&w[i]);
	e = engine_free(e);
}

TestSuite(wait_random, .init = setup, .fini = teardown, .timeout = 120);

static uint32_t below(uint32_t n)
{
	static uint64_t state = 20231;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % n;
}

static void forget(struct life *l)
{
	for (int32_t i = 0; i < l->n; i++)
		used[l->w - w][l->slots[i]] = false;
	l->w = NULL;
}

/* Takes what the engine answers until it has nothing more to say; how many it has admitted. */
static uint32_t settle(void)
{
	struct admission out;
	uint32_t admitted = 0;

	while (engine_admit(e, &out) || e->next_try) {
		struct life *l = lives;

		if (!out.session)
			continue;
		while (l < lives + LIVES && (!l->w || l->ticket != out.ticket))
			l++;
		cr_assert(l < lives + LIVES, "an answer to ticket %llu", (unsigned long long)out.ticket);
		cr_assert_eq(l->handle, 0);
		l->handle = out.handle;
		admitted += out.code == 0;
		if (out.code != 0)
			forget(l);
	}
	return admitted;
}

/* A request of one to four sequences of one or two pages, that waits if it must. */
static void begin_some(struct life *l)
{
	uint32_t model = below(MODELS);
	struct begin b = { .max_tokens = 16 + 16 * below(2), .slots = l->slots, .wait = 1 + below(20000) };
	uint32_t n = 1 + below(below(2) ? 4 : 2);
	int code;

	l->n = 0;
	for (int32_t slot = 0; slot < BATCH && l->n < (int32_t)n; slot++)
		if (!used[model][slot])
			l->slots[l->n++] = slot;
	if (l->n == 0)
		return;
	b.n_slots = (uint32_t)l->n;
	b.ticket = l->ticket = ++tickets;
	l->w = &w[model];
	l->handle = 0;
	code = request_begin_waiting(l->w->s, &b, &l->handle, &l->w->f);
	if (code < 0 && code != SWAKV_EAGAIN) {
		l->w = NULL;
		return;
	}
	for (int32_t i = 0; i < l->n; i++)
		used[model][l->slots[i]] = true;
}

static void end_some(struct life *l)
{
	if (l->handle == 0)
		return;
	cr_assert_eq(request_abandon(l->w->s, l->handle, &fence_done, l->w->armed[0], &l->w->f), 0);
	forget(l);
}

Test(wait_random, whoever_can_be_admitted_is)
{
	for (int i = 0; i < 60000; i++) {
		struct life *l = &lives[below(LIVES)];

		if (below(4) == 0)
			engine_stamp(e, stamp += below(300));
		if (!l->w)
			begin_some(l);
		else
			end_some(l);
		n_admitted += settle();
		e->retry = true;
		n_forced += settle();
		cr_assert_eq(n_forced, 0, "after change %d somebody was admitted only when all were looked at again",
			     i);
		if (i % 500 == 0)
			check_all(e);
	}
	cr_expect_gt(n_admitted, 1000, "%llu waited and were admitted", (unsigned long long)n_admitted);
}
