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

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attention_split.h"
#include "kernels.h"
#include "paging.h"

#define CHUNK   SPLIT_CHUNK
#define HEADS   SPLIT_HEADS
#define THREADS SPLIT_THREADS
#define WARPS   (THREADS / 32)
#define ALL     0xffffffffu
#define LOG2E   1.4426950408889634f

/* What a block works on. */
struct share {
	int64_t begin, end; /* tokens of the window that it must take */
	int32_t slot;
	int32_t kv_head;
	int32_t first_head; /* query head */
	int32_t n_heads;
	int32_t first_v; /* elements of V's vectors */
	int32_t n_v;
};

/* ---- matrix instructions ------------------------------------------------------ */

/* c[16][8] += a[16][16] b[16][8] */
template <bool BF16>
static __device__ __forceinline__ void multiply_add(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
	if (BF16)
		asm volatile(
			"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
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
		     : "r"((uint32_t)__cvta_generic_to_shared(row))
		     : "memory");
}

/* Two of them: rows 0 to 7 of a; its rows 8 to 15 are zero. */
static __device__ __forceinline__ void load_upper(uint32_t r[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
		     : "=r"(r[0]), "=r"(r[2])
		     : "r"((uint32_t)__cvta_generic_to_shared(row))
		     : "memory");
	r[1] = r[3] = 0;
}

static __device__ __forceinline__ void load_transposed(uint32_t r[4], const uint16_t *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"((uint32_t)__cvta_generic_to_shared(row))
		     : "memory");
}

/* Rounds both to 16 bits, @a in the lower half, and leaves what is lost. */
template <bool BF16> static __device__ __forceinline__ uint32_t next_part(float *a, float *b)
{
	uint32_t pair;

	if (BF16) {
		__nv_bfloat162 x = __floats2bfloat162_rn(*a, *b);

		*a -= __low2float(x);
		*b -= __high2float(x);
		pair = *(uint32_t *)&x;
	} else {
		__half2 x = __floats2half2_rn(*a, *b);

		*a -= __low2float(x);
		*b -= __high2float(x);
		pair = *(uint32_t *)&x;
	}
	return pair;
}

/* ---- a chunk on its way -------------------------------------------------------- */

static __device__ __forceinline__ void copy_async(uint16_t *to, uint64_t from)
{
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
		     :
		     : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
		     : "memory");
}

static __device__ __forceinline__ void copy_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for the older of a warp's two groups of copies: keys and values of its chunk, in turn. */
static __device__ __forceinline__ void copy_wait(void)
{
	asm volatile("cp.async.wait_group 1;" ::: "memory");
	__syncwarp();
}

/* Pages of 32 chunks of a warp, a lane each: asked for early, looked at late. -1: none, or no page of this pool. */
struct lookup {
	int32_t k, v;
	bool missing; /* one that the window needs */
};

/* The share's first chunk begins at @first; chunk i of a warp is number i * WARPS + warp of them. */
static __device__ __forceinline__ int64_t chunk_at(int64_t first, int i)
{
	return first + ((int64_t)i * WARPS + threadIdx.x / 32) * CHUNK;
}

/* Pages of the chunks from @i on. */
static __device__ __forceinline__ lookup ask(const kernel_attention &p, const share &s, int64_t first, int i)
{
	const kernel_pages *g = &p.pages;
	int64_t at = chunk_at(first, i + threadIdx.x % 32);
	lookup l = { -1, -1, false };

	if (at < s.end && !paging_lookup(g, paging_row(g, s.slot), at / (uint32_t)g->page_tokens, &l.k, &l.v)) {
		l.k = l.v = -1;
		l.missing = true;
	}
	return l;
}

/* One half of a warp's chunks: how its vectors lie in the pages and in shared memory. */
struct side {
	uint64_t base;    /* of page 0, at this layer, kv head and first element */
	uint32_t stride;  /* bytes from token to token */
	uint32_t pieces;  /* of 16 bytes a vector: at most 2^6 */
	uint32_t inverse; /* what divides by them, for numbers below 2^10 */
	int row;          /* elements from token to token in shared memory */
};

static __device__ __forceinline__ side side_of(const kernel_attention &p, int32_t kv_head, uint64_t base, int32_t dim,
					       int32_t first, int32_t n)
{
	uint32_t pieces = (uint32_t)n / 8;

	return { paging_layer(&p.pages, base, 0, p.layer) + paging_vector(&p.pages, 0, kv_head, dim) +
			 (uint64_t)first * 2,
		 (uint32_t)(p.pages.kv_heads * dim * 2), pieces, ((1u << 20) + pieces - 1) / pieces, SPLIT_ROW(n) };
}

/*
 * Starts to copy the chunk at @at from page @page to @to; zeros where the window
 * has no token, or no page. @whole: every token is wanted and there.
 */
