/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU twins against plain expectations, and attention against a dense double-precision computation. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "rig.h"

#define NAN_PATTERN 0xffff /* a NaN as half, as bf16, and twice over as float */

/* ---- table apply ---- */

Test(apply, k_and_derived_v_are_set_and_cleared)
{
	int32_t table[3][2][4];
	struct kernel_apply p = { .table = (uint64_t)(uintptr_t)table, .width = 4, .num_pages = 10, .n_updates = 3 };

	memset(table, 0xff, sizeof(table));
	table[2][0][3] = 5;
	table[2][1][3] = 15;
	p.updates[0] = (struct kernel_update){ 1 * 4 + 0, 3 };
	p.updates[1] = (struct kernel_update){ 1 * 4 + 2, 7 };
	p.updates[2] = (struct kernel_update){ 2 * 4 + 3, -1 };
	kernel_apply_cpu(&p);
	for (int row = 0; row < 3; row++) {
		for (int column = 0; column < 4; column++) {
			int32_t k = row == 1 && column == 0 ? 3 : row == 1 && column == 2 ? 7 : -1;

			cr_assert_eq(table[row][0][column], k);
			cr_assert_eq(table[row][1][column], k < 0 ? -1 : k + 10);
		}
	}
}

Test(apply, joined_pages_have_one_row_of_ids)
{
	int32_t table[3][4];
	struct kernel_apply p = { .table = (uint64_t)(uintptr_t)table, .width = 4, .num_pages = 10, .n_updates = 3 };

	memset(table, 0xff, sizeof(table));
	table[2][3] = 5;
	p.joined = 1;
	p.updates[0] = (struct kernel_update){ 1 * 4 + 0, 3 };
	p.updates[1] = (struct kernel_update){ 1 * 4 + 2, 7 };
	p.updates[2] = (struct kernel_update){ 2 * 4 + 3, -1 };
	kernel_apply_cpu(&p);
	for (int row = 0; row < 3; row++)
		for (int column = 0; column < 4; column++)
			cr_assert_eq(table[row][column], row == 1 && column == 0   ? 3
							 : row == 1 && column == 2 ? 7
										   : -1);
}

Test(apply, five_hundred_updates_all_land_and_nothing_else)
{
	enum { WIDTH = 7, ROWS = 200 };
	static int32_t table[ROWS][2][WIDTH];
	struct kernel_apply p = { .table = (uint64_t)(uintptr_t)table, .width = WIDTH, .num_pages = 100000 };

	memset(table, 0xff, sizeof(table));
	for (uint32_t i = 0; i < KERNEL_APPLY_MAX; i++)
		p.updates[p.n_updates++] = (struct kernel_update){ i * 2, (int32_t)i };
	kernel_apply_cpu(&p);
	for (int32_t cell = 0; cell < ROWS * WIDTH; cell++) {
		int32_t k = cell % 2 == 0 && cell < 2 * KERNEL_APPLY_MAX ? cell / 2 : -1;

		cr_assert_eq(table[cell / WIDTH][0][cell % WIDTH], k);
		cr_assert_eq(table[cell / WIDTH][1][cell % WIDTH], k < 0 ? -1 : k + 100000);
	}
}

/* ---- rig helpers ---- */

/* Pages full of NaN, then the KV of every layer: what a window needs is written, all else is poison. */
static struct rig *filled(const struct rig_shape *shape)
{
	struct rig *r = rig_new(shape);
	struct kernel_fill fill = rig_fill(r, rig_host(r), NAN_PATTERN);

	kernel_fill_cpu(&fill);
	for (int32_t layer = 0; layer < shape->layers; layer++) {
		struct kernel_kv_write w = rig_kv_write(r, rig_host(r), layer);

		kernel_kv_write_cpu(&w);
	}
	return r;
}

static void check_form(const struct rig_shape *shape)
{
	struct rig *r = filled(shape);

	for (int32_t layer = 0; layer < shape->layers; layer++) {
		struct kernel_attention a = rig_attention(r, rig_host(r), layer);
		double error;

		kernel_attention_cpu(&a);
		error = rig_error(r, layer, rig_out(r), -1);
		cr_assert_leq(error, rig_tolerance(r), "layer %d: error %g over %g", layer, error, rig_tolerance(r));
	}
	rig_free(r);
}

