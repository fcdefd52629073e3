/* SPDX-License-Identifier: Apache-2.0 */
/* attention_result.cuh - what warps and splits have of a row, joined: sinks and the division come last */
#ifndef SWAKV_ATTENTION_RESULT_CUH
#define SWAKV_ATTENTION_RESULT_CUH

#include "attention_share.cuh"
#include "kernels.h"

/* A sink is one more score that attends to nothing: it only joins the sum. */
static __device__ __forceinline__ float with_sink(const kernel_attention &p, int32_t head, float max, float sum,
						  float *scale)
{
	float sink, most;

	*scale = 1;
	if (!p.sinks)
		return sum;
	sink = ((const float *)p.sinks)[head] * LOG2E;
	most = fmaxf(max, sink);
	*scale = exp2f(max - most);
	return sum * *scale + exp2f(sink - most);
}

/* Where split @split of (row, query head) leaves {max, sum, accumulator}. */
static __device__ __forceinline__ float *partial_of(const kernel_attention &p, int64_t row, int32_t head, int32_t split)
{
	return (float *)p.workspace +
	       ((row * p.q_heads + head) * p.n_splits + split) * (int64_t)(p.pages.v_head_dim + 2);
}

/* What the warps have of each head; their sums, [WARPS][HEADS][n_v], lie where the chunks were. */
struct meeting {
	float max[WARPS][HEADS], sum[WARPS][HEADS];
};

/* A warp's sums go to shared memory: both parts of one are with the same lane. */
template <int NV>
static __device__ __forceinline__ void leave_sums(const share &s, const running &r, const float acc[NV][4], meeting *m,
						  float *sums)
{
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, head = lane / 4;
	float sum = r.sum + __shfl_xor_sync(ALL, r.sum, 1);

	sum += __shfl_xor_sync(ALL, sum, 2);
	if (lane % 4 == 0) {
		m->max[warp][head] = r.max;
		m->sum[warp][head] = sum;
	}
#pragma unroll
	for (int j = 0; j < NV; j++) {
		int d = j * 8 + lane % 4 * 2;

		if (d < s.n_v)
			*(float2 *)(sums + (warp * HEADS + head) * s.n_v + d) =
				make_float2(acc[j][0] + acc[j][2], acc[j][1] + acc[j][3]);
	}
}

/* Joins the warps' sums and writes the result, or the split's part of it. */
static __device__ void write_share(const kernel_attention &p, const share &s, int64_t row, int32_t split, bool missing,
				   const meeting &m, const float *sums)
{
	for (int h = 0; h < s.n_heads; h++) {
		int32_t head = s.first_head + h;
		float *part = p.n_splits > 1 ? partial_of(p, row, head, split) : NULL;
		float *out = (float *)p.out + (row * p.q_heads + head) * p.pages.v_head_dim + s.first_v;
		float most = -INFINITY, sum = 0, fix[WARPS], scale, total;

#pragma unroll
		for (int w = 0; w < WARPS; w++)
			most = fmaxf(most, m.max[w][h]);
#pragma unroll
		for (int w = 0; w < WARPS; w++) {
			fix[w] = m.max[w][h] == -INFINITY ? 0 : exp2f(m.max[w][h] - most);
			sum += m.sum[w][h] * fix[w];
		}
		total = with_sink(p, head, most, sum, &scale);
		for (int d = threadIdx.x; d < s.n_v; d += THREADS) {
			float x = 0;

#pragma unroll
			for (int w = 0; w < WARPS; w++)
				x += sums[(w * HEADS + h) * s.n_v + d] * fix[w];
			if (part)
				part[2 + s.first_v + d] = x;
			else
				out[d] = missing ? NAN : x * scale / total;
		}
		if (part && threadIdx.x == 0 && s.first_v == 0) {
			part[0] = missing ? NAN : most;
			part[1] = sum;
		}
	}
}

/* A block a (row, query head): adds the splits up. Rows without a token were written by the splits' kernel. */
extern "C" __global__ void __launch_bounds__(THREADS) swakv_attention_join(const __grid_constant__ kernel_attention p)
{
	int dim = p.pages.v_head_dim;

	for (int64_t i = blockIdx.x; i < (int64_t)p.n * p.q_heads; i += gridDim.x) {
		int64_t row = i / p.q_heads;
		int32_t head = (int32_t)(i % p.q_heads);
		float max = -INFINITY, sum = 0, scale, total;
		bool missing = false;

		if (((const int32_t *)p.slots)[row] < 0 || ((const int64_t *)p.endpoints)[row] <= 0)
			continue;
		for (int32_t k = 0; k < p.n_splits; k++) {
			float m = partial_of(p, row, head, k)[0];

			missing |= isnan(m);
			max = fmaxf(max, m);
		}
		for (int32_t k = 0; k < p.n_splits; k++) {
			const float *part = partial_of(p, row, head, k);

			sum += part[1] == 0 ? 0 : part[1] * exp2f(part[0] - max);
		}
		total = with_sink(p, head, max, sum, &scale);
		for (int d = threadIdx.x; d < dim; d += THREADS) {
			float x = 0;

			for (int32_t k = 0; k < p.n_splits; k++) {
				const float *part = partial_of(p, row, head, k);

				x += part[1] == 0 ? 0 : part[2 + d] * exp2f(part[0] - max);
			}
			((float *)p.out)[i * dim + d] = missing ? NAN : x * scale / total;
		}
	}
}

#endif
