/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.cuh - work on whole pages, shared out over blocks: which piece is whose, and filling one */
#ifndef SWAKV_PIECES_CUH
#define SWAKV_PIECES_CUH

#include "kernels.h"
#include "paging.h"

/* Whole cache lines are written where that is possible: a part of one costs the memory a read. */
#define LINE 128u

static __device__ __forceinline__ uint64_t line_up(uint64_t at)
{
	return (at + LINE - 1) / LINE * LINE;
}

/*
 * Work on whole pages is shared out in pieces, so that one large page fills the
 * device, too. Every thread finds its piece by itself, before it can read a byte:
 * in 32 bits, since a division of 64 would take longer than the piece does.
 */
struct piece {
	uint64_t at; /* address in the page that is written; whole lines but at the page's ends */
	uint32_t bytes;
	uint32_t page; /* index into the list */
	int half;      /* 0: K, or the page is joined; 1: V */
};

static __device__ __forceinline__ uint32_t pieces_a_page(const kernel_pages *g)
{
	return (uint32_t)((g->page_stride + KERNEL_PIECE - 1) / KERNEL_PIECE);
}

/* Piece @i of the @n pages in @list: first all of K, then all of V (or all of joined ones), so that neighbours work on
 * neighbours. */
static __device__ __forceinline__ piece piece_of(const kernel_pages *g, const int32_t *list, int32_t n, uint32_t i)
{
	uint32_t each = pieces_a_page(g), page = i / each, k = i - page * each;
	piece c = { 0, 0, page, page >= (uint32_t)n };
	uint64_t start, last, next;

	c.page -= c.half ? (uint32_t)n : 0;
	start = paging_half(g, c.half, list[c.page]);
	last = start + g->page_stride;
	next = k + 1 == each ? last : line_up(start + (uint64_t)(k + 1) * KERNEL_PIECE);
	c.at = k == 0 ? start : line_up(start + (uint64_t)k * KERNEL_PIECE);
	c.bytes = (uint32_t)((next < last ? next : last) - (c.at < last ? c.at : last));
	return c;
}

/* Bytes before the first whole line. */
static __device__ __forceinline__ uint32_t line_head(uint64_t at, uint32_t bytes)
{
	uint32_t head = (uint32_t)(line_up(at) - at);

	return head < bytes ? head : bytes;
}

/* The byte that @pattern has at address @at. */
static __device__ __forceinline__ uint8_t pattern_byte(uint16_t pattern, uint64_t at)
{
	return (uint8_t)(at % 2 ? pattern >> 8 : pattern);
}

/* Fills @bytes with the whole block. */
static __device__ void block_fill(uint64_t to, uint32_t bytes, uint16_t pattern)
{
	uint32_t two = pattern | (uint32_t)pattern << 16, head = line_head(to, bytes);
	uint32_t n = (bytes - head) / (uint32_t)sizeof(uint4), tail = head + n * (uint32_t)sizeof(uint4);
	uint4 *wide = (uint4 *)(to + head), four = make_uint4(two, two, two, two);

	if (threadIdx.x < head)
		((uint8_t *)to)[threadIdx.x] = pattern_byte(pattern, to + threadIdx.x);
#pragma unroll
	for (uint32_t i = threadIdx.x; i < KERNEL_PIECE / sizeof(uint4); i += KERNEL_FILL_THREADS)
		if (i < n)
			__stcs(&wide[i], four);
	if (threadIdx.x < bytes - tail)
		((uint8_t *)(to + tail))[threadIdx.x] = pattern_byte(pattern, to + tail + threadIdx.x);
}

static __device__ __forceinline__ void fill(const kernel_pages *g, const int32_t *list, int32_t n_pages,
					    uint16_t pattern)
{
	piece c = piece_of(g, list, n_pages, blockIdx.x);

	block_fill(c.at, c.bytes, pattern);
}

#endif
