/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels on a device, against their twins on the CPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_fixture.h"
#include "rig_device.h"

#define NAN_PATTERN 0xffff

static bool have_kernels(struct driver *d)
{
	int rc = driver_load_image(d, &kernel_image_engine);

	if (rc == SWAKV_EUNSUPPORTED)
		cr_skip_test("this build has no GPU kernels (no nvcc)");
	OK(rc);
	return rc == 0;
}

/* The same pages on the device and in the twin's pool must hold the same bytes. */
static void compare_pages(struct rig_device *v)
{
	struct driver *d = v->d;
	struct rig *r = v->r;
	unsigned char *bytes = malloc(r->page_stride);
	struct kernel_fill fill = rig_fill(r, rig_host(r), NAN_PATTERN);

	kernel_fill_cpu(&fill);
	for (int32_t layer = 0; layer < r->shape.layers; layer++) {
		struct kernel_kv_write w = rig_kv_write(r, rig_host(r), layer);

		kernel_kv_write_cpu(&w);
	}
	for (int32_t i = 0; i < r->n_halves * r->n_mapped; i++) {
		int32_t page = ((int32_t *)(r->arrays + r->pages))[i / r->n_halves];
		uint64_t at = (uint64_t)page * r->page_stride + (i % r->n_halves ? r->half_bytes : 0);

		OK(rig_device_read_pool(v, bytes, at, r->page_stride));
		cr_assert_arr_eq(bytes, r->pool + at, r->page_stride, "%s page %d differs", i % r->n_halves ? "V" : "K",
				 page);
	}
	free(bytes);
}

/* @n_splits 0: as planned. */
static void check_split(struct driver *d, const struct rig_shape *shape, int32_t n_splits)
{
	struct rig *r = rig_new(shape);
	size_t n = (size_t)shape->n_rows * (size_t)shape->q_heads * (size_t)shape->v_dim;
	float *out = calloc(n, sizeof(*out));
	struct rig_device v;

	OK(rig_device_init(&v, d, r));
	v.n_splits = n_splits;
	OK(rig_device_fill(&v, NAN_PATTERN));
	compare_pages(&v);
	for (int32_t layer = 0; layer < shape->layers; layer++) {
		struct kernel_attention a = rig_attention(r, rig_host(r), layer);
		double error;

		OK(rig_device_attend(&v, layer, out));
		error = rig_error(r, layer, out, -1);
		cr_assert_leq(error, rig_tolerance(r), "layer %d: error %g over %g", layer, error, rig_tolerance(r));
		kernel_attention_cpu(&a);
		for (size_t i = 0; i < n; i++)
			cr_assert_float_eq(out[i], rig_out(r)[i], 2 * rig_tolerance(r), "element %zu", i);
	}
	OK(rig_device_deinit(&v));
	free(out);
	rig_free(r);
}

/* In all forms of pages. */
static void check_on(struct driver *d, const struct rig_shape *shape)
{
	for (int form = 0; form < RIG_FORMS; form++) {
		struct rig_shape s = rig_form(shape, form);

		check_split(d, &s, 0);
	}
}

Test(device_kernels, windows_and_pages_of_every_relation)
{
	static const int64_t windows[] = { 1, 5, 32, 100, 128, 4096, INT64_MAX };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		struct rig_shape s = rig_base;

		s.window = windows[i];
		s.endpoints[1] = 32;
		check_on(d, &s);
	}
	driver_close(d);
}

Test(device_kernels, dims_types_and_groups)
{
	static const int32_t dims[][2] = { { 128, 128 }, { 256, 256 }, { 512, 512 }, { 72, 136 }, { 17, 3 }, { 8, 8 } };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		struct rig_shape s = rig_base;

		s.k_dim = dims[i][0];
		s.v_dim = dims[i][1];
		s.dtype = 1 + (int32_t)i % 4;
		s.kv_heads = 1 + (int32_t)i % 2;
		s.q_heads = s.kv_heads * (1 + (int32_t)i * 2);
		s.seed = (uint32_t)i + 7;
		check_on(d, &s);
	}
	driver_close(d);
}

