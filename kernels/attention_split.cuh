/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_split.cuh - decode attention at memory speed, for 16-bit pages
 *
 * A block takes one (row, kv head, up to G of its query heads, split of the
 * window) and goes through it in tiles of TILE tokens, so each K and V element
 * is read once for all G heads:
 *   1. scores: LANES lanes hold a token's K vector, 16 bytes each (twice for
 *      CHUNKS = 2), against the G queries in their registers; the partial sums
 *      of all heads are reduced together, halving heads and lanes at each step;
 *   2. a running softmax, 128 / G threads a head, in base 2;
 *   3. weighted sums: a thread keeps 8 elements of V for all G heads.
 * Products and sums are floats: no weight is rounded to 16 bits.
 *
 * Splits of one row write {max, sum, accumulator} to the workspace, and
 * swakv_attention_join adds them up. Sinks and the division come last.
 */
#ifndef SWAKV_ATTENTION_SPLIT_CUH
#define SWAKV_ATTENTION_SPLIT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels.h"
#include "paging.h"

#define TILE    64
#define SUB     16 /* tokens of a tile that surely lie in one page */
#define THREADS 128
#define LOG2E   1.4426950408889634f

/* What a block works on. */
struct share {
	int64_t begin, end; /* tokens of the window that it must take */
	int32_t slot;
	int32_t kv_head;
	int32_t first_head; /* query head */
	int32_t n_heads;
};

static __device__ __forceinline__ uint4 load_once(const void *p)
{
	uint4 v;

	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "l"(p));
	return v;
}

