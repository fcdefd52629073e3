/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c - what a kernel on a GPU takes for granted of its launch
 *
 * The twins do their work whatever the grid, and whatever the addresses: half a
 * grid, or words of 16 bytes where there are none, would go unseen. So each
 * launch is held against what its kernel needs, worked out here once more. One
 * that does not fit aborts.
 */
#include <stddef.h>
#include <string.h>

#include "fake.h"
#include "kernels.h"

struct launch {
	const char *kernel;
	uint64_t grid, block, shared;
};

#define LEAST(a, b)  ((a) < (b) ? (a) : (b))
#define PARTS(n, by) (((uint64_t)(n) + (uint64_t)(by)-1) / (uint64_t)(by))

static void must_be(const struct launch *l, const char *what, uint64_t got, uint64_t want)
{
	if (got != want)
		fake_die("%s: launched with %s %llu, its work has %llu", l->kernel, what, (unsigned long long)got,
			 (unsigned long long)want);
}

static void must_divide(const struct launch *l, const char *what, uint64_t n, uint64_t by)
{
	if (n % by != 0)
		fake_die("%s: launched with %s %llu, which is no multiple of %llu", l->kernel, what,
			 (unsigned long long)n, (unsigned long long)by);
}

static uint64_t pieces(const struct kernel_pages *g, int32_t n_pages)
{
	return (g->joined ? 1 : 2) * (uint64_t)n_pages * PARTS(g->page_stride, 64 << 10);
}

/* A block a piece of 64 KiB of each half of each page: no more, for it would be a page of nobody's. */
static void check_pieces(const struct launch *l, const struct kernel_pages *g, int32_t n_pages, uint64_t threads)
{
	must_be(l, "grid", l->grid, pieces(g, n_pages));
	must_be(l, "block", l->block, threads);
}

static void check_fill(const struct launch *l, const void *params)
{
	const struct kernel_fill *p = params;

	check_pieces(l, &p->pages, p->n_pages, 1024);
}

static void check_scrub(const struct launch *l, const void *params)
{
	const struct kernel_scrub *p = params;

	check_pieces(l, &p->pages, p->n_pages, 1024);
}

static void check_copy_odd(const struct launch *l, const void *params)
{
	const struct kernel_copy *p = params;

	check_pieces(l, &p->pages, p->n_pages, 512);
}

/* In words of 16 bytes: any two pages must stand alike to them. */
static void check_copy(const struct launch *l, const void *params)
{
	const struct kernel_copy *p = params;

	check_pieces(l, &p->pages, p->n_pages, 512);
	must_divide(l, "pages of", p->pages.page_stride, 16);
}

/* Blocks go round until all is done: as many as there is work for, and no more than a grid should have. */
static void check_check(const struct launch *l, const void *params)
{
	const struct kernel_check *p = params;

	must_be(l, "grid", l->grid, pieces(&p->pages, p->n_pages));
	must_be(l, "block", l->block, 256);
}

/* Scales are floats. */
static void check_scales(const struct launch *l, const struct kernel_pages *g)
{
	if (g->dtype == KERNEL_FP8)
		must_divide(l, "scales, pages or layers at", g->scales | g->page_stride | g->layer_stride, 4);
}

static void check_kv_write(const struct launch *l, const void *params)
{
	const struct kernel_kv_write *p = params;

	must_be(l, "grid", l->grid, LEAST((uint64_t)p->n_tokens, 65535));
	check_scales(l, &p->pages);
}

/* A thread an update. */
static void check_apply(const struct launch *l, const void *params)
{
	const struct kernel_apply *p = params;

	must_be(l, "grid", l->grid, PARTS(p->n_updates, l->block));
}

static void check_ring(const struct launch *l, const void *params)
{
	must_be(l, "grid", l->grid, PARTS(KERNEL_APPLY_MAX, l->block));
}

/* Whoever counts is alone. */
static void check_one(const struct launch *l, const void *params)
{
	must_be(l, "grid", l->grid, 1);
	must_be(l, "block", l->block, 1);
}

/* ---- attention -------------------------------------------------------------------------- */

static void check_attention(const struct launch *l, const void *params)
{
	const struct kernel_attention *p = params;

	must_be(l, "grid", l->grid, LEAST((uint64_t)p->n * (uint64_t)p->q_heads, 65535));
	must_divide(l, "block", l->block, 32);
	must_be(l, "shared memory", l->shared,
		4 * ((uint64_t)p->pages.k_head_dim + l->block / 32 * (uint64_t)p->pages.v_head_dim));
	check_scales(l, &p->pages);
}

