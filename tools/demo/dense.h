/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense.h - what attention over the true window must give, in double precision
 *
 * Knows nothing of pages, tables or brokers: only kvgen, the window and the
 * number of tokens.
 */
#ifndef DEMO_DENSE_H
#define DEMO_DENSE_H

#include <stddef.h>
#include <stdint.h>

#include "kvgen.h"

struct dense_shape {
	int64_t window; /* tokens, the current one included */
	uint32_t layers;
	uint32_t kv_heads;
	uint32_t q_heads; /* a multiple of kv_heads */
	uint32_t head_dim;
};

/* One model's checker: shape, generator and scratch memory. For one thread at a time. */
struct dense {
	struct dense_shape shape;
	struct kvgen gen;
	uint32_t first_layer; /* what kvgen calls layer 0 of the shape; 0 unless the caller says otherwise */
	uint32_t stride;      /* elements between two heads' vectors in memory */
	float *values;        /* [stride] */
	double *query;        /* [stride] */
	double *weights;      /* [window] */
	double *sums;         /* [stride] */
};

struct dense_sequence; /* one sequence's K and V within its window */

/* 0; -1: out of memory. */
int dense_init(struct dense *d, const struct dense_shape *shape, const struct kvgen *gen);
void dense_deinit(struct dense *d);

/* Keeps @sequence (its number in kvgen) at endpoint 0; it will not grow beyond @max_tokens. NULL: out of memory. */
struct dense_sequence *dense_sequence_new(const struct dense *d, uint64_t sequence, int64_t max_tokens);
/* Returns NULL; NULL is ignored. */
struct dense_sequence *dense_sequence_free(struct dense_sequence *s);
/* Moves on to @endpoint tokens, at least the present number and at most max_tokens. */
void dense_sequence_advance(const struct dense *d, struct dense_sequence *s, int64_t endpoint);
/*
 * Attention of layer @layer for the token at endpoint - 1, over positions
 * [max(0, endpoint - window), endpoint). @out is [q_heads][head_dim]. The
 * sequence must hold at least one token.
 */
void dense_sequence_attend(struct dense *d, const struct dense_sequence *s, uint32_t layer, double *out);
/* Tokens in the window now. */
int64_t dense_sequence_length(const struct dense *d, const struct dense_sequence *s);

/* Largest difference that float arithmetic over @tokens positions may leave in one element. */
double dense_tolerance(const struct dense_shape *shape, int64_t tokens);

/* Outcome of comparing one vector. */
struct dense_verdict {
	uint32_t n_wrong;     /* elements beyond the tolerance; NaN is */
	uint32_t first_wrong; /* valid when n_wrong > 0 */
	double max_error;     /* of the elements that are numbers */
};
struct dense_verdict dense_compare(const double *want, const float *got, uint32_t n, double tolerance);

#endif
