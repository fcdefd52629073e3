/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.h - what the layer groups of a model cost: a token, a page, a sequence, a pool */
#ifndef GEOMETRY_SIZES_H
#define GEOMETRY_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hf_config.h"
#include "page_key.h"

enum { SIZES_MAX_RULES = 9 };

/* How far a step may take a sequence, and so what a sliding group reserves for it. */
struct rule {
	int64_t max_advance; /* tokens a step; 0: any */
	int64_t in_flight;   /* counts with a max_advance only */
	int64_t max_rewind;  /* tokens that may be taken back */
};

struct sizes_options {
	uint32_t page_tokens;  /* 16 to 256, a power of two */
	int64_t max_seq;       /* 0: what the file says */
	uint32_t form;         /* enum wire_form of all pages, + 1; 0: split, or joined where there is no V */
	uint64_t pool;         /* bytes of both halves; 0: no pool */
	uint64_t extent;       /* bytes of each half; 0: what the broker would take */
	uint64_t largest_page; /* groups with larger ones are split; 0: none is */
	uint32_t n_rules;
	struct rule rules[SIZES_MAX_RULES];
	/* of a model to paste */
	uint32_t max_batch;
	uint32_t paste_rule; /* index of its rule */
};

/* A group, or a part of one: an equal share of its layers. */
struct group_sizes {
	struct wire_group shape;
	uint32_t first_layer; /* lowest layer of the group */
	bool k_is_v;
	uint32_t part, parts;  /* parts is 1 when the group is whole */
	uint64_t token_bytes;  /* K and V of a token in all layers */
	uint64_t layer_stride; /* bytes */
	uint64_t k_row, v_row; /* bytes of a token and layer */
	struct page_key page;
	uint64_t padding; /* bytes of a whole page that hold nothing: of a split one whose K and V differ in size */
	int32_t width;    /* columns of a row: pages of a full sequence */
	/* with a pool */
	int64_t num_pages;      /* ids of its class */
	int64_t overflow_page;  /* lowest id (V ids count) with page * stride, in elements, above INT32_MAX; 0: none */
	bool too_many_pages;    /* more ids than the broker takes */
	bool page_above_extent; /* extents must be larger */
};

struct rule_sizes {
	int32_t pages[WIRE_MAX_GROUPS]; /* K and V pairs that a sequence reserves */
	uint64_t bytes;                 /* of K and V */
	int64_t fit;                    /* sequences in the pool */
};

struct sizes {
	struct sizes_options options; /* max_seq and extent filled in */
	uint64_t token_bytes;         /* of all groups */
	uint32_t n_groups;
	struct group_sizes groups[WIRE_MAX_GROUPS];
	struct rule_sizes rules[SIZES_MAX_RULES];
};

/* 0, HF_BAD or HF_UNMAPPABLE with a sentence in @why. */
int sizes_make(struct sizes *out, const struct hf_config *c, const struct sizes_options *o, char *why, size_t why_size);

#endif