static void check_join(const struct launch *l, const void *params)
{
	const struct kernel_attention *p = params;

	must_be(l, "grid", l->grid, LEAST((uint64_t)p->n * (uint64_t)p->q_heads, 65535));
	must_be(l, "block", l->block, 128);
}

/* Elements of a row in shared memory. */
static uint64_t shared_row(uint64_t dim)
{
	return PARTS(dim, 16) * 16 + 8;
}

/* For V of at most @dim elements, or of more in parts of 256. */
static void check_split(const struct launch *l, const struct kernel_attention *p, uint64_t dim)
{
	const struct kernel_pages *g = &p->pages;
	uint64_t k = (uint64_t)g->k_head_dim, v = (uint64_t)g->v_head_dim,
		 splits = p->n_splits > 1 ? (uint64_t)p->n_splits : 1;
	uint64_t blocks = (uint64_t)p->n * (uint64_t)g->kv_heads * PARTS(p->q_heads / g->kv_heads, 8) * PARTS(v, 256);

	must_divide(l, "K vectors of", k, 8);
	must_divide(l, "V vectors of", v, 8);
	must_divide(l, "K at", g->k, 16);
	must_divide(l, "V at", g->v, 16);
	must_divide(l, "pages of", g->page_stride, 16);
	must_divide(l, "layers of", g->layer_stride, 16);
	must_divide(l, "K tokens of", g->k_token, 16);
	must_divide(l, "V tokens of", g->v_token, 16);
	must_divide(l, "K heads of", g->k_head, 16);
	must_divide(l, "V heads of", g->v_head, 16);
	if (v > dim && dim != 256)
		fake_die("%s: launched for V vectors of %llu", l->kernel, (unsigned long long)v);
	must_be(l, "grid", l->grid, LEAST(blocks * splits, 65535));
	must_be(l, "block", l->block, 128);
	must_be(l, "shared memory", l->shared,
		2 * (4 * 16 * (shared_row(k) + shared_row(LEAST(v, 256))) + 3 * 8 * shared_row(k)));
}

static void check_64(const struct launch *l, const void *params)
{
	check_split(l, params, 64);
}

static void check_128(const struct launch *l, const void *params)
{
	check_split(l, params, 128);
}

static void check_256(const struct launch *l, const void *params)
{
	check_split(l, params, 256);
}

static const struct {
	const char *kernel;
	void (*check)(const struct launch *l, const void *params);
} checks[] = {
	{ KERNEL_NAME_APPLY, check_apply },
	{ KERNEL_NAME_MANY, check_apply },
	{ KERNEL_NAME_RING, check_ring },
	{ KERNEL_NAME_COUNT, check_one },
	{ KERNEL_NAME_EMPTY, check_one },
	{ KERNEL_NAME_KV_WRITE, check_kv_write },
	{ KERNEL_NAME_FILL, check_fill },
	{ KERNEL_NAME_SCRUB, check_scrub },
	{ KERNEL_NAME_SCRUB_FEW, check_scrub },
	{ KERNEL_NAME_COPY, check_copy },
	{ KERNEL_NAME_COPY_ODD, check_copy_odd },
	{ KERNEL_NAME_CHECK, check_check },
	{ KERNEL_NAME_ATTENTION, check_attention },
	{ KERNEL_NAME_JOIN, check_join },
	{ KERNEL_NAME_ATTENTION "_f16_d64", check_64 },
	{ KERNEL_NAME_ATTENTION "_f16_d128", check_128 },
	{ KERNEL_NAME_ATTENTION "_f16_d256", check_256 },
	{ KERNEL_NAME_ATTENTION "_bf16_d64", check_64 },
	{ KERNEL_NAME_ATTENTION "_bf16_d128", check_128 },
	{ KERNEL_NAME_ATTENTION "_bf16_d256", check_256 },
};

void fake_launch_check(const char *kernel, const void *params, uint32_t grid, uint32_t block, uint32_t shared)
{
	const struct launch l = { kernel, grid, block, shared };

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (strcmp(checks[i].kernel, kernel) != 0)
			continue;
		checks[i].check(&l, params);
		return;
	}
	fake_die("%s: nothing is known of what its launch must be", kernel);
}