/* One page of @bytes at device address @k (K) and @v (V), each byte its offset and @salt. */
static void put_page(struct driver *d, uint64_t k, uint64_t v, uint64_t bytes, uint8_t salt)
{
	unsigned char *page = malloc(bytes);

	for (uint64_t i = 0; i < bytes; i++)
		page[i] = (unsigned char)(i * 7 + salt);
	OK(driver_copy_to_device(d, NULL, k, page, bytes));
	OK(driver_stream_synchronize(d, NULL));
	for (uint64_t i = 0; i < bytes; i++)
		page[i] = (unsigned char)(i * 13 + salt);
	OK(driver_copy_to_device(d, NULL, v, page, bytes));
	OK(driver_stream_synchronize(d, NULL));
	free(page);
}

/* Pages 0 and 1 are copied to 3 and 5 of 6; what lies between and behind must not change. */
static void check_copy(struct driver *d, uint64_t bytes)
{
	static const int32_t lists[4] = { 0, 1, 3, 5 };
	uint64_t half = 6 * bytes, pool, lists_at;
	unsigned char *got = malloc(2 * half);
	struct kernel_copy c;

	OK(driver_alloc(d, 2 * half, &pool));
	OK(driver_alloc(d, sizeof(lists), &lists_at));
	OK(driver_copy_to_device(d, NULL, lists_at, lists, sizeof(lists)));
	for (uint8_t i = 0; i < 6; i++)
		put_page(d, pool + i * bytes, pool + half + i * bytes, bytes, i);
	c = (struct kernel_copy){ .pages = { .half = { pool, pool + half }, .page_stride = bytes, .num_pages = 6 },
				  .from_list = lists_at,
				  .to_list = lists_at + 8,
				  .n_pages = 2 };
	OK(driver_run_copy(d, NULL, &c));
	OK(driver_copy_to_host(d, NULL, got, pool, 2 * half));
	OK(driver_stream_synchronize(d, NULL));
	for (uint64_t i = 0; i < half; i++) {
		uint64_t page = i / bytes, at = i % bytes, salt = page == 3 ? 0 : page == 5 ? 1 : page;

		cr_assert_eq(got[i], (unsigned char)(at * 7 + salt), "K page %d byte %d", (int)page, (int)at);
		cr_assert_eq(got[half + i], (unsigned char)(at * 13 + salt), "V page %d byte %d", (int)page, (int)at);
	}
	OK(driver_free(d, lists_at));
	OK(driver_free(d, pool));
	free(got);
}

Test(device_kernels, copied_pages_of_any_even_size_and_not_one_byte_more)
{
	static const uint64_t sizes[] = { 2, 16, 4096, 16384, 16386, 16392, 40000, 65532, 65536, 98302, 131080 };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		check_copy(d, sizes[i]);
	driver_close(d);
}

/* Every group size and dim that has a kernel of its own, whole and split. */
Test(device_kernels, every_form_of_the_attention_kernel)
{
	static const int32_t dims[][2] = { { 64, 64 },   { 96, 96 },   { 128, 128 },
					   { 192, 128 }, { 256, 256 }, { 512, 512 } };
	static const int32_t groups[] = { 1, 2, 4, 5, 8, 16 };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		for (size_t k = 0; k < sizeof(groups) / sizeof(groups[0]); k++) {
			struct rig_shape s = rig_base;

			s.window = 200;
			s.k_dim = dims[i][0];
			s.v_dim = dims[i][1];
			s.dtype = k % 2 ? KERNEL_F16 : KERNEL_BF16;
			s.kv_heads = 2;
			s.q_heads = 2 * groups[k];
			s.layers = 1;
			s.sinks = k % 3 == 1;
			s.soft_cap = k % 3 == 2 ? 5 : 0;
			for (int32_t splits = 0; splits <= 7; splits += 7) {
				s = rig_form(&s, (int)(i + k) % RIG_FORMS);
				check_split(d, &s, splits);
			}
		}
	}
	driver_close(d);
}

Test(device_kernels, mistral_geometry_of_one_layer)
{
	static const struct rig_shape s = { .window = 4096,
					    .page_tokens = 128,
					    .layers = 1,
					    .kv_heads = 2,
					    .q_heads = 8,
					    .k_dim = 128,
					    .v_dim = 128,
					    .dtype = KERNEL_BF16,
					    .n_rows = 2,
					    .endpoints = { 5000, 4097 },
					    .seed = 3 };
	struct driver *d = open_device();

	if (have_kernels(d))
		check_on(d, &s);
	driver_close(d);
}

