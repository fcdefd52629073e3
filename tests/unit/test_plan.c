/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "device/plan.h"
#include "engine_fixture.h"
#include "extent.h"

static struct config c;
static struct backend_pool pool;
static char why[BACKEND_WHY];

static void setup(void)
{
	config_init(&c);
	memset(&pool, 0, sizeof(pool));
	strcpy(pool.name, "p");
	strcpy(pool.device, "test memory");
}

TestSuite(plan, .init = setup);

static void add_model(int64_t window, uint32_t page_tokens, int32_t max_batch, int64_t max_seq)
{
	struct config_model *m = &c.models[c.n_models++];

	*m = (struct config_model){
		.name = "m", .model = { .n_groups = 1, .n_streams = 1, .max_batch = max_batch, .max_seq = max_seq }
	};
	m->model.groups[0] = (struct wire_group){ .kind = WIRE_GROUP_SLIDING,
						  .page_tokens = page_tokens,
						  .window = window,
						  .layers = 2,
						  .kv_heads = 1,
						  .k_head_dim = 64,
						  .v_head_dim = 64,
						  .dtype = WIRE_F16 };
}

static char *print(int *code)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	*code = plan_print(&pool, &c, f);
	fclose(f);
	return text;
}

Test(plan, the_parts_add_up_to_no_more_than_the_pool)
{
	static const uint64_t sizes[] = { 1 << 20, 3 << 20, (8 << 20) + 4096, 1 << 30, 100ull << 30 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		c.pool.size = (struct config_size){ .value = sizes[i] };
		cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
		cr_assert_eq(pool.bytes, sizes[i]);
		cr_assert_leq(pool.table_area_bytes + 2 * pool.half_bytes, pool.bytes);
		cr_assert_gt(pool.table_area_bytes + 2 * pool.half_bytes + 32, pool.bytes);
		cr_assert_gt(pool.extent_bytes, 0);
		cr_assert_leq(pool.extent_bytes, pool.half_bytes);
	}
}

Test(plan, a_percentage_is_of_what_is_free)
{
	c.pool.size = (struct config_size){ .value = 50, .percent = true };
	cr_assert_eq(plan_pool(&pool, &c, 1ull << 30, why), 0, "%s", why);
	cr_assert_leq(pool.bytes, 512 << 20);
	cr_assert_gt(pool.bytes, 508 << 20);
	cr_assert_eq(pool.bytes % (2 << 20), 0);
}

/* A pool of exactly so many pages: two halves of 10 pages of 4,096 bytes. */
Test(plan, an_exact_number_of_pages_can_be_asked_for)
{
	c.pool.size.value = 65536 + 2 * 10 * 4096;
	c.pool.table_area.value = 65536;
	c.pool.extent.value = 4096;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	cr_assert_eq(pool.half_bytes, 10 * 4096);
	cr_assert_eq(pool.extent_bytes, 4096);
}

/* What looks for free extents looks at all of them. */
Test(plan, a_half_is_cut_into_8192_extents_at_most)
{
	c.pool.size.value = (1ull << 30) + 65536;
	c.pool.table_area.value = 65536;
	c.pool.extent.value = 65536;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	c.pool.size.value += 32; /* a short one more */
	cr_assert_eq(plan_pool(&pool, &c, 0, why), EXIT_CODE_CONFIG);
	c.pool.size.value -= 32;
	c.pool.extent.value = 65536 - 4096;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), EXIT_CODE_CONFIG);
	cr_assert(strstr(why, "8192") && strstr(why, "64.0 KiB or larger"), "%s", why);
	c.pool.size.value = 4ull << 40; /* what nobody says follows */
	c.pool.extent.value = 0;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	cr_assert_leq((pool.half_bytes - 1) / pool.extent_bytes, 8191);
}

Test(plan, an_empty_half_has_no_extent)
{
	cr_expect_eq(extent_default(0, 4096), 0);
	cr_expect_eq(extent_default(1, 4096), 1);
}

Test(plan, a_half_of_a_few_bytes_is_one_extent)
{
	c.pool.table_area = (struct config_size){ .value = 64 << 10 };
	for (uint64_t half = 16; half <= 256; half += 16) {
		c.pool.size = (struct config_size){ .value = (64 << 10) + 2 * half };
		cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
		cr_assert_eq(pool.half_bytes, half);
		cr_assert_eq(pool.extent_bytes, half);
	}
}

Test(plan, an_extent_holds_the_largest_configured_page)
{
	add_model(1024, 256, 4, 4096);
	c.models[0].model.groups[0].layers = 64;
	c.pool.size.value = 64 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	cr_assert_geq(pool.extent_bytes, 64 * 256 * 64 * 2);
}