/* Split and joined pages, tokens of heads and heads of tokens. */
static void check(const struct rig_shape *shape)
{
	for (int form = 0; form < RIG_FORMS; form++) {
		struct rig_shape s = rig_form(shape, form);

		check_form(&s);
	}
}

/* ---- KV write and fill ---- */

/* Token @in of page @page is token @token of the arrays. */
static void check_token(const struct rig *r, int32_t page, int32_t layer, int32_t in, int32_t token)
{
	const struct rig_shape *s = &r->shape;
	const unsigned char *at = r->pool + (uint64_t)page * r->page_stride + (uint64_t)layer * r->layer_stride;
	uint64_t kb = (uint64_t)s->k_dim * 2, vb = (uint64_t)s->v_dim * 2;

	for (uint64_t head = 0; head < (uint64_t)s->kv_heads; head++) {
		uint64_t from = (uint64_t)(layer * r->n_tokens + token) * (uint64_t)s->kv_heads + head;
		uint64_t nth = s->by_head ? head * (uint64_t)s->page_tokens + (uint64_t)in
					  : (uint64_t)in * (uint64_t)s->kv_heads + head;

		cr_assert_arr_eq(at + nth * kb, r->arrays + r->k + from * kb, kb);
		cr_assert_arr_eq(at + r->v_at + nth * vb, r->arrays + r->v + from * vb, vb);
	}
}

/* Every byte of every token that has a page lies where the layout says. */
static void check_placement(const struct rig_shape *shape)
{
	struct rig *r = filled(shape);
	const struct rig_shape *s = &r->shape;

	for (int32_t row = 0; row < s->n_rows; row++) {
		for (int32_t pos = 0; pos < s->endpoints[row]; pos++) {
			int32_t page = rig_page(r, row, pos / s->page_tokens), token = r->token_begin[row] + pos;

			for (int32_t layer = 0; layer < s->layers && page >= 0; layer++)
				check_token(r, page, layer, pos % s->page_tokens, token);
		}
	}
	rig_free(r);
}

Test(kv_write, every_byte_lies_where_the_layout_says)
{
	for (int form = 0; form < RIG_FORMS; form++) {
		struct rig_shape s = rig_form(&rig_base, form);

		s.between = 64;
		s.padding = 32;
		check_placement(&s);
	}
}

/* A stride of 128 KiB and page ids around 70,000: byte offsets of 9 GiB. */
static const struct rig_shape *wide(void)
{
	static struct rig_shape s;

	s = rig_base;
	s.num_pages = 70000;
	s.padding = 128 * 1024 - 2 * 32 * 2 * 40 * 2;
	return &s;
}

Test(kv_write, page_ids_beyond_32_bits_of_offset)
{
	struct rig *r = rig_new(wide());

	cr_assert_eq(r->page_stride, 128 * 1024);
	/* The rig hands out the last page of the pool first. */
	cr_assert_geq(rig_page(r, 0, 130 / 32), 65536);
	rig_free(r);
	check_placement(wide());
}

Test(kv_write, joined_page_ids_beyond_32_bits_of_offset)
{
	struct rig_shape s = *wide();
	struct rig *r;

	s.joined = 1;
	r = rig_new(&s);
	cr_assert_geq((uint64_t)rig_page(r, 0, 130 / 32) * r->page_stride, 1ull << 33);
	rig_free(r);
	check_placement(&s);
}

Test(kv_write, tokens_without_a_page_touch_nothing)
{
	struct rig *r = rig_new(&rig_base);
	struct kernel_kv_write w = rig_kv_write(r, rig_host(r), 0);
	int32_t *slots = (int32_t *)(r->arrays + r->token_slots);
	int64_t *positions = (int64_t *)(r->arrays + r->positions);

	/* All of row 0's tokens before its window, then a padding token, one beyond the row, one before it. */
	w.n_tokens = 128;
	slots[0] = -1;
	positions[1] = (int64_t)r->width * r->shape.page_tokens;
	positions[2] = -1;
	kernel_kv_write_cpu(&w);
	for (uint64_t i = 0; i < r->pool_bytes; i++)
		cr_assert_eq(r->pool[i], 0, "byte %llu was written", (unsigned long long)i);
	rig_free(r);
}