/* The kernel for few updates takes the first 500 of the block, and no more. */
Test(device_kernels, updates_of_each_number_that_is_a_boundary)
{
	static const uint32_t numbers[] = { 1, 127, 128, 129, 499, 500, 501, KERNEL_APPLY_MOST - 1, KERNEL_APPLY_MOST };
	static struct kernel_apply p = { .width = 64, .num_pages = 100000 };
	size_t bytes = (KERNEL_APPLY_MOST / 64 + 1) * (size_t)2 * 64 * sizeof(int32_t), n = 0;
	int32_t *got = malloc(bytes), *want = malloc(bytes);
	struct driver *d = open_device();
	uint64_t table;

	if (!have_kernels(d))
		return;
	OK(driver_alloc(d, bytes, &table));
	for (uint32_t i = 0; i < KERNEL_APPLY_MOST; i++)
		p.updates[i] = (struct kernel_update){ i, (int32_t)i + 7 };
	for (; n < 2 * sizeof(numbers) / sizeof(numbers[0]); n++) {
		p.n_updates = numbers[n / 2];
		p.joined = n % 2;
		memset(want, 0xff, bytes);
		OK(driver_copy_to_device(d, NULL, table, want, bytes));
		p.table = table;
		OK(driver_run_apply(d, NULL, &p));
		OK(driver_copy_to_host(d, NULL, got, table, bytes));
		OK(driver_stream_synchronize(d, NULL));
		p.table = (uint64_t)(uintptr_t)want;
		kernel_apply_cpu(&p);
		cr_assert_arr_eq(got, want, bytes, "%u updates%s", p.n_updates, p.joined ? ", joined" : "");
	}
	OK(driver_free(d, table));
	free(got);
	free(want);
	driver_close(d);
}

/* Words of 16 bytes are read where there are some: a layer, a page, or a half that begins beside one has none. */
Test(device_kernels, attention_over_pages_that_begin_beside_whole_words)
{
	static const struct {
		int32_t between, padding;
	} beside[] = { { 0, 8 }, { 8, 0 }, { 8, 8 }, { 2, 0 }, { 16, 16 } };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		struct rig_shape s = rig_base;

		s.k_dim = s.v_dim = 64;
		s.dtype = KERNEL_BF16;
		s.layers = 2;
		s.between = beside[i].between;
		s.padding = beside[i].padding;
		check_on(d, &s);
	}
	driver_close(d);
}

Test(device_kernels, fp8_with_scales_in_the_page)
{
	static const int32_t dims[][2] = { { 128, 128 }, { 256, 256 }, { 24, 40 }, { 17, 3 } };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
		struct rig_shape s = rig_base;

		s.dtype = KERNEL_FP8;
		s.k_dim = dims[i][0];
		s.v_dim = dims[i][1];
		s.kv_heads = 1 + (int32_t)i;
		s.q_heads = s.kv_heads * 3;
		check_on(d, &s);
	}
	driver_close(d);
}

/* Only the plain form is left then; a real driver does not care. */
Test(device_kernels, attention_on_a_device_with_little_shared_memory)
{
	struct rig_shape s = rig_base;
	struct driver *d;

	setenv("FAKECUDA_SHARED", "49152", 1);
	d = open_device();
	s.k_dim = s.v_dim = 256;
	s.layers = 1;
	if (have_kernels(d))
		check_on(d, &s);
	driver_close(d);
}

/* 9 GiB of offset in each half. */
Test(device_kernels, page_ids_beyond_32_bits_of_offset)
{
	struct rig_shape s = rig_base;
	struct driver *d;
	uint64_t free_bytes, total;

	setenv("FAKECUDA_MEMORY", "68719476736", 1);
	d = open_device();
	OK(driver_memory_info(d, &free_bytes, &total));
	if (free_bytes < 20ull << 30)
		cr_skip_test("needs 20 GiB of device memory");
	s.num_pages = 70000;
	s.padding = 128 * 1024 - 2 * 32 * 2 * 40 * 2;
	if (have_kernels(d))
		check_on(d, &s);
	driver_close(d);
}

