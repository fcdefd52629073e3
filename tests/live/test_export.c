/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in other engines' formats (swakv_export.3), beside what the engine says of random lives. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "live.h"

enum { SLOTS = 5, P = 16, W = 40, MAX_SEQ = 1024, WIDTH = MAX_SEQ / P, RATIOS = 3, NEVER = -77 };

static struct live live;
static swakv_session *s;
static struct swakv_layout layout;
static uint64_t seed;

/* What the engine says of one sequence: the page of each column, and how many tokens there are. */
static struct truth {
	swakv_request *request;
	int32_t pages[WIDTH];
	int64_t length;
} truths[SLOTS];

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(seed >> 33) % below;
}

static void start(enum swakv_form form)
{
	live_form = form;
	live_start(&live, "1M");
	s = live_attach(NULL, W, P, 3, SLOTS, MAX_SEQ);
	layout.size = sizeof(layout);
	LIVE_OK(s, swakv_session_get_layout(s, 0, &layout));
	cr_assert_eq(layout.width, WIDTH);
}

static void stop(void)
{
	for (int i = 0; i < SLOTS; i++)
		swakv_request_free(truths[i].request);
	swakv_session_close(s);
	live_stop(&live);
}

TestSuite(export, .fini = stop, .timeout = 200);

/* ---- lives ------------------------------------------------------------------------- */

static void learn(struct truth *t)
{
	struct swakv_sequence_state state = { .size = sizeof(state) };

	memset(t->pages, -1, sizeof(t->pages));
	t->length = 0;
	if (!t->request)
		return;
	LIVE_OK(s, swakv_sequence_get_state(t->request, 0, &state));
	t->length = state.pending_endpoint >= 0 ? state.pending_endpoint : state.endpoint;
	for (uint32_t i = 0; i < state.n_bindings; i++)
		t->pages[state.bindings[i].logical_page] = state.bindings[i].page;
	for (uint32_t i = 0; i < state.n_retiring; i++)
		t->pages[state.retiring[i].logical_page] = state.retiring[i].page;
	swakv_sequence_state_clear(&state);
}

static void begin(int slot)
{
	const int32_t slots[] = { slot }, length = 1 + (int32_t)draw(300);
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = slots, .n_slots = 1 };

	LIVE_OK(s, swakv_request_begin(s, &o, &truths[slot].request, NULL));
	LIVE_OK(s, swakv_prefill_prepare(truths[slot].request, &length, 1, NULL));
	LIVE_OK(s, swakv_prefill_complete(truths[slot].request, SWAKV_DONE, NULL));
}

static void check_all(void);

/* One step of a random life; everything is compared in the middle of it, too. */
static void step(int slot)
{
	struct truth *t = &truths[slot];
	int32_t n = draw(4) ? 1 : 1 + (int32_t)draw(120);

	if (!t->request) {
		begin(slot);
	} else if (t->length + n > MAX_SEQ || draw(60) == 0) {
		LIVE_OK(s, swakv_request_finish(t->request, NULL));
		swakv_request_free(t->request);
		t->request = NULL;
	} else {
		LIVE_OK(s, swakv_extend_prepare(t->request, &n, 1, NULL));
		learn(t);
		check_all();
		LIVE_OK(s, swakv_extend_complete(t->request, SWAKV_DONE, NULL, 0, NULL));
	}
	learn(t);
}

/* ---- comparison -------------------------------------------------------------------- */

static struct swakv_export_rows rows;
static int32_t slots[SLOTS];
static int64_t lengths[SLOTS];

/* Sequences in any order, of all slots. */
static void rows_fill(void)
{
	for (int i = 0; i < SLOTS; i++)
		slots[i] = i;
	for (int i = SLOTS - 1; i > 0; i--) {
		int j = (int)draw((uint32_t)i + 1), was = slots[i];

		slots[i] = slots[j];
		slots[j] = was;
	}
	for (int i = 0; i < SLOTS; i++)
		lengths[i] = truths[slots[i]].length;
	rows = (struct swakv_export_rows){
		.size = sizeof(rows),
		.n = SLOTS,
		.ids = layout.host_table,
		.stride = (uint32_t)(live_halves(&layout) * layout.width),
		.width = (uint32_t)layout.width,
		.rows = slots,
		.lengths = lengths,
		.page_tokens = P,
		.n_rows = SLOTS,
	};
}

