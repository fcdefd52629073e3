/* SPDX-License-Identifier: Apache-2.0 */
#include "lives.h"

#include <criterion/criterion.h>

swakv_session *life_attach(const struct swakv_attach_options *o)
{
	return live_attach(o, LIFE_WINDOW, LIFE_PAGE_TOKENS, 2, 4, 40 * LIFE_PAGE_TOKENS);
}

swakv_request *life_begin(swakv_session *s, int32_t slot, int64_t max_tokens)
{
	const struct swakv_begin_options o = {
		.size = sizeof(o), .slots = &slot, .n_slots = 1, .max_tokens = max_tokens
	};
	swakv_request *r;

	LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
	return r;
}

int32_t life_host_page(swakv_session *s, int slot, int column)
{
	struct swakv_layout l = { .size = sizeof(l) };

	LIVE_OK(s, swakv_session_get_layout(s, 0, &l));
	return l.host_table[slot * live_halves(&l) * l.width + column];
}

bool life_spoilt[LIFE_MAX_PAGES];

void life_spoil(swakv_session *s, int slot)
{
	struct swakv_layout l = { .size = sizeof(l) };

	LIVE_OK(s, swakv_session_get_layout(s, 0, &l));
	for (int column = 0; column < l.width; column++) {
		int32_t page = life_host_page(s, slot, column);

		if (page < 0)
			continue;
		cr_assert_lt(page, LIFE_MAX_PAGES);
		live_fill_page(s, page, LIFE_NAN);
		life_spoilt[page] = true;
	}
}

int64_t life_fresh;

/* What is scrubbed late would be scrubbed behind the NaN, and nobody would meet it. */
static void expect_spoilt(swakv_session *s)
{
	for (int32_t page = 0; page < LIFE_MAX_PAGES; page++)
		if (life_spoilt[page])
			cr_assert(live_page_is(s, page, LIFE_NAN), "page %d of the first life holds no NaN", page);
}

swakv_session *life_first(bool closes)
{
	swakv_session *s = life_attach(NULL);
	int32_t length = LIFE_WINDOW;
	swakv_request *r;

	LIVE_OK(s, swakv_session_free_pages(s, &life_fresh));
	r = life_begin(s, 0, LIFE_WINDOW + LIFE_PAGE_TOKENS);
	live_prefill(s, r, &length, 1);
	for (int i = 0; i < LIFE_PAGE_TOKENS; i++) {
		live_decode(s, r);
		life_spoil(s, 0);
	}
	expect_spoilt(s);
	LIVE_OK(s, swakv_request_finish(r, NULL));
	swakv_request_free(r);
	if (!closes)
		return s;
	swakv_session_close(s);
	return NULL;
}

int life_look(swakv_session *s, int column, uint16_t pattern)
{
	int32_t page = life_host_page(s, 1, column);

	cr_assert_geq(page, 0);
	if (life_spoilt[page])
		cr_assert(live_page_is(s, page, pattern), "column %d, page %d", column, page);
	return life_spoilt[page];
}

void life_second(swakv_session *s, uint16_t pattern)
{
	int32_t length = LIFE_WINDOW;
	int seen = 0, stepped = 0;
	swakv_request *r;

	live_expect_free(s, life_fresh);
	r = life_begin(s, 1, 0);
	LIVE_OK(s, swakv_prefill_prepare(r, &length, 1, NULL));
	for (int column = 0; column < LIFE_WINDOW / LIFE_PAGE_TOKENS; column++)
		seen += life_look(s, column, pattern);
	LIVE_OK(s, swakv_prefill_complete(r, SWAKV_DONE, NULL));
	for (int token = LIFE_WINDOW; token < LIFE_WINDOW + 5 * LIFE_PAGE_TOKENS; token++) {
		LIVE_OK(s, swakv_decode_prepare(r, NULL));
		if (token % LIFE_PAGE_TOKENS == 0)
			stepped += life_look(s, token / LIFE_PAGE_TOKENS, pattern);
		LIVE_OK(s, swakv_decode_complete(r, SWAKV_DONE, NULL));
	}
	cr_expect_gt(seen + stepped, 0, "the second life has met none of the first one's pages");
	swakv_request_free(r);
}
