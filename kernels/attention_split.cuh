/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_split.cuh - decode attention at memory speed, for 16-bit pages
 *
 * A block takes one (row, kv head, up to G of its query heads, split of the
 * window) and goes through it in tiles, so each K and V element is read once for
 * all G heads. While a tile is worked on in shared memory the next one is on its
 * way, copied past the registers. A tile is
 *   1. scored: LANES lanes hold a token's K vector, 16 bytes each (twice for
 *      CHUNKS = 2), against G queries; the partial sums of all heads are reduced
 *      together, halving heads and lanes at each step;
 *   2. weighed by a running softmax, 128 / G threads a head, in base 2;
 *   3. summed: a thread keeps 4 elements of the result for all G heads.
 * Products and sums are floats: no weight is rounded to 16 bits.
 *
 * Splits of one row write {max, sum, accumulator} to the workspace, and
 * swakv_attention_join adds them up. Sinks and the division come last.
 */
#ifndef SWAKV_ATTENTION_SPLIT_CUH
#define SWAKV_ATTENTION_SPLIT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include "attention_split.h"
#include "kernels.h"
#include "paging.h"

#define SUB     16 /* tokens that surely lie in one page */
#define THREADS 128
#define WARPS   (THREADS / 32)
#define LOG2E   1.4426950408889634f

/* What a block works on. */
struct share {
	int64_t begin, end; /* tokens of the window that it must take */
	int32_t slot;
	int32_t kv_head;
	int32_t first_head; /* query head */
	int32_t n_heads;
};

