/* SPDX-License-Identifier: Apache-2.0 */
/* launch_engine.c - grid, block and shared memory of each kernel of engine.cu; an empty launch is no launch */
#include "attention_split.h"
#include "launch.h"

#define MAX_GRID       65535u
#define WARP           32u
#define COPY_BLOCK     256u
#define ATTENTION_WARP 4u /* warps a block, if their accumulators fit */
#define SPLIT_BLOCK    ((uint32_t)SPLIT_THREADS)
#define SPLIT_TOKENS   256 /* fewest tokens that a split is worth */
#define SPLIT_COST     128 /* tokens that a block could have read while it begins and ends */
#define SPLIT_MOST     64u
#define GPU_SHARED     (228u << 10) /* bytes of shared memory of each of so many multiprocessors, on a large GPU */
#define GPU_PARTS      132u
#define SHARED_MAX     (48u << 10) /* bytes that need no opting in, on every device */

static uint32_t bounded_grid(uint64_t blocks)
{
	return blocks < MAX_GRID ? (uint32_t)blocks : MAX_GRID;
}

int driver_run_kv_write(struct driver *d, void *stream, const struct kernel_kv_write *params)
{
	if (params->n_tokens <= 0)
		return 0;
	return driver_launch(d, stream, &kernel_image_engine, KERNEL_NAME_KV_WRITE,
			     bounded_grid((uint64_t)params->n_tokens), COPY_BLOCK, 0, params, sizeof(*params));
}

/* ---- attention ------------------------------------------------------------------ */

enum { DIM_64, DIM_128, DIM_256, N_DIMS };

static const char *const split_names[2][N_DIMS] = {
	{ KERNEL_NAME_ATTENTION "_f16_d64", KERNEL_NAME_ATTENTION "_f16_d128", KERNEL_NAME_ATTENTION "_f16_d256" },
	{ KERNEL_NAME_ATTENTION "_bf16_d64", KERNEL_NAME_ATTENTION "_bf16_d128", KERNEL_NAME_ATTENTION "_bf16_d256" },
};

/* Vectors of 16 bytes everywhere, and dims that the kernels were made for. */
static bool split_takes(const struct kernel_attention *p)
{
	const struct kernel_pages *g = &p->pages;

	return (g->dtype == KERNEL_F16 || g->dtype == KERNEL_BF16) && g->k_head_dim % 8 == 0 &&
	       g->v_head_dim % 8 == 0 && g->k_head_dim <= 512 && g->v_head_dim <= 512 &&
	       (g->k | g->v | g->page_stride | g->layer_stride) % 16 == 0 &&
	       (g->k_token | g->v_token | g->k_head | g->v_head) % 16 == 0 && (g->k_token | g->v_token) < 1u << 28;
}

static int split_dim(const struct kernel_attention *p)
{
	int32_t v = p->pages.v_head_dim;

	return v <= 64 ? DIM_64 : v <= 128 ? DIM_128 : DIM_256;
}

static uint32_t split_shared(const struct kernel_attention *p)
{
	int32_t v = p->pages.v_head_dim < SPLIT_MOST_V ? p->pages.v_head_dim : SPLIT_MOST_V;

	return (uint32_t)SPLIT_SHARED(p->pages.k_head_dim, v);
}

/* Blocks that a multiprocessor has room for. */
static uint32_t split_resident(const struct kernel_attention *p)
{
	static const uint32_t registers_for[N_DIMS] = { 4, 3, 2 }; /* see the kernels' bounds */
	uint32_t fit = GPU_SHARED / (split_shared(p) + 1024), most = registers_for[split_dim(p)];

	return fit < most ? fit : most;
}

/* Blocks of one split. */
static uint64_t split_blocks(const struct kernel_attention *p)
{
	uint64_t heads = (uint64_t)(p->q_heads / p->pages.kv_heads);

	return (uint64_t)p->n * (uint64_t)p->pages.kv_heads * SPLIT_UP(heads, SPLIT_HEADS) *
	       SPLIT_UP((uint64_t)p->pages.v_head_dim, SPLIT_MOST_V);
}

/*
 * Blocks are worked on in rounds of as many as the GPU has room for, and the last
 * round takes as long when it is not full: so many splits that little is left over.
 */
