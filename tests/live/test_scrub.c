/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker finds in the pages it is given: another's KV under no policy but `never`. */
#include <criterion/criterion.h>
#include <string.h>

#include "live.h"

#define NAN_PATTERN 0x7fff
#define PAGE_TOKENS 16
#define WINDOW      (4 * PAGE_TOKENS)

static struct live live;

static swakv_session *attach(const struct swakv_attach_options *o)
{
	return live_attach(o, WINDOW, PAGE_TOKENS, 2, 4, 40 * PAGE_TOKENS);
}

/* @max_tokens: 0: whatever the window needs. */
static swakv_request *begin(swakv_session *s, int32_t slot, int64_t max_tokens)
{
	const struct swakv_begin_options o = { .slots = &slot, .n_slots = 1, .max_tokens = max_tokens };
	swakv_request *r;

	LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
	return r;
}

static int32_t host_page(swakv_session *s, int slot, int column)
{
	struct swakv_layout l;

	LIVE_OK(s, swakv_session_get_layout(s, 0, &l));
	return l.host_table[slot * 2 * l.width + column];
}

/* Pages that a worker has had in its rows, and filled with NaN. */
static bool spoilt[4096];

/* All pages that are in row @slot now. */
static void spoil(swakv_session *s, int slot)
{
	struct swakv_layout l;

	LIVE_OK(s, swakv_session_get_layout(s, 0, &l));
	for (int column = 0; column < l.width; column++) {
		int32_t page = host_page(s, slot, column);

		if (page < 0)
			continue;
		live_fill_page(s, page, NAN_PATTERN);
		spoilt[page] = true;
	}
}

/* Pages that the model could have before the first life: it is over when as many are there again. */
static int64_t fresh;

/*
 * A life that leaves NaN in all its pages, for it holds no more than one window and a page touch: whoever comes next
 * meets them. Its session ends if @closes.
 */
static swakv_session *first_life(bool closes)
{
	swakv_session *s = attach(NULL);
	int32_t length = WINDOW;
	swakv_request *r;

	LIVE_OK(s, swakv_session_free_pages(s, &fresh));
	r = begin(s, 0, WINDOW + PAGE_TOKENS);
	live_prefill(s, r, &length, 1);
	for (int i = 0; i < PAGE_TOKENS; i++) {
		live_decode(s, r);
		spoil(s, 0);
	}
	LIVE_OK(s, swakv_request_finish(r, NULL));
	swakv_request_free(r);
	if (!closes)
		return s;
	swakv_session_close(s);
	return NULL;
}

/* The page in @column, if the first life had it, must hold @pattern. Returns whether it had. */
static int look(swakv_session *s, int column, uint16_t pattern)
{
	int32_t page = host_page(s, 1, column);

	cr_assert_geq(page, 0);
	if (spoilt[page])
		cr_assert(live_page_is(s, page, pattern), "column %d, page %d", column, page);
	return spoilt[page];
}

/* A prefill and steps through new pages: each that the first life had holds @pattern when it is mapped. */
static void second_life(swakv_session *s, uint16_t pattern)
{
	int32_t length = WINDOW;
	int seen = 0, stepped = 0;
	swakv_request *r;

	live_expect_free(s, fresh);
	r = begin(s, 1, 0);
	LIVE_OK(s, swakv_prefill_prepare(r, &length, 1, NULL));
	for (int column = 0; column < WINDOW / PAGE_TOKENS; column++)
		seen += look(s, column, pattern);
	LIVE_OK(s, swakv_prefill_complete(r, SWAKV_DONE, NULL));
	for (int token = WINDOW; token < WINDOW + 5 * PAGE_TOKENS; token++) {
		LIVE_OK(s, swakv_decode_prepare(r, NULL));
		if (token % PAGE_TOKENS == 0)
			stepped += look(s, token / PAGE_TOKENS, pattern);
		LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	}
	cr_expect_gt(seen + stepped, 0, "the second life has met none of the first one's pages");
	swakv_request_free(r);
}

static void teardown(void)
{
	live_stop(&live);
}

TestSuite(scrub, .fini = teardown, .timeout = 100);

Test(scrub, pages_of_another_worker_read_0)
{
	swakv_session *s;

	live_start(&live, "1M");
	first_life(true);
	s = attach(NULL);
	second_life(s, 0);
	swakv_session_close(s);
}

Test(scrub, a_stream_with_a_thread_scrubs_in_its_order)
{
	swakv_session *s;

	if (live_is_cuda())
		cr_skip_test("host streams only");
	live_start(&live, "1M");
	first_life(true);
	s = attach(NULL);
	LIVE_OK(s, swakv_stream_bind_host(s, 0, true));
	second_life(s, 0);
	swakv_session_close(s);
}

static int accept_updates(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	return 0;
}

static int write_word(void *arg, uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return 0;
}

static int nothing(void *arg)
{
	return 0;
}

/* A session whose first stream is left to the caller. */
static swakv_session *attach_unbound(void)
{
	const struct swakv_attach_options two = { .n_streams = 2 };
	const struct swakv_group g = { .kind = SWAKV_SLIDING,
				       .window = WINDOW,
				       .page_tokens = PAGE_TOKENS,
				       .layers = 2,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16 };
	const struct swakv_model m = {
		.name = "live", .groups = &g, .n_groups = 1, .max_batch = 4, .max_seq = 40 * PAGE_TOKENS
	};
	swakv_session *s;

	cr_assert_eq(swakv_session_attach(&two, &m, &s, NULL, 0), 0);
	return s;
}