/* First column of the run that ends with the last token's page. */
static int first_of(const struct truth *t)
{
	int j = (int)((t->length + P - 1) / P);

	while (j > 0 && t->pages[j - 1] >= 0)
		j--;
	return j;
}

static int64_t entry_of(const struct swakv_export_style *style, int32_t page, int kernel, uint32_t half)
{
	return page < 0 ? style->hole : page * style->scale + kernel + (half ? style->v_offset : 0);
}

static void check_dense(const struct swakv_export_style *style)
{
	enum { EXTRA = 5, MOST = WIDTH * 4 + EXTRA };
	static int32_t table[SLOTS * 2 * MOST];
	uint32_t columns = WIDTH * style->ratio + draw(EXTRA);
	int64_t offsets[SLOTS];
	char why[256] = "";

	cr_assert_eq(swakv_export_dense(&rows, style, table, columns, offsets, why, sizeof(why)), 0, "%s", why);
	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct truth *t = &truths[slots[i]];
		int first = style->rebased ? first_of(t) : 0;

		cr_assert_eq(offsets[i], first * P);
		for (uint32_t half = 0; half < style->halves; half++)
			for (uint32_t c = 0; c < columns; c++) {
				uint32_t j = (uint32_t)first + c / style->ratio;
				int64_t expected =
					entry_of(style, j < WIDTH ? t->pages[j] : -1, (int)(c % style->ratio), half);

				cr_assert_eq(table[(i * style->halves + half) * columns + c], expected,
					     "slot %d, half %u, column %u", slots[i], half, c);
			}
	}
}

/* The tokens that the window reads lie where the lists and the slots say. */
static void check_lists(const struct swakv_export_style *style)
{
	static int32_t indices[SLOTS * WIDTH * 4];
	static int64_t at[SLOTS * W + 3];
	int32_t indptr[SLOTS + 1], last[SLOTS], count[SLOTS], tokens = P / (int32_t)style->ratio;
	int64_t offsets[SLOTS], *next = at;
	size_t n;
	char why[256] = "";

	for (int i = 0; i < SLOTS; i++)
		count[i] = (int32_t)(lengths[i] < W ? lengths[i] : W);
	cr_assert_eq(
		swakv_export_csr(&rows, style, indptr, indices, SLOTS * WIDTH * 4, &n, last, offsets, why, sizeof(why)),
		0, "%s", why);
	cr_assert_eq(swakv_export_slots(&rows, style, count, at, SLOTS * W + 3, why, sizeof(why)), 0, "%s", why);
	cr_assert_eq(indptr[0], 0);
	cr_assert_eq((size_t)indptr[SLOTS], n);
	for (int i = 0; i < SLOTS; i++) {
		const struct truth *t = &truths[slots[i]];
		int32_t pages = indptr[i + 1] - indptr[i];

		cr_assert_eq(offsets[i], first_of(t) * P);
		cr_assert_eq(t->length - offsets[i], pages ? (pages - 1) * tokens + last[i] : 0);
		cr_assert(pages ? last[i] >= 1 && last[i] <= tokens : last[i] == 0);
		for (int64_t token = t->length - count[i]; token < t->length; token++) {
			int64_t entry = entry_of(style, t->pages[token / P], (int)(token % P / tokens), 0);

			cr_assert_eq(indices[indptr[i] + (token - offsets[i]) / tokens], entry);
			cr_assert_eq(*next++, entry * tokens + token % tokens);
		}
	}
	while (next < at + SLOTS * W + 3)
		cr_assert_eq(*next++, -1, "behind the last token");
}

