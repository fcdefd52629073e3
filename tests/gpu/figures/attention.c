/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - how much of the memory's speed decode attention reaches
 *
 * What a step must read at least is the K and V of its windows, once. Rows lie
 * scattered over the pages of a pool, and launches go round through more of
 * them than a cache holds, so that also a batch of one reads from memory. The
 * floor is the device-to-device copy's speed, in bytes read and written. Joined
 * pages have another floor: split ones that hold the same, in the same run.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"

#define GROUP        "attention"
#define GROUP_JOINED "joined"
#define PAGE_TOKENS  128
#define MOST_ROWS    4096
#define ROUND        (1ull << 30) /* bytes of K and V of all rows: many times a cache */
#define RANDOM       (16ull << 20)
#define READING_US   4000

struct shape {
	const char *name;
	int64_t window; /* tokens; endpoints are 64 more */
	int32_t kv_heads, q_per_kv, k_dim, v_dim;
	bool full;
};

static const struct shape shapes[] = {
	{ "Mistral 7B, W 4096, 8 kv x 128, 4 q a kv", 4096, 8, 4, 128, 128, false },
	{ "Gemma 3 27B, W 1024, 16 kv x 128, 2 q a kv", 1024, 16, 2, 128, 128, false },
	{ "Gemma 4 31B, W 1024, 16 kv x 256, 2 q a kv", 1024, 16, 2, 256, 256, false },
	{ "gpt-oss, all of 32768, 8 kv x 64, 8 q a kv", 32768, 8, 8, 64, 64, true },
	{ "Phi-3, W 2047, 32 kv x 96, 1 q a kv", 2047, 32, 1, 96, 96, false },
	{ "MiMo-V2-Flash, W 128, 8 kv, K 192, V 128, 8 q a kv", 128, 8, 8, 192, 128, false },
	{ "MiMo's heads, W 4096", 4096, 8, 8, 192, 128, false },
};
/* Each divides the number of rows. */
static const int32_t batches[] = { 64, 8, 1 }, quick_batches[] = { 8, 2, 1 };
#define N_SHAPES  (int)(sizeof(shapes) / sizeof(shapes[0]))
#define N_BATCHES (int)(sizeof(batches) / sizeof(batches[0]))

/* How pages hold a shape. */
struct form {
	int32_t dtype, layers; /* of a page; the middle one is read */
	bool joined;
};

/* Device memory of one shape in one form. */
struct rows {
	struct shape shape;
	struct form form;
	int32_t n, a_row; /* rows, pages of each */
	uint64_t memory;  /* all of it */
	uint64_t table, slots, endpoints, q, out, workspace, workspace_bytes, pool, pool_bytes, v_at;
	struct kernel_pages pages;
};

static int64_t endpoint_of(const struct shape *s)
{
	return s->full ? s->window : s->window + PAGE_TOKENS / 2;
}

/* Bytes of K and V that one row needs. */
static uint64_t row_bytes(const struct shape *s)
{
	return (uint64_t)s->window * (uint64_t)s->kv_heads * (uint64_t)(s->k_dim + s->v_dim) * 2;
}

static uint64_t place(uint64_t *at, uint64_t bytes)
{
	uint64_t here = *at;

	*at += (bytes + 255) / 256 * 256;
	return here;
}

static void lay_out_pages(struct rows *r, int32_t width)
{
	const struct shape *s = &r->shape;
	uint64_t vectors = (uint64_t)PAGE_TOKENS * (uint64_t)s->kv_heads * 2, k = vectors * (uint64_t)s->k_dim;
	uint64_t v = vectors * (uint64_t)s->v_dim, layer = r->form.joined ? k + v : k > v ? k : v;

	r->pages = (struct kernel_pages){ .page_stride = layer * (uint64_t)r->form.layers,
					  .layer_stride = layer,
					  .width = width,
					  .num_pages = r->n * r->a_row,
					  .page_tokens = PAGE_TOKENS,
					  .kv_heads = s->kv_heads,
					  .k_head_dim = s->k_dim,
					  .v_head_dim = s->v_dim,
					  .dtype = r->form.dtype,
					  .joined = r->form.joined };
	kernel_pages_rows(&r->pages);
	r->pool_bytes = (r->form.joined ? 1 : 2) * (uint64_t)r->pages.num_pages * r->pages.page_stride;
	r->v_at = r->form.joined ? k : r->pool_bytes / 2;
}

