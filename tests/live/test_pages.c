/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that a worker manages itself (spec section 8), on a real broker. */
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "live.h"

enum { ALL = 64 };

static struct live live;
static swakv_session *a, *b;
static int32_t ids[SWAKV_MAX_PAGES];
static uint32_t n;
static int64_t pages;

/* As many sessions as there are groups of pages: the same model, so the same pages. */
static swakv_session *attach(void)
{
	const struct swakv_attach_options o = { .size = sizeof(o), .n_streams = 2 };

	return live_attach(&o, 64, 16, 1, 4, 1024);
}

static void setup(void)
{
	live_start(&live, "1M");
	a = attach();
	b = attach();
	LIVE_OK(a, swakv_session_free_pages(a, &pages));
	cr_assert_geq(pages, ALL);
}

static void teardown(void)
{
	swakv_session_close(a);
	swakv_session_close(b);
	live_stop(&live);
}

TestSuite(pages, .init = setup, .fini = teardown, .timeout = 100);

static int give(swakv_session *s, const int32_t *list, uint32_t count)
{
	return swakv_pages_give(s, 0, list, count, NULL, 0, NULL);
}

Test(pages, as_many_as_there_are_and_back)
{
	cr_expect_eq(swakv_pages_take(a, 0, 0, 0, (uint32_t)pages + 1, (uint32_t)pages + 1, 0, ids, &n, NULL),
		     SWAKV_ENEVER);
	LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, 1, SWAKV_MAX_PAGES, 0, ids, &n, NULL));
	cr_expect_eq(n, pages < SWAKV_MAX_PAGES ? pages : SWAKV_MAX_PAGES);
	LIVE_OK(a, give(a, ids, n));
	live_expect_free(a, pages);
}

Test(pages, the_sentence_of_a_give_has_the_id_that_is_wrong)
{
	int32_t list[3];

	LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, 2, 2, 0, ids, &n, NULL));
	memcpy(list, ids, 2 * sizeof(list[0]));
	LIVE_OK(b, swakv_pages_take(b, 0, 0, 0, 1, 1, 0, ids, &n, NULL));
	list[2] = ids[0];
	cr_expect_eq(give(a, list, 3), SWAKV_EINVALID);
	cr_expect_not_null(strstr(swakv_session_error(a), "is not one that this session has taken"), "%s",
			   swakv_session_error(a));
	LIVE_OK(a, give(a, list, 2));
}