/* Eight 16-bit elements as floats. */
template <bool BF16> static __device__ __forceinline__ void widen8(const uint4 &v, float f[8])
{
	const uint32_t w[4] = { v.x, v.y, v.z, v.w };

#pragma unroll
	for (int i = 0; i < 4; i++) {
		if (BF16) {
			f[2 * i] = __uint_as_float(w[i] << 16);
			f[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
		} else {
			float2 x = __half22float2(*(const __half2 *)&w[i]);

			f[2 * i] = x.x;
			f[2 * i + 1] = x.y;
		}
	}
}

/*
 * Sums v[h] over LANES lanes. Each step sends half of the heads away and keeps
 * the other half, so G heads cost about G shuffles. The lane is left with the
 * sum of head *@head; lanes that differ only in the low bits hold the same one.
 */
template <int G, int LANES> static __device__ __forceinline__ float reduce_heads(float v[G], int c, int *head)
{
	int n = G, offset = LANES / 2;

	*head = 0;
#pragma unroll
	for (int step = 0; (1 << step) < G; step++) {
		bool upper = c & offset;

		n /= 2;
#pragma unroll
		for (int i = 0; i < G / 2; i++) {
			if (i < n) {
				float send = upper ? v[i] : v[i + n];
				float keep = upper ? v[i + n] : v[i];

				v[i] = keep + __shfl_xor_sync(0xffffffffu, send, offset);
			}
		}
		*head += upper ? n : 0;
		offset /= 2;
	}
#pragma unroll
	for (int o = LANES / 2; o > 0; o /= 2)
		if (o <= offset)
			v[0] += __shfl_xor_sync(0xffffffffu, v[0], o);
	return v[0];
}

/* Addresses of the sub-tiles' K and V for this layer and kv head; 0: no page. */
struct tile_pages {
	uint64_t k[TILE / SUB];
	uint64_t v[TILE / SUB];
};

/* Looks the tile's pages up. True: one that the window needs is missing. */
static __device__ bool tile_lookup(const kernel_attention &p, const share &s, int64_t at, tile_pages *t)
{
	const kernel_pages *g = &p.pages;
	int i = threadIdx.x;
	int64_t pos = at + i * SUB;
	bool needed, found;
	int32_t k, v;

	if (i >= TILE / SUB)
		return false;
	needed = pos < s.end && pos + SUB > s.begin;
	found = needed && paging_lookup(g, paging_row(g, s.slot), pos / g->page_tokens, &k, &v);
	t->k[i] = t->v[i] = 0;
	if (found) {
		int32_t token = (int32_t)(pos % g->page_tokens);

		t->k[i] = paging_layer(g, g->k_base, k, p.layer) + paging_vector(g, token, s.kv_head, g->k_head_dim);
		t->v[i] = paging_layer(g, g->v_base, v, p.layer) + paging_vector(g, token, s.kv_head, g->v_head_dim);
	}
	return needed && !found;
}

/* Scores of the warp's sub-tile, in base 2, to score[token][head]; -inf outside the window. */
template <bool BF16, int G, int LANES, int CHUNKS>
static __device__ __forceinline__ void tile_scores(const kernel_attention &p, const share &s, int64_t at,
						   uint64_t base, const float q[G][8 * CHUNKS], float *score)
{
	constexpr int STEP = 32 / LANES;                 /* tokens a warp takes at once */
	constexpr int AHEAD = CHUNKS == 2 ? 2 : 4;       /* loads in flight */
	constexpr int STEPS = SUB / STEP;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = lane % LANES, sub = lane / LANES;
	int64_t stride = (int64_t)p.pages.kv_heads * p.pages.k_head_dim * 2;
	bool active = c * 8 < p.pages.k_head_dim;

	for (int first = 0; first < STEPS; first += AHEAD) {
		uint4 loaded[AHEAD][CHUNKS];

#pragma unroll
		for (int a = 0; a < AHEAD; a++) {
			int t = (first + a) * STEP + sub;
			int64_t pos = at + warp * SUB + t;
			bool read = first + a < STEPS && base && pos >= s.begin && pos < s.end;

#pragma unroll
			for (int j = 0; j < CHUNKS; j++)
				loaded[a][j] = read && active && (c + j * LANES) * 8 < p.pages.k_head_dim ?
						       load_once((const char *)(base + t * stride) + (c + j * LANES) * 16) :
						       make_uint4(0, 0, 0, 0);
		}
#pragma unroll
		for (int a = 0; a < AHEAD; a++) {
			int t = (first + a) * STEP + sub, head;
			int64_t pos = at + warp * SUB + t;
			float sum[G], f[8], x;

			if (first + a >= STEPS)
				break;
#pragma unroll
			for (int h = 0; h < G; h++)
				sum[h] = 0;
#pragma unroll
			for (int j = 0; j < CHUNKS; j++) {
				widen8<BF16>(loaded[a][j], f);
#pragma unroll
				for (int h = 0; h < G; h++)
#pragma unroll
					for (int i = 0; i < 8; i++)
						sum[h] = fmaf(q[h][8 * j + i], f[i], sum[h]);
			}
			x = reduce_heads<G, LANES>(sum, c, &head) * p.scale;
			if (p.soft_cap > 0)
				x = p.soft_cap * tanhf(x / p.soft_cap);
			if (c % (LANES / G) == 0)
				score[(warp * SUB + t) * G + head] = pos >= s.begin && pos < s.end ? x * LOG2E :
												      -INFINITY;
		}
	}
}

/* Turns the tile's scores into weights under the new maximum; max, sum and correction of each head in shared memory. */
template <int G> static __device__ __forceinline__ void tile_softmax(float *score, float *max, float *sum, float *fix)
{
	constexpr int PER_HEAD = THREADS / G > 32 ? 32 : THREADS / G;
	int head = threadIdx.x / PER_HEAD, i = threadIdx.x % PER_HEAD;
	float most = -INFINITY, total = 0, before;
	unsigned mask = 0xffffffffu;

	if (head >= G)
		return;
	for (int t = i; t < TILE; t += PER_HEAD)
		most = fmaxf(most, score[t * G + head]);
#pragma unroll
	for (int o = PER_HEAD / 2; o > 0; o /= 2)
		most = fmaxf(most, __shfl_xor_sync(mask, most, o));
	before = max[head];
	most = fmaxf(most, before);
	for (int t = i; t < TILE; t += PER_HEAD) {
		float w = most == -INFINITY ? 0 : exp2f(score[t * G + head] - most);

		score[t * G + head] = w;
		total += w;
	}
#pragma unroll
	for (int o = PER_HEAD / 2; o > 0; o /= 2)
		total += __shfl_xor_sync(mask, total, o);
	if (i == 0) {
		fix[head] = before == -INFINITY ? 0 : exp2f(before - most);
		max[head] = most;
		sum[head] = sum[head] * fix[head] + total;
	}
}

/* Adds the tile's weighted V vectors to the thread's 8 elements of each head. */
template <bool BF16, int G>
static __device__ __forceinline__ void tile_values(const kernel_attention &p, const share &s, int64_t at,
						   const tile_pages *pages, const float *weight, const float *fix,
						   float acc[G][8])
{
	constexpr int AHEAD = 4;
	int chunks = p.pages.v_head_dim / 8, groups = THREADS / chunks;
	int c = threadIdx.x % chunks, group = threadIdx.x / chunks;
	int64_t stride = (int64_t)p.pages.kv_heads * p.pages.v_head_dim * 2;

#pragma unroll
	for (int h = 0; h < G; h++)
#pragma unroll
		for (int i = 0; i < 8; i++)
			acc[h][i] *= fix[h];
	if (group >= groups)
		return;
	for (int first = group; first < TILE; first += AHEAD * groups) {
		uint4 loaded[AHEAD];

#pragma unroll
		for (int a = 0; a < AHEAD; a++) {
			int t = first + a * groups;
			int64_t pos = at + t;
			uint64_t base = t < TILE ? pages->v[t / SUB] : 0;

			loaded[a] = base && pos >= s.begin && pos < s.end ?
					    load_once((const char *)(base + (t % SUB) * stride) + c * 16) :
					    make_uint4(0, 0, 0, 0);
		}
#pragma unroll
		for (int a = 0; a < AHEAD; a++) {
			int t = first + a * groups;
			float f[8];

			if (t >= TILE)
				break;
			widen8<BF16>(loaded[a], f);
#pragma unroll
			for (int h = 0; h < G; h++) {
				float w = weight[t * G + h];

#pragma unroll
				for (int i = 0; i < 8; i++)
					acc[h][i] = fmaf(w, f[i], acc[h][i]);
			}
		}
	}
}

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

/* Joins the thread groups' accumulators head by head and writes the result, or the split's part of it. */
template <int G>
static __device__ void write_share(const kernel_attention &p, const share &s, int64_t row, int32_t split, bool missing,
				   const float *max, const float *sum, const float acc[G][8], float *scratch)
{
	int dim = p.pages.v_head_dim, chunks = dim / 8, groups = THREADS / chunks;
	int c = threadIdx.x % chunks, group = threadIdx.x / chunks;

#pragma unroll
	for (int h = 0; h < G; h++) {
		__syncthreads();
		if (group < groups)
#pragma unroll
			for (int i = 0; i < 8; i++)
				scratch[group * dim + c * 8 + i] = acc[h][i];
		__syncthreads();
		if (h >= s.n_heads)
			continue;
		float *part = p.n_splits > 1 ? partial_of(p, row, s.first_head + h, split) : NULL;
		float *out = (float *)p.out + (row * p.q_heads + s.first_head + h) * dim;
		float scale, total = with_sink(p, s.first_head + h, max[h], sum[h], &scale);

		for (int d = threadIdx.x; d < dim; d += THREADS) {
			float x = 0;

			for (int k = 0; k < groups; k++)
				x += scratch[k * dim + d];
			if (part)
				part[2 + d] = x;
			else
				out[d] = missing ? NAN : x * scale / total;
		}
		if (part && threadIdx.x == 0) {
			part[0] = missing ? NAN : max[h];
			part[1] = sum[h];
		}
	}
}

template <bool BF16, int G, int LANES, int CHUNKS>
static __device__ void attend_share_split(const kernel_attention &p, const share &s, int64_t row, int32_t split)
{
	__shared__ __align__(16) float score[TILE * G];
	__shared__ float max[G], sum[G], fix[G];
	__shared__ tile_pages pages[2]; /* the next tile is looked up while this one is still read */
	extern __shared__ float split_scratch[];
	int c = threadIdx.x % LANES;
	float q[G][8 * CHUNKS], acc[G][8];
	bool missing = false;
	int turn = 0;

#pragma unroll
	for (int h = 0; h < G; h++) {
#pragma unroll
		for (int i = 0; i < 8; i++)
			acc[h][i] = 0;
#pragma unroll
		for (int i = 0; i < 8 * CHUNKS; i++) {
			int d = (c + i / 8 * LANES) * 8 + i % 8;

			q[h][i] = h < s.n_heads && d < p.pages.k_head_dim ?
					  ((const float *)p.q)[(row * p.q_heads + s.first_head + h) *
								       (int64_t)p.pages.k_head_dim +
							       d] :
					  0;
		}
	}
	if (threadIdx.x < G) {
		max[threadIdx.x] = -INFINITY;
		sum[threadIdx.x] = 0;
	}
	for (int64_t at = s.begin / SUB * SUB; at < s.end; at += TILE, turn ^= 1) {
		missing |= __syncthreads_or(tile_lookup(p, s, at, &pages[turn]));
		tile_scores<BF16, G, LANES, CHUNKS>(p, s, at, pages[turn].k[threadIdx.x / 32], q, score);
		__syncthreads();
		tile_softmax<G>(score, max, sum, fix);
		__syncthreads();
		tile_values<BF16, G>(p, s, at, &pages[turn], score, fix, acc);
	}
	__syncthreads();
	write_share<G>(p, s, row, split, missing, max, sum, acc, split_scratch);
}

/* The part of row @row that block @i of the grid takes. False: nothing of the window falls to it. */
template <int G> static __device__ bool share_of(const kernel_attention &p, int64_t i, share *s, int64_t *row, int32_t *split)
{
	int32_t group = p.q_heads / p.pages.kv_heads, parts = (group + G - 1) / G, part;
	int64_t end, begin, tiles, each;

	*split = (int32_t)(i % p.n_splits);
	i /= p.n_splits;
	part = (int32_t)(i % parts);
	i /= parts;
	s->kv_head = (int32_t)(i % p.pages.kv_heads);
	*row = i / p.pages.kv_heads;
	s->slot = ((const int32_t *)p.slots)[*row];
	s->first_head = s->kv_head * group + part * G;
	s->n_heads = group - part * G < G ? group - part * G : G;
	end = ((const int64_t *)p.endpoints)[*row];
	begin = end > p.window ? end - p.window : 0;
	tiles = (end - begin / SUB * SUB + TILE - 1) / TILE;
	each = (tiles + p.n_splits - 1) / p.n_splits * TILE;
	s->begin = *split == 0 ? begin : begin / SUB * SUB + *split * each;
	s->end = begin / SUB * SUB + (*split + 1) * each < end ? begin / SUB * SUB + (*split + 1) * each : end;
	return s->slot >= 0 && end > 0;
}

template <bool BF16, int G, int LANES, int CHUNKS> static __device__ void attend(const kernel_attention &p)
{
	int32_t group = p.q_heads / p.pages.kv_heads, parts = (group + G - 1) / G;
	int64_t n = (int64_t)p.n * p.pages.kv_heads * parts * p.n_splits;

	for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
		int64_t row;
		int32_t split;
		share s;

		if (share_of<G>(p, i, &s, &row, &split)) {
			attend_share_split<BF16, G, LANES, CHUNKS>(p, s, row, split);
		} else {
			for (int h = 0; h < s.n_heads && split == 0; h++)
				for (int d = threadIdx.x; d < p.pages.v_head_dim; d += THREADS)
					((float *)p.out)[(row * p.q_heads + s.first_head + h) *
								 (int64_t)p.pages.v_head_dim +
							 d] = 0;
		}
		__syncthreads();
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

#define SPLIT_KERNEL(type, bf16, g, lanes, chunks)                                                                     \
	extern "C" __global__ void __launch_bounds__(THREADS)                                                          \
		swakv_attention_##type##_g##g##_d##lanes##chunks(const __grid_constant__ kernel_attention p)           \
	{                                                                                                              \
		attend<bf16, g, lanes, chunks>(p);                                                                     \
	}
/* K vectors of up to 64, 128, 256 and 512 elements; 512 leaves registers for four heads only. */
#define SPLIT_KERNELS(type, bf16)                                                                                      \
	SPLIT_KERNEL(type, bf16, 1, 8, 1)                                                                              \
	SPLIT_KERNEL(type, bf16, 4, 8, 1)                                                                              \
	SPLIT_KERNEL(type, bf16, 8, 8, 1)                                                                              \
	SPLIT_KERNEL(type, bf16, 1, 16, 1)                                                                             \
	SPLIT_KERNEL(type, bf16, 4, 16, 1)                                                                             \
	SPLIT_KERNEL(type, bf16, 8, 16, 1)                                                                             \
	SPLIT_KERNEL(type, bf16, 1, 32, 1)                                                                             \
	SPLIT_KERNEL(type, bf16, 4, 32, 1)                                                                             \
	SPLIT_KERNEL(type, bf16, 8, 32, 1)                                                                             \
	SPLIT_KERNEL(type, bf16, 1, 32, 2)                                                                             \
	SPLIT_KERNEL(type, bf16, 4, 32, 2)
SPLIT_KERNELS(f16, false)
SPLIT_KERNELS(bf16, true)

#endif
