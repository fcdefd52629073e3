/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_split.cuh - decode attention at memory speed, for 16-bit pages
 *
 * A block takes one (row, kv head, up to 8 of its query heads, split of the
 * window), so each K and V element is read once for all of them. Its warps share
 * the window in chunks of 16 tokens and work alone: each has its own chunk in
 * shared memory, its own running softmax (in base 2) and its own sums in
 * registers. They meet once, at the end. While a warp weighs one half of its
 * chunk, the other half of it or of the next one is on its way, copied past the
 * registers; that there are many warps keeps the memory busy, and a deeper chain
 * of chunks, with fewer warps that have room for it, was slower.
 *
 * Scores and sums are made by matrix instructions, which take 16-bit numbers and
 * add up in float. K and V are 16-bit anyway; a query (and a weight) is given as
 * the sum of 16-bit numbers, each the rest of the one before: two of f16, three
 * of bf16, so that nothing is rounded to less than a float. Rows 0 to 7 of an
 * instruction are the first parts of 8 heads, rows 8 to 15 their second parts:
 * one thread then holds both parts of a sum. Third parts take one more
 * instruction. The scores of an instruction lie where the next one wants its
 * weights, so they never leave the registers.
 *
 * Splits of one row write {max, sum, accumulator} to the workspace, and
 * swakv_attention_join adds them up. Sinks and the division come last.
 */
#ifndef SWAKV_ATTENTION_SPLIT_CUH
#define SWAKV_ATTENTION_SPLIT_CUH

#include "attention_chunk.cuh"
#include "attention_matrix.cuh"
#include "attention_result.cuh"
#include "attention_share.cuh"
#include "attention_walk.cuh"
#include "kernels.h"

/* The queries in parts; what is no query, and elements behind a vector's end, are 0 in all that is multiplied. */
template <bool BF16>
static __device__ __forceinline__ void prepare_queries(const kernel_attention &p, const share &s, int64_t row,
						       uint16_t *queries)
{
	int dim = p.pages.k_head_dim, stride = SPLIT_ROW(dim);
	const float *q = (const float *)p.q + (row * p.q_heads + s.first_head) * (int64_t)dim;

	for (int i = threadIdx.x; i < HEADS * stride / 2; i += THREADS) {
		int h = i / (stride / 2), d = i % (stride / 2) * 2;
		bool none = h >= s.n_heads || d >= dim;
		float a = none ? 0 : q[h * dim + d], b = none ? 0 : q[h * dim + d + 1];

#pragma unroll
		for (int k = 0; k < SPLIT_PARTS(BF16); k++)
			*(uint32_t *)(queries + (k * HEADS + h) * stride + d) = next_part<BF16>(&a, &b);
	}
}

/* Keys of half a step of the instruction end in 8 elements that no copy writes. */
static __device__ __forceinline__ void clear_ends(int dim, int stride, uint16_t *keys)
{
	if (threadIdx.x % 32 < CHUNK && dim % 16 != 0)
		*(uint4 *)(keys + threadIdx.x % 32 * stride + dim) = make_uint4(0, 0, 0, 0);
}

template <bool BF16, int NV>
static __device__ void attend_share_split(const kernel_attention &p, const share &s, int64_t row, int32_t split)
{
	extern __shared__ __align__(16) uint16_t split_memory[];
	__shared__ meeting m;
	walk w = walk_of(p, s);
	int chunk = CHUNK * (w.k.row + w.v.row);
	uint16_t *keys = split_memory + (int)threadIdx.x / 32 * chunk, *values = keys + CHUNK * w.k.row;
	uint16_t *queries = split_memory + WARPS * chunk;
	running r = { -INFINITY, 0 };
	float acc[NV][4] = {};

	clear_ends(p.pages.k_head_dim, w.k.row, keys);
	walk_fetch<false>(p, s, &w, 0, keys);
	walk_fetch<true>(p, s, &w, 0, values);
	prepare_queries<BF16>(p, s, row, queries);
	__syncthreads();
	for (int i = 0; i < w.n; i++) {
		float x[4], fix;

		copy_wait();
		chunk_scores<BF16>(keys, queries, p.pages.k_head_dim, w.k.row, x);
		__syncwarp(); /* all lanes have done with them */
		walk_fetch<false>(p, s, &w, i + 1, keys);
		fix = weigh(p, s, chunk_at(w.first, i), x, &r);
		if (__any_sync(ALL, fix != 1)) {
#pragma unroll
			for (int j = 0; j < NV * 4; j++)
				acc[j / 4][j % 4] *= fix;
		}
		copy_wait();
		chunk_values<BF16, NV>(values, s.n_v, w.v.row, x, acc);
		__syncwarp();
		walk_fetch<true>(p, s, &w, i + 1, values);
	}
	__syncthreads();
	leave_sums<NV>(s, r, acc, &m, (float *)split_memory);
	w.missing = __syncthreads_or(w.missing);
	write_share(p, s, row, split, w.missing, m, (const float *)split_memory);
}

template <bool BF16, int NV> static __device__ void attend(const kernel_attention &p)
{
	int64_t n = (int64_t)p.n * p.pages.kv_heads * SPLIT_UP(p.q_heads / p.pages.kv_heads, HEADS) *
		    SPLIT_UP(p.pages.v_head_dim, SPLIT_MOST_V) * p.n_splits;

	for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
		int64_t row;
		int32_t split;
		share s;

		if (share_of(p, i, &s, &row, &split)) {
			attend_share_split<BF16, NV>(p, s, row, split);
		} else {
			for (int h = 0; h < s.n_heads && split == 0; h++)
				for (int d = threadIdx.x; d < s.n_v; d += THREADS)
					((float *)p.out)[(row * p.q_heads + s.first_head + h) *
								 (int64_t)p.pages.v_head_dim +
							 s.first_v + d] = 0;
		}
		__syncthreads();
	}
}

/* By the elements of V that a block takes; a K of any length goes with each. */
#define SPLIT_KERNEL(type, bf16, dim, blocks)                                                                          \
	extern "C" __global__ void __launch_bounds__(THREADS, blocks)                                                  \
		swakv_attention_##type##_d##dim(const __grid_constant__ kernel_attention p)                            \
	{                                                                                                              \
		attend<bf16, dim / 8>(p);                                                                              \
	}
#define SPLIT_KERNELS(type, bf16)                                                                                      \
	SPLIT_KERNEL(type, bf16, 64, 4)                                                                                \
	SPLIT_KERNEL(type, bf16, 128, 3)                                                                               \
	SPLIT_KERNEL(type, bf16, 256, 2)
SPLIT_KERNELS(f16, false)
SPLIT_KERNELS(bf16, true)

#endif
