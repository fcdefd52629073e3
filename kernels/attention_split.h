/* SPDX-License-Identifier: Apache-2.0 */
/* attention_split.h - what the split attention kernels and their launches must agree on */
#ifndef SWAKV_ATTENTION_SPLIT_H
#define SWAKV_ATTENTION_SPLIT_H

#define SPLIT_THREADS 128
#define SPLIT_CHUNK   16  /* tokens that a warp takes at a time */
#define SPLIT_HEADS   8   /* most query heads of a block */
#define SPLIT_MOST_V  256 /* most elements of V's vectors of a block */

#define SPLIT_UP(n, by) (((n) + (by)-1) / (by))

/* 16-bit numbers that add up to a float. */
#define SPLIT_PARTS(bf16) ((bf16) ? 3 : 2)

/*
 * Elements of a row in shared memory: whole steps of the instruction, and 16
 * bytes that keep eight rows off the same banks.
 */
#define SPLIT_ROW(dim) (SPLIT_UP(dim, 16) * 16 + 8)

/* Bytes of the dynamic shared memory: a chunk of K and V for each warp, and the queries. */
#define SPLIT_CHUNKS(k, v) (SPLIT_THREADS / 32 * SPLIT_CHUNK * (SPLIT_ROW(k) + SPLIT_ROW(v)) * 2)
#define SPLIT_QUERIES(k)   (3 * SPLIT_HEADS * SPLIT_ROW(k) * 2)
#define SPLIT_SHARED(k, v) (SPLIT_CHUNKS(k, v) + SPLIT_QUERIES(k))

#endif
