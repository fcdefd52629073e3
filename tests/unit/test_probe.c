/* SPDX-License-Identifier: Apache-2.0 */
/* The demo checker's own way to a vector: every number here is worked out by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "probe.h"

/* 2 layers of 16 tokens, 3 heads of 8 elements: 48 bytes a token, 768 a layer, padded to 1024, and pages to 4096. */
static const struct swakv_layout layout = {
	.size = sizeof(layout),
	.kind = SWAKV_SLIDING,
	.window = 40,
	.page_tokens = 16,
	.layers = 2,
	.kv_heads = 3,
	.head_dim = 8,
	.v_head_dim = 8,
	.element_bytes = 2,
	.k_base = 0x100000,
	.v_base = 0x300000,
	.page_stride = 4096,
	.layer_stride = 1024,
	.num_pages = 10,
	.width = 20,
};

Test(probe, an_address_is_page_then_layer_then_token_then_head)
{
	const struct probe first = { 0 }, p = { .position = 37, .layer = 1, .head = 2 };

	cr_expect_eq(probe_address(&layout, &first, 0, false), 0x100000);
	cr_expect_eq(probe_address(&layout, &first, 0, true), 0x300000 + 10 * 4096);
	cr_expect_eq(probe_column(&layout, &p), 2);
	cr_expect_eq(probe_address(&layout, &p, 3, false), 0x100000 + 3 * 4096 + 1024 + 5 * 48 + 2 * 16);
	cr_expect_eq(probe_address(&layout, &p, 3, true), 0x300000 + 13 * 4096 + 1024 + 5 * 48 + 2 * 16);
}

Test(probe, pages_beyond_4_gib_have_their_address)
{
	struct swakv_layout l = layout;

	l.page_stride = 1 << 20;
	l.num_pages = 9000;
	cr_expect_eq(probe_address(&l, &(struct probe){ 0 }, 8999, true), 0x300000 + 17999 * (1ull << 20));
}

/* In time it comes to each token of the window, each layer and each head, and to nothing else. */
Test(probe, all_of_the_window_has_its_turn)
{
	bool tokens[40] = { 0 }, places[2][3] = { 0 };
	uint32_t n = 0, at = 0;

	for (uint64_t nth = 0; nth < 5000; nth++) {
		struct probe p = probe_choose(&layout, 7, 100, nth);

		cr_assert(p.position >= 60 && p.position < 100 && p.layer < 2 && p.head < 3 && p.sequence == 7);
		n += !tokens[p.position - 60];
		at += !places[p.layer][p.head];
		tokens[p.position - 60] = places[p.layer][p.head] = true;
	}
	cr_expect_eq(n, 40);
	cr_expect_eq(at, 6);
	for (uint64_t nth = 0; nth < 100; nth++)
		cr_expect_lt(probe_choose(&layout, 7, 5, nth).position, 5, "a short sequence");
}

Test(probe, one_wrong_element_is_seen)
{
	const struct kvgen gen = { 3, KVGEN_BF16 };
	const struct probe p = { .sequence = 4, .position = 50, .layer = 1, .head = 2 };
	const struct kvgen_at at = { KVGEN_V, 4, 50, 6, 2 };
	uint16_t bits[8];
	uint32_t wrong;

	kvgen_bits(&gen, at, 8, bits);
	cr_expect(probe_holds(&p, &layout, &gen, 5, true, bits, 1, &wrong));
	cr_expect_not(probe_holds(&p, &layout, &gen, 5, false, bits, 1, &wrong), "V is not K");
	cr_expect_not(probe_holds(&p, &layout, &gen, 4, true, bits, 1, &wrong), "another layer");
	bits[7] ^= 1;
	cr_expect_not(probe_holds(&p, &layout, &gen, 5, true, bits, 1, &wrong));
	cr_expect_eq(wrong, 14);
}

/* 384 bytes of K, then 16 x 3 scales of K and as many of V. */
Test(probe, a_scale_lies_behind_the_k_of_its_page)
{
	const struct probe p = { .position = 37, .layer = 1, .head = 2 };
	struct swakv_layout l = layout;

	l.dtype = SWAKV_FP8;
	l.element_bytes = 1;
	cr_expect_eq(probe_bytes(&l), 8);
	cr_expect_eq(probe_address(&l, &p, 3, false), 0x100000 + 3 * 4096 + 1024 + 5 * 24 + 2 * 8);
	cr_expect_eq(probe_scale_address(&l, &p, 3, false), 0x100000 + 3 * 4096 + 1024 + 384 + (5 * 3 + 2) * 4);
	cr_expect_eq(probe_scale_address(&l, &p, 3, true), 0x100000 + 3 * 4096 + 1024 + 384 + (48 + 5 * 3 + 2) * 4);
}

Test(probe, a_wrong_scale_is_seen)
{
	const struct kvgen gen = { 3, KVGEN_FP8 };
	const struct probe p = { .sequence = 4, .position = 50, .layer = 1, .head = 2 };
	const struct kvgen_at at = { KVGEN_K, 4, 50, 6, 2 };
	struct swakv_layout l = layout;
	float scale = kvgen_scale(&gen, at);
	unsigned char bits[8];
	uint32_t wrong;

	l.dtype = SWAKV_FP8;
	l.element_bytes = 1;
	kvgen_bits(&gen, at, 8, bits);
	cr_expect(probe_holds(&p, &l, &gen, 5, false, bits, scale, &wrong));
	cr_expect_not(probe_holds(&p, &l, &gen, 5, false, bits, nextafterf(scale, 1), &wrong));
	cr_expect_eq(wrong, 8);
	cr_expect_not(probe_holds(&p, &l, &gen, 5, false, bits, NAN, &wrong));
	bits[3] ^= 0x80;
	cr_expect_not(probe_holds(&p, &l, &gen, 5, false, bits, scale, &wrong));
	cr_expect_eq(wrong, 3);
}

/* 768 bytes of K a layer, then as many of V. */
Test(probe, the_v_of_a_joined_page_lies_behind_the_k_of_its_layer)
{
	const struct probe p = { .position = 37, .layer = 1, .head = 2 };
	struct swakv_layout l = layout;

	l.form = SWAKV_JOINED;
	l.layer_stride = 2048;
	cr_expect_eq(probe_address(&l, &p, 3, false), 0x100000 + 3 * 4096 + 2048 + 5 * 48 + 2 * 16);
	cr_expect_eq(probe_address(&l, &p, 3, true), 0x100000 + 3 * 4096 + 2048 + 768 + 5 * 48 + 2 * 16);
	l.dtype = SWAKV_FP8;
	l.element_bytes = 1;
	cr_expect_eq(probe_address(&l, &p, 3, true), 0x100000 + 3 * 4096 + 2048 + 384 + 5 * 24 + 2 * 8);
	cr_expect_eq(probe_scale_address(&l, &p, 3, false), 0x100000 + 3 * 4096 + 2048 + 768 + (5 * 3 + 2) * 4);
	cr_expect_eq(probe_scale_address(&l, &p, 3, true), 0x100000 + 3 * 4096 + 2048 + 768 + (48 + 5 * 3 + 2) * 4);
}
