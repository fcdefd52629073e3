/* SPDX-License-Identifier: Apache-2.0 */
/* attention_split.h - what the split attention kernels and their launches must agree on */
#ifndef SWAKV_ATTENTION_SPLIT_H
#define SWAKV_ATTENTION_SPLIT_H

/* Tokens of a tile, by the largest K vector that a kernel takes. */
#define SPLIT_TILE_64  64
#define SPLIT_TILE_128 64
#define SPLIT_TILE_256 32
#define SPLIT_TILE_512 16

#endif
