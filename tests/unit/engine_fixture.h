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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

#define TOKEN_BYTES 16

struct worker {
	struct engine *engine;
	struct session *s;
	struct model m;
	struct geometry geometry[WIRE_MAX_GROUPS];
	struct geometry g; /* of group 0 */
	struct session_tables tables[WIRE_MAX_GROUPS];
	int32_t *cells;             /* of group 0 */
	struct wire_row_head *rows; /* of group 0 */
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

/* A layer group of pages of @bytes_a_token bytes a token (a multiple of 16). @window 0: full attention. */
static inline struct wire_group make_group(int64_t window, uint32_t page_tokens, uint32_t bytes_a_token)
{
	return (struct wire_group){ .kind = window ? WIRE_GROUP_SLIDING : WIRE_GROUP_FULL,
				    .page_tokens = page_tokens,
				    .window = window,
				    .layers = bytes_a_token / TOKEN_BYTES,
				    .kv_heads = 1,
				    .k_head_dim = 8,
				    .v_head_dim = 8,
				    .dtype = WIRE_F16 };
}

static inline void worker_open(struct worker *w, struct engine *e, struct model m, uint64_t half_bytes, uint32_t tag)
{
	size_t rows = (size_t)m.max_batch * m.n_groups;

	*w = (struct worker){ .engine = e, .m = m };
	cr_assert_eq(model_check(&m, half_bytes, w->geometry, &w->f), 0);
	w->g = w->geometry[0];
	for (uint32_t g = 0; g < m.n_groups; g++) {
		size_t n = (size_t)m.max_batch * (size_t)w->geometry[g].width;

		w->tables[g].cells = malloc(2 * n * sizeof(int32_t));
		w->tables[g].rows = malloc((size_t)m.max_batch * sizeof(struct wire_row_head));
	}
	w->cells = w->tables[0].cells;
	w->rows = w->tables[0].rows;
	w->d.updates = malloc(WIRE_MAX_INLINE_UPDATES * sizeof(*w->d.updates));
	w->d.rows = malloc(rows * sizeof(*w->d.rows));
	w->d.scrubs = malloc(rows * sizeof(*w->d.scrubs));
	w->d.moves = malloc(WIRE_MAX_MOVES * sizeof(*w->d.moves));
	w->s = session_new(e, &m, w->tables, tag);
	cr_assert_not_null(w->s);
}

static inline void worker_close(struct worker *w)
{
	session_end(w->s);
	check_all(w->engine);
	session_reclaim(w->s);
	session_free(w->s);
	w->s = NULL;
	for (uint32_t g = 0; g < w->m.n_groups; g++) {
		free(w->tables[g].cells);
		free(w->tables[g].rows);
	}
	free(w->d.updates);
	free(w->d.rows);
	free(w->d.scrubs);
	free(w->d.moves);
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

/* One entry's prepare; @counts NULL: @tokens for every sequence. */
static inline int step_one(struct worker *w, uint64_t h, int32_t tokens, const int32_t *counts)
{
	struct wire_step_entry entry = { .request = h, .tokens = tokens };
	struct step step = { &entry, counts, 1, counts ? (uint32_t)-tokens : 0 };
	struct wire_entry_fault fault;
	uint32_t n;

	cr_assert_eq(step_prepare(w->s, &step, &fault, &n, &w->d, &w->f), 0);
	check_all(w->engine);
	if (n)
		w->f = fault.fault;
	return n ? fault.fault.code : 0;
}

static inline int step_one_complete(struct worker *w, uint64_t h, int32_t accepted, const int32_t *counts,
				    struct wire_fence fence)
{
	struct wire_step_entry entry = { .request = h, .accepted = accepted, .fence = fence };
	struct step step = { &entry, counts, 1, counts ? (uint32_t)-accepted : 0 };
	struct wire_entry_fault fault;
	uint32_t n;

	cr_assert_eq(step_complete(w->s, &step, w->armed, &fault, &n, &w->f), 0);
	check_all(w->engine);
	if (n)
		w->f = fault.fault;
	return n ? fault.fault.code : 0;
}

static inline int decode_prepare(struct worker *w, uint64_t h)
{
	return step_one(w, h, 1, NULL);
}

static inline int decode_complete(struct worker *w, uint64_t h, struct wire_fence fence)
{
	return step_one_complete(w, h, 0, NULL, fence);
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
	return w->cells[(int64_t)slot * (w->g.shape.joined ? 1 : 2) * w->g.width + column];
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

static inline struct wire_sequence_state group_state(struct worker *w, uint64_t h, int32_t seq, uint32_t group)
{
	struct wire_query_state q = { .seq = seq, .group = group };
	struct wire_sequence_state st;
	uint32_t n;

	cr_assert_eq(sequence_query(w->s, h, &q, &st, NULL, 0, &n, &w->f), 0);
	return st;
}

/* Columns of the row that hold pages, as a text: "1,2,5". Static. */
static inline const char *mapped(const struct worker *w, uint32_t group, int32_t slot)
{
	int32_t width = w->geometry[group].width;
	const int32_t *k = w->tables[group].cells + (int64_t)slot * 2 * width;
	static char text[512];
	size_t at = 0;

	text[0] = 0;
	for (int32_t c = 0; c < width; c++)
		if (k[c] >= 0)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", at ? "," : "", c);
	return text;
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