/* Pages of an odd number of bytes, too: every other one begins at an odd address. */
static void check_fill(int32_t joined, int32_t padding)
{
	struct rig_shape shape = rig_base;
	struct rig *r;
	struct kernel_fill fill;

	shape.joined = joined;
	shape.padding = padding;
	r = rig_new(&shape);
	fill = rig_fill(r, rig_host(r), 0xabcd);
	fill.n_pages = 3;
	kernel_fill_cpu(&fill);
	for (uint64_t i = 0; i < r->pool_bytes; i++) {
		uint64_t in_half = i % r->half_bytes;
		int wanted = 0;

		for (int32_t k = 0; k < fill.n_pages; k++)
			wanted |= in_half / r->page_stride == (uint64_t)((int32_t *)(r->arrays + r->pages))[k];
		cr_assert_eq(r->pool[i], wanted ? (i & 1 ? 0xab : 0xcd) : 0, "byte %llu", (unsigned long long)i);
	}
	rig_free(r);
}

Test(fill, k_and_v_of_the_pages_and_not_one_byte_more)
{
	check_fill(0, 64);
	check_fill(0, 63);
}

Test(fill, joined_pages_and_not_one_byte_more)
{
	check_fill(1, 64);
	check_fill(1, 63);
}

/* Pages 0 and 6 to 1 and 4. */
static void check_copy(const struct rig_shape *shape)
{
	static const int32_t from[] = { 0, 6 }, to[] = { 1, 4 };
	struct rig *r = rig_new(shape);
	const struct kernel_copy c = { .pages = rig_pages(r, rig_host(r)),
				       .from_list = (uint64_t)(uintptr_t)from,
				       .to_list = (uint64_t)(uintptr_t)to,
				       .n_pages = 2 };
	unsigned char *want = malloc(r->pool_bytes);

	for (uint64_t i = 0; i < r->pool_bytes; i++)
		r->pool[i] = want[i] = (unsigned char)(i * 2654435761u >> 11);
	for (int i = 0; i < 2 * r->n_halves; i++) {
		unsigned char *half = want + (i / 2 ? r->half_bytes : 0);

		memcpy(half + (uint64_t)to[i % 2] * r->page_stride, half + (uint64_t)from[i % 2] * r->page_stride,
		       r->page_stride);
	}
	kernel_copy_cpu(&c);
	cr_assert_arr_eq(r->pool, want, r->pool_bytes);
	free(want);
	rig_free(r);
}

Test(copy, whole_pages_and_nothing_beside_them)
{
	for (int32_t i = 0; i < 4; i++) {
		struct rig_shape s = rig_base;

		s.joined = i / 2;
		s.padding = i % 2;
		check_copy(&s);
	}
}

/* ---- attention ---- */

Test(attention, window_smaller_than_a_page)
{
	struct rig_shape s = rig_base;

	s.window = 5;
	check(&s);
	s.window = 1;
	check(&s);
}

Test(attention, window_of_exactly_one_page)
{
	struct rig_shape s = rig_base;

	s.window = s.page_tokens;
	s.endpoints[1] = 32;
	check(&s);
}

Test(attention, window_a_multiple_of_the_page)
{
	struct rig_shape s = rig_base;

	s.window = 4 * s.page_tokens;
	s.endpoints[0] = 256;
	check(&s);
}

Test(attention, window_not_a_multiple_of_the_page)
{
	check(&rig_base);
}

Test(attention, endpoint_inside_the_first_window)
{
	struct rig_shape s = rig_base;

	s.window = 4096;
	check(&s);
}

Test(attention, unbounded_window_is_full_attention)
{
	struct rig_shape s = rig_base;

	s.window = INT64_MAX;
	check(&s);
}

Test(attention, grouped_queries_with_more_heads_than_one_pass)
{
	struct rig_shape s = rig_base;

	s.kv_heads = 2;
	s.q_heads = 22;
	check(&s);
	s.kv_heads = 1;
	s.q_heads = 1;
	check(&s);
	s.kv_heads = 3;
	s.q_heads = 3;
	check(&s);
}