uint64_t kernel_attention_plan(struct kernel_attention *p)
{
	uint64_t tokens = (uint64_t)(p->longest > 0 && p->longest < p->window ? p->longest : p->window);
	uint64_t most = tokens / SPLIT_TOKENS < SPLIT_MOST ? tokens / SPLIT_TOKENS : SPLIT_MOST, least = UINT64_MAX;
	uint64_t room;

	p->n_splits = 1;
	if (p->n <= 0 || most <= 1 || !split_takes(p))
		return 0;
	room = GPU_PARTS * (uint64_t)split_resident(p);
	/* Without an end of the window any number of tokens does. */
	tokens = tokens < INT32_MAX ? tokens : INT32_MAX;
	for (uint64_t n = 1; n <= most; n++) {
		uint64_t rounds = SPLIT_UP(split_blocks(p) * n, room), time = rounds * (tokens / n + SPLIT_COST);

		if (time < least) {
			least = time;
			p->n_splits = (int32_t)n;
		}
	}
	if (p->n_splits == 1)
		return 0;
	return (uint64_t)p->n * (uint64_t)p->q_heads * (uint64_t)p->n_splits * (uint64_t)(p->pages.v_head_dim + 2) *
	       sizeof(float);
}

static int run_split(struct driver *d, void *stream, struct kernel_attention p)
{
	const char *name = split_names[p.pages.dtype == KERNEL_BF16][split_dim(&p)];
	int r;

	if (!p.workspace || p.n_splits < 1)
		p.n_splits = 1;
	r = driver_launch(d, stream, &kernel_image_engine, name, bounded_grid(split_blocks(&p) * (uint64_t)p.n_splits),
			  SPLIT_BLOCK, split_shared(&p), &p, sizeof(p));
	if (r || p.n_splits == 1)
		return r;
	return driver_launch(d, stream, &kernel_image_engine, KERNEL_NAME_JOIN,
			     bounded_grid((uint64_t)p.n * (uint64_t)p.q_heads), SPLIT_BLOCK, 0, &p, sizeof(p));
}

int driver_run_attention(struct driver *d, void *stream, const struct kernel_attention *params)
{
	uint64_t k = (uint64_t)params->pages.k_head_dim * sizeof(float);
	uint64_t v = (uint64_t)params->pages.v_head_dim * sizeof(float);
	uint32_t warps = ATTENTION_WARP;
	struct driver_device device;

	if (params->n <= 0)
		return 0;
	driver_get_device(d, &device);
	if (split_takes(params) && split_shared(params) <= device.shared_bytes)
		return run_split(d, stream, *params);
	while (warps > 1 && k + warps * v > SHARED_MAX)
		warps /= 2;
	/* Beyond that the launch itself is refused, with the driver's own sentence. */
	return driver_launch(d, stream, &kernel_image_engine, KERNEL_NAME_ATTENTION,
			     bounded_grid((uint64_t)params->n * (uint64_t)params->q_heads), warps * WARP,
			     (uint32_t)(k + warps * v), params, sizeof(*params));
}

/* Pieces of all halves of @n_pages pages: a block each. */
static uint32_t piece_grid(const struct kernel_pages *g, int32_t n_pages)
{
	uint64_t n = (g->joined ? 1 : 2) * (uint64_t)n_pages * ((g->page_stride + KERNEL_PIECE - 1) / KERNEL_PIECE);

	return n < INT32_MAX ? (uint32_t)n : INT32_MAX;
}

int driver_run_fill(struct driver *d, void *stream, const struct kernel_fill *params)
{
	if (params->n_pages <= 0)
		return 0;
	return driver_launch(d, stream, &kernel_image_engine, KERNEL_NAME_FILL,
			     piece_grid(&params->pages, params->n_pages), KERNEL_FILL_THREADS, 0, params,
			     sizeof(*params));
}

int driver_run_copy(struct driver *d, void *stream, const struct kernel_copy *params)
{
	if (params->n_pages <= 0)
		return 0;
	return driver_launch(d, stream, &kernel_image_engine,
			     params->pages.page_stride % 16 == 0 ? KERNEL_NAME_COPY : KERNEL_NAME_COPY_ODD,
			     piece_grid(&params->pages, params->n_pages), KERNEL_COPY_THREADS, 0, params,
			     sizeof(*params));
}

int driver_run_check(struct driver *d, void *stream, const struct kernel_check *params)
{
	if (params->n_pages <= 0)
		return 0;
	return driver_launch(d, stream, &kernel_image_engine, KERNEL_NAME_CHECK,
			     piece_grid(&params->pages, params->n_pages), COPY_BLOCK, 0, params, sizeof(*params));
}

int driver_run_empty(struct driver *d, void *stream)
{
	return driver_launch(d, stream, &kernel_image_engine, KERNEL_NAME_EMPTY, 1, 1, 0, NULL, 0);
}
