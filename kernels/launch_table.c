/* SPDX-License-Identifier: Apache-2.0 */
/* launch_table.c - the launches of table.cu; an empty launch is no launch */
#include <stddef.h>

#include "launch.h"

#define APPLY_BLOCK 128u

int driver_run_apply(struct driver *d, void *stream, const struct kernel_apply *params)
{
	bool few = params->n_updates <= KERNEL_APPLY_MAX;

	if (params->n_updates == 0)
		return 0;
	return driver_launch(d, stream, &kernel_image_table, few ? KERNEL_NAME_APPLY : KERNEL_NAME_MANY,
			     (params->n_updates + APPLY_BLOCK - 1) / APPLY_BLOCK, APPLY_BLOCK, 0, params,
			     few ? offsetof(struct kernel_apply, updates[KERNEL_APPLY_MAX]) : sizeof(*params));
}

int driver_run_scrub(struct driver *d, void *stream, const struct kernel_scrub *params)
{
	uint64_t each = (params->pages.page_stride + KERNEL_PIECE - 1) / KERNEL_PIECE;
	uint64_t halves = params->pages.joined ? 1 : 2;
	uint64_t blocks = params->n_pages > 0 ? halves * (uint64_t)params->n_pages * each : 0;
	bool few;

	if (blocks == 0)
		return 0;
	few = params->n_pages <= KERNEL_SCRUB_FEW;
	return driver_launch(d, stream, &kernel_image_table, few ? KERNEL_NAME_SCRUB_FEW : KERNEL_NAME_SCRUB,
			     blocks < INT32_MAX ? (uint32_t)blocks : INT32_MAX, KERNEL_FILL_THREADS, 0, params,
			     few ? offsetof(struct kernel_scrub, list[KERNEL_SCRUB_FEW]) : sizeof(*params));
}

int driver_run_count(struct driver *d, void *stream, const struct kernel_count *params)
{
	return driver_launch(d, stream, &kernel_image_table, KERNEL_NAME_COUNT, 1, 1, 0, params, sizeof(*params));
}

/* How many updates there will be only the buffer knows: enough threads for a full one. */
int driver_run_apply_ring(struct driver *d, void *stream, const struct kernel_apply_ring *params)
{
	return driver_launch(d, stream, &kernel_image_table, KERNEL_NAME_RING,
			     (KERNEL_APPLY_MAX + APPLY_BLOCK - 1) / APPLY_BLOCK, APPLY_BLOCK, 0, params,
			     sizeof(*params));
}
