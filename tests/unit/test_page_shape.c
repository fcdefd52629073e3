/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a page lie: numbers worked out by hand. */
#include <criterion/criterion.h>

#include "page_shape.h"

static struct page_shape shape;

static const struct wire_group heads = {
	.page_tokens = 16,
	.layers = 3,
	.kv_heads = 2,
	.k_head_dim = 192,
	.v_head_dim = 128,
	.dtype = WIRE_BF16,
};

/* K 192, V 128: the longer decides in both halves, and each has rows of its own. */
Test(page_shape, heads_are_rows_of_bytes)
{
	cr_assert(shape_find(&heads, &shape));
	cr_expect_eq(shape.k_row, 2 * 192 * 2);
	cr_expect_eq(shape.v_row, 2 * 128 * 2);
	cr_expect_eq(shape.k_stride, shape.k_row);
	cr_expect_eq(shape.v_stride, shape.v_row);
	cr_expect_eq(shape.layer_stride, 16 * 768);
	cr_expect_eq(shape.page_bytes, 3 * 16 * 768);
	cr_expect_eq(shape.k_at + shape.v_at, 0);
}

Test(page_shape, the_longer_of_k_and_v_decides_whichever_it_is)
{
	struct wire_group g = { .page_tokens = 16, .layers = 1, .k_bytes = 8, .v_bytes = 24 };

	cr_assert(shape_find(&g, &shape));
	cr_expect_eq(shape.layer_stride, 16 * 24);
	g.extra_bytes = 16 * 16; /* beside K: as long as V now */
	cr_assert(shape_find(&g, &shape));
	cr_expect_eq(shape.layer_stride, 16 * 24);
	g.extra_bytes++;
	cr_assert(shape_find(&g, &shape));
	cr_expect_eq(shape.layer_stride, 16 * 24 + 1);
}

Test(page_shape, every_part_begins_at_a_multiple_of_the_alignment)
{
	struct wire_group g = { .page_tokens = 16, .layers = 2, .k_bytes = 3, .extra_bytes = 5, .align = 32 };

	cr_assert(shape_find(&g, &shape));
	cr_expect_eq(shape.k_at, 0);
	cr_expect_eq(shape.extra_at, 64);
	cr_expect_eq(shape.layer_stride, 96);
	cr_expect_eq(shape.page_bytes, 192);
	g.order = WIRE_ORDER_EXTRA_K_V;
	cr_assert(shape_find(&g, &shape));
	cr_expect_eq(shape.extra_at, 0);
	cr_expect_eq(shape.k_at, 32);
	cr_expect_eq(shape.layer_stride, 96);
}

Test(page_shape, scales_may_lie_beside_heads)
{
	struct wire_group g = heads;

	g.dtype = WIRE_FP8;
	g.extra_bytes = 16 * 2 * 2 * 4; /* f32, a token and head, of K and of V */
	cr_assert(shape_find(&g, &shape));
	cr_expect_eq(shape.layer_stride, 16 * 2 * 192 + 256);
	cr_expect_eq(shape.extra_at, 16 * 2 * 192);
}

Test(page_shape, more_than_64_bits_is_no_shape)
{
	struct wire_group g = heads;

	g.kv_heads = g.k_head_dim = g.v_head_dim = UINT32_MAX;
	cr_expect_not(shape_find(&g, &shape));
	g = heads;
	g.layers = g.kv_heads = UINT32_MAX;
	cr_expect_not(shape_find(&g, &shape));
}