Test(pages, arguments_that_are_wrong)
{
	struct swakv_fence fence = { SWAKV_FENCE_LINE, 2, 0 };

	cr_expect_eq(swakv_pages_take(NULL, 0, 0, 0, 1, 1, 0, ids, &n, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_take(a, 1, 0, 0, 1, 1, 0, ids, &n, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_take(a, 0, 2, 0, 1, 1, 0, ids, &n, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_take(a, 0, 0, 2, 1, 1, 0, ids, &n, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_take(a, 0, 0, 0, 0, 1, 0, ids, &n, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_take(a, 0, 0, 0, 1, SWAKV_MAX_PAGES + 1, 0, ids, &n, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_take(a, 0, 0, 0, 1, 1, 0, NULL, &n, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_take(a, 0, 0, 0, 1, 1, 0, ids, NULL, NULL), SWAKV_EINVALID);
	cr_expect_eq(give(NULL, ids, 1), SWAKV_EINVALID);
	cr_expect_eq(give(a, NULL, 1), SWAKV_EINVALID);
	cr_expect_eq(give(a, ids, 0), SWAKV_EINVALID);
	cr_expect_eq(give(a, ids, SWAKV_MAX_PAGES + 1), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_give(a, 0, ids, 1, NULL, 1, NULL), SWAKV_EINVALID);
	LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, 1, 1, 0, ids, &n, NULL));
	cr_expect_eq(swakv_pages_give(a, 1, ids, 1, NULL, 0, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_pages_give(a, 0, ids, 1, &fence, 1, NULL), SWAKV_EINVALID);
	fence.line = 0;
	fence.value = 1000;
	cr_expect_eq(swakv_pages_give(a, 0, ids, 1, &fence, 1, NULL), SWAKV_EINVALID, "never armed");
	LIVE_OK(a, give(a, ids, 1));
}

/* All pages of the pool, filled with what no attention survives, and given back. */
static void spoil(swakv_session *s)
{
	LIVE_OK(s, swakv_pages_take(s, 0, 0, SWAKV_TAKE_OVERWRITES, ALL, ALL, 0, ids, &n, NULL));
	for (uint32_t i = 0; i < n; i++)
		live_fill_page(s, ids[i], 0x7fff);
	LIVE_OK(s, give(s, ids, n));
}

static uint32_t spoilt(swakv_session *s, uint32_t flags)
{
	uint32_t found = 0;

	LIVE_OK(s, swakv_pages_take(s, 0, 1, flags, ALL, ALL, 0, ids, &n, NULL));
	for (uint32_t i = 0; i < n; i++)
		found += live_page_is(s, ids[i], 0x7fff);
	LIVE_OK(s, give(s, ids, n));
	return found;
}

Test(pages, what_was_written_is_gone_unless_its_writer_overwrites_it)
{
	LIVE_OK(b, swakv_session_ping(b, NULL));
	spoil(a);
	cr_expect_eq(spoilt(a, SWAKV_TAKE_OVERWRITES), ALL);
	cr_expect_eq(spoilt(a, 0), 0, "its own NaN");
	spoil(a);
	cr_expect_eq(spoilt(b, SWAKV_TAKE_OVERWRITES), 0, "the NaN of another session");
}

struct gate {
	volatile int open;
};

static void wait_for_gate(void *arg)
{
	struct gate *g = arg;

	for (int i = 0; !g->open && i < LIVE_PATIENCE; i++)
		usleep(1000);
}

/* The taker gives its pages at once, and its scrub is still to run: nobody else may have them before. */
Test(pages, a_scrub_that_still_runs_keeps_given_pages)
{
	struct gate gate = { 0 };
	int64_t left;

	spoil(a);
	swakv_session_close(b);
	b = attach();
	if (!live_is_cuda())
		LIVE_OK(b, swakv_stream_bind_host(b, 0, true));
	live_launch(b, 0, wait_for_gate, &gate);
	LIVE_OK(b, swakv_pages_take(b, 0, 0, 0, ALL, ALL, 0, ids, &n, NULL));
	LIVE_OK(b, give(b, ids, n));
	LIVE_OK(a, swakv_session_free_pages(a, &left));
	gate.open = 1;
	cr_expect_leq(left, pages - ALL, "%lld pages are free though their scrub has not run", (long long)left);
	LIVE_OK(b, swakv_stream_synchronize(b, 0));
	live_expect_free(a, pages);
}

Test(pages, a_take_waits_until_another_session_gives)
{
	swakv_ticket ticket;
	int32_t more[ALL];
	uint32_t n_more = 7;

	LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, 1, SWAKV_MAX_PAGES, 0, ids, &n, NULL));
	LIVE_OK(b, swakv_pages_take(b, 0, 0, 0, 3, ALL, LIVE_PATIENCE, more, &n_more, &ticket));
	cr_expect_eq(n_more, 0);
	cr_expect_eq(swakv_poll(b, ticket), SWAKV_EAGAIN);
	LIVE_OK(a, give(a, ids, 5));
	LIVE_OK(b, swakv_wait(b, ticket));
	cr_expect_geq(n_more, 3);
	cr_expect_leq(n_more, 5);
	LIVE_OK(b, swakv_pages_take(b, 0, 0, 0, ALL, ALL, LIVE_PATIENCE, more, &n_more, &ticket));
	LIVE_OK(b, swakv_request_withdraw(b, ticket, NULL));
	cr_expect_eq(swakv_wait(b, ticket), SWAKV_ENOPAGES);
	LIVE_OK(a, give(a, ids + 5, n - 5));
}

Test(pages, a_session_that_closes_leaves_none_behind)
{
	LIVE_OK(b, swakv_pages_take(b, 0, 0, 0, 10, 10, 0, ids, &n, NULL));
	swakv_session_close(b);
	b = NULL;
	live_expect_free(a, pages);
}

/* ---- two that cache all they can ------------------------------------------------------ */

/* A block pool that keeps every page, and offers those that nothing refers to. */
struct cacher {
	swakv_session *s;
	int32_t held[SWAKV_MAX_PAGES];
	uint32_t n, used; /* the first ones are referred to */
};

static void cache(struct cacher *c, const int32_t *list, uint32_t count)
{
	cr_assert_leq(c->n + count, SWAKV_MAX_PAGES);
	memcpy(c->held + c->n, list, count * sizeof(*list));
	c->n += count;
	LIVE_OK(c->s, swakv_pages_offer(c->s, 0, c->n - c->used));
}

/* Gives what it is asked for, as far as nothing refers to it; how many. */
static uint32_t yield(struct cacher *c)
{
	int64_t want = swakv_pages_wanted(c->s, 0, NULL);
	uint32_t count = want < c->n - c->used ? (uint32_t)want : c->n - c->used;

	if (count == 0)
		return 0;
	c->n -= count;
	LIVE_OK(c->s, swakv_pages_offer(c->s, 0, c->n - c->used));
	LIVE_OK(c->s, give(c->s, c->held + c->n, count));
	return count;
}

/* @c takes @count pages that @other has to give. */
static void burst(struct cacher *c, struct cacher *other, uint32_t count)
{
	int32_t list[SWAKV_MAX_PAGES];
	swakv_ticket ticket;
	uint32_t n_list = 0, given = 0;
	int r = SWAKV_EAGAIN;

	LIVE_OK(c->s, swakv_pages_take(c->s, 0, 0, 0, count, count, LIVE_PATIENCE, list, &n_list, &ticket));
	for (int i = 0; (r = swakv_poll(c->s, ticket)) == SWAKV_EAGAIN && i < LIVE_PATIENCE; i++) {
		given += yield(other);
		usleep(100);
	}
	cr_assert_eq(r, 0, "the burst was not served: %s", swakv_session_error(c->s));
	cr_expect_eq(swakv_pages_wanted(c->s, 0, NULL), 0, "who waits is not asked");
	cr_expect_leq(given, count, "%u pages were asked for, and %u are lacking", given, count);
	cache(c, list, n_list);
}

Test(pages, one_ones_burst_is_served_by_what_the_other_caches_a_hundred_times)
{
	struct cacher x = { .s = a }, y = { .s = b };

	LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, 1, SWAKV_MAX_PAGES, 0, ids, &n, NULL));
	x.used = y.used = n / 8;
	cache(&x, ids, n);
	for (int i = 0; i < 100; i++) {
		struct cacher *c = i % 2 ? &x : &y, *other = i % 2 ? &y : &x;

		burst(c, other, other->n - other->used);
		cr_expect_geq(other->n, other->used, "a page was given that was referred to");
	}
	LIVE_OK(a, give(a, x.held, x.n));
	LIVE_OK(b, give(b, y.held, y.n));
	live_expect_free(a, pages);
}

/* Without a pause between two looks, though the broker looks only now and then. */
Test(pages, who_looks_again_at_once_gives_no_more_than_was_wanted)
{
	struct cacher x = { .s = a };
	int32_t list[SWAKV_MAX_PAGES];
	uint32_t given, n_list, half = (uint32_t)pages / 2;

	LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, (uint32_t)pages, (uint32_t)pages, 0, ids, &n, NULL));
	cache(&x, ids, n);
	for (int i = 0; i < 20; i++) {
		uint64_t until = clock_ns() + 50 * NS_PER_MS;
		swakv_ticket ticket;

		given = 0;
		LIVE_OK(b, swakv_pages_take(b, 0, 0, 0, half, half, LIVE_PATIENCE, list, &n_list, &ticket));
		while (swakv_poll(b, ticket) == SWAKV_EAGAIN || clock_ns() < until)
			given += yield(&x);
		cr_expect_eq(given, half, "%u pages were wanted, and %u given", half, given);
		LIVE_OK(b, give(b, list, n_list));
		LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, given, given, LIVE_PATIENCE, ids, &n, NULL));
		cache(&x, ids, n);
	}
	LIVE_OK(a, give(a, x.held, x.n));
	live_expect_free(a, pages);
}