/* It is the number of pages that costs, and a small pool has few of any size. */
Test(plan, the_smallest_page_follows_from_the_pool_unless_it_is_set)
{
	static const struct {
		uint64_t pool, page;
	} cases[] = {
		{ 1ull << 20, 16 },         { 4ull << 20, 16 },   { (8ull << 20) - 1, 16 },
		{ 8ull << 20, 32 },         { 64ull << 20, 256 }, { (128ull << 20) - 1, 256 },
		{ (1ull << 30) - 1, 2048 }, { 1ull << 30, 4096 }, { 64ull << 30, 4096 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		c.pool.size.value = cases[i].pool;
		c.min_page_bytes = 0;
		cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
		cr_expect_eq(pool.min_page_bytes, cases[i].page, "case %zu: %" PRIu64, i, pool.min_page_bytes);
		c.min_page_bytes = 48;
		cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
		cr_expect_eq(pool.min_page_bytes, 48);
	}
}

/* V id = K id + num_pages counts from the same base as K when the pages fill the half. */
Test(plan, the_halves_of_a_planar_pool_are_whole_pages)
{
	static const uint64_t pages[] = { 16, 4096, 1536 << 10, 26 << 20, 48 };

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		uint64_t plain;

		c.pool.size.value = (1ull << 30) + 12345;
		c.pool.planar.value = 0;
		cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
		plain = pool.half_bytes;
		c.pool.planar.value = pages[i];
		cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
		cr_assert_eq(pool.half_bytes % pages[i], 0);
		cr_assert_leq(pool.half_bytes, plain);
		cr_assert_gt(pool.half_bytes + pages[i], plain);
	}
}

Test(plan, a_planar_page_must_fit_and_be_one)
{
	c.pool.size.value = 8 << 20;
	c.pool.planar.value = 4 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), EXIT_CODE_CONFIG);
	cr_assert(strstr(why, "planar"), "%s", why);
	c.pool.planar.value = 1000;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), EXIT_CODE_CONFIG);
	cr_assert(strstr(why, "1000"), "%s", why);
}

Test(plan, impossible_cuts_are_refused)
{
	c.pool.size.value = 65536;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), EXIT_CODE_CONFIG);
	cr_assert(strstr(why, "table area"), "%s", why);
	c.pool.size.value = 8 << 20;
	c.pool.extent.value = 8 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), EXIT_CODE_CONFIG);
	cr_assert(strstr(why, "extent"), "%s", why);
}

/* W=1024, P=128: M=9, 19 private pages; a page is 2 layers x 128 x 64 x 2 = 32,768 bytes, twice. */
Test(plan, a_model_that_fits_is_told_with_its_bytes)
{
	char *text;
	int code;

	add_model(1024, 128, 4, 8192);
	c.pool.size.value = 64 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	text = print(&code);
	cr_assert_eq(code, 0, "%s", text);
	cr_assert(strstr(text, "needs 19 of "), "%s", text);
	cr_assert(strstr(text, "1245184 bytes"), "%s", text);
	cr_assert(strstr(text, ": fits"), "%s", text);
	free(text);
}

Test(plan, a_model_that_does_not_fit_is_told_and_fails)
{
	char *text;
	int code;

	add_model(1024, 128, 4, 8192);
	c.pool.size.value = 1 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	text = print(&code);
	cr_assert_eq(code, EXIT_CODE_POOL, "%s", text);
	cr_assert(strstr(text, "does not fit"), "%s", text);
	free(text);
}

/* True when an empty pool like this admits a sequence of max_seq tokens. */
static bool engine_admits(const struct model *m)
{
	const struct engine_config empty = { .half_bytes = pool.half_bytes, .extent_bytes = pool.extent_bytes };
	struct engine *e = engine_new(&empty);
	const int32_t slot = 0;
	struct worker w;
	uint64_t handle;
	int code;

	worker_open(&w, e, *m, pool.half_bytes, 1);
	code = begin_on(&w, 0, &handle, 1, &slot);
	cr_assert(code == 0 || code == SWAKV_ENEVER);
	worker_close(&w);
	engine_free(e);
	return code == 0;
}

/* The last extent of a half may be short; pages of one size and of several; at, above and below the limit. */
Test(plan, a_sequence_fits_when_the_engine_admits_it)
{
	int n_fit = 0, n_not = 0;

	c.pool.table_area.value = 1 << 20;
	for (uint64_t i = 0; i < 600; i++) {
		struct config_model *m = &c.models[0];
		uint64_t extents = 4 + i % 7, extent = 4096 * (1 + i % 3);
		char *text;
		int code;

		setup();
		c.pool.table_area.value = 1 << 20;
		add_model(1, 16, 1, 16);
		m->model.n_groups = 1 + (uint32_t)(i % 3);
		m->model.max_seq = 16 * (int64_t)(1 + i % 67);
		for (uint32_t g = 0; g < m->model.n_groups; g++)
			m->model.groups[g] = make_group(0, 16, (uint32_t)(16 * (1 + (i + 5 * g) % 9)));
		c.pool.extent.value = extent;
		c.pool.size.value = (1 << 20) + 2 * (extent * extents + i * 976 % extent);
		cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
		text = print(&code);
		cr_assert_eq(strstr(text, ": fits") != NULL, engine_admits(&m->model), "%s", text);
		*(strstr(text, ": fits") ? &n_fit : &n_not) += 1;
		free(text);
	}
	cr_assert_gt(n_fit, 50);
	cr_assert_gt(n_not, 50);
}

