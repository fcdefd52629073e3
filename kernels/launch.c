/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - grid, block and shared memory of each kernel; an empty launch is no launch */
#include "driver.h"
#include "kernels.h"

#define MAX_GRID       65535u
#define WARP           32u
#define APPLY_BLOCK    128u
#define COPY_BLOCK     256u
#define ATTENTION_WARP 4u          /* warps a block, if their accumulators fit */
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

int driver_run_attention(struct driver *d, void *stream, const struct kernel_attention *params)
{
	uint64_t k = (uint64_t)params->pages.k_head_dim * sizeof(float);
	uint64_t v = (uint64_t)params->pages.v_head_dim * sizeof(float);
	uint32_t warps = ATTENTION_WARP;

	if (params->n <= 0)
		return 0;
	while (warps > 1 && k + warps * v > SHARED_MAX)
		warps /= 2;
	/* Beyond that the launch itself is refused, with the driver's own sentence. */
	return driver_launch(d, stream, KERNEL_NAME_ATTENTION,
			     bounded_grid((uint64_t)params->n * (uint64_t)params->q_heads), warps * WARP,
			     (uint32_t)(k + warps * v), params, sizeof(*params));
}

int driver_run_fill(struct driver *d, void *stream, const struct kernel_fill *params)
{
	if (params->n_pages <= 0)
		return 0;
	return driver_launch(d, stream, KERNEL_NAME_FILL, bounded_grid(2 * (uint64_t)params->n_pages), COPY_BLOCK, 0,
			     params, sizeof(*params));
}