static void wait_for_takeable(swakv_session *s, int64_t want)
{
	int64_t now = -1;

	for (int i = 0; (now = swakv_pages_takeable(s, 0)) != want && i < LIVE_PATIENCE; i++)
		usleep(1000);
	cr_assert_eq(now, want, "%lld pages can be taken, as it says", (long long)now);
}

Test(pages, what_can_be_taken_and_is_wanted_is_read_without_a_call)
{
	struct swakv_session_counters before, after;
	uint64_t since = 1;
	int64_t seen = 0;

	wait_for_takeable(a, pages);
	LIVE_OK(a, swakv_pages_take(a, 0, 0, 0, (uint32_t)pages, (uint32_t)pages, 0, ids, &n, NULL));
	wait_for_takeable(a, 0);
	cr_expect_eq(swakv_pages_wanted(a, 0, &since), 0);
	cr_expect_eq(since, 0);
	before.size = after.size = sizeof(before);
	swakv_session_get_counters(a, &before);
	/* Asked again, since a refusal counts for a second, in which a busy machine may not have run this process. */
	for (int i = 0; seen != 5 && i < LIVE_PATIENCE; i++) {
		if (i % 100 == 0)
			cr_expect_eq(swakv_pages_take(b, 0, 0, 0, 5, 5, 0, ids + pages, &n, NULL), SWAKV_ENOPAGES);
		usleep(1000);
		seen = swakv_pages_wanted(a, 0, &since);
	}
	cr_expect_eq(seen, 5);
	cr_expect_gt(since, 0);
	for (int i = 0; swakv_pages_wanted(a, 0, &since) != 0 && i < LIVE_PATIENCE; i++)
		usleep(1000);
	cr_expect_eq(swakv_pages_wanted(a, 0, &since), 0, "a refusal is no lack for ever");
	swakv_session_get_counters(a, &after);
	cr_expect_eq(before.commands, after.commands);
	cr_expect_eq(swakv_pages_wanted(NULL, 0, NULL), 0);
	cr_expect_eq(swakv_pages_wanted(a, 1, NULL), 0);
	cr_expect_eq(swakv_pages_takeable(NULL, 0), 0);
	cr_expect_eq(swakv_pages_offer(a, 1, 0), SWAKV_EINVALID);
	cr_expect_str_eq(swakv_session_error(a), "layer group 1 is outside 0 to 0");
	cr_expect_eq(swakv_pages_offer(a, 0, -1), SWAKV_EINVALID);
	cr_expect_str_eq(swakv_session_error(a), "-1 pages were offered: give 0 or more");
}