Test(plan, a_device_table_that_does_not_fit_is_told_and_fails)
{
	char *text;
	int code;

	add_model(1024, 16, 4096, 1 << 20);
	c.pool.size.value = 64 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	text = print(&code);
	cr_assert_eq(code, EXIT_CODE_POOL, "%s", text);
	cr_assert(strstr(text, "table_area"), "%s", text);
	free(text);
}

/* One session may not have the whole table area, so it is not enough that a table fits there. */
Test(plan, a_device_table_of_more_than_half_of_the_area_does_not_fit)
{
	char *text;
	int code;

	add_model(1024, 128, 12, 1 << 20); /* 768 KiB of 1 MiB */
	c.pool.size.value = 64 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	text = print(&code);
	cr_assert_eq(code, EXIT_CODE_POOL, "%s", text);
	cr_assert(strstr(text, "786432 bytes of 524288"), "%s", text);
	free(text);
}

Test(plan, limits_are_told_and_floors_must_fit_together)
{
	char *text;
	int code;

	add_model(1024, 128, 4, 8192);
	add_model(1024, 128, 4, 8192);
	c.models[0].floor.value = c.models[1].floor.value = 30 << 20;
	c.models[1].ceiling.value = 40 << 20;
	c.models[1].limits_only = true;
	c.pool.size.value = 64 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	text = print(&code);
	cr_assert_eq(code, 0, "%s", text);
	cr_assert(strstr(text, "floor 30.0 MiB, ceiling none"), "%s", text);
	cr_assert(strstr(text, "floor 30.0 MiB, ceiling 40.0 MiB"), "%s", text);
	free(text);
	c.models[1].floor.value = 35 << 20;
	text = print(&code);
	cr_assert_eq(code, EXIT_CODE_POOL, "%s", text);
	cr_assert(strstr(text, "68157440 bytes together"), "%s", text);
	free(text);
}

/* Of both halves, as soon as they are known; one in bytes is compared with one in percent only then. */
Test(plan, limits_in_percent_are_of_the_pool)
{
	char *text;
	int code;

	add_model(1024, 128, 4, 8192);
	c.models[0].floor = (struct config_size){ 25, true };
	c.models[0].ceiling = (struct config_size){ 50, true };
	c.pool.size.value = 64 << 20;
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	cr_assert_eq(config_limit_bytes(&c.models[0].floor, pool.half_bytes), pool.half_bytes / 2);
	cr_assert_eq(config_limit_bytes(&c.models[0].ceiling, pool.half_bytes), pool.half_bytes);
	text = print(&code);
	cr_assert_eq(code, 0, "%s", text);
	free(text);
	c.models[0].ceiling = (struct config_size){ 1 << 20, false };
	cr_assert_eq(plan_floors(&pool, &c, why), EXIT_CODE_CONFIG);
	cr_assert(strstr(why, "above the ceiling of 1048576"), "%s", why);
}

/* A floor of each of three page sizes fits in bytes, and not in whole extents: accepted, and then not there. */
Test(plan, floors_must_fit_in_whole_extents)
{
	for (uint32_t i = 0; i < 3; i++) {
		add_model(16, 16, 4, 16);
		c.models[i].model.groups[0].page_tokens = 16u << i;
		c.models[i].model.groups[0].window = 16 << i;
		c.models[i].model.max_seq = 16 << i; /* one page: 4,096 bytes of a half, 8,192, 16,384 */
		c.models[i].floor.value = (i < 2 ? 2 : 3 * 2) * (4096u << i);
	}
	c.pool.table_area.value = 4096;
	c.pool.extent.value = 16384;
	c.pool.size.value = 4096 + 2 * 4 * 16384;
	cr_assert_eq(plan_check(&c, &pool, why), EXIT_CODE_CONFIG);
	cr_assert_str_eq(why,
			 "the floors of all models need 5 extents together, whole ones for each page size, and the "
			 "pool has 4: lower one of them, or make extents smaller");
	cr_assert_eq(plan_pool(&pool, &c, 0, why), 0, "%s", why);
	cr_assert_eq(plan_floors(&pool, &c, why), EXIT_CODE_CONFIG);
	c.models[2].floor.value = 2 * 2 * 16384;
	cr_assert_eq(plan_check(&c, &pool, why), 0, "%s", why);
	c.models[1].model.groups[0] = c.models[0].model.groups[0]; /* of one size two floors share an extent */
	c.models[1].model.max_seq = 16;
	c.models[2].floor.value = 3 * 2 * 16384;
	cr_assert_eq(plan_check(&c, &pool, why), 0, "%s", why);
	c.pool.extent.value = 1 << 20;
	cr_assert_eq(plan_check(&c, &pool, why), EXIT_CODE_CONFIG, "what cuts no pool is no configuration");
}
