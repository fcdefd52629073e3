/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_split.cuh - decode attention at memory speed, for 16-bit pages
 *
 * A block takes one (row, kv head, up to 5 or 10 of its query heads, split of
 * the window) and goes through it in tiles, so each K and V element is read once
 * for all of them. While a tile is worked on in shared memory the next one is on
 * its way, copied past the registers. A tile is
 *   1. scored by matrix instructions,
 *   2. weighed by a running softmax in base 2,
 *   3. summed by matrix instructions.
 *
 * Those take 16-bit numbers and add up in float. K and V are 16-bit anyway; a
 * query (and a weight) is given as the sum of three 16-bit numbers, each the
 * rest of the one before, in three rows of the same instruction: with few
 * queries a kv head those rows would be empty. So nothing is rounded to less than
 * a float, and the instruction costs the same.
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
#define THREADS SPLIT_THREADS
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

/* ---- matrix instructions ------------------------------------------------------ */

/* c[16][8] += a[16][16] b[16][8] */
template <bool BF16>
static __device__ __forceinline__ void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	if (BF16)
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
			     "{%0,%1,%2,%3};"
			     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
	else
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
			     "{%0,%1,%2,%3};"
			     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices; lane i names row i % 8 of matrix i / 8. */
static __device__ __forceinline__ void load_matrices(uint32_t r[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"((uint32_t)__cvta_generic_to_shared(row)));
}

static __device__ __forceinline__ void load_transposed(uint32_t r[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"((uint32_t)__cvta_generic_to_shared(row)));
}

template <bool BF16> static __device__ __forceinline__ uint16_t narrow(float x)
{
	return BF16 ? __bfloat16_as_ushort(__float2bfloat16(x)) : __half_as_ushort(__float2half(x));
}

template <bool BF16> static __device__ __forceinline__ float widen(uint16_t x)
{
	return BF16 ? __bfloat162float(__ushort_as_bfloat16(x)) : __half2float(__ushort_as_half(x));
}

/* Writes @x as three numbers, @apart elements from each other. */
template <bool BF16> static __device__ __forceinline__ void put_parts(uint16_t *to, int apart, float x)
{
#pragma unroll
	for (int i = 0; i < SPLIT_PARTS; i++) {
		uint16_t part = narrow<BF16>(x);

		to[i * apart] = part;
		x -= widen<BF16>(part);
	}
}

/* ---- a tile on its way -------------------------------------------------------- */

/* Addresses of a tile's stretches of SUB tokens, of this layer and kv head; 0: no page. */
template <int TILE> struct tile_pages {
	uint64_t k[TILE / SUB];
	uint64_t v[TILE / SUB];
};

/* A table entry on its way to one of the first TILE / SUB threads: asked for early, looked at late. */
struct lookup {
	int32_t k, v;
	bool needed;
};

/* Asks for the pages of the tile at @at. */
template <int TILE>
static __device__ __forceinline__ lookup tile_ask(const kernel_attention &p, const share &s, int64_t at)
{
	const kernel_pages *g = &p.pages;
	int64_t pos = at + (int)threadIdx.x * SUB, column = pos / (uint32_t)g->page_tokens;
	lookup l = { -1, -1, threadIdx.x < TILE / SUB && pos < s.end && pos + SUB > s.begin };

	if (l.needed && column < g->width) {
		const int32_t *row = paging_row(g, s.slot);

		l.k = row[column];
		l.v = row[g->width + column];
	}
	return l;
}

/* Turns what was asked for into addresses. True: a page that the window needs is missing, or none of this pool. */
template <int TILE>
static __device__ __forceinline__ bool tile_answer(const kernel_attention &p, const share &s, int64_t at,
						   const lookup &l, tile_pages<TILE> *t)
{
	const kernel_pages *g = &p.pages;
	int i = threadIdx.x;
	int32_t token = (int32_t)((at + i * SUB) & (g->page_tokens - 1));
	bool found = l.k >= 0 && l.k < g->num_pages && l.v >= g->num_pages && l.v - g->num_pages < g->num_pages;

	if (i >= TILE / SUB)
		return false;
	t->k[i] = t->v[i] = 0;
	if (found) {
		t->k[i] = paging_layer(g, g->k_base, l.k, p.layer) + paging_vector(g, token, s.kv_head, g->k_head_dim);
		t->v[i] = paging_layer(g, g->v_base, l.v, p.layer) + paging_vector(g, token, s.kv_head, g->v_head_dim);
	}
	return l.needed && !found;
}

/* Pieces of 16 bytes a vector, and what divides by their number: a tile has less than 2^12 pieces, a vector at most 2^6. */
struct fetch_lane {
	uint32_t chunks, inverse;
};

static __device__ __forceinline__ fetch_lane fetch_lane_of(int dim)
{
	uint32_t chunks = (uint32_t)dim / 8;

	return { chunks, ((1u << 20) + chunks - 1) / chunks };
}

/*
 * Starts to copy the vectors of one half of a tile to @to, rows of @row elements;
 * zeros where the window has no token.
 */
template <int TILE>
static __device__ __forceinline__ void tile_fetch(const share &s, const fetch_lane &l, int64_t at, const uint64_t *pages,
						  int row, uint32_t stride, uint16_t *to)
{
	bool whole = at >= s.begin && at + TILE <= s.end;

#pragma unroll 4
	for (uint32_t i = threadIdx.x; i < TILE * l.chunks; i += THREADS) {
		int t = (int)(i * l.inverse >> 20), c = (int)(i - (uint32_t)t * l.chunks);
		uint64_t base = pages[t / SUB];
		uint16_t *dst = to + t * row + c * 8;

		if (base && (whole || (at + t >= s.begin && at + t < s.end)))
			__pipeline_memcpy_async(dst, (const char *)(base + (uint32_t)(t % SUB) * stride + c * 16), 16);
		else
			*(uint4 *)dst = make_uint4(0, 0, 0, 0);
	}
}

/* ---- a tile in shared memory ------------------------------------------------------ */

/* Scores of the parts: score[row][token] = queries[row] . keys[token]. A warp takes every WARPS-th eight tokens. */
template <bool BF16, int MT, int TILE>
static __device__ __forceinline__ void tile_scores(const uint16_t *keys, const uint16_t *queries, int row, float *score)
{
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

	for (int first = warp * 8; first < TILE; first += WARPS * 8) {
		const uint16_t *key = keys + (first + lane % 8) * row + lane / 8 * 8;
		const uint16_t *query = queries + lane % 16 * row + lane / 16 * 8;
		float c[MT][4] = {};

#pragma unroll 2
		for (int d = 0; d + 8 < row; d += 32) {
			uint32_t b[4], a[4];

			load_matrices(b, key + d);
#pragma unroll
			for (int m = 0; m < MT; m++) {
				load_matrices(a, query + m * 16 * row + d);
				multiply_add<BF16>(c[m], a, b[0], b[1]);
				load_matrices(a, query + m * 16 * row + d + 16);
				multiply_add<BF16>(c[m], a, b[2], b[3]);
			}
		}
#pragma unroll
		for (int m = 0; m < MT; m++) {
			float *to = score + (m * 16 + lane / 4) * (TILE + 4) + first + lane % 4 * 2;

			*(float2 *)to = make_float2(c[m][0], c[m][1]);
			*(float2 *)(to + 8 * (TILE + 4)) = make_float2(c[m][2], c[m][3]);
		}
	}
}

/*
 * Joins the parts of the scores and turns them into weights, in parts again,
 * under the new maximum. THREADS / (8 MT) threads a head; max, sum and
 * correction of each head in shared memory.
 */
template <bool BF16, int MT, int TILE>
static __device__ __forceinline__ void tile_softmax(const kernel_attention &p, const share &s, int64_t at,
						    const float *score, uint16_t *weight, float *max, float *sum,
						    float *fix)
{
	constexpr int HEADS = SPLIT_HEADS(MT), LANES = THREADS / 8 / MT, EACH = TILE / LANES;
	bool own = (int)threadIdx.x / LANES < HEADS; /* the last threads go through the first head and write nothing */
	int head = own ? threadIdx.x / LANES : 0, i = threadIdx.x % LANES;
	float x[EACH], most = -INFINITY, total = 0, before;

#pragma unroll
	for (int k = 0; k < EACH; k++) {
		int t = i + k * LANES;
		int64_t pos = at + t;

		x[k] = (score[head * (TILE + 4) + t] + score[(HEADS + head) * (TILE + 4) + t] +
			score[(2 * HEADS + head) * (TILE + 4) + t]) *
		       p.scale;
		if (p.soft_cap > 0)
			x[k] = p.soft_cap * tanhf(x[k] / p.soft_cap);
		x[k] = pos >= s.begin && pos < s.end ? x[k] * LOG2E : -INFINITY;
		most = fmaxf(most, x[k]);
	}
#pragma unroll
	for (int o = LANES / 2; o > 0; o /= 2)
		most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
	before = own ? max[head] : -INFINITY;
	most = fmaxf(most, before);
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		x[k] = x[k] == -INFINITY ? 0 : exp2f(x[k] - most);
		total += x[k];
	}
#pragma unroll
	for (int o = LANES / 2; o > 0; o /= 2)
		total += __shfl_xor_sync(0xffffffffu, total, o);
	__syncwarp(); /* every lane has read its head's maximum */
	if (!own)
		return;
#pragma unroll
	for (int k = 0; k < EACH; k++)
		put_parts<BF16>(weight + head * (TILE + 8) + i + k * LANES, HEADS * (TILE + 8), x[k]);
	if (i == 0) {
		fix[head] = before == -INFINITY ? 0 : exp2f(before - most);
		max[head] = most;
		sum[head] = sum[head] * fix[head] + total;
	}
}

/* acc[row][d] += weights[row][token] values[token][d]. A warp takes every WARPS-th eight elements of d: NV of them. */
template <bool BF16, int MT, int TILE, int NV>
static __device__ __forceinline__ void tile_values(const uint16_t *values, int dim, const uint16_t *weight,
						   const float *fix, float acc[MT][NV][4])
{
	constexpr int HEADS = SPLIT_HEADS(MT);
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = SPLIT_V_ROW(dim);

#pragma unroll
	for (int m = 0; m < MT; m++) {
		float upper = fix[(m * 16 + lane / 4) % HEADS], lower = fix[(m * 16 + lane / 4 + 8) % HEADS];

#pragma unroll
		for (int j = 0; j < NV; j++) {
			acc[m][j][0] *= upper;
			acc[m][j][1] *= upper;
			acc[m][j][2] *= lower;
			acc[m][j][3] *= lower;
		}
	}
#pragma unroll
	for (int t = 0; t < TILE; t += 32) {
		uint32_t a[MT][2][4];

#pragma unroll
		for (int m = 0; m < MT; m++)
#pragma unroll
			for (int k = 0; k < 2; k++)
				load_matrices(a[m][k], weight + (m * 16 + lane % 16) * (TILE + 8) + t + k * 16 +
							       lane / 16 * 8);
#pragma unroll
		for (int j = 0; j < NV; j++) {
			int d = (j * WARPS + warp) * 8;
			uint32_t b[4];

			if (d >= dim)
				break;
			load_transposed(b, values + (t + lane) * row + d);
#pragma unroll
			for (int m = 0; m < MT; m++) {
				multiply_add<BF16>(acc[m][j], a[m][0], b[0], b[1]);
				multiply_add<BF16>(acc[m][j], a[m][1], b[2], b[3]);
			}
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

/* Joins the parts and writes the result, or the split's part of it. @joined: [MT * 16][v_dim]. */
template <int MT, int NV>
static __device__ void write_share(const kernel_attention &p, const share &s, int64_t row, int32_t split, bool missing,
				   const float *max, const float *sum, const float acc[MT][NV][4], float *joined)
{
	constexpr int HEADS = SPLIT_HEADS(MT);
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = p.pages.v_head_dim;

#pragma unroll
	for (int m = 0; m < MT; m++)
#pragma unroll
		for (int j = 0; j < NV; j++) {
			int d = (j * WARPS + warp) * 8 + lane % 4 * 2;
			float *to = joined + (m * 16 + lane / 4) * dim + d;

			if (d < dim) {
				*(float2 *)to = make_float2(acc[m][j][0], acc[m][j][1]);
				*(float2 *)(to + 8 * dim) = make_float2(acc[m][j][2], acc[m][j][3]);
			}
		}
	__syncthreads();
	for (int h = 0; h < s.n_heads; h++) {
		float *part = p.n_splits > 1 ? partial_of(p, row, s.first_head + h, split) : NULL;
		float *out = (float *)p.out + (row * p.q_heads + s.first_head + h) * dim;
		float scale, total = with_sink(p, s.first_head + h, max[h], sum[h], &scale);

		for (int d = threadIdx.x; d < dim; d += THREADS) {
			float x = joined[h * dim + d] + joined[(HEADS + h) * dim + d] + joined[(2 * HEADS + h) * dim + d];

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

/* The queries in parts; rows without a query, and elements behind a vector's end, are 0 in all that is multiplied. */
template <bool BF16, int MT, int TILE>
static __device__ void prepare_shared(const kernel_attention &p, const share &s, int64_t row, uint16_t *memory,
				      uint16_t *queries)
{
	int dim = p.pages.k_head_dim, k_row = SPLIT_K_ROW(dim);
	int n = SPLIT_SHARED(MT, TILE, dim, p.pages.v_head_dim) / 16;

	for (int i = threadIdx.x; i < n; i += THREADS)
		((uint4 *)memory)[i] = make_uint4(0, 0, 0, 0);
	__syncthreads();
	for (int i = threadIdx.x; i < s.n_heads * dim; i += THREADS)
		put_parts<BF16>(queries + i / dim * k_row + i % dim, SPLIT_HEADS(MT) * k_row,
				((const float *)p.q)[(row * p.q_heads + s.first_head) * (int64_t)dim + i]);
}

template <bool BF16, int MT, int TILE, int NV>
static __device__ void attend_share_split(const kernel_attention &p, const share &s, int64_t row, int32_t split)
{
	extern __shared__ __align__(16) uint16_t split_memory[];
	__shared__ float max[SPLIT_HEADS(MT)], sum[SPLIT_HEADS(MT)], fix[SPLIT_HEADS(MT)];
	__shared__ tile_pages<TILE> pages[3]; /* looked up two tiles ahead */
	int k_dim = p.pages.k_head_dim, v_dim = p.pages.v_head_dim, k_row = SPLIT_K_ROW(k_dim), v_row = SPLIT_V_ROW(v_dim);
	int stage = SPLIT_STAGE(TILE, k_dim, v_dim) / 2;
	uint16_t *queries = split_memory + 2 * stage, *weight = queries + SPLIT_QUERIES(MT, k_dim) / 2;
	float *score = (float *)(weight + SPLIT_WEIGHTS(MT, TILE) / 2);
	uint32_t k_stride = (uint32_t)p.pages.kv_heads * k_dim * 2, v_stride = (uint32_t)p.pages.kv_heads * v_dim * 2;
	int64_t first = s.begin / SUB * SUB, n = s.begin < s.end ? (s.end - first + TILE - 1) / TILE : 0;
	fetch_lane k_lane = fetch_lane_of(k_dim), v_lane = fetch_lane_of(v_dim);
	float acc[MT][NV][4] = {};
	bool missing;

	prepare_shared<BF16, MT, TILE>(p, s, row, split_memory, queries);
	if (threadIdx.x < SPLIT_HEADS(MT)) {
		max[threadIdx.x] = -INFINITY;
		sum[threadIdx.x] = 0;
	}
	missing = tile_answer<TILE>(p, s, first, tile_ask<TILE>(p, s, first), &pages[0]);
	missing |= tile_answer<TILE>(p, s, first + TILE, tile_ask<TILE>(p, s, first + TILE), &pages[1]);
	__syncthreads();
	if (n > 0) {
		tile_fetch<TILE>(s, k_lane, first, pages[0].k, k_row, k_stride, split_memory);
		tile_fetch<TILE>(s, v_lane, first, pages[0].v, v_row, v_stride, split_memory + TILE * k_row);
	}
	__pipeline_commit();
	for (int64_t i = 0; i < n; i++) {
		int64_t at = first + i * TILE;
		uint16_t *now = split_memory + i % 2 * stage, *next = split_memory + (i + 1) % 2 * stage;

		if (i + 1 < n) {
			tile_fetch<TILE>(s, k_lane, at + TILE, pages[(i + 1) % 3].k, k_row, k_stride, next);
			tile_fetch<TILE>(s, v_lane, at + TILE, pages[(i + 1) % 3].v, v_row, v_stride,
					 next + TILE * k_row);
		}
		__pipeline_commit();
		lookup asked = tile_ask<TILE>(p, s, at + 2 * TILE);
		__pipeline_wait_prior(1);
		__syncthreads();
		tile_scores<BF16, MT, TILE>(now, queries, k_row, score);
		__syncthreads();
		tile_softmax<BF16, MT, TILE>(p, s, at, score, weight, max, sum, fix);
		__syncthreads();
		tile_values<BF16, MT, TILE, NV>(now + TILE * k_row, v_dim, weight, fix, acc);
		missing |= tile_answer<TILE>(p, s, at + 2 * TILE, asked, &pages[(i + 2) % 3]);
		__syncthreads();
	}
	__pipeline_wait_prior(0);
	missing = __syncthreads_or(missing);
	write_share<MT, NV>(p, s, row, split, missing, max, sum, acc, (float *)split_memory);
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

template <bool BF16, int MT, int TILE, int NV> static __device__ void attend(const kernel_attention &p)
{
	constexpr int G = SPLIT_HEADS(MT);
	int32_t group = p.q_heads / p.pages.kv_heads, parts = (group + G - 1) / G;
	int64_t n = (int64_t)p.n * p.pages.kv_heads * parts * p.n_splits;

	for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
		int64_t row;
		int32_t split;
		share s;

		if (share_of<G, TILE>(p, i, &s, &row, &split)) {
			attend_share_split<BF16, MT, TILE, NV>(p, s, row, split);
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
/* MT 1 or 2: up to 5 or 10 heads a block. Vectors (the longer of K and V) of up to 64, 128, 256 and 512 elements. */
#define SPLIT_KERNEL(type, bf16, mt, dim)                                                                              \
	extern "C" __global__ void __launch_bounds__(THREADS, 2)                                                       \
		swakv_attention_##type##_m##mt##_d##dim(const __grid_constant__ kernel_attention p)                    \
	{                                                                                                              \
		attend<bf16, mt, SPLIT_TILE(dim), dim / 8 / WARPS>(p);                                                 \
	}
#define SPLIT_KERNELS(type, bf16)                                                                                      \
	SPLIT_KERNEL(type, bf16, 1, 64)                                                                                \
	SPLIT_KERNEL(type, bf16, 2, 64)                                                                                \
	SPLIT_KERNEL(type, bf16, 1, 128)                                                                               \
	SPLIT_KERNEL(type, bf16, 2, 128)                                                                               \
	SPLIT_KERNEL(type, bf16, 1, 256)                                                                               \
	SPLIT_KERNEL(type, bf16, 2, 256)                                                                               \
	SPLIT_KERNEL(type, bf16, 1, 512)
SPLIT_KERNELS(f16, false)
SPLIT_KERNELS(bf16, true)

#endif
