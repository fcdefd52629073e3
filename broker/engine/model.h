/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - what a worker declares about its model, and what follows from it (spec sections 1 and 2) */
#ifndef SWAKV_ENGINE_MODEL_H
#define SWAKV_ENGINE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "fault.h"
#include "page_key.h"
#include "page_shape.h"
#include "wire.h"

#define MODEL_IN_FLIGHT 2 /* steps in flight when a model does not say */

/* What a session declares (from wire_hello, already copied); the engine checks it. */
struct model {
	uint32_t n_groups;
	uint32_t n_streams;
	int32_t max_batch;
	int64_t max_seq;     /* tokens */
	int64_t max_advance; /* tokens a step for which pages are reserved, 0: any */
	uint32_t in_flight;  /* steps prepared whose completion is not seen; 0: 2 */
	uint32_t max_rewind; /* tokens */
	bool chunk_mapped;   /* an extend binds its whole chunk */
	struct wire_group groups[WIRE_MAX_GROUPS];
};

/* What follows from a group in a pool with halves of a given size. */
struct geometry {
	struct page_shape shape;
	uint64_t page_bytes; /* S: one page's K (or V), all layers; of joined pages T, all of it */
	int32_t num_pages;   /* floor(half / S); floor(2 half / T) */
	int32_t width;
	int32_t private_pages; /* of a sequence that may reach max_seq */
	bool wide;             /* the greatest offset in the pool, in elements (of raw bytes: bytes), exceeds 31 bits */
};

static inline struct page_key geometry_key(const struct geometry *g)
{
	return (struct page_key){ g->page_bytes, g->shape.joined };
}

/*
 * Checks every field of @m against a pool with halves of @half_bytes and fills one
 * geometry a group. 0; SWAKV_EINVALID: a field is wrong; SWAKV_ENEVER: a page is
 * larger than the half.
 */
int model_check(const struct model *m, uint64_t half_bytes, struct geometry out[WIRE_MAX_GROUPS], struct fault *f);
/* The same of one group, as far as it needs no pool. */
int model_check_group(const struct wire_group *g, struct fault *f);
/*
 * No half of a page of @m, whose geometry is @g, is smaller than @least bytes: each costs the
 * engine as much as a large one. 0, or SWAKV_EINVALID.
 */
int model_check_pages(const struct model *m, const struct geometry g[], uint64_t least, struct fault *f);
/* Whether one sequence of max_seq has room in an empty pool, as fit.h says: where it has not, its begin is
 * SWAKV_ENEVER. */
bool model_fits(const struct model *m, const struct geometry g[], uint64_t half_bytes, uint64_t extent_bytes);

/*
 * Completion points that a session may have open: beyond it a prepare or begin is
 * refused with `pending`. As many steps as the model declares, of requests of one
 * sequence each, and what completes, drops and ends may open beside them.
 */
static inline uint32_t engine_max_points(const struct model *m)
{
	uint64_t n = (uint64_t)m->max_batch * ((m->in_flight ? m->in_flight : MODEL_IN_FLIGHT) + 3) + 256;

	return n < 65536 ? (uint32_t)n : 65536;
}

#endif
