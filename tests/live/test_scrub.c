/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker finds in the pages it is given: another's KV under no policy but `never`. */
#include <criterion/criterion.h>
#include <string.h>

#include "lives.h"

static struct live live;

static void teardown(void)
{
	live_stop(&live);
}

TestSuite(scrub, .fini = teardown, .timeout = 100);

Test(scrub, pages_of_another_worker_read_0)
{
	swakv_session *s;

	live_start(&live, "1M");
	life_first(true);
	s = life_attach(NULL);
	life_second(s, 0);
	swakv_session_close(s);
}

Test(scrub, joined_pages_of_another_worker_read_0)
{
	swakv_session *s;

	live_form = SWAKV_JOINED;
	live_start(&live, "1M");
	life_first(true);
	s = life_attach(NULL);
	life_second(s, 0);
	swakv_session_close(s);
}

/* A session whose first stream is left to the caller. */
static swakv_session *attach_unbound(void)
{
	const struct swakv_attach_options two = { .size = sizeof(two), .n_streams = 2 };
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_SLIDING,
				       .window = LIFE_WINDOW,
				       .page_tokens = LIFE_PAGE_TOKENS,
				       .layers = 2,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16 };
	const struct swakv_model m = { .size = sizeof(m),
				       .name = "live",
				       .groups = &g,
				       .n_groups = 1,
				       .max_batch = 4,
				       .max_seq = 40 * LIFE_PAGE_TOKENS };
	swakv_session *s;

	cr_assert_eq(swakv_session_attach(&two, &m, &s, NULL, 0), 0);
	return s;
}

Test(scrub, a_stream_of_the_callers_making_needs_no_operation_for_it)
{
	static const struct swakv_stream_ops ops = {
		sizeof(ops), live_forget_updates, live_write_word, live_synchronize_nothing, NULL, NULL
	};
	swakv_session *s;

	live_start(&live, "1M");
	life_first(true);
	s = attach_unbound();
	LIVE_OK(s, swakv_stream_bind_custom(s, 0, &ops, NULL));
	life_second(s, 0);
	swakv_session_close(s);
}

/* *@arg: does the stream work? */
static int write_word_if(void *arg, uint64_t *word, uint64_t value)
{
	return *(bool *)arg ? live_write_word(NULL, word, value) : 1;
}

/* The stream fails between two prepares, so that nothing of the second one reaches the device, and works again. */
static void lose_a_scrub(swakv_session *s, bool *works)
{
	const struct swakv_fence failed = { SWAKV_FENCE_FAILED, 0, 0 };
	swakv_request *first = life_begin(s, 0, 1), *second = life_begin(s, 1, LIFE_WINDOW);
	int32_t length = LIFE_WINDOW, one = 1;
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
	static const struct swakv_stream_ops ops = { sizeof(ops),   live_forget_updates,
						     write_word_if, live_synchronize_nothing,
						     NULL,          NULL };
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = (const int32_t[]){ 2 }, .n_slots = 1 };
	bool works = true;
	swakv_request *r;
	swakv_session *s;

	live_start(&live, "1M");
	life_first(true);
	s = attach_unbound();
	live_expect_free(s, life_fresh);
	LIVE_OK(s, swakv_stream_bind_custom(s, 0, &ops, &works));
	lose_a_scrub(s, &works);
	cr_assert_eq(swakv_request_begin(s, &o, &r, NULL), SWAKV_EDEVICE);
	cr_assert(strstr(swakv_session_error(s), "attach again"), "%s", swakv_session_error(s));
	swakv_session_close(s);
	s = life_attach(NULL);
	r = life_begin(s, 1, LIFE_WINDOW);
	live_prefill(s, r, &(int32_t){ LIFE_WINDOW }, 1);
	for (int column = 0; column < LIFE_WINDOW / LIFE_PAGE_TOKENS; column++)
		life_look(s, column, 0);
	swakv_request_free(r);
	swakv_session_close(s);
}

Test(scrub, never_leaves_what_is_there)
{
	swakv_session *s;

	live_start_with(&live, "1M", "--scrub=never");
	life_first(true);
	s = life_attach(NULL);
	life_second(s, LIFE_NAN);
	swakv_session_close(s);
}

Test(scrub, always_clears_a_workers_own_pages_too)
{
	swakv_session *s;

	live_start_with(&live, "1M", "--scrub=always");
	s = life_first(false);
	life_second(s, 0);
	swakv_session_close(s);
}

/* More updates than an answer holds: the rows are read from the host table, and so are the pages to be scrubbed. */
Test(scrub, pages_of_a_delivery_by_reference_read_0)
{
	enum { SLOTS = 64 };
	swakv_session *s;
	int32_t slots[SLOTS], lengths[SLOTS];
	swakv_request *r;
	struct swakv_begin_options o = { .size = sizeof(o), .slots = slots, .n_slots = SLOTS };

	live_start(&live, "16M");
	s = live_attach(NULL, 10 * LIFE_PAGE_TOKENS, LIFE_PAGE_TOKENS, 2, SLOTS, 12 * LIFE_PAGE_TOKENS);
	LIVE_OK(s, swakv_session_free_pages(s, &life_fresh));
	for (int life = 0; life < 2; life++) {
		live_expect_free(s, life_fresh);
		for (int i = 0; i < SLOTS; i++) {
			slots[i] = i;
			lengths[i] = 10 * LIFE_PAGE_TOKENS;
		}
		LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
		LIVE_OK(s, swakv_prefill_prepare(r, lengths, SLOTS, NULL));
		for (int i = 0; life == 1 && i < SLOTS; i += 9)
			for (int column = 0; column < 10; column++)
				cr_assert(!life_spoilt[life_host_page(s, i, column)] ||
						  live_page_is(s, life_host_page(s, i, column), 0),
					  "slot %d column %d", i, column);
		for (int i = 0; life == 0 && i < SLOTS; i++)
			life_spoil(s, i);
		LIVE_OK(s, swakv_prefill_complete(r, SWAKV_DONE, NULL));
		swakv_request_free(r);
		if (life == 1)
			break;
		swakv_session_close(s);
		s = live_attach(NULL, 10 * LIFE_PAGE_TOKENS, LIFE_PAGE_TOKENS, 2, SLOTS, 12 * LIFE_PAGE_TOKENS);
	}
	swakv_session_close(s);
}
