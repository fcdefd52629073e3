/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.cu - the CUDA kernels that an engine brings itself, for demo and tests
 *
 * Parameter blocks travel as in table.cu. Grids are bounded and the loops stride
 * over the rest, so any size fits a launch; only what fills and copies pages has
 * a block for each piece of them. Addresses come from paging.h, the same as the
 * CPU twins'.
 */
#include <cuda_fp16.h>

#include "attention_split.cuh"
#include "kernels.h"
#include "paging.h"
#include "pieces.cuh"

#define WARP 32

/* As convert_fp8(). */
static __device__ __forceinline__ float load_fp8(uint32_t e)
{
	uint32_t bits = __float_as_uint(__uint_as_float((e & 0x7f) << 20) * 0x1p120f);

	return __uint_as_float(bits | ((e & 0x7f) == 0x7f ? 0x7fc00000u : 0) | (e & 0x80) << 24);
}

static __device__ __forceinline__ float load_element(const void *p, int64_t i, int32_t dtype)
{
	if (dtype == KERNEL_F32)
		return ((const float *)p)[i];
	if (dtype == KERNEL_FP8)
		return load_fp8(((const uint8_t *)p)[i]);
	if (dtype == KERNEL_BF16)
		return __uint_as_float((uint32_t)((const uint16_t *)p)[i] << 16);
	return __half2float(((const __half *)p)[i]);
}

/* Copies @n words of the type with the whole block. */
template <typename WORD> static __device__ __forceinline__ void block_copy_as(uint64_t to, uint64_t from, uint64_t n)
{
	for (uint64_t i = threadIdx.x; i < n; i += blockDim.x)
		((WORD *)to)[i] = ((const WORD *)from)[i];
}

/* Copies @bytes with the whole block, in words of 16 or 2 bytes where both sides allow it. */
static __device__ void block_copy(uint64_t to, uint64_t from, uint64_t bytes)
{
	uint64_t all = to | from | bytes;

	if (all % 16 == 0)
		block_copy_as<uint4>(to, from, bytes / 16);
	else if (all % 2 == 0)
		block_copy_as<uint16_t>(to, from, bytes / 2);
	else
		block_copy_as<uint8_t>(to, from, bytes);
}

/* The @n heads of a token, side by side at @from, to places @stride bytes apart. */
static __device__ void block_write_heads(uint64_t to, uint64_t stride, uint64_t from, uint64_t bytes, int32_t n)
{
	if (stride == bytes)
		block_copy(to, from, (uint64_t)n * bytes);
	else
		for (int32_t head = 0; head < n; head++)
			block_copy(to + head * stride, from + head * bytes, bytes);
}

/* @scales: of the token's page and layer; @first: of the token in the sources. */
static __device__ void block_write_scales(const kernel_kv_write &p, uint64_t scales, int32_t token, uint64_t first)
{
	const kernel_pages *g = &p.pages;

	for (int32_t head = threadIdx.x; head < g->kv_heads; head += blockDim.x) {
		((float *)(scales + paging_scales(g, 0, token)))[head] = ((const float *)p.k_scales)[first + head];
		((float *)(scales + paging_scales(g, 1, token)))[head] = ((const float *)p.v_scales)[first + head];
	}
}

