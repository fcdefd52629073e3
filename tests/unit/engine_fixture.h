/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_fixture.h - a pool, sessions on it and short calls, for engine tests
 *
 * Every call that changes something is followed by engine_check(), so a broken
 * invariant shows at the step that broke it. A page has 16 bytes a token:
 * 1 layer, 1 head, 8 elements of 2 bytes.
 */
#ifndef SWAKV_ENGINE_FIXTURE_H
#define SWAKV_ENGINE_FIXTURE_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define TOKEN_BYTES 16

struct worker {
	struct engine *engine;
	struct session *s;
	struct model m;
	struct geometry g;
	int32_t *cells;
	struct wire_row_head *rows;
	struct delivery d;
	struct fault f;
	uint64_t armed[WIRE_MAX_STREAMS];
};

static inline void check_all(const struct engine *e)
{
	char why[256] = "";

	cr_assert(engine_check(e, why, sizeof(why)), "%s", why);
}

/* A pool of exactly @pages pages of @page_tokens tokens. */
static inline struct engine *make_engine(int64_t pages, uint32_t page_tokens)
{
	uint64_t half = (uint64_t)pages * page_tokens * TOKEN_BYTES;
	struct engine *e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = half });

	cr_assert_not_null(e);
	return e;
}

static inline struct model make_model(int64_t window, uint32_t page_tokens, int32_t max_batch, int64_t max_seq)
{
	return (struct model){ .n_groups = 1,
			       .n_streams = 2,
			       .max_batch = max_batch,
			       .max_seq = max_seq,
			       .groups = { { .kind = WIRE_GROUP_SLIDING,
					     .page_tokens = page_tokens,
					     .window = window,
					     .layers = 1,
					     .kv_heads = 1,
					     .k_head_dim = 8,
					     .v_head_dim = 8,
					     .dtype = WIRE_F16 } } };
}

static inline void worker_open(struct worker *w, struct engine *e, struct model m, uint64_t half_bytes, uint32_t tag)
{
	struct geometry g[WIRE_MAX_GROUPS];
	size_t n;

	*w = (struct worker){ .engine = e, .m = m };
	cr_assert_eq(model_check(&m, half_bytes, g, &w->f), 0);
	w->g = g[0];
	n = (size_t)m.max_batch * (size_t)w->g.width;
	w->cells = malloc(2 * n * sizeof(*w->cells));
	w->rows = malloc((size_t)m.max_batch * sizeof(*w->rows));
	w->d.updates = malloc(WIRE_MAX_INLINE_UPDATES * sizeof(*w->d.updates));
	w->d.rows = malloc((size_t)m.max_batch * sizeof(*w->d.rows));
	w->s = session_new(e, &m, &(struct session_tables){ w->cells, w->rows }, tag);
	cr_assert_not_null(w->s);
}

static inline void worker_close(struct worker *w)
{
	session_end(w->s);
	check_all(w->engine);
	session_reclaim(w->s);
	session_free(w->s);
	free(w->cells);
	free(w->rows);
	free(w->d.updates);
	free(w->d.rows);
}

static const struct wire_fence fence_done = { .kind = WIRE_FENCE_DONE };
static const struct wire_fence fence_failed = { .kind = WIRE_FENCE_FAILED };
static const struct wire_fence fence_point = { .kind = WIRE_FENCE_POINT };

static inline struct wire_fence fence_line(struct worker *w, uint32_t line, uint64_t value)
{
	if (w->armed[line] < value)
		w->armed[line] = value;
	return (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = line, .value = value };
}

static inline int begin_on(struct worker *w, uint32_t stream, uint64_t *h, int n, const int32_t *slots)
{
	int r = request_begin(w->s, stream, 0, slots, (uint32_t)n, h, &w->f);

	check_all(w->engine);
	return r;
}

static inline uint64_t begin(struct worker *w, int32_t slot)
{
	uint64_t h;

	cr_assert_eq(begin_on(w, 0, &h, 1, &slot), 0);
	return h;
}

