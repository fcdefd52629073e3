/* SPDX-License-Identifier: Apache-2.0 */
/* attention_split.h - what the split attention kernels and their launches must agree on */
#ifndef SWAKV_ATTENTION_SPLIT_H
#define SWAKV_ATTENTION_SPLIT_H

#define SPLIT_THREADS 256

/* A query is three 16-bit numbers, so 16 rows of a matrix instruction hold 5 heads, and 32 rows 10. */
#define SPLIT_PARTS     3
#define SPLIT_HEADS(mt) ((mt)*5)

/* Tokens of a tile: fewer as vectors grow, so that two blocks share a multiprocessor's memory. */
#define SPLIT_TILE(dim) ((dim) <= 64 ? 128 : (dim) <= 128 ? 64 : 32)

/* Elements of a row in shared memory: whole steps of the instruction, and 16 bytes that keep rows off the same banks.
 */
#define SPLIT_K_ROW(dim) (((dim) + 31) / 32 * 32 + 8)
#define SPLIT_V_ROW(dim) ((dim) + 8)

/* Bytes of the dynamic shared memory: two tiles of K and V, queries, weights, scores. */
#define SPLIT_STAGE(tile, k, v) ((tile) * (SPLIT_K_ROW(k) + SPLIT_V_ROW(v)) * 2)
#define SPLIT_QUERIES(mt, k)    ((mt)*16 * SPLIT_K_ROW(k) * 2)
#define SPLIT_WEIGHTS(mt, tile) ((mt)*16 * ((tile) + 8) * 2)
#define SPLIT_SCORES(mt, tile)  ((mt)*16 * ((tile) + 4) * 4)
#define SPLIT_SHARED(mt, tile, k, v)                                                                                   \
	(2 * SPLIT_STAGE(tile, k, v) + SPLIT_QUERIES(mt, k) + SPLIT_WEIGHTS(mt, tile) + SPLIT_SCORES(mt, tile))

#endif