/* A block a token. */
extern "C" __global__ void swakv_kv_write(const __grid_constant__ struct kernel_kv_write p)
{
	const struct kernel_pages *g = &p.pages;
	const int32_t *slots = (const int32_t *)p.slots;
	const int64_t *positions = (const int64_t *)p.positions;
	uint64_t k_bytes = paging_bytes(g, g->k_head_dim), v_bytes = paging_bytes(g, g->v_head_dim);

	for (int64_t i = blockIdx.x; i < p.n_tokens; i += gridDim.x) {
		uint64_t first = i * g->kv_heads;
		int32_t token, k, v;

		if (slots[i] < 0 || positions[i] < 0 ||
		    !paging_lookup(g, paging_row(g, slots[i]), positions[i] / g->page_tokens, &k, &v))
			continue;
		token = (int32_t)(positions[i] % g->page_tokens);
		block_write_heads(paging_layer(g, g->k, k, p.layer) + paging_k(g, token, 0), g->k_head,
				  p.k + first * k_bytes, k_bytes, g->kv_heads);
		block_write_heads(paging_layer(g, g->v, v, p.layer) + paging_v(g, token, 0), g->v_head,
				  p.v + first * v_bytes, v_bytes, g->kv_heads);
		if (g->dtype == KERNEL_FP8)
			block_write_scales(p, paging_layer(g, g->scales, k, p.layer), token, first);
	}
}

extern "C" __global__ void __launch_bounds__(KERNEL_FILL_THREADS)
	swakv_fill(const __grid_constant__ struct kernel_fill p)
{
	fill(&p.pages, (const int32_t *)p.page_list, p.n_pages, p.pattern);
}

/* Words of 16 bytes that a warp copies: side by side, so many for each lane. */
#define EACH       8u
#define WARP_WORDS (EACH * WARP)

/* @N words of a lane, a warp's width apart, between sides that stand alike to 16 bytes; @left of them are there. */
template <uint32_t N, bool ALL_THERE>
static __device__ __forceinline__ void copy_words(uint4 *to, const uint4 *from, int32_t left)
{
	uint4 held[N];

#pragma unroll
	for (uint32_t k = 0; k < N; k++)
		if (ALL_THERE || (int32_t)(k * WARP) < left)
			held[k] = __ldcs(&from[k * WARP]);
#pragma unroll
	for (uint32_t k = 0; k < N; k++)
		if (ALL_THERE || (int32_t)(k * WARP) < left)
			__stcs(&to[k * WARP], held[k]);
}

/* At most a piece. */
static __device__ __forceinline__ void block_copy_words(uint4 *to, const uint4 *from, uint32_t words)
{
	uint32_t first = threadIdx.x / WARP * WARP_WORDS + threadIdx.x % WARP;
	int32_t left = (int32_t)(words - first);

	to += first;
	from += first;
	if (words == KERNEL_PIECE / sizeof(uint4)) {
		copy_words<EACH, true>(to, from, left);
	} else {
		copy_words<EACH / 2, false>(to, from, left);
		copy_words<EACH / 2, false>(to + WARP_WORDS / 2, from + WARP_WORDS / 2, left - (int32_t)WARP_WORDS / 2);
	}
}

/* The 16 bytes that begin @bytes (1 to 15) behind @a's first, @b being what follows @a. */
static __device__ __forceinline__ uint4 word_between(uint4 a, uint4 b, uint32_t bytes)
{
	bool two = bytes & 8, one = bytes & 4;
	uint32_t x0 = two ? a.z : a.x, x1 = two ? a.w : a.y, x2 = two ? b.x : a.z, x3 = two ? b.y : a.w,
		 x4 = two ? b.z : b.x, x5 = two ? b.w : b.y, bits = bytes % 4 * 8;

	x0 = one ? x1 : x0;
	x1 = one ? x2 : x1;
	x2 = one ? x3 : x2;
	x3 = one ? x4 : x3;
	x4 = one ? x5 : x4;
	return make_uint4(__funnelshift_r(x0, x1, bits), __funnelshift_r(x1, x2, bits), __funnelshift_r(x2, x3, bits),
			  __funnelshift_r(x3, x4, bits));
}

/* What the next lane has in @x; the last lane gets @after of the first. */
static __device__ __forceinline__ uint4 from_next_lane(uint4 x, uint4 after)
{
	int lane = threadIdx.x % WARP, next = (lane + 1) % WARP;
	uint4 give = lane == 0 ? after : x;

	return make_uint4(__shfl_sync(0xffffffffu, give.x, next), __shfl_sync(0xffffffffu, give.y, next),
			  __shfl_sync(0xffffffffu, give.z, next), __shfl_sync(0xffffffffu, give.w, next));
}