static __device__ __forceinline__ void fetch(const kernel_attention &p, const share &s, const side &h, int64_t at,
					     int32_t page, bool whole, uint16_t *to)
{
	uint32_t token = (uint32_t)at & (uint32_t)(p.pages.page_tokens - 1);
	uint64_t from = h.base + (uint64_t)page * p.pages.page_stride + (uint64_t)token * h.stride;

#pragma unroll 4
	for (uint32_t i = threadIdx.x % 32; i < CHUNK * h.pieces; i += 32) {
		uint32_t t = i * h.inverse >> 20, c = i - t * h.pieces;
		uint16_t *dst = to + t * h.row + c * 8;

		if (whole || (page >= 0 && at + t >= s.begin && at + t < s.end))
			copy_async(dst, from + t * h.stride + c * 16);
		else
			*(uint4 *)dst = make_uint4(0, 0, 0, 0);
	}
}

/* ---- a chunk in shared memory ------------------------------------------------------ */

/*
 * Scores of the lane's head with its 4 of the 16 tokens: 2 * (lane % 4) and the
 * next, and both 8 later. @queries: rows of parts of heads, as in the head of this file.
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

/* A warp's way through its chunks of a share. */
struct walk {
	side k, v;
	int64_t first;    /* of the share's first chunk */
	int n;            /* chunks */
	lookup now, next; /* pages of the chunk that is fetched and its neighbours, and of the 32 after those */
	bool missing;
};

static __device__ __forceinline__ walk walk_of(const kernel_attention &p, const share &s)
{
	int64_t first = s.begin / CHUNK * CHUNK, all = s.begin < s.end ? (s.end - first + CHUNK - 1) / CHUNK : 0;
	int warp = threadIdx.x / 32;
	walk w;

	w.k = side_of(p, s.kv_head, p.pages.k_base, p.pages.k_head_dim, 0, p.pages.k_head_dim);
	w.v = side_of(p, s.kv_head, p.pages.v_base, p.pages.v_head_dim, s.first_v, s.n_v);
	w.first = first;
	w.n = all > warp ? (int)((all - warp + WARPS - 1) / WARPS) : 0;
	w.now = ask(p, s, first, 0);
	w.next = ask(p, s, first, 32);
	w.missing = w.now.missing;
	return w;
}

/* Starts to fetch one side of chunk @i, if there is one, as a group of copies; keys first, chunk by chunk. */
template <bool VALUES>
static __device__ __forceinline__ void walk_fetch(const kernel_attention &p, const share &s, walk *w, int i,
						  uint16_t *to)
{
	if (i < w->n) {
		int64_t at = chunk_at(w->first, i);
		int32_t page;

		if (!VALUES && i % 32 == 0 && i > 0) {
			w->now = w->next;
			w->missing |= w->now.missing;
			w->next = ask(p, s, w->first, i + 32);
		}
		page = __shfl_sync(ALL, VALUES ? w->now.v : w->now.k, i % 32);
		fetch(p, s, VALUES ? w->v : w->k, at, page, page >= 0 && at >= s.begin && at + CHUNK <= s.end, to);
	}
	copy_commit();
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

/* The part of the work that is block @i of the grid. False: nothing of the window falls to it. */
static __device__ bool share_of(const kernel_attention &p, int64_t i, share *s, int64_t *row, int32_t *split)
{
	int32_t group = p.q_heads / p.pages.kv_heads, parts = SPLIT_UP(group, HEADS), part;
	int32_t v_parts = SPLIT_UP(p.pages.v_head_dim, SPLIT_MOST_V);
	int64_t end, begin, first, each;

	/* What reads the same K and V stands side by side. */
	s->first_v = (int32_t)(i % v_parts) * SPLIT_MOST_V;
	s->n_v = p.pages.v_head_dim - s->first_v < SPLIT_MOST_V ? p.pages.v_head_dim - s->first_v : SPLIT_MOST_V;
	i /= v_parts;
	part = (int32_t)(i % parts);
	i /= parts;
	*split = (int32_t)(i % p.n_splits);
	i /= p.n_splits;
	s->kv_head = (int32_t)(i % p.pages.kv_heads);
	*row = i / p.pages.kv_heads;
	s->slot = ((const int32_t *)p.slots)[*row];
	s->first_head = s->kv_head * group + part * HEADS;
	s->n_heads = group - part * HEADS < HEADS ? group - part * HEADS : HEADS;
	end = ((const int64_t *)p.endpoints)[*row];
	begin = end > p.window ? end - p.window : 0;
	first = begin / CHUNK * CHUNK;
	each = SPLIT_UP(SPLIT_UP(end - first, CHUNK * WARPS), p.n_splits) * CHUNK * WARPS;
	s->begin = *split == 0 ? begin : first + *split * each;
	s->end = first + (*split + 1) * each < end ? first + (*split + 1) * each : end;
	return s->slot >= 0 && end > 0;
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