/* An empty entry in the window: NaN for that row, and no other. */
Test(device_kernels, missing_pages_show_as_nan)
{
	struct driver *d = open_device();
	struct rig *r = rig_new(&rig_base);
	int64_t n = (int64_t)rig_base.q_heads * rig_base.v_dim;
	float *out = calloc((size_t)(rig_base.n_rows * n), sizeof(*out));
	struct rig_device v;

	if (!have_kernels(d))
		return;
	OK(rig_device_init(&v, d, r));
	OK(rig_device_fill(&v, NAN_PATTERN));
	rig_table(r)[(r->max_batch - 1) * 2 * r->width + 5] = -1;
	OK(rig_device_upload(&v));
	OK(rig_device_attend(&v, 1, out));
	for (int64_t i = 0; i < n; i++)
		cr_assert(isnan(out[i]));
	for (int32_t row = 1; row < rig_base.n_rows; row++)
		cr_assert_leq(rig_error(r, 1, out, row), rig_tolerance(r));
	OK(rig_device_deinit(&v));
	free(out);
	rig_free(r);
	driver_close(d);
}

/* Launch after launch of random updates, the device table against the twin's. */
Test(device_kernels, table_follows_a_thousand_applies)
{
	enum { ROWS = 64, WIDTH = 33, CELLS = ROWS * WIDTH };
	static int32_t want[ROWS * 2 * WIDTH], got[ROWS * 2 * WIDTH];
	struct driver *d = open_device();
	struct kernel_apply p = { .width = WIDTH, .num_pages = 100000 };
	uint32_t random = 12345;
	uint64_t table;
	void *s;

	if (!have_kernels(d))
		return;
	memset(want, 0xff, sizeof(want));
	OK(driver_stream_create(d, &s));
	OK(driver_alloc(d, sizeof(want), &table));
	OK(driver_fill32(d, s, table, UINT32_MAX, sizeof(want) / 4));
	for (int round = 0; round < 1000; round++) {
		uint32_t first = (random = random * 1664525 + 1013904223) % CELLS;

		p.n_updates = (random >> 16) % (KERNEL_APPLY_MAX + 1);
		for (uint32_t i = 0; i < p.n_updates; i++) {
			random = random * 1664525 + 1013904223;
			p.updates[i].cell = (first + i * 4) % CELLS;
			p.updates[i].page = random % 5 ? (int32_t)(random % 100000) : -1;
		}
		p.table = table;
		OK(driver_run_apply(d, s, &p));
		p.table = (uint64_t)(uintptr_t)want;
		kernel_apply_cpu(&p);
	}
	OK(driver_copy_to_host(d, s, got, table, sizeof(got)));
	OK(driver_stream_synchronize(d, s));
	cr_assert_arr_eq(got, want, sizeof(want));
	OK(driver_stream_destroy(d, s));
	OK(driver_free(d, table));
	driver_close(d);
}

Test(device_kernels, four_thousand_updates_in_one_launch)
{
	enum { ROWS = 64, WIDTH = 70 };
	static int32_t want[ROWS * 2 * WIDTH], got[ROWS * 2 * WIDTH];
	static struct kernel_apply p = { .width = WIDTH, .num_pages = 100000, .n_updates = KERNEL_APPLY_MOST };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	memset(want, 0xff, sizeof(want));
	for (uint32_t i = 0; i < p.n_updates; i++)
		p.updates[i] = (struct kernel_update){ i * 11 % (ROWS * WIDTH), i % 7 ? (int32_t)i : -1 };
	p.table = (uint64_t)(uintptr_t)want;
	kernel_apply_cpu(&p);
	OK(driver_alloc(d, sizeof(got), &p.table));
	OK(driver_fill32(d, NULL, p.table, UINT32_MAX, sizeof(got) / 4));
	OK(driver_run_apply(d, NULL, &p));
	OK(driver_copy_to_host(d, NULL, got, p.table, sizeof(got)));
	OK(driver_stream_synchronize(d, NULL));
	cr_assert_arr_eq(got, want, sizeof(want));
	OK(driver_free(d, p.table));
	driver_close(d);
}

/* ---- whole pages --------------------------------------------------------------------- */

