/* SPDX-License-Identifier: Apache-2.0 */
/* attention_share.cuh - which part of the attention falls to which block, and the sizes that all of it agrees on */
#ifndef SWAKV_ATTENTION_SHARE_CUH
#define SWAKV_ATTENTION_SHARE_CUH

#include "attention_split.h"
#include "kernels.h"

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

#endif