static void check_consumer(enum swakv_consumer consumer, uint32_t ratio)
{
	struct swakv_export_style style = { .size = sizeof(style) };
	char why[256] = "";

	cr_assert_eq(swakv_export_style_of(consumer, &layout, ratio, 4711, &style, why, sizeof(why)), 0, "%s", why);
	cr_assert_eq(style.hole, consumer == SWAKV_VLLM || consumer == SWAKV_FLASH_ATTENTION ? 4711 : -1);
	check_dense(&style);
	style.rebased = !style.rebased;
	check_dense(&style);
	style.halves = 1;
	check_lists(&style);
}

static void check_all(void)
{
	static const enum swakv_consumer of_split[] = { SWAKV_EDGE_LLM, SWAKV_FLASHINFER, SWAKV_FLASH_ATTENTION },
					 of_joined[] = { SWAKV_VLLM, SWAKV_TENSORRT_LLM, SWAKV_FLASHINFER,
							 SWAKV_FLASH_ATTENTION };
	bool joined = layout.form == SWAKV_JOINED;

	rows_fill();
	for (int i = 0; i < (joined ? 4 : 3); i++)
		check_consumer(joined ? of_joined[i] : of_split[i], 1U << draw(RATIOS));
}

static void live_and_compare(enum swakv_form form)
{
	start(form);
	seed = form == SWAKV_JOINED ? 12 : 7;
	for (int i = 0; i < SLOTS; i++)
		learn(&truths[i]);
	for (int i = 0; i < 400; i++) {
		step((int)draw(SLOTS));
		check_all();
	}
}

Test(export, is_what_the_engine_says_of_random_lives)
{
	live_and_compare(SWAKV_SPLIT);
}

Test(export, is_what_the_engine_says_of_random_lives_on_joined_pages)
{
	live_and_compare(SWAKV_JOINED);
}

/* ---- what is refused ------------------------------------------------------------------ */

static int32_t own[3][4] = { { 5, 6, -1, -1 }, { -1, -1, 7, -1 }, { 8, -1, 9, -1 } };
static struct swakv_export_style plain = { .size = sizeof(plain), .halves = 1, .ratio = 1, .scale = 1, .hole = -1 };

static struct swakv_export_rows own_rows(const int64_t *of, uint32_t n)
{
	return (struct swakv_export_rows){ .size = sizeof(struct swakv_export_rows),
					   .n = n,
					   .ids = own[0],
					   .stride = 4,
					   .width = 4,
					   .lengths = of,
					   .page_tokens = P,
					   .n_rows = 3 };
}

static void refuses(const struct swakv_export_rows *r, const struct swakv_export_style *style, uint32_t columns,
		    const char *sentence)
{
	int32_t table[24];
	char why[256] = "";

	for (int i = 0; i < 24; i++)
		table[i] = NEVER;
	cr_expect_eq(swakv_export_dense(r, style, table, columns, NULL, why, sizeof(why)), SWAKV_EINVALID, "%s",
		     sentence);
	cr_expect_not_null(strstr(why, sentence), "'%s' in: %s", sentence, why);
	for (int i = 0; i < 24; i++)
		cr_expect_eq(table[i], NEVER, "nothing is written");
}