/* Pages that hold their pattern but for one element of K of the first and two of V of the last. */
static void disturb_and_count(struct rig_device *v)
{
	enum { PAGES = 4 };
	static const int32_t list[PAGES] = { 5, 0, 3, 6 };
	static const uint16_t patterns[PAGES] = { 0x3c00, 0x1234, 0xffff, 0 };
	struct driver *d = v->d;
	uint64_t half = v->r->shape.joined ? 0 : v->r->half_bytes, stride = v->r->page_stride;
	struct kernel_check c = { .pages = rig_pages(v->r, v->at), .n_pages = PAGES };
	struct kernel_fill f = { .pages = c.pages, .n_pages = 1 };
	uint32_t counts[PAGES];

	OK(driver_alloc(d, sizeof(list) + sizeof(patterns) + sizeof(counts), &c.page_list));
	c.counts = c.page_list + sizeof(list);
	c.patterns = c.counts + sizeof(counts);
	OK(driver_copy_to_device(d, v->stream, c.page_list, list, sizeof(list)));
	OK(driver_copy_to_device(d, v->stream, c.patterns, patterns, sizeof(patterns)));
	OK(driver_fill32(d, v->stream, c.counts, 0, PAGES));
	for (int i = 0; i < PAGES; i++) {
		f.page_list = c.page_list + (uint64_t)i * sizeof(list[0]);
		f.pattern = patterns[i];
		OK(driver_run_fill(d, v->stream, &f));
	}
	OK(driver_run_check(d, v->stream, &c));
	OK(driver_copy_to_host(d, v->stream, counts, c.counts, sizeof(counts)));
	OK(driver_stream_synchronize(d, v->stream));
	for (int i = 0; i < PAGES; i++)
		cr_assert_eq(counts[i], 0, "%u elements of page %d are said to differ", counts[i], list[i]);
	OK(driver_fill16(d, v->stream, v->at.pool + 5 * stride, 1, 1));
	OK(driver_fill16(d, v->stream, v->at.pool + half + 7 * stride - 2, 1, 1));
	OK(driver_fill16(d, v->stream, v->at.pool + half + 6 * stride + 34, 1, 1));
	OK(driver_run_check(d, v->stream, &c));
	OK(driver_run_check(d, v->stream, &c));
	OK(driver_copy_to_host(d, v->stream, counts, c.counts, sizeof(counts)));
	OK(driver_stream_synchronize(d, v->stream));
	cr_assert_eq(counts[0], 2, "%u", counts[0]);
	cr_assert(counts[1] == 0 && counts[2] == 0, "%u %u", counts[1], counts[2]);
	cr_assert_eq(counts[3], 4, "%u", counts[3]);
	OK(driver_free(d, c.page_list));
}

/* Calls @check on pages of sizes that stand well and badly to 16 bytes: of the first @n sizes, split and joined. */
static void with_each_padding(void (*check)(struct rig_device *v), size_t n)
{
	static const int32_t paddings[] = { 0, 2, 8, 14, 70000, 1, 70001 };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < 2 * n; i++) {
		struct rig_shape s = rig_base;
		struct rig_device v;
		struct rig *r;

		s.padding = paddings[i / 2];
		s.joined = i % 2;
		r = rig_new(&s);
		OK(rig_device_init(&v, d, r));
		check(&v);
		OK(rig_device_deinit(&v));
		rig_free(r);
	}
	driver_close(d);
}

Test(device_kernels, check_counts_each_element_that_is_not_its_pages_pattern)
{
	with_each_padding(disturb_and_count, 5);
}

/* Pages 5 and 2 get the pattern; all bytes of the pool around them stay. */
static void fill_two(struct rig_device *v)
{
	static const int32_t list[] = { 5, 2 };
	struct driver *d = v->d;
	struct rig *r = v->r;
	struct kernel_fill f = { .pages = rig_pages(r, v->at), .n_pages = 2, .pattern = 0xabcd };
	unsigned char *got = malloc(r->pool_bytes);

	OK(driver_fill16(d, v->stream, v->at.pool, 0x0101, r->pool_bytes / 2));
	OK(driver_alloc(d, sizeof(list), &f.page_list));
	OK(driver_copy_to_device(d, v->stream, f.page_list, list, sizeof(list)));
	OK(driver_run_fill(d, v->stream, &f));
	OK(driver_copy_to_host(d, v->stream, got, v->at.pool, r->pool_bytes));
	OK(driver_stream_synchronize(d, v->stream));
	for (uint64_t i = 0; i < r->pool_bytes; i++) {
		uint64_t page = i % r->half_bytes / r->page_stride;
		int32_t want = page != 5 && page != 2 ? 1 : i % 2 ? 0xab : 0xcd;

		if (i == r->pool_bytes - 1 && r->pool_bytes % 2)
			break; /* not written to begin with */
		cr_assert_eq(got[i], want, "byte %llu of pages of %llu", (unsigned long long)i,
			     (unsigned long long)r->page_stride);
	}
	OK(driver_free(d, f.page_list));
	free(got);
}

