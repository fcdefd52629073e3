/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - grid, block and shared memory of each kernel; an empty launch is no launch */
#include "attention_split.h"
#include "driver.h"
#include "kernels.h"

#define MAX_GRID       65535u
#define WARP           32u
#define APPLY_BLOCK    128u
#define COPY_BLOCK     256u
#define PAGE_BLOCK     128u /* a piece is eight loads of 16 bytes for each thread */
#define ATTENTION_WARP 4u   /* warps a block, if their accumulators fit */
#define SPLIT_BLOCK    ((uint32_t)SPLIT_THREADS)
#define SPLIT_BLOCKS   264u /* a large GPU works on about so many at a time */
#define SPLIT_TOKENS   256  /* fewest tokens that a split is worth */
#define SPLIT_MOST     64u
#define SHARED_MAX     (48u << 10) /* bytes that need no opting in, on every device */

static uint32_t bounded_grid(uint64_t blocks)
{
	return blocks < MAX_GRID ? (uint32_t)blocks : MAX_GRID;
}

int driver_run_apply(struct driver *d, void *stream, const struct kernel_apply *params)
{
	if (params->n_updates == 0)
		return 0;
	return driver_launch(d, stream, KERNEL_NAME_APPLY, (params->n_updates + APPLY_BLOCK - 1) / APPLY_BLOCK,
			     APPLY_BLOCK, 0, params, sizeof(*params));
}

int driver_run_kv_write(struct driver *d, void *stream, const struct kernel_kv_write *params)
{
	if (params->n_tokens <= 0)
		return 0;
	return driver_launch(d, stream, KERNEL_NAME_KV_WRITE, bounded_grid((uint64_t)params->n_tokens), COPY_BLOCK, 0,
			     params, sizeof(*params));
}

/* ---- attention ------------------------------------------------------------------ */

enum { DIM_64, DIM_128, DIM_256, DIM_512, N_DIMS };

/* By element type, rows of the matrix instructions / 16, and the longer of the two vectors. */
#define SPLIT_NAMES(type)                                                                                              \
	{                                                                                                              \
		{ KERNEL_NAME_ATTENTION "_" type "_m1_d64", KERNEL_NAME_ATTENTION "_" type "_m1_d128",                 \
		  KERNEL_NAME_ATTENTION "_" type "_m1_d256", KERNEL_NAME_ATTENTION "_" type "_m1_d512" },              \
			{ KERNEL_NAME_ATTENTION "_" type "_m2_d64", KERNEL_NAME_ATTENTION "_" type "_m2_d128",         \
			  KERNEL_NAME_ATTENTION "_" type "_m2_d256", NULL },                                           \
	}
static const char *const split_names[2][2][N_DIMS] = { SPLIT_NAMES("f16"), SPLIT_NAMES("bf16") };

/* Vectors of 16 bytes everywhere, and dims that the kernels were made for. */
static bool split_takes(const struct kernel_attention *p)
{
	const struct kernel_pages *g = &p->pages;

	return (g->dtype == KERNEL_F16 || g->dtype == KERNEL_BF16) && g->k_head_dim % 8 == 0 &&
	       g->v_head_dim % 8 == 0 && g->k_head_dim <= 512 && g->v_head_dim <= 512 &&
	       (g->k_base | g->v_base | g->page_stride | g->layer_stride) % 16 == 0;
}

static int split_dim(const struct kernel_attention *p)
{
	int32_t k = p->pages.k_head_dim, v = p->pages.v_head_dim, dim = k > v ? k : v;

	return dim <= 64 ? DIM_64 : dim <= 128 ? DIM_128 : dim <= 256 ? DIM_256 : DIM_512;
}

/* Sets of 16 rows: one takes 5 query heads of a kv head, two 10. */
static int split_rows(const struct kernel_attention *p)
{
	return p->q_heads / p->pages.kv_heads <= SPLIT_HEADS(1) || split_dim(p) == DIM_512 ? 1 : 2;
}

/* Blocks of one split. */
static uint64_t split_blocks(const struct kernel_attention *p)
{
	uint64_t heads = (uint64_t)(p->q_heads / p->pages.kv_heads), per = (uint64_t)SPLIT_HEADS(split_rows(p));

	return (uint64_t)p->n * (uint64_t)p->pages.kv_heads * ((heads + per - 1) / per);
}

