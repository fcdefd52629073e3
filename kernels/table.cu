/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.cu - the CUDA kernels that the library launches: table, timeline word, scrub
 *
 * Each takes its parameter block by value as a __grid_constant__, so a launch
 * copies it and nothing of it needs to outlive the call.
 */
#include <cstddef>

#include "kernels.h"
#include "pieces.cuh"

/* @P: what says width, num_pages and joined. */
template <typename P> static __device__ __forceinline__ void apply_update(const P &p, uint32_t cell, int32_t page)
{
	int32_t *k = (int32_t *)p.table + cell;

	if (!p.joined) {
		/* The rows of V ids before it. */
		k += (int64_t)(cell / (uint32_t)p.width) * p.width;
		k[p.width] = page < 0 ? -1 : page + p.num_pages;
	}
	k[0] = page;
}

template <typename APPLY> static __device__ __forceinline__ void apply(const APPLY &p)
{
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n_updates; i += gridDim.x * blockDim.x)
		apply_update(p, p.updates[i].cell, p.updates[i].page);
}

/* The beginning of a struct kernel_apply. */
struct apply_few {
	uint64_t table;
	int32_t width;
	int32_t num_pages;
	uint32_t n_updates;
	uint32_t joined;
	struct kernel_update updates[KERNEL_APPLY_MAX];
};

extern "C" __global__ void swakv_apply(const __grid_constant__ struct apply_few p)
{
	static_assert(offsetof(apply_few, updates) == offsetof(kernel_apply, updates), "one begins as the other");
	apply(p);
}

extern "C" __global__ void swakv_apply_many(const __grid_constant__ struct kernel_apply p)
{
	apply(p);
}

/* The host writes the buffers between launches: they are read past the caches. */
extern "C" __global__ void swakv_apply_ring(const __grid_constant__ struct kernel_apply_ring p)
{
	uint64_t step = *(const volatile uint64_t *)p.counter + 1;
	const volatile struct kernel_ring_buffer *b = (struct kernel_ring_buffer *)p.ring + step % p.n_buffers;
	uint32_t n = b->step == step ? b->n_updates : 0;

	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		apply_update(p, b->updates[i].cell, b->updates[i].page);
}

/* One thread. The fence makes all that the stream did before visible to whoever sees the word. */
extern "C" __global__ void swakv_count(const __grid_constant__ struct kernel_count p)
{
	volatile uint64_t *counter = (volatile uint64_t *)p.counter;
	uint64_t n = *counter + 1;

	*counter = n;
	__threadfence_system();
	*(volatile uint64_t *)p.word = n;
}

extern "C" __global__ void __launch_bounds__(KERNEL_FILL_THREADS)
	swakv_scrub(const __grid_constant__ struct kernel_scrub p)
{
	fill(&p.pages, p.list, p.n_pages, 0);
}

/* The beginning of a struct kernel_scrub. */
struct scrub_few {
	kernel_pages pages;
	int32_t n_pages;
	int32_t list[KERNEL_SCRUB_FEW];
};

extern "C" __global__ void __launch_bounds__(KERNEL_FILL_THREADS)
	swakv_scrub_few(const __grid_constant__ struct scrub_few p)
{
	static_assert(offsetof(scrub_few, list) == offsetof(kernel_scrub, list), "one begins as the other");
	fill(&p.pages, p.list, p.n_pages, 0);
}