static uint64_t table_bytes(const struct rows *r)
{
	return (uint64_t)r->n * (r->form.joined ? 1 : 2) * (uint64_t)r->pages.width * sizeof(int32_t);
}

/* Sizes, and offsets in the one allocation. */
static void lay_out(const struct figures *f, struct rows *r)
{
	const struct shape *s = &r->shape;
	int64_t width = (endpoint_of(s) + PAGE_TOKENS - 1) / PAGE_TOKENS,
		first = (endpoint_of(s) - s->window) / PAGE_TOKENS;
	int32_t heads = s->kv_heads * s->q_per_kv;
	uint64_t at = 0;

	r->a_row = (int32_t)(width - first);
	r->n = f->quick ? batches[0] : (int32_t)((ROUND + row_bytes(s) - 1) / row_bytes(s) + 63) / 64 * 64;
	r->n = r->n < MOST_ROWS ? r->n : MOST_ROWS;
	lay_out_pages(r, (int32_t)width);
	r->workspace_bytes = 64ull << 20;
	r->table = place(&at, table_bytes(r));
	r->slots = place(&at, (uint64_t)r->n * 4);
	r->endpoints = place(&at, (uint64_t)r->n * 8);
	r->q = place(&at, 64ull * (uint64_t)heads * (uint64_t)s->k_dim * 4);
	r->out = place(&at, 64ull * (uint64_t)heads * (uint64_t)s->v_dim * 4);
	r->workspace = place(&at, r->workspace_bytes);
	r->pool = place(&at, r->pool_bytes);
	r->memory = at;
}

static void add_base(struct rows *r, uint64_t base)
{
	r->table += base;
	r->slots += base;
	r->endpoints += base;
	r->q += base;
	r->out += base;
	r->workspace += base;
	r->pool += base;
	r->memory = base;
	r->pages.table = r->table;
	r->pages.k = r->pool;
	r->pages.v = r->pool + r->v_at;
}

/* Row i has pages that lie far apart: every one of the pool, once. */
static void map_rows(const struct rows *r, int32_t *table, int32_t *slots, int64_t *endpoints)
{
	int32_t width = r->pages.width, n = r->pages.num_pages, step = 7919, next = 0, each = r->form.joined ? 1 : 2;

	while (n % step == 0)
		step += 2;
	memset(table, 0xff, table_bytes(r));
	for (int32_t i = 0; i < r->n; i++) {
		slots[i] = r->n - 1 - i;
		endpoints[i] = endpoint_of(&r->shape);
		for (int32_t c = width - r->a_row; c < width; c++) {
			int32_t *k = table + (int64_t)slots[i] * each * width + c;

			next = (int32_t)(((int64_t)next + step) % n);
			k[0] = next;
			if (each == 2)
				k[width] = next + n;
		}
	}
}

/* Numbers in [-1, 1] in all pages: a block of them, again and again. */
static int fill_pool(struct figures *f, const struct rows *r)
{
	uint64_t total = r->pool_bytes, block = total < RANDOM ? total : RANDOM;
	uint16_t *values = malloc(block);
	uint32_t random = 2463534242;
	int rc;

	if (!values)
		return SWAKV_ENOMEM;
	for (uint64_t i = 0; i < block / 2; i++) {
		random = random * 1664525 + 1013904223;
		values[i] = r->form.dtype == KERNEL_F16 ? float_to_half((float)(int32_t)random * 0x1p-31f)
							: float_to_bf16((float)(int32_t)random * 0x1p-31f);
	}
	rc = driver_copy_to_device(f->driver, f->stream, r->pool, values, block);
	for (uint64_t at = block; at < total && rc == 0; at += block)
		rc = driver_copy(f->driver, f->stream, r->pool + at, r->pool, total - at < block ? total - at : block);
	rc = rc ? rc : driver_fill32(f->driver, f->stream, r->q, 0x3e000000, (r->out - r->q) / 4); /* 0.125 */
	rc = rc ? rc : driver_stream_synchronize(f->driver, f->stream);
	free(values);
	return rc;
}