uint64_t kernel_attention_plan(struct kernel_attention *p)
{
	int64_t tokens = p->longest > 0 && p->longest < p->window ? p->longest : p->window;
	uint64_t blocks, most, want;

	p->n_splits = 1;
	if (p->n <= 0 || !split_takes(p))
		return 0;
	blocks = split_blocks(p);
	most = tokens / SPLIT_TOKENS < SPLIT_MOST ? (uint64_t)(tokens / SPLIT_TOKENS) : SPLIT_MOST;
	want = (SPLIT_BLOCKS + blocks - 1) / blocks;
	want = want < most ? want : most;
	if (want <= 1)
		return 0;
	p->n_splits = (int32_t)want;
	return (uint64_t)p->n * (uint64_t)p->q_heads * want * (uint64_t)(p->pages.v_head_dim + 2) * sizeof(float);
}

static uint32_t split_shared(const struct kernel_attention *p)
{
	static const int32_t dims[N_DIMS] = { 64, 128, 256, 512 };
	int32_t tile = SPLIT_TILE(dims[split_dim(p)]), k = p->pages.k_head_dim, v = p->pages.v_head_dim;

	return (uint32_t)SPLIT_SHARED(split_rows(p), tile, k, v);
}

static int run_split(struct driver *d, void *stream, struct kernel_attention p)
{
	const char *name = split_names[p.pages.dtype == KERNEL_BF16][split_rows(&p) - 1][split_dim(&p)];
	uint32_t shared = split_shared(&p);
	int r;

	if (!p.workspace || p.n_splits < 1)
		p.n_splits = 1;
	r = driver_launch(d, stream, name, bounded_grid(split_blocks(&p) * (uint64_t)p.n_splits), SPLIT_BLOCK, shared,
			  &p, sizeof(p));
	if (r || p.n_splits == 1)
		return r;
	return driver_launch(d, stream, KERNEL_NAME_JOIN, bounded_grid((uint64_t)p.n * (uint64_t)p.q_heads),
			     SPLIT_BLOCK, 0, &p, sizeof(p));
}

int driver_run_attention(struct driver *d, void *stream, const struct kernel_attention *params)
{
	uint64_t k = (uint64_t)params->pages.k_head_dim * sizeof(float);
	uint64_t v = (uint64_t)params->pages.v_head_dim * sizeof(float);
	uint32_t warps = ATTENTION_WARP;

	if (params->n <= 0)
		return 0;
	if (split_takes(params))
		return run_split(d, stream, *params);
	while (warps > 1 && k + warps * v > SHARED_MAX)
		warps /= 2;
	/* Beyond that the launch itself is refused, with the driver's own sentence. */
	return driver_launch(d, stream, KERNEL_NAME_ATTENTION,
			     bounded_grid((uint64_t)params->n * (uint64_t)params->q_heads), warps * WARP,
			     (uint32_t)(k + warps * v), params, sizeof(*params));
}

/* Pieces of both halves of @n_pages pages: a block each. */
static uint32_t piece_grid(const struct kernel_pages *g, int32_t n_pages)
{
	uint64_t n = 2 * (uint64_t)n_pages * ((g->page_stride + KERNEL_PIECE - 1) / KERNEL_PIECE);

	return n < INT32_MAX ? (uint32_t)n : INT32_MAX;
}

int driver_run_fill(struct driver *d, void *stream, const struct kernel_fill *params)
{
	if (params->n_pages <= 0)
		return 0;
	return driver_launch(d, stream, KERNEL_NAME_FILL, piece_grid(&params->pages, params->n_pages), COPY_BLOCK, 0,
			     params, sizeof(*params));
}

int driver_run_copy(struct driver *d, void *stream, const struct kernel_copy *params)
{
	if (params->n_pages <= 0)
		return 0;
	return driver_launch(d, stream, KERNEL_NAME_COPY, piece_grid(&params->pages, params->n_pages), PAGE_BLOCK, 0,
			     params, sizeof(*params));
}

int driver_run_check(struct driver *d, void *stream, const struct kernel_check *params)
{
	if (params->n_pages <= 0)
		return 0;
	return driver_launch(d, stream, KERNEL_NAME_CHECK, piece_grid(&params->pages, params->n_pages), COPY_BLOCK, 0,
			     params, sizeof(*params));
}

int driver_run_empty(struct driver *d, void *stream)
{
	return driver_launch(d, stream, KERNEL_NAME_EMPTY, 1, 1, 0, NULL, 0);
}