Test(attention, sinks_join_the_sum_and_nothing_else)
{
	struct rig_shape s = rig_base;

	s.sinks = 1;
	check(&s);
}

Test(attention, soft_cap_bends_the_scores)
{
	struct rig_shape s = rig_base;

	s.soft_cap = 2;
	check(&s);
	s.sinks = 1;
	check(&s);
}

Test(attention, head_dims_of_every_form)
{
	static const int32_t dims[][2] = { { 128, 128 }, { 256, 256 }, { 64, 64 }, { 8, 8 },
					   { 512, 512 }, { 72, 136 },  { 17, 3 } };

	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		struct rig_shape s = rig_base;

		s.k_dim = dims[i][0];
		s.v_dim = dims[i][1];
		check(&s);
	}
}

Test(attention, every_element_type)
{
	for (int32_t dtype = KERNEL_F16; dtype <= KERNEL_FP8; dtype++) {
		struct rig_shape s = rig_base;

		s.dtype = dtype;
		check(&s);
	}
}

/* Alone between pages that hold NaN, so that a scale of another token, head, layer or half shows. */
Test(attention, fp8_with_dims_and_groups_of_every_kind)
{
	static const int32_t dims[][2] = { { 128, 128 }, { 24, 40 }, { 17, 3 } };

	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		struct rig_shape s = rig_base;

		s.dtype = KERNEL_FP8;
		s.k_dim = dims[i][0];
		s.v_dim = dims[i][1];
		s.kv_heads = 1 + (int32_t)i;
		s.q_heads = s.kv_heads * 3;
		s.layers = 3;
		s.between = 8;
		check(&s);
	}
}

Test(attention, page_sizes_from_16_to_256)
{
	for (int32_t tokens = 16; tokens <= 256; tokens *= 2) {
		struct rig_shape s = rig_base;

		s.page_tokens = tokens;
		s.window = 300;
		s.endpoints[0] = 777;
		check(&s);
	}
}

Test(attention, mistral_geometry_of_one_layer)
{
	struct rig_shape s = rig_base;

	s = (struct rig_shape){ .window = 4096,
				.page_tokens = 128,
				.layers = 1,
				.kv_heads = 1,
				.q_heads = 4,
				.k_dim = 128,
				.v_dim = 128,
				.dtype = KERNEL_F16,
				.n_rows = 2,
				.endpoints = { 5000, 4097 },
				.seed = 3 };
	check(&s);
}

Test(attention, page_ids_beyond_32_bits_of_offset)
{
	check(wide());
}

Test(attention, padding_rows_give_zeros)
{
	struct rig *r = filled(&rig_base);
	struct kernel_attention a = rig_attention(r, rig_host(r), 0);
	int64_t row = (int64_t)rig_base.q_heads * rig_base.v_dim;

	/*
	 * Row 2 has slot -1 and endpoint 0; now also a row with a slot but no
	 * token, and one with tokens but no slot.
	 */
	((int64_t *)(r->arrays + r->endpoints))[1] = 0;
	((int32_t *)(r->arrays + r->slots))[3] = -1;
	memset(rig_out(r), 0xff, (size_t)(4 * row) * sizeof(float));
	kernel_attention_cpu(&a);
	for (int64_t i = row; i < 4 * row; i++)
		cr_assert_eq(rig_out(r)[i], 0);
	cr_assert_leq(rig_error(r, 0, rig_out(r), 0), rig_tolerance(r));
	rig_free(r);
}

/* The row of the batch that misses a page is NaN throughout, the others stay right. */
static void check_missing(struct rig *r, int32_t row)
{
	struct kernel_attention a = rig_attention(r, rig_host(r), 1);
	int64_t n = (int64_t)rig_base.q_heads * rig_base.v_dim;

	kernel_attention_cpu(&a);
	for (int32_t i = 0; i < rig_base.n_rows; i++) {
		if (i != row) {
			cr_assert_leq(rig_error(r, 1, rig_out(r), i), rig_tolerance(r));
			continue;
		}
		for (int64_t d = 0; d < n; d++)
			cr_assert(isnan(rig_out(r)[i * n + d]));
	}
}

