/* SPDX-License-Identifier: Apache-2.0 */
/* attention_chunk.cuh - a chunk in shared memory: its scores, their weights, and the values that they weigh */
#ifndef SWAKV_ATTENTION_CHUNK_CUH
#define SWAKV_ATTENTION_CHUNK_CUH

#include "attention_matrix.cuh"
#include "attention_share.cuh"
#include "kernels.h"

/*
 * Scores of the lane's head with its 4 of the 16 tokens: 2 * (lane % 4) and the
 * next, and both 8 later. @queries: rows of parts of heads, as attention_split.cuh says.
 */
template <bool BF16>
static __device__ __forceinline__ void chunk_scores(const uint16_t *keys, const uint16_t *queries, int dim, int row,
						    float score[4])
{
	int lane = threadIdx.x % 32;
	const uint16_t *key = keys + (lane / 16 * 8 + lane % 8) * row + lane / 8 % 2 * 8;
	const uint16_t *query = queries + lane % 16 * row + lane / 16 * 8;
	const uint16_t *third = queries + (16 + lane % 8) * row + lane / 8 % 2 * 8;
	float c[2][4] = {}, rest[2][4] = {};

#pragma unroll 4
	for (int d = 0; d < dim; d += 16) {
		uint32_t a[4], b[4];

		load_matrices(b, key + d);
		load_matrices(a, query + d);
		multiply_add<BF16>(c[0], a, b[0], b[1]);
		multiply_add<BF16>(c[1], a, b[2], b[3]);
		if (BF16) {
			load_upper(a, third + d);
			multiply_add<BF16>(rest[0], a, b[0], b[1]);
			multiply_add<BF16>(rest[1], a, b[2], b[3]);
		}
	}
#pragma unroll
	for (int i = 0; i < 4; i++)
		score[i] = c[i / 2][i % 2] + (c[i / 2][i % 2 + 2] + rest[i / 2][i % 2]);
}

/* A lane's head: the running maximum, and its own share of the sum. */
struct running {
	float max, sum;
};

/* Turns scores into weights under the new maximum. Returns what sums so far are to be multiplied by. */
static __device__ __forceinline__ float weigh(const kernel_attention &p, const share &s, int64_t at, float x[4],
					      running *r)
{
	bool whole = at >= s.begin && at + CHUNK <= s.end;
	float most = r->max, fix, base;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		int64_t pos = at + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;

		x[i] *= p.scale;
		if (p.soft_cap > 0)
			x[i] = p.soft_cap * tanhf(x[i] / p.soft_cap);
		x[i] = whole || (pos >= s.begin && pos < s.end) ? x[i] * LOG2E : -INFINITY;
		most = fmaxf(most, x[i]);
	}
	most = fmaxf(most, __shfl_xor_sync(ALL, most, 1));
	most = fmaxf(most, __shfl_xor_sync(ALL, most, 2));
	base = most == -INFINITY ? 0 : most;
	fix = exp2f(r->max - base);
	r->max = most;
	r->sum *= fix;
#pragma unroll
	for (int i = 0; i < 4; i++) {
		x[i] = exp2f(x[i] - base);
		r->sum += x[i];
	}
	return fix;
}

/* acc[row][d] += weights[row][token] values[token][d], rows as above. */
template <bool BF16, int NV>
static __device__ __forceinline__ void chunk_values(const uint16_t *values, int dim, int row, float x[4],
						    float acc[NV][4])
{
	int lane = threadIdx.x % 32;
	const uint16_t *value = values + lane % 16 * row + lane / 16 * 8;
	uint32_t a[4], third[4] = {};

	a[0] = next_part<BF16>(&x[0], &x[1]);
	a[1] = next_part<BF16>(&x[0], &x[1]);
	a[2] = next_part<BF16>(&x[2], &x[3]);
	a[3] = next_part<BF16>(&x[2], &x[3]);
	if (BF16) {
		third[0] = next_part<BF16>(&x[0], &x[1]);
		third[2] = next_part<BF16>(&x[2], &x[3]);
	}
#pragma unroll
	for (int j = 0; j < NV; j += 2) {
		uint32_t b[4];

		if (j * 8 >= dim)
			break;
		load_transposed(b, value + j * 8);
		multiply_add<BF16>(acc[j], a, b[0], b[1]);
		multiply_add<BF16>(acc[j + 1], a, b[2], b[3]);
		if (BF16) {
			multiply_add<BF16>(acc[j], third, b[0], b[1]);
			multiply_add<BF16>(acc[j + 1], third, b[2], b[3]);
		}
	}
}

#endif