/*
 * The same from a side that stands @bytes behind a 16-byte word: each word is put
 * together of two, the first of them at @from, which a lane reads and its
 * neighbour needs, too. A word is read when a part of it is copied, and no other.
 */
static __device__ __forceinline__ void block_copy_between(uint4 *to, const uint4 *from, uint32_t words, uint32_t bytes)
{
	uint32_t lane = threadIdx.x % WARP, first = threadIdx.x / WARP * WARP_WORDS + lane;
	int32_t left = (int32_t)(words - first);
	uint4 held[EACH + 1] = {};

	to += first;
	from += first;
#pragma unroll
	for (int32_t k = 0; k < (int32_t)EACH; k++)
		if (k * WARP <= left)
			held[k] = __ldcs(&from[k * WARP]);
	if (lane == 0 && (int32_t)WARP_WORDS <= left)
		held[EACH] = __ldcs(&from[WARP_WORDS]);
#pragma unroll
	for (int32_t k = 0; k < (int32_t)EACH; k++) {
		uint4 b = from_next_lane(held[k], held[k + 1]);

		if (k * WARP < left)
			__stcs(&to[k * WARP], word_between(held[k], b, bytes));
	}
}

/* What no whole word is left for: less than a line. */
static __device__ __forceinline__ void block_copy_end(uint64_t to, uint64_t from, uint32_t bytes)
{
	if (threadIdx.x < bytes)
		((uint8_t *)to)[threadIdx.x] = ((const uint8_t *)from)[threadIdx.x];
}

/* @ALIKE: pages of whole 16-byte words, so that any two stand alike to them. */
template <bool ALIKE> static __device__ __forceinline__ void copy_piece(const kernel_copy &p)
{
	const kernel_pages *g = &p.pages;
	const int32_t *from = (const int32_t *)p.from_list, *to = (const int32_t *)p.to_list;
	piece c = piece_of(g, to, p.n_pages, blockIdx.x);
	uint64_t src = paging_half(g, c.half, from[c.page]) + (c.at - paging_half(g, c.half, to[c.page]));
	uint32_t head = line_head(c.at, c.bytes), words = (c.bytes - head) / (uint32_t)sizeof(uint4);
	uint32_t tail = head + words * (uint32_t)sizeof(uint4), apart = (uint32_t)(src + head) % sizeof(uint4);

	static_assert(KERNEL_COPY_THREADS * EACH * sizeof(uint4) == KERNEL_PIECE, "a block copies a piece");
	if (ALIKE || apart == 0)
		block_copy_words((uint4 *)(c.at + head), (const uint4 *)(src + head), words);
	else
		block_copy_between((uint4 *)(c.at + head), (const uint4 *)(src + head - apart), words, apart);
	block_copy_end(c.at, src, head);
	block_copy_end(c.at + tail, src + tail, c.bytes - tail);
}

extern "C" __global__ void __launch_bounds__(KERNEL_COPY_THREADS, 3)
	swakv_copy(const __grid_constant__ struct kernel_copy p)
{
	copy_piece<true>(p);
}

extern "C" __global__ void __launch_bounds__(KERNEL_COPY_THREADS, 2)
	swakv_copy_odd(const __grid_constant__ struct kernel_copy p)
{
	copy_piece<false>(p);
}