Test(attention, empty_entry_in_the_window_gives_nan)
{
	for (int32_t column = 130 / 32; column <= 229 / 32; column++) {
		/* Of the K row, of the V row, and of the one of joined pages. */
		for (int32_t i = 0; i < 3; i++) {
			struct rig_shape s = rig_form(&rig_base, i & 2);
			struct rig *r = filled(&s);
			int32_t slot = r->max_batch - 1;

			rig_table(r)[(slot * r->n_halves + i % 2) * r->width + column] = -1;
			check_missing(r, 0);
			rig_free(r);
		}
	}
}

Test(attention, id_outside_the_pool_gives_nan_and_is_not_followed)
{
	static const int32_t beyond[] = { INT32_MAX, INT32_MIN, -2 };

	for (int32_t i = 0; i < 3 * 3; i++) {
		struct rig_shape s = rig_form(&rig_base, i / 3 & 2);
		struct rig *r = filled(&s);

		rig_table(r)[((r->max_batch - 1) * r->n_halves + i / 3 % 2) * r->width + 5] = beyond[i % 3];
		check_missing(r, 0);
		rig_free(r);
	}
}

/* The first id that is none, in each row. */
Test(attention, id_behind_the_last_page_gives_nan)
{
	for (int32_t i = 0; i < 3; i++) {
		struct rig_shape s = rig_form(&rig_base, i & 2);
		struct rig *r = filled(&s);

		rig_table(r)[((r->max_batch - 1) * r->n_halves + i % 2) * r->width + 5] =
			(1 + i % 2) * r->shape.num_pages;
		check_missing(r, 0);
		rig_free(r);
	}
}

Test(attention, endpoint_beyond_the_row_gives_nan)
{
	struct rig *r = filled(&rig_base);

	((int64_t *)(r->arrays + r->endpoints))[0] = (int64_t)r->width * rig_base.page_tokens + 1;
	check_missing(r, 0);
	rig_free(r);
}

Test(attention, nothing_outside_the_window_is_read)
{
	struct rig *r = filled(&rig_base);
	struct kernel_attention a = rig_attention(r, rig_host(r), 0);
	const struct rig_shape *s = &r->shape;

	/* Positions 128 and 129 of row 0 share the window's first page; the window begins at 130. */
	for (int32_t pos = 128; pos < 130; pos++) {
		uint64_t at = (uint64_t)rig_page(r, 0, pos / s->page_tokens) * r->page_stride;
		uint64_t kb = (uint64_t)s->kv_heads * (uint64_t)s->k_dim * 2;
		uint64_t vb = (uint64_t)s->kv_heads * (uint64_t)s->v_dim * 2;

		memset(r->pool + at + (uint64_t)(pos % s->page_tokens) * kb, 0xff, kb);
		memset(r->pool + r->half_bytes + at + (uint64_t)(pos % s->page_tokens) * vb, 0xff, vb);
	}
	kernel_attention_cpu(&a);
	cr_assert_leq(rig_error(r, 0, rig_out(r), -1), rig_tolerance(r));
	rig_free(r);
}

Test(attention, nan_inside_the_window_shows)
{
	struct rig *r = filled(&rig_base);
	struct kernel_attention a = rig_attention(r, rig_host(r), 0);
	uint64_t at = (uint64_t)rig_page(r, 0, 130 / 32) * r->page_stride;

	memset(r->pool + at + (130 % 32) * (uint64_t)(rig_base.kv_heads * rig_base.k_dim * 2), 0xff, 2);
	kernel_attention_cpu(&a);
	cr_assert(isinf(rig_error(r, 0, rig_out(r), 0)));
	rig_free(r);
}

Test(attention, large_scores_do_not_overflow)
{
	struct rig *r = filled(&rig_base);
	struct kernel_attention a = rig_attention(r, rig_host(r), 0);
	float *q = (float *)(r->arrays + r->q);

	for (int32_t i = 0; i < rig_base.n_rows * rig_base.q_heads * rig_base.k_dim; i++)
		q[i] *= 300;
	kernel_attention_cpu(&a);
	/* Scores of thousands: float's unit there is 2^-13, and it enters the exponent. */
	cr_assert_leq(rig_error(r, 0, rig_out(r), -1), 5e-3);
	rig_free(r);
}