Test(device_kernels, fill_covers_whole_pages_and_nothing_beside_them)
{
	with_each_padding(fill_two, 7);
}

/* Pages 1 and 4 get what 0 and 6 hold; all bytes of the pool around them stay. */
static void copy_two(struct rig_device *v)
{
	static const int32_t from[] = { 0, 6 }, to[] = { 1, 4 };
	struct driver *d = v->d;
	struct rig *r = v->r;
	struct kernel_copy c = { .pages = rig_pages(r, v->at), .n_pages = 2 };
	unsigned char *want = malloc(r->pool_bytes), *got = malloc(r->pool_bytes);

	for (uint64_t i = 0; i < r->pool_bytes; i++)
		want[i] = (unsigned char)(i * 2654435761u >> 11);
	OK(driver_copy_to_device(d, v->stream, v->at.pool, want, r->pool_bytes));
	OK(driver_alloc(d, sizeof(from) + sizeof(to), &c.from_list));
	c.to_list = c.from_list + sizeof(from);
	OK(driver_copy_to_device(d, v->stream, c.from_list, from, sizeof(from)));
	OK(driver_copy_to_device(d, v->stream, c.to_list, to, sizeof(to)));
	OK(driver_run_copy(d, v->stream, &c));
	OK(driver_copy_to_host(d, v->stream, got, v->at.pool, r->pool_bytes));
	OK(driver_stream_synchronize(d, v->stream));
	for (int i = 0; i < 2 * r->n_halves; i++) {
		uint64_t half = i / 2 ? r->half_bytes : 0;

		memcpy(want + half + (uint64_t)to[i % 2] * r->page_stride,
		       want + half + (uint64_t)from[i % 2] * r->page_stride, r->page_stride);
	}
	cr_assert_arr_eq(got, want, r->pool_bytes);
	OK(driver_free(d, c.from_list));
	free(want);
	free(got);
}

Test(device_kernels, copy_moves_whole_pages_and_nothing_beside_them)
{
	with_each_padding(copy_two, 7);
}

/* Scrubs every other page of @n, which hold ones: both halves of 30 bytes, or joined ones of 31. */
static void scrub_every_other(struct driver *d, int32_t n, bool joined)
{
	const uint64_t page_bytes = joined ? 31 : 30;
	static struct kernel_scrub p;
	uint64_t bytes = (joined ? 1 : 2) * (uint64_t)n * page_bytes, pool;
	unsigned char *got = malloc(bytes);

	OK(driver_alloc(d, bytes, &pool));
	OK(driver_fill16(d, NULL, pool, 0x0101, bytes / 2));
	p.pages = (struct kernel_pages){ .half = { pool, joined ? 0 : pool + bytes / 2 },
					 .page_stride = page_bytes,
					 .num_pages = n,
					 .joined = joined };
	p.n_pages = n / 2;
	for (int32_t i = 0; i < p.n_pages; i++)
		p.list[i] = n - 1 - 2 * i;
	OK(driver_run_scrub(d, NULL, &p));
	OK(driver_copy_to_host(d, NULL, got, pool, bytes));
	OK(driver_stream_synchronize(d, NULL));
	for (uint64_t i = 0; i < bytes; i++) {
		uint64_t page = i / page_bytes % (uint64_t)n;

		cr_assert_eq(got[i], (uint64_t)(n - 1) % 2 != page % 2, "byte %d of page %d", (int)(i % page_bytes),
			     (int)page);
	}
	OK(driver_free(d, pool));
	free(got);
}

Test(device_kernels, scrubs_of_one_page_and_of_as_many_as_a_launch_takes)
{
	static const int32_t pages[] = { 2, 2 * KERNEL_SCRUB_FEW, 2 * KERNEL_SCRUB_FEW + 2, 2 * KERNEL_SCRUB_MAX };
	struct driver *d = open_device();

	if (!have_kernels(d))
		return;
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		scrub_every_other(d, pages[i], false);
		scrub_every_other(d, pages[i], true);
	}
	driver_close(d);
}

Test(device_kernels, the_empty_kernel_runs)
{
	struct driver *d = open_device();
	void *s;

	if (!have_kernels(d))
		return;
	OK(driver_stream_create(d, &s));
	OK(driver_run_empty(d, s));
	OK(driver_stream_synchronize(d, s));
	OK(driver_stream_destroy(d, s));
	driver_close(d);
}