/* Elements of [@at, @at + @bytes) that are not @pattern, as far as this thread looks; both are multiples of 2. */
static __device__ uint32_t block_differences(uint64_t at, uint32_t bytes, uint16_t pattern)
{
	uint32_t two = pattern | (uint32_t)pattern << 16, n = 0;
	uint64_t head = line_head(at, bytes), wide = (bytes - head) / sizeof(uint4);
	const uint4 *p = (const uint4 *)(at + head);

	for (uint64_t i = threadIdx.x; i < head / 2; i += blockDim.x)
		n += ((const uint16_t *)at)[i] != pattern;
	for (uint64_t i = threadIdx.x; i < wide; i += blockDim.x) {
		/* Past the first-level cache: what another process writes meanwhile must show. */
		uint4 v = __ldcg(&p[i]);
		uint32_t words[4] = { v.x ^ two, v.y ^ two, v.z ^ two, v.w ^ two };

#pragma unroll
		for (int w = 0; w < 4; w++)
			n += ((words[w] & 0xffff) != 0) + (words[w] >> 16 != 0);
	}
	for (uint64_t i = (head + wide * sizeof(uint4)) / 2 + threadIdx.x; i < bytes / 2; i += blockDim.x)
		n += ((const uint16_t *)at)[i] != pattern;
	return n;
}

extern "C" __global__ void __launch_bounds__(256) swakv_check(const __grid_constant__ struct kernel_check p)
{
	uint32_t n = (uint32_t)paging_halves(p.pages.joined) * (uint32_t)p.n_pages * pieces_a_page(&p.pages);

	for (uint32_t i = blockIdx.x; i < n; i += gridDim.x) {
		piece c = piece_of(&p.pages, (const int32_t *)p.page_list, p.n_pages, i);
		uint32_t differ = block_differences(c.at, c.bytes, ((const uint16_t *)p.patterns)[c.page]);

		if (differ)
			atomicAdd((unsigned *)p.counts + c.page, differ);
	}
}

extern "C" __global__ void swakv_empty(void)
{
}

/* What one warp has seen of its share of the window: the running maximum and sum of an online softmax. */
struct partial {
	float max;
	float sum;
};

static __device__ float warp_sum(float x)
{
	for (int offset = WARP / 2; offset > 0; offset /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, offset);
	return x;
}

/* One token's vectors of K and V, and what their elements are multiplied by. */
struct vectors {
	const void *k, *v;
	float k_scale, v_scale;
};

static __device__ vectors vectors_of(const kernel_attention *p, int32_t k, int32_t v, int32_t token, int32_t kv_head)
{
	const kernel_pages *g = &p->pages;
	uint64_t scales = paging_layer(g, g->scales, k, p->layer);
	vectors x = { (const void *)(paging_layer(g, g->k, k, p->layer) + paging_k(g, token, kv_head)),
		      (const void *)(paging_layer(g, g->v, v, p->layer) + paging_v(g, token, kv_head)), 1, 1 };

	if (g->dtype == KERNEL_FP8) {
		x.k_scale = ((const float *)(scales + paging_scales(g, 0, token)))[kv_head];
		x.v_scale = ((const float *)(scales + paging_scales(g, 1, token)))[kv_head];
	}
	return x;
}

/*
 * One token: score, then the rescaled sum. @acc is the warp's own row of shared
 * memory; a lane only ever touches its own elements of it.
 */
static __device__ void attend_token(const struct kernel_attention *p, const float *q, float *acc, struct partial *s,
				    const vectors &x)
{
	const struct kernel_pages *g = &p->pages;
	int lane = threadIdx.x % WARP;
	float score = 0, max, correction, weight;

	for (int32_t d = lane; d < g->k_head_dim; d += WARP)
		score += q[d] * load_element(x.k, d, g->dtype);
	score = warp_sum(score) * x.k_scale * p->scale;
	if (p->soft_cap > 0)
		score = p->soft_cap * tanhf(score / p->soft_cap);
	max = score > s->max ? score : s->max;
	correction = s->max == max ? 1.0f : expf(s->max - max);
	weight = expf(score - max);
	s->max = max;
	s->sum = s->sum * correction + weight;
	for (int32_t d = lane; d < g->v_head_dim; d += WARP)
		acc[d] = acc[d] * correction + weight * x.v_scale * load_element(x.v, d, g->dtype);
}