Test(export, what_is_wrong_is_refused_and_nothing_is_written)
{
	const int64_t good[] = { 20, 40, 33 }, unbound[] = { 20, 50, 0 }, longer[] = { 20, 65, 0 },
		      below[] = { -1, 0, 0 };
	const int32_t outside[] = { 0, 3, 1 };
	struct swakv_export_rows r = own_rows(good, 3);
	struct swakv_export_style style = plain;

	start(SWAKV_SPLIT);
	refuses(&r, &style, 2, "page 2 lies beyond 2 columns");
	r.lengths = unbound;
	refuses(&r, &style, 4, "sequence 1: token 49 has no page");
	r.lengths = longer;
	refuses(&r, &style, 4, "65 tokens");
	r.lengths = below;
	refuses(&r, &style, 4, "-1 tokens");
	r.lengths = good;
	r.rows = outside;
	refuses(&r, &style, 4, "row 3 is outside 0 to 2");
	r.rows = NULL;
	refuses(&r, &style, 0, "0 columns");
	style.halves = 3;
	refuses(&r, &style, 4, "3 halves");
	style = plain;
	style.ratio = 3;
	refuses(&r, &style, 4, "3 kernel pages");
	style = plain;
	style.scale = INT32_MAX / 2;
	refuses(&r, &style, 4, "no int32");
	style = plain;
	style.hole = 1LL << 40;
	refuses(&r, &style, 4, "hole");
	r.stride = 3;
	refuses(&r, &plain, 4, "stride 3");
	r.size = 0;
	refuses(&r, &plain, 4, "size");
}

Test(export, lists_without_room_say_how_much_they_need)
{
	const int64_t good[] = { 20, 40, 33 };
	struct swakv_export_rows r = own_rows(good, 3);
	int32_t indptr[4] = { NEVER }, indices[8], last[3];
	size_t n = 0;
	char why[256] = "";

	start(SWAKV_SPLIT);
	cr_expect_eq(swakv_export_csr(&r, &plain, indptr, indices, 3, &n, last, NULL, why, sizeof(why)),
		     SWAKV_EINVALID);
	cr_expect_eq(n, 4, "2 of the first, 1 of the second, 1 of the third behind its gap");
	cr_expect_eq(indptr[0], NEVER);
	cr_expect_eq(swakv_export_csr(&r, &plain, indptr, indices, n, &n, last, NULL, why, sizeof(why)), 0, "%s", why);
	cr_expect_arr_eq(indices, ((int32_t[]){ 5, 6, 7, 9 }), 4 * sizeof(int32_t));
	cr_expect_arr_eq(last, ((int32_t[]){ 4, 8, 1 }), 3 * sizeof(int32_t));
}

Test(export, slots_of_tokens_without_pages_are_refused)
{
	const int64_t good[] = { 20, 40, 33 };
	const int32_t back[] = { 1, 9, 0 }, most[] = { 20, 8, 1 }, more[] = { 21, 0, 0 };
	struct swakv_export_rows r = own_rows(good, 3);
	int64_t at[30];
	char why[256] = "";

	start(SWAKV_SPLIT);
	cr_expect_eq(swakv_export_slots(&r, &plain, back, at, 30, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "token 31 has no page"), "%s", why);
	cr_expect_eq(swakv_export_slots(&r, &plain, more, at, 30, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_eq(swakv_export_slots(&r, &plain, most, at, 28, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_eq(swakv_export_slots(&r, &plain, most, at, 30, why, sizeof(why)), 0, "%s", why);
	cr_expect_eq(at[28], 9 * P);
	cr_expect_eq(at[29], -1);
}

Test(export, a_consumer_that_cannot_read_the_pages_is_told)
{
	struct swakv_export_style style = { .size = sizeof(style) };
	char why[256];

	start(SWAKV_SPLIT);
	cr_expect_eq(swakv_export_style_of(SWAKV_VLLM, &layout, 1, 0, &style, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_eq(swakv_export_style_of(SWAKV_TENSORRT_LLM, &layout, 1, 0, &style, why, sizeof(why)),
		     SWAKV_EINVALID);
	cr_expect_eq(swakv_export_style_of((enum swakv_consumer)9, &layout, 1, 0, &style, why, sizeof(why)),
		     SWAKV_EINVALID);
	cr_expect_eq(swakv_export_style_of(SWAKV_EDGE_LLM, &layout, 32, 0, &style, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_eq(swakv_export_style_of(SWAKV_FLASH_ATTENTION, &layout, 1, -1, &style, why, sizeof(why)),
		     SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "follow every entry"), "%s", why);
	cr_expect_eq(style.ratio, 0, "nothing was written");
}
