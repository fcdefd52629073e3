/* SPDX-License-Identifier: Apache-2.0 */
/* attention_walk.cuh - how a warp fetches its chunks of K and V: from the table to the page to shared memory */
#ifndef SWAKV_ATTENTION_WALK_CUH
#define SWAKV_ATTENTION_WALK_CUH

#include "attention_share.cuh"
#include "kernels.h"
#include "paging.h"

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
	uint32_t stride;  /* bytes from token to token: 16 of them are less than 2^32 */
	uint32_t pieces;  /* of 16 bytes a vector: at most 2^6 */
	uint32_t inverse; /* what divides by them, for numbers below 2^10 */
	int row;          /* elements from token to token in shared memory */
};

/* @vector: address of the first element in page 0. */
static __device__ __forceinline__ side side_of(uint64_t vector, uint64_t stride, int32_t n)
{
	uint32_t pieces = (uint32_t)n / 8;

	return { vector, (uint32_t)stride, pieces, ((1u << 20) + pieces - 1) / pieces, SPLIT_ROW(n) };
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
	const kernel_pages *g = &p.pages;
	int warp = threadIdx.x / 32;
	walk w;

	w.k = side_of(paging_layer(g, g->k, 0, p.layer) + paging_k(g, 0, s.kv_head), g->k_token, g->k_head_dim);
	w.v = side_of(paging_layer(g, g->v, 0, p.layer) + paging_v(g, 0, s.kv_head) + (uint64_t)s.first_v * 2,
		      g->v_token, s.n_v);
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

#endif