static inline int prefill_prepare(struct worker *w, uint64_t h, int n, const int32_t *lengths)
{
	int r = request_prefill_prepare(w->s, h, lengths, (uint32_t)n, &w->d, &w->f);

	check_all(w->engine);
	return r;
}

static inline int prefill_complete(struct worker *w, uint64_t h, struct wire_fence fence)
{
	int r = request_prefill_complete(w->s, h, &fence, w->armed[fence.line], &w->f);

	check_all(w->engine);
	return r;
}

static inline void prefill(struct worker *w, uint64_t h, int32_t length)
{
	cr_assert_eq(prefill_prepare(w, h, 1, &length), 0);
	cr_assert_eq(prefill_complete(w, h, fence_done), 0);
}

static inline int decode_prepare(struct worker *w, uint64_t h)
{
	struct wire_step_entry e = { .request = h, .tokens = 1 };
	struct wire_entry_fault fault;
	uint32_t n;

	cr_assert_eq(step_prepare(w->s, &(struct step){ .entries = &e, .n = 1 }, &fault, &n, &w->d, &w->f), 0);
	check_all(w->engine);
	if (n)
		w->f = fault.fault;
	return n ? fault.fault.code : 0;
}

static inline int decode_complete(struct worker *w, uint64_t h, struct wire_fence fence)
{
	struct wire_step_entry e = { .request = h, .fence = fence };
	struct wire_entry_fault fault;
	uint32_t n;

	cr_assert_eq(step_complete(w->s, &(struct step){ .entries = &e, .n = 1 }, w->armed, &fault, &n, &w->f), 0);
	check_all(w->engine);
	if (n)
		w->f = fault.fault;
	return n ? fault.fault.code : 0;
}

static inline void decode(struct worker *w, uint64_t h, int steps)
{
	for (int i = 0; i < steps; i++) {
		cr_assert_eq(decode_prepare(w, h), 0);
		cr_assert_eq(decode_complete(w, h, fence_done), 0);
	}
}

static inline int finish(struct worker *w, uint64_t h, struct wire_fence fence)
{
	int r = request_finish(w->s, h, &fence, w->armed[fence.line], &w->f);

	check_all(w->engine);
	return r;
}

static inline int abandon(struct worker *w, uint64_t h, struct wire_fence fence)
{
	int r = request_abandon(w->s, h, &fence, w->armed[fence.line], &w->f);

	check_all(w->engine);
	return r;
}

static inline void reach(struct worker *w, uint32_t line, uint64_t word)
{
	session_reach(w->s, line, word);
	check_all(w->engine);
}

static inline int32_t k_id(const struct worker *w, int32_t slot, int32_t column)
{
	return w->cells[(int64_t)slot * 2 * w->g.width + column];
}

static inline int32_t v_id(const struct worker *w, int32_t slot, int32_t column)
{
	return w->cells[((int64_t)slot * 2 + 1) * w->g.width + column];
}

static inline struct wire_sequence_state state(struct worker *w, uint64_t h, int32_t seq)
{
	struct wire_query_state q = { .seq = seq };
	struct wire_sequence_state st;
	uint32_t n;

	cr_assert_eq(sequence_query(w->s, h, &q, &st, NULL, 0, &n, &w->f), 0);
	return st;
}

static inline struct wire_request_state request_state(struct worker *w, uint64_t h)
{
	struct wire_request_state st;

	cr_assert_eq(request_query(w->s, h, &st, &w->f), 0);
	return st;
}

static inline struct class_counts counts(const struct worker *w)
{
	struct class_counts c;

	cr_assert(engine_class_count(w->engine, session_class(w->s, 0), &c));
	return c;
}

/* int32 entries the last delivery carried: a K and a V id for each update. */
static inline int entries(const struct worker *w)
{
	return 2 * (int)w->d.n_updates;
}

#endif