template <bool BF16> static __device__ __forceinline__ void widen2(uint32_t w, float *f)
{
	if (BF16) {
		f[0] = __uint_as_float(w << 16);
		f[1] = __uint_as_float(w & 0xffff0000u);
	} else {
		float2 x = __half22float2(*(const __half2 *)&w);

		f[0] = x.x;
		f[1] = x.y;
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

/* ---- a tile on its way -------------------------------------------------------- */

/* Addresses of a tile's stretches of SUB tokens, of this layer and kv head; 0: no page. */
template <int TILE> struct tile_pages {
	uint64_t k[TILE / SUB];
	uint64_t v[TILE / SUB];
};

/* Looks the pages of the tile at @at up. True: one that the window needs is missing. */
template <int TILE>
static __device__ __forceinline__ bool tile_lookup(const kernel_attention &p, const share &s, int64_t at,
						   tile_pages<TILE> *t)
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

/* Starts to copy the vectors of one half of a tile to @to, [TILE][dim]; zeros where the window has no token. */
template <int TILE>
static __device__ __forceinline__ void tile_fetch(const share &s, int64_t at, const uint64_t *pages, int dim,
						  int64_t stride, uint16_t *to)
{
	int chunks = dim / 8;

	for (int i = threadIdx.x; i < TILE * chunks; i += THREADS) {
		int t = i / chunks, c = i % chunks;
		int64_t pos = at + t;
		uint64_t base = pages[t / SUB];
		bool read = base && pos >= s.begin && pos < s.end;
		const char *from = (const char *)(base + (t % SUB) * stride) + c * 16;

		if (read)
			__pipeline_memcpy_async(to + t * dim + c * 8, from, 16);
		else
			*(uint4 *)(to + t * dim + c * 8) = make_uint4(0, 0, 0, 0);
	}
}

/* ---- a tile in shared memory ------------------------------------------------------ */

/* Scores in base 2 to score[token][head]; -inf outside the window. @q is [G][k_dim] in shared memory. */
template <bool BF16, int G, int LANES, int CHUNKS, int TILE>
static __device__ __forceinline__ void tile_scores(const kernel_attention &p, const share &s, int64_t at,
						   const uint16_t *keys, const float *q_shared, float *score)
{
	constexpr int STEP = 32 / LANES;    /* tokens a warp takes at once */
	constexpr int EACH = TILE / WARPS;  /* tokens of a warp */
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = lane % LANES, sub = lane / LANES;
	int dim = p.pages.k_head_dim;
	float q[G][8 * CHUNKS];

#pragma unroll
	for (int j = 0; j < CHUNKS; j++) {
		bool active = (c + j * LANES) * 8 < dim;

#pragma unroll
		for (int h = 0; h < G; h++)
#pragma unroll
			for (int i = 0; i < 8; i += 4) {
				float4 x = active ? *(const float4 *)&q_shared[h * dim + (c + j * LANES) * 8 + i] :
						    make_float4(0, 0, 0, 0);

				q[h][8 * j + i] = x.x;
				q[h][8 * j + i + 1] = x.y;
				q[h][8 * j + i + 2] = x.z;
				q[h][8 * j + i + 3] = x.w;
			}
	}
#pragma unroll 2
	for (int first = 0; first < EACH; first += STEP) {
		int t = warp * EACH + first + sub, head;
		int64_t pos = at + t;
		float sum[G], f[8], x;

#pragma unroll
		for (int h = 0; h < G; h++)
			sum[h] = 0;
#pragma unroll
		for (int j = 0; j < CHUNKS; j++) {
			uint4 k = (c + j * LANES) * 8 < dim ? *(const uint4 *)&keys[t * dim + (c + j * LANES) * 8] :
							      make_uint4(0, 0, 0, 0);

			widen2<BF16>(k.x, f);
			widen2<BF16>(k.y, f + 2);
			widen2<BF16>(k.z, f + 4);
			widen2<BF16>(k.w, f + 6);
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
			score[t * G + head] = pos >= s.begin && pos < s.end ? x * LOG2E : -INFINITY;
	}
}

/* Turns the tile's scores into weights under the new maximum; max, sum and correction of each head in shared memory. */
template <int G, int TILE>
static __device__ __forceinline__ void tile_softmax(float *score, float *max, float *sum, float *fix)
{
	constexpr int PER_HEAD = THREADS / G > 32 ? 32 : THREADS / G;
	int head = threadIdx.x / PER_HEAD, i = threadIdx.x % PER_HEAD;
	float most = -INFINITY, total = 0, before;

	if (head >= G)
		return;
	for (int t = i; t < TILE; t += PER_HEAD)
		most = fmaxf(most, score[t * G + head]);
#pragma unroll
	for (int o = PER_HEAD / 2; o > 0; o /= 2)
		most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
	before = max[head];
	most = fmaxf(most, before);
	for (int t = i; t < TILE; t += PER_HEAD) {
		float w = most == -INFINITY ? 0 : exp2f(score[t * G + head] - most);

		score[t * G + head] = w;
		total += w;
	}
#pragma unroll
	for (int o = PER_HEAD / 2; o > 0; o /= 2)
		total += __shfl_xor_sync(0xffffffffu, total, o);
	if (i == 0) {
		fix[head] = before == -INFINITY ? 0 : exp2f(before - most);
		max[head] = most;
		sum[head] = sum[head] * fix[head] + total;
	}
}

/* The 4 elements of the result that a thread sums, and the tokens it takes. */
struct lane_values {
	int chunk, group, groups; /* groups of threads share the tokens out */
};

static __device__ __forceinline__ lane_values lane_of(int dim)
{
	int chunks = dim / 4;

	return { (int)threadIdx.x % chunks, (int)threadIdx.x / chunks, THREADS / chunks };
}

template <bool BF16, int G, int TILE>
static __device__ __forceinline__ void tile_values(const uint16_t *values, int dim, const float *weight,
						   const float *fix, float acc[G][4])
{
	lane_values l = lane_of(dim);

#pragma unroll
	for (int h = 0; h < G; h++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			acc[h][i] *= fix[h];
	if (l.group >= l.groups)
		return;
#pragma unroll 4
	for (int t = l.group; t < TILE; t += l.groups) {
		uint2 v = *(const uint2 *)&values[t * dim + l.chunk * 4];
		float f[4];

		widen2<BF16>(v.x, f);
		widen2<BF16>(v.y, f + 2);
#pragma unroll
		for (int h = 0; h < G; h++) {
			float w = weight[t * G + h];

#pragma unroll
			for (int i = 0; i < 4; i++)
				acc[h][i] = fmaf(w, f[i], acc[h][i]);
		}
	}
}

/* ---- results -------------------------------------------------------------------------- */

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
				   const float *max, const float *sum, const float acc[G][4], float *scratch)
{
	int dim = p.pages.v_head_dim;
	lane_values l = lane_of(dim);

#pragma unroll
	for (int h = 0; h < G; h++) {
		__syncthreads();
		if (l.group < l.groups)
#pragma unroll
			for (int i = 0; i < 4; i++)
				scratch[l.group * dim + l.chunk * 4 + i] = acc[h][i];
		__syncthreads();
		if (h >= s.n_heads)
			continue;
		float *part = p.n_splits > 1 ? partial_of(p, row, s.first_head + h, split) : NULL;
		float *out = (float *)p.out + (row * p.q_heads + s.first_head + h) * dim;
		float scale, total = with_sink(p, s.first_head + h, max[h], sum[h], &scale);

		for (int d = threadIdx.x; d < dim; d += THREADS) {
			float x = 0;

			for (int k = 0; k < l.groups; k++)
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

/* Dynamic shared memory: two tiles of K and V, then the queries [G][k_dim]; at the end, the groups' accumulators. */
template <bool BF16, int G, int LANES, int CHUNKS, int TILE>
static __device__ void attend_share_split(const kernel_attention &p, const share &s, int64_t row, int32_t split)
{
	extern __shared__ __align__(16) uint16_t split_memory[];
	__shared__ __align__(16) float score[TILE * G];
	__shared__ float max[G], sum[G], fix[G];
	__shared__ tile_pages<TILE> pages[3]; /* looked up two tiles ahead */
	int k_dim = p.pages.k_head_dim, v_dim = p.pages.v_head_dim, stage = TILE * (k_dim + v_dim);
	int64_t k_stride = (int64_t)p.pages.kv_heads * k_dim * 2, v_stride = (int64_t)p.pages.kv_heads * v_dim * 2;
	int64_t first = s.begin / SUB * SUB, n = s.begin < s.end ? (s.end - first + TILE - 1) / TILE : 0;
	float *q = (float *)(split_memory + 2 * stage);
	float acc[G][4] = {};
	bool missing;

	for (int i = threadIdx.x; i < G * k_dim; i += THREADS)
		q[i] = i / k_dim < s.n_heads ?
			       ((const float *)p.q)[(row * p.q_heads + s.first_head) * (int64_t)k_dim + i] :
			       0;
	if (threadIdx.x < G) {
		max[threadIdx.x] = -INFINITY;
		sum[threadIdx.x] = 0;
	}
	missing = tile_lookup<TILE>(p, s, first, &pages[0]) | tile_lookup<TILE>(p, s, first + TILE, &pages[1]);
	__syncthreads();
	if (n > 0) {
		tile_fetch<TILE>(s, first, pages[0].k, k_dim, k_stride, split_memory);
		tile_fetch<TILE>(s, first, pages[0].v, v_dim, v_stride, split_memory + TILE * k_dim);
	}
	__pipeline_commit();
	for (int64_t i = 0; i < n; i++) {
		int64_t at = first + i * TILE;
		uint16_t *now = split_memory + i % 2 * stage, *next = split_memory + (i + 1) % 2 * stage;

		if (i + 1 < n) {
			tile_fetch<TILE>(s, at + TILE, pages[(i + 1) % 3].k, k_dim, k_stride, next);
			tile_fetch<TILE>(s, at + TILE, pages[(i + 1) % 3].v, v_dim, v_stride, next + TILE * k_dim);
		}
		__pipeline_commit();
		missing |= tile_lookup<TILE>(p, s, at + 2 * TILE, &pages[(i + 2) % 3]);
		__pipeline_wait_prior(1);
		__syncthreads();
		tile_scores<BF16, G, LANES, CHUNKS, TILE>(p, s, at, now, q, score);
		__syncthreads();
		tile_softmax<G, TILE>(score, max, sum, fix);
		__syncthreads();
		tile_values<BF16, G, TILE>(now + TILE * k_dim, v_dim, score, fix, acc);
		__syncthreads();
	}
	missing = __syncthreads_or(missing);
	write_share<G>(p, s, row, split, missing, max, sum, acc, (float *)split_memory);
}

/* The part of row @row that block @i of the grid takes. False: nothing of the window falls to it. */
template <int G, int TILE> static __device__ bool share_of(const kernel_attention &p, int64_t i, share *s, int64_t *row, int32_t *split)
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

template <bool BF16, int G, int LANES, int CHUNKS, int TILE> static __device__ void attend(const kernel_attention &p)
{
	int32_t group = p.q_heads / p.pages.kv_heads, parts = (group + G - 1) / G;
	int64_t n = (int64_t)p.n * p.pages.kv_heads * parts * p.n_splits;

	for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
		int64_t row;
		int32_t split;
		share s;

		if (share_of<G, TILE>(p, i, &s, &row, &split)) {
			attend_share_split<BF16, G, LANES, CHUNKS, TILE>(p, s, row, split);
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

/* The tile shrinks as vectors grow, so that several blocks share a multiprocessor's memory; see kernels/launch.c. */
#define SPLIT_KERNEL(type, bf16, g, lanes, chunks, tile)                                                               \
	extern "C" __global__ void __launch_bounds__(THREADS, 3)                                                       \
		swakv_attention_##type##_g##g##_d##lanes##chunks(const __grid_constant__ kernel_attention p)           \
	{                                                                                                              \
		attend<bf16, g, lanes, chunks, tile>(p);                                                               \
	}
/* K vectors of up to 64, 128, 256 and 512 elements; 512 leaves registers for four heads only. */
#define SPLIT_KERNELS(type, bf16)                                                                                      \
	SPLIT_KERNEL(type, bf16, 1, 8, 1, SPLIT_TILE_64)                                                               \
	SPLIT_KERNEL(type, bf16, 4, 8, 1, SPLIT_TILE_64)                                                               \
	SPLIT_KERNEL(type, bf16, 8, 8, 1, SPLIT_TILE_64)                                                               \
	SPLIT_KERNEL(type, bf16, 1, 16, 1, SPLIT_TILE_128)                                                             \
	SPLIT_KERNEL(type, bf16, 4, 16, 1, SPLIT_TILE_128)                                                             \
	SPLIT_KERNEL(type, bf16, 8, 16, 1, SPLIT_TILE_128)                                                             \
	SPLIT_KERNEL(type, bf16, 1, 32, 1, SPLIT_TILE_256)                                                             \
	SPLIT_KERNEL(type, bf16, 4, 32, 1, SPLIT_TILE_256)                                                             \
	SPLIT_KERNEL(type, bf16, 8, 32, 1, SPLIT_TILE_256)                                                             \
	SPLIT_KERNEL(type, bf16, 1, 32, 2, SPLIT_TILE_512)                                                             \
	SPLIT_KERNEL(type, bf16, 4, 32, 2, SPLIT_TILE_512)
SPLIT_KERNELS(f16, false)
SPLIT_KERNELS(bf16, true)

#endif
