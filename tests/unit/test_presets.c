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

static void expect(struct preset p, int64_t window, uint32_t layers, uint32_t kv_heads, uint32_t q_heads,
		   uint32_t head_dim)
{
	cr_assert_eq(p.window, window);
	cr_assert_eq(p.layers, layers);
	cr_assert_eq(p.kv_heads, kv_heads);
	cr_assert_eq(p.q_heads, q_heads);
	cr_assert_eq(p.head_dim, head_dim);
	cr_assert_eq(p.dtype, SWAKV_BF16);
	cr_assert_eq(p.page_tokens, 128);
}

Test(presets, geometries_are_those_of_the_models)
{
	expect(scaled("gemma3-1b", 1), 512, 22, 1, 4, 256);
	expect(scaled("gpt-oss-20b", 1), 128, 12, 8, 64, 64);
	expect(scaled("mistral-7b", 1), 4096, 32, 8, 32, 128);
}

Test(presets, scale_divides_layers_and_heads_never_the_window)
{
	expect(scaled("gemma3-1b", 4), 512, 5, 1, 4, 256);
	expect(scaled("gpt-oss-20b", 8), 128, 1, 1, 8, 64);
	expect(scaled("gpt-oss-20b", 2), 128, 6, 4, 32, 64);
	expect(scaled("mistral-7b", 32), 4096, 1, 1, 4, 128);
	expect(scaled("mistral-7b", 1000000), 4096, 1, 1, 4, 128);
}

Test(presets, unknown_name_is_refused)
{
	size_t n;

	cr_assert_null(preset_find("mistral"));
	cr_assert_null(preset_find(""));
	cr_assert_not_null(preset_list(&n));
	cr_assert_eq(n, 3);
}