static int rows_init(struct figures *f, struct rows *r, const struct shape *s, const struct form *form)
{
	int32_t *table, *slots;
	int64_t *endpoints;
	uint64_t base = 0;
	size_t bytes;
	int rc;

	*r = (struct rows){ .shape = *s, .form = *form };
	if (f->quick && r->shape.window > 300)
		r->shape.window = 300;
	lay_out(f, r);
	rc = driver_alloc(f->driver, r->memory, &base);
	if (rc)
		return rc;
	add_base(r, base);
	bytes = table_bytes(r);
	table = malloc(bytes);
	slots = malloc((size_t)r->n * sizeof(*slots));
	endpoints = malloc((size_t)r->n * sizeof(*endpoints));
	rc = table && slots && endpoints ? 0 : SWAKV_ENOMEM;
	if (rc == 0) {
		map_rows(r, table, slots, endpoints);
		(void)((rc = driver_copy_to_device(f->driver, f->stream, r->table, table, bytes)) ||
		       (rc = driver_copy_to_device(f->driver, f->stream, r->slots, slots,
						   (size_t)r->n * sizeof(*slots))) ||
		       (rc = driver_copy_to_device(f->driver, f->stream, r->endpoints, endpoints,
						   (size_t)r->n * sizeof(*endpoints))) ||
		       (rc = fill_pool(f, r)));
	}
	free(table);
	free(slots);
	free(endpoints);
	return rc;
}

/* ---- readings ------------------------------------------------------------------------ */

/* @n launches of @batch rows each, going round through all rows. */
static int launch(struct figures *f, const struct rows *r, struct kernel_attention *a, int32_t n, int32_t *row)
{
	int rc = 0;

	for (int32_t i = 0; i < n && rc == 0; i++) {
		a->slots = r->slots + (uint64_t)*row * sizeof(int32_t);
		rc = driver_run_attention(f->driver, f->stream, a);
		*row = (*row + a->n) % r->n;
	}
	return rc ? rc : driver_stream_synchronize(f->driver, f->stream);
}

static int timed(struct figures *f, const struct rows *r, struct kernel_attention *a, int32_t n, int32_t *row,
		 double *us)
{
	double from = now_us();
	int rc = launch(f, r, a, n, row);

	*us = (now_us() - from) / n;
	return rc;
}

/* A result that is no number means that a page was missing: then the time means nothing. */
static int check_numbers(struct figures *f, const struct rows *r, const struct kernel_attention *a)
{
	size_t n = (size_t)a->n * (size_t)a->q_heads * (size_t)r->shape.v_dim;
	float *out = malloc(n * sizeof(*out));
	int rc = out ? driver_copy_to_host(f->driver, f->stream, out, r->out, n * sizeof(*out)) : SWAKV_ENOMEM;

	rc = rc ? rc : driver_stream_synchronize(f->driver, f->stream);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = fabsf(out[i]) <= 1 ? 0
					: report_fail(&f->report, GROUP, r->shape.name, "a result is not in [-1, 1]");
	free(out);
	return rc;
}

