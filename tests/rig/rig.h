/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - a batch of paged sequences with known content, and the dense answer
 *
 * Makes sequences of random K and V, scatters them over random pages of a
 * pool, and knows by an independent double-precision computation over the
 * plain arrays what attention must give. The kernels see parameter blocks whose
 * addresses are bases of the caller's choice, so the same rig checks the CPU
 * twins (host bases) and a device (device bases).
 */
#ifndef SWAKV_RIG_H
#define SWAKV_RIG_H

#include <stdint.h>

#include "kernels.h"

#define RIG_MAX_ROWS 8

struct rig_shape {
	int64_t window;
	int32_t page_tokens;
	int32_t layers;
	int32_t kv_heads;
	int32_t q_heads;
	int32_t k_dim;
	int32_t v_dim;
	int32_t dtype;     /* enum kernel_dtype */
	int32_t num_pages; /* 0: as many as the rows need, and a few */
	int32_t padding;   /* bytes behind each page's last layer */
	int32_t between;   /* bytes behind each layer, and in a joined page behind its K */
	int32_t joined;    /* not 0: pages are joined */
	int32_t by_head;   /* not 0: a layer holds heads of tokens, not tokens of heads */
	int32_t n_rows;
	int64_t endpoints[RIG_MAX_ROWS]; /* 0: a padding row */
	uint32_t seed;
	float soft_cap; /* 0: none */
	int32_t sinks;  /* not 0: every query head has one */
};

/* One that tests change in a field or two. */
extern const struct rig_shape rig_base;

/* Ways in which pages may hold the same numbers: RIG_FORMS of them, 0 being split pages with tokens of heads. */
#define RIG_FORMS 4
struct rig_shape rig_form(const struct rig_shape *shape, int form);

/* Where the two parts of the rig's memory lie for whoever executes. */
struct rig_bases {
	uint64_t arrays;
	uint64_t pool;
};

struct rig {
	struct rig_shape shape;
	int32_t width, max_batch, n_tokens, n_mapped;
	int32_t n_halves;                               /* 2; joined: 1 */
	uint64_t page_stride, layer_stride, half_bytes; /* joined: half_bytes is all of the pool */
	uint64_t v_at;                                  /* of page 0's V in the pool; its K lies at 0 */
	uint64_t k_token, v_token, k_head, v_head;      /* strides */
	uint64_t scales_at;                             /* FP8: of page 0's scales in the pool */
	/* the arrays: one block, initialised; offsets in it */
	unsigned char *arrays;
	uint64_t arrays_bytes;
	uint64_t table, slots, endpoints, token_slots, positions, pages, k, v, k_scales, v_scales, q, out, sinks;
	/* the pool: reserved address space, touched only where pages are used */
	unsigned char *pool;
	uint64_t pool_bytes;
	int32_t token_begin[RIG_MAX_ROWS]; /* of each row's position 0 in the token arrays */
};

/* Makes a rig; exits with a sentence when memory is short. All entries of the table that a window needs are set. */
struct rig *rig_new(const struct rig_shape *shape);
/* Frees it; returns NULL. */
struct rig *rig_free(struct rig *r);

/* The bases of this process. */
struct rig_bases rig_host(const struct rig *r);

/* Parameter blocks. `k` and `v` of the KV write hold layer @layer of every token. */
struct kernel_pages rig_pages(const struct rig *r, struct rig_bases at);
struct kernel_fill rig_fill(const struct rig *r, struct rig_bases at, uint16_t pattern);
struct kernel_kv_write rig_kv_write(const struct rig *r, struct rig_bases at, int32_t layer);
struct kernel_attention rig_attention(const struct rig *r, struct rig_bases at, int32_t layer);

/* The table of the rig, host copy. */
int32_t *rig_table(struct rig *r);
/* The K id of logical page @column of row @row, -1 when it is not mapped. */
int32_t rig_page(const struct rig *r, int32_t row, int32_t column);
/* Results, [n_rows][q_heads][v_dim]: where a kernel with host bases puts them. */
float *rig_out(struct rig *r);

/*
 * Largest difference between @out and the dense answer of layer @layer over all
 * elements, relative to max(1, |answer|). A NaN in @out gives INFINITY. Row @row
 * only, or all of them with -1.
 */
double rig_error(const struct rig *r, int32_t layer, const float *out, int32_t row);

/* Error that float accumulation over @window tokens may show. */
double rig_tolerance(const struct rig *r);

#endif