/* The tokens of [@begin, @end) that fall to this warp. False: a page is missing. */
static __device__ int attend_share(const struct kernel_attention *p, int32_t slot, int32_t kv_head, int64_t begin,
				   int64_t end, const float *q, float *acc, struct partial *s)
{
	const struct kernel_pages *g = &p->pages;
	const int32_t *row = paging_row(g, slot);

	for (int64_t pos = begin + threadIdx.x / WARP; pos < end; pos += blockDim.x / WARP) {
		int32_t token = (int32_t)(pos % g->page_tokens), k, v;

		if (!paging_lookup(g, row, pos / g->page_tokens, &k, &v))
			return 0;
		attend_token(p, q, acc, s, vectors_of(p, k, v, token, kv_head));
	}
	return 1;
}

/* Joins the warps' shares: every partial is scaled to the largest maximum. */
static __device__ void combine(const struct kernel_attention *p, int32_t head, const struct partial *parts,
			       const float *acc, float *out)
{
	int32_t n = blockDim.x / WARP, dim = p->pages.v_head_dim;
	float max = p->sinks ? ((const float *)p->sinks)[head] : -INFINITY, sum = 0;

	for (int32_t w = 0; w < n; w++)
		max = parts[w].max > max ? parts[w].max : max;
	if (p->sinks)
		sum = expf(((const float *)p->sinks)[head] - max);
	for (int32_t w = 0; w < n; w++)
		sum += parts[w].sum == 0 ? 0 : parts[w].sum * expf(parts[w].max - max);
	for (int32_t d = threadIdx.x; d < dim; d += blockDim.x) {
		float x = 0;

		for (int32_t w = 0; w < n; w++)
			x += parts[w].sum == 0 ? 0 : acc[(int64_t)w * dim + d] * expf(parts[w].max - max);
		out[d] = x / sum;
	}
}

/* The form for what attention_split.cuh does not take. A block a (row, query head); its warps share the tokens. Shared
 * memory: q, then one accumulator a warp. */
extern "C" __global__ void swakv_attention(const __grid_constant__ struct kernel_attention p)
{
	extern __shared__ float scratch[];
	__shared__ struct partial parts[WARP];
	const struct kernel_pages *g = &p.pages;
	int32_t k_dim = g->k_head_dim, v_dim = g->v_head_dim;
	float *q = scratch, *acc = scratch + k_dim, *own = acc + (int64_t)(threadIdx.x / WARP) * v_dim;

	for (int64_t i = blockIdx.x; i < (int64_t)p.n * p.q_heads; i += gridDim.x) {
		int64_t row = i / p.q_heads;
		int32_t head = (int32_t)(i % p.q_heads), slot = ((const int32_t *)p.slots)[row], missing;
		int64_t end = ((const int64_t *)p.endpoints)[row], begin = end > p.window ? end - p.window : 0;
		float *out = (float *)p.out + i * v_dim;
		struct partial s = { -INFINITY, 0 };

		if (slot < 0 || end <= 0) {
			for (int32_t d = threadIdx.x; d < v_dim; d += blockDim.x)
				out[d] = 0;
			continue;
		}
		for (int32_t d = threadIdx.x; d < k_dim; d += blockDim.x)
			q[d] = ((const float *)p.q)[i * k_dim + d];
		for (int32_t d = threadIdx.x % WARP; d < v_dim; d += WARP)
			own[d] = 0;
		__syncthreads();
		missing = !attend_share(&p, slot, head / (p.q_heads / g->kv_heads), begin, end, q, own, &s);
		if (threadIdx.x % WARP == 0)
			parts[threadIdx.x / WARP] = s;
		/* Also the barrier between the shares and their joining. */
		if (__syncthreads_or(missing)) {
			for (int32_t d = threadIdx.x; d < v_dim; d += blockDim.x)
				out[d] = NAN;
		} else {
			combine(&p, head, parts, acc, out);
		}
		__syncthreads();
	}
}
