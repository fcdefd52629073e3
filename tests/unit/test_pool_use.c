/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_use.c - how much of a pool the known models get for their pages
 *
 * The engine's own account of a pool of 64 GiB, which has no memory. Models of
 * tests/geometry, alone or several in turn, begin sequences until none finds
 * room: the pages that they have, against the pool.
 */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "provision.h"
#include "sizes.h"

#define GIB         (1ull << 30)
#define POOL        (64 * GIB)
#define MAX_SEQ     4096
#define PAGE_TOKENS 128

/* Pages of one sequence in every class, or of none. */
static bool begin_sequence(struct pool *p, const struct sizes *z)
{
	struct pool_need needs[WIRE_MAX_GROUPS];
	int64_t available;

	for (uint32_t i = 0; i < z->n_groups; i++) {
		struct page_class *spare = NULL;
		int index;

		needs[i].class = pool_class(p, z->groups[i].page, &spare, &index);
		needs[i].pages = z->rules[0].pages[i];
		cr_assert_not_null(needs[i].class);
	}
	if (pool_provide(p, needs, z->n_groups, &available) >= 0)
		return false;
	for (uint32_t i = 0; i < z->n_groups; i++)
		for (int64_t n = 0; n < needs[i].pages; n++)
			page_class_take(needs[i].class);
	return true;
}

static const struct sizes_options options = {
	.page_tokens = PAGE_TOKENS, .max_seq = MAX_SEQ, .pool = POOL, .n_rules = 1
};

/* Begins sequences of @n models in turn until none can begin one more: @begun[i] of each. Returns the share in use. */
static double fill(const struct sizes *z, size_t n, int64_t *begun)
{
	size_t refused = 0;
	uint64_t used = 0;
	struct pool p;

	memset(begun, 0, n * sizeof(*begun));
	cr_assert_eq(pool_init(&p, POOL / 2, z->options.extent), 0);
	for (size_t i = 0; refused < n; i = (i + 1) % n) {
		if (!begin_sequence(&p, &z[i])) {
			refused++;
			continue;
		}
		refused = 0;
		begun[i]++;
		used += z[i].rules[0].bytes;
	}
	pool_deinit(&p);
	return (double)used / (double)POOL;
}

/* False: the model cannot be mapped. */
static bool read_sizes(struct sizes *z, const char *path)
{
	struct hf_config config;
	char why[HF_WHY];
	int r = hf_config_read(&config, path, 0, why, sizeof(why));

	if (r == HF_UNMAPPABLE)
		return false;
	cr_assert_eq(r, 0, "%s", why);
	cr_assert_eq(sizes_make(z, &config, &options, why, sizeof(why)), 0, "%s", why);
	return true;
}

Test(pool_use, each_model_alone_gets_95_percent_of_64_gib)
{
	glob_t files;
	int read = 0;

	cr_assert_eq(glob(GEOMETRY_FILES "/*.json", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		struct sizes z;
		int64_t begun;
		double use;

		if (!read_sizes(&z, files.gl_pathv[i]))
			continue;
		use = fill(&z, 1, &begun);
		cr_expect_geq(use, 0.95, "%s: %.3f", files.gl_pathv[i], use);
		/* swakv-geometry counts bytes and extents, not where they lie: that may cost one. */
		cr_expect(begun == z.rules[0].fit || begun + 1 == z.rules[0].fit, "%s: %d sequences, not %d",
			  files.gl_pathv[i], (int)begun, (int)z.rules[0].fit);
		read++;
	}
	globfree(&files);
	cr_assert_geq(read, 30);
}

Test(pool_use, models_side_by_side_get_95_percent_of_64_gib)
{
	static const char *const names[] = { "gpt-oss-20b", "gemma-3-27b",   "mistral-7b-v0.1", "gemma-4-31b",
					     "olmo-3-7b",   "mimo-v2-flash", "phi-3-mini-4k" };
	enum { N = sizeof(names) / sizeof(names[0]) };
	struct sizes z[N];
	int64_t begun[N];

	for (size_t n = 1; n <= N; n++) {
		char path[sizeof(GEOMETRY_FILES) + 64];
		double use;

		snprintf(path, sizeof(path), GEOMETRY_FILES "/%s.json", names[n - 1]);
		cr_assert(read_sizes(&z[n - 1], path));
		use = fill(z, n, begun);
		cr_expect_geq(use, 0.95, "%zu models: %.3f", n, use);
	}
}