Test(scrub, a_stream_of_the_callers_making_needs_no_operation_for_it)
{
	static const struct swakv_stream_ops ops = { accept_updates, write_word, nothing, NULL };
	swakv_session *s;

	live_start(&live, "1M");
	first_life(true);
	s = attach_unbound();
	LIVE_OK(s, swakv_stream_bind_custom(s, 0, &ops, NULL));
	second_life(s, 0);
	swakv_session_close(s);
}

/* *@arg: does the stream work? */
static int write_word_if(void *arg, uint64_t *word, uint64_t value)
{
	return *(bool *)arg ? write_word(NULL, word, value) : 1;
}

/* The stream fails between two prepares, so that nothing of the second one reaches the device, and works again. */
static void lose_a_scrub(swakv_session *s, bool *works)
{
	const struct swakv_fence failed = { SWAKV_FENCE_FAILED, 0, 0 };
	swakv_request *first = begin(s, 0, 1), *second = begin(s, 1, WINDOW);
	int32_t length = WINDOW, one = 1;
	struct swakv_fence fence;

	LIVE_OK(s, swakv_prefill_prepare(first, &one, 1, NULL));
	*works = false;
	cr_assert_eq(swakv_stream_mark(s, 0, &fence), SWAKV_EDEVICE);
	cr_assert_eq(swakv_prefill_prepare(second, &length, 1, NULL), SWAKV_EDEVICE);
	*works = true;
	LIVE_OK(s, swakv_stream_synchronize(s, 0));
	cr_expect_eq(swakv_prefill_complete(first, failed, NULL), SWAKV_EPOISONED);
	cr_expect_eq(swakv_prefill_complete(second, failed, NULL), SWAKV_EPOISONED);
	LIVE_OK(s, swakv_session_shutdown(s));
	swakv_request_free(first);
	swakv_request_free(second);
}

/* The poison is gone, but to the broker the second prepare's pages are this session's own, and clean. */
Test(scrub, a_session_whose_scrub_failed_binds_no_more_pages)
{
	static const struct swakv_stream_ops ops = { accept_updates, write_word_if, nothing, NULL };
	const struct swakv_begin_options o = { .slots = (const int32_t[]){ 2 }, .n_slots = 1 };
	bool works = true;
	swakv_request *r;
	swakv_session *s;

	live_start(&live, "1M");
	first_life(true);
	s = attach_unbound();
	live_expect_free(s, fresh);
	LIVE_OK(s, swakv_stream_bind_custom(s, 0, &ops, &works));
	lose_a_scrub(s, &works);
	cr_assert_eq(swakv_request_begin(s, &o, &r, NULL), SWAKV_EDEVICE);
	cr_assert(strstr(swakv_session_error(s), "attach again"), "%s", swakv_session_error(s));
	swakv_session_close(s);
	s = attach(NULL);
	r = begin(s, 1, WINDOW);
	live_prefill(s, r, &(int32_t){ WINDOW }, 1);
	for (int column = 0; column < WINDOW / PAGE_TOKENS; column++)
		look(s, column, 0);
	swakv_request_free(r);
	swakv_session_close(s);
}

Test(scrub, never_leaves_what_is_there)
{
	swakv_session *s;

	live_start_with(&live, "1M", "--scrub=never");
	first_life(true);
	s = attach(NULL);
	second_life(s, NAN_PATTERN);
	swakv_session_close(s);
}

/* A window rotates through its own pages: scrubbing them again and again would be work for nothing. */
Test(scrub, owner_change_leaves_a_workers_own_pages)
{
	swakv_session *s;

	if (live_is_cuda())
		cr_skip_test("there, memory that nobody had yet is scrubbed along with its neighbours in a row");
	live_start(&live, "1M");
	s = first_life(false);
	second_life(s, NAN_PATTERN);
	swakv_session_close(s);
}

Test(scrub, always_clears_a_workers_own_pages_too)
{
	swakv_session *s;

	live_start_with(&live, "1M", "--scrub=always");
	s = first_life(false);
	second_life(s, 0);
	swakv_session_close(s);
}

/* More updates than an answer holds: the rows are read from the host table, and so are the pages to be scrubbed. */
Test(scrub, pages_of_a_delivery_by_reference_read_0)
{
	enum { SLOTS = 64 };
	swakv_session *s;
	int32_t slots[SLOTS], lengths[SLOTS];
	swakv_request *r;
	struct swakv_begin_options o = { .slots = slots, .n_slots = SLOTS };

	live_start(&live, "16M");
	s = live_attach(NULL, 10 * PAGE_TOKENS, PAGE_TOKENS, 2, SLOTS, 12 * PAGE_TOKENS);
	LIVE_OK(s, swakv_session_free_pages(s, &fresh));
	for (int life = 0; life < 2; life++) {
		live_expect_free(s, fresh);
		for (int i = 0; i < SLOTS; i++) {
			slots[i] = i;
			lengths[i] = 10 * PAGE_TOKENS;
		}
		LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
		LIVE_OK(s, swakv_prefill_prepare(r, lengths, SLOTS, NULL));
		for (int i = 0; life == 1 && i < SLOTS; i += 9)
			for (int column = 0; column < 10; column++)
				cr_assert(!spoilt[host_page(s, i, column)] ||
						  live_page_is(s, host_page(s, i, column), 0),
					  "slot %d column %d", i, column);
		for (int i = 0; life == 0 && i < SLOTS; i++)
			spoil(s, i);
		LIVE_OK(s, swakv_prefill_complete(r, SWAKV_DONE, NULL));
		swakv_request_free(r);
		if (life == 1)
			break;
		swakv_session_close(s);
		s = live_attach(NULL, 10 * PAGE_TOKENS, PAGE_TOKENS, 2, SLOTS, 12 * PAGE_TOKENS);
	}
	swakv_session_close(s);
}
