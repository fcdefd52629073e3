/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "presets.h"

static struct preset scaled(const char *name, uint32_t n)
{
	struct preset p;

	cr_assert_not_null(preset_find(name));
	p = *preset_find(name);
	preset_scale(&p, n);
	return p;
}

static void expect(const char *name, uint32_t scale, uint32_t group, struct preset_group want)
{
	struct preset p = scaled(name, scale);

	cr_assert_lt(group, p.n_groups);
	cr_assert_eq(p.groups[group].window, want.window);
	cr_assert_eq(p.groups[group].layers, want.layers);
	cr_assert_eq(p.groups[group].kv_heads, want.kv_heads);
	cr_assert_eq(p.groups[group].q_heads, want.q_heads);
	cr_assert_eq(p.groups[group].head_dim, want.head_dim);
	cr_assert_eq(p.dtype, SWAKV_BF16);
	cr_assert_eq(p.page_tokens, 128);
}

#define GROUP(...) ((struct preset_group){ __VA_ARGS__ })

Test(presets, geometries_are_those_of_the_models)
{
	expect("gemma3-1b", 1, 0, GROUP(512, 22, 1, 4, 256));
	expect("gemma3-27b", 1, 0, GROUP(1024, 52, 16, 32, 128));
	expect("gemma3-27b", 1, 1, GROUP(0, 10, 16, 32, 128));
	expect("gemma4-31b", 1, 0, GROUP(1024, 50, 16, 32, 256));
	expect("gemma4-31b", 1, 1, GROUP(0, 10, 4, 32, 512));
	expect("gpt-oss-20b", 1, 0, GROUP(128, 12, 8, 64, 64));
	expect("gpt-oss-20b", 1, 1, GROUP(0, 12, 8, 64, 64));
	expect("mistral-7b", 1, 0, GROUP(4096, 32, 8, 32, 128));
	expect("phi3-mini", 1, 0, GROUP(2047, 32, 32, 32, 96));
}

Test(presets, scale_divides_layers_and_heads_of_each_group_never_the_window)
{
	expect("gemma3-1b", 4, 0, GROUP(512, 5, 1, 4, 256));
	expect("gpt-oss-20b", 8, 0, GROUP(128, 1, 1, 8, 64));
	expect("gpt-oss-20b", 2, 1, GROUP(0, 6, 4, 32, 64));
	expect("gemma4-31b", 10, 0, GROUP(1024, 5, 1, 2, 256));
	expect("gemma4-31b", 10, 1, GROUP(0, 1, 1, 8, 512));
	expect("mistral-7b", 32, 0, GROUP(4096, 1, 1, 4, 128));
	expect("mistral-7b", 1000000, 0, GROUP(4096, 1, 1, 4, 128));
}

Test(presets, unknown_name_is_refused)
{
	size_t n;

	cr_assert_null(preset_find("mistral"));
	cr_assert_null(preset_find(""));
	cr_assert_not_null(preset_list(&n));
	cr_assert_eq(n, 6);
}

Test(presets, two_run_joined)
{
	size_t n, joined = 0;
	const struct preset *p = preset_list(&n);

	for (size_t i = 0; i < n; i++)
		joined += p[i].form == SWAKV_JOINED;
	cr_assert_eq(joined, 2);
	cr_assert_eq(preset_find("mistral-7b")->form, SWAKV_JOINED);
	cr_assert_eq(preset_find("gemma3-27b")->form, SWAKV_JOINED);
}