/* Its descriptor is not readable any more: the byte of an answer that a call has taken may still come. */
static bool can_sleep(swakv_session *s, struct pollfd *p)
{
	for (int i = 0; i < LIVE_PATIENCE; i++) {
		LIVE_OK(s, swakv_session_take(s));
		if (poll(p, 1, 0) == 0)
			return true;
		usleep(1000);
	}
	return false;
}

/* It sleeps in a loop of its own, and gives what it is asked for; what it cannot give does not keep it awake. */
Test(pages, a_loop_that_sleeps_is_told_what_is_wanted)
{
	const struct swakv_attach_options o = { .size = sizeof(o), .flags = SWAKV_ATTACH_EVENTS };
	swakv_session *s = live_attach(&o, 64, 16, 1, 4, 1024);
	struct pollfd p = { .fd = swakv_session_fd(s), .events = POLLIN };
	int32_t more[ALL];
	uint32_t n_more = 0;

	cr_assert_geq(p.fd, 0, "%s", swakv_session_error(s));
	LIVE_OK(s, swakv_pages_take(s, 0, 0, 0, (uint32_t)pages, (uint32_t)pages, 0, ids, &n, NULL));
	cr_expect_eq(swakv_pages_wanted(s, 0, NULL), 0);
	for (int i = 0; i < 100; i++) {
		uint32_t lack = 1 + (uint32_t)i % 7;
		swakv_ticket ticket;

		cr_expect(can_sleep(s, &p), "round %d: nobody wants any", i);
		LIVE_OK(b, swakv_pages_take(b, 0, 0, 0, lack, lack, LIVE_PATIENCE, more, &n_more, &ticket));
		while (swakv_pages_wanted(s, 0, NULL) != lack) {
			cr_assert_eq(poll(&p, 1, LIVE_PATIENCE), 1, "round %d: nobody told", i);
			LIVE_OK(s, swakv_session_take(s));
		}
		cr_expect(can_sleep(s, &p), "round %d: it knows", i);
		LIVE_OK(s, give(s, ids, lack));
		LIVE_OK(b, swakv_wait(b, ticket));
		LIVE_OK(b, give(b, more, n_more));
		LIVE_OK(s, swakv_pages_take(s, 0, 0, 0, lack, lack, LIVE_PATIENCE, ids, &n, NULL));
	}
	swakv_session_close(s);
	live_expect_free(a, pages);
}