/* TB/s of K and V for one batch. */
static int read_batch(struct figures *f, const struct rows *r, int32_t batch, struct series *s)
{
	struct kernel_attention a = { .pages = r->pages,
				      .endpoints = r->endpoints,
				      .q = r->q,
				      .out = r->out,
				      .window = r->shape.full ? INT64_MAX : r->shape.window,
				      .longest = endpoint_of(&r->shape),
				      .scale = (float)(1 / sqrt(r->shape.k_dim)),
				      .n = batch,
				      .q_heads = r->shape.kv_heads * r->shape.q_per_kv,
				      .layer = r->form.layers / 2 };
	uint64_t bytes = (uint64_t)batch * row_bytes(&r->shape);
	int32_t row = 0, n = 1;
	double us;

	if (kernel_attention_plan(&a) > r->workspace_bytes)
		return report_fail(&f->report, GROUP, r->shape.name, "the workspace is too small");
	a.workspace = r->workspace;
	TRY(f, GROUP, timed(f, r, &a, 1, &row, &us));
	TRY(f, GROUP, timed(f, r, &a, 1, &row, &us));
	if (check_numbers(f, r, &a))
		return -1;
	if (!f->quick && us < READING_US)
		n = (int32_t)(READING_US / us) + 1;
	for (int i = 0; i < SAMPLES; i++) {
		TRY(f, GROUP, timed(f, r, &a, n, &row, &us));
		series_add(s, (double)bytes / us / 1e6);
	}
	return 0;
}

static const char *type_name(int32_t dtype)
{
	return dtype == KERNEL_F16 ? "f16" : "bf16";
}

static int measure_shape(struct figures *f, const struct shape *s, int32_t dtype)
{
	const struct form split = { .dtype = dtype, .layers = 1 };
	struct rows r;

	TRY(f, GROUP, rows_init(f, &r, s, &split));
	for (int i = 0; i < N_BATCHES; i++) {
		int32_t batch = f->quick ? quick_batches[i] : batches[i];
		struct figure *figure = report_add(&f->report, GROUP, "TB/s", "attention, %s, %s, batch %d", s->name,
						   type_name(dtype), batch);

		if (read_batch(f, &r, batch, &figure->got))
			return -1;
		figure_floor(figure, &f->copy_speed, "cuMemcpyDtoDAsync");
		if (i == 0 && s->window >= 1024)
			figure->at_least = 0.5;
	}
	TRY(f, GROUP, driver_free(f->driver, r.memory));
	return 0;
}

int figure_attention(struct figures *f)
{
	int rc = 0;

	TRY(f, GROUP, figures_copy_speed(f));
	/* One that fails leaves the others. */
	for (int i = 0; i < N_SHAPES; i++) {
		for (int32_t dtype = KERNEL_F16; dtype <= KERNEL_BF16; dtype++)
			rc |= measure_shape(f, &shapes[i], dtype);
	}
	return rc;
}

/* ---- joined pages --------------------------------------------------------------------- */

static int measure_joined(struct figures *f, const struct shape *s, int32_t dtype)
{
	int32_t batch = f->quick ? quick_batches[0] : batches[0];
	struct series split = { 0 };
	struct figure *figure;
	int rc = 0;

	figure = report_add(&f->report, GROUP_JOINED, "TB/s", "attention over joined pages, %s, %s, batch %d", s->name,
			    type_name(dtype), batch);
	for (int joined = 0; joined < 2 && rc == 0; joined++) {
		const struct form form = { .dtype = dtype, .layers = f->quick ? 2 : 4, .joined = joined };
		struct rows r;

		TRY(f, GROUP_JOINED, rows_init(f, &r, s, &form));
		rc = read_batch(f, &r, batch, joined ? &figure->got : &split);
		TRY(f, GROUP_JOINED, driver_free(f->driver, r.memory));
	}
	figure_floor(figure, &split, "split pages of as many layers");
	figure->at_least = 0.95;
	return rc;
}

int figure_joined(struct figures *f)
{
	int rc = 0;

	/* A launch over a short window says little about the memory. */
	for (int i = 0; i < (f->quick ? 1 : N_SHAPES); i++) {
		if (shapes[i].window < 1024)
			continue;
		for (int32_t dtype = KERNEL_F16; dtype <= KERNEL_BF16; dtype++)
			rc |= measure_joined(f, &shapes[i], dtype);
	}
	return rc;
}