/* ---- death -------------------------------------------------------------------------- */

static pid_t pool_pid;
static int go[2], ready[2];

/* It attaches when it is told to, takes pages, and never ends by itself. */
static _Noreturn void be_block_pool(void)
{
	swakv_session *s;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* it must not outlive a test that failed: the runner waits for it */
	if (read(go[0], &byte, 1) != 1)
		_exit(1);
	s = attach();
	if (swakv_pages_take(s, 0, 0, 0, 20, 20, 0, ids, &n, NULL) || write(ready[1], "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* It is forked before this process knows the driver. */
static void setup_pool(void)
{
	cr_assert_eq(pipe(go), 0);
	cr_assert_eq(pipe(ready), 0);
	live_start_with(&live, "1M", "--reclaim-grace-ms=1");
	pool_pid = fork();
	if (pool_pid == 0)
		be_block_pool();
	close(ready[1]);
	a = attach();
	b = attach();
	LIVE_OK(a, swakv_session_free_pages(a, &pages));
}

TestSuite(pages_of_the_dead, .init = setup_pool, .fini = teardown, .timeout = 100);

/* A program that manages its pages is killed beside one that has requests. */
Test(pages_of_the_dead, a_killed_block_pool_leaves_its_pages_to_the_others)
{
	const int32_t slot = 0, length = 64;
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = &slot, .n_slots = 1 };
	swakv_request *r;
	char byte;

	LIVE_OK(b, swakv_request_begin(b, &o, &r, NULL));
	live_prefill(b, r, &length, 1);
	cr_assert_eq(write(go[1], "", 1), 1);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	for (int i = 0; i < 40; i++)
		live_decode(b, r);
	cr_assert_eq(kill(pool_pid, SIGKILL), 0);
	cr_assert_eq(waitpid(pool_pid, NULL, 0), pool_pid);
	for (int i = 0; i < 40; i++)
		live_decode(b, r);
	LIVE_OK(b, swakv_request_finish(r, NULL));
	swakv_request_free(r);
	live_expect_free(a, pages);
}
