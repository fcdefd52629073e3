/* SPDX-License-Identifier: Apache-2.0 */
/* world.c - gives a command to the engine and to the reference model, and compares what comes of it */
#include "world.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <swakv/error.h>

/* ---- making and ending ------------------------------------------------------------- */

static void to_model(const struct ref_model *m, struct model *out)
{
	memset(out, 0, sizeof *out);
	out->n_groups = m->n_groups;
	out->n_streams = m->n_streams;
	out->max_batch = m->max_batch;
	out->max_seq = m->max_seq;
	out->max_advance = m->max_advance;
	out->max_rewind = m->max_rewind;
	out->in_flight = m->in_flight;
	out->chunk_mapped = m->chunk_mapped;
	memcpy(out->groups, m->groups, sizeof out->groups);
}

/* In the middle of a command: all accounts hold, though the reference model knows commands as a whole only. */
static void look_in_between(void *arg)
{
	struct world *w = arg;
	char why[256];

	engine_looked(w->engine);
	if (w->n_pauses++ % 8 == 0 && !w->pool.error[0] && !engine_check(w->engine, why, sizeof why))
		ref_complain(&w->pool, "in the middle of a command: %s", why);
}

struct world *world_new(const struct setup *setup)
{
	struct engine_config config = { .half_bytes = setup->half,
					.extent_bytes = setup->extent,
					.scrub = setup->scrub,
					.fresh_is_dirty = setup->fresh_is_dirty,
					.stamps_a_ms = 1,
					.wait_claim = setup->wait_claim,
					.claim_hold = setup->claim_hold,
					.claim_max = setup->claim_max };
	struct world *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->setup = *setup;
	ref_pool_init(&w->pool, setup->half, setup->extent);
	w->pool.scrub = setup->scrub;
	w->pool.fresh_is_dirty = setup->fresh_is_dirty;
	w->pool.wait_claim = setup->wait_claim;
	w->pool.claim_hold = setup->claim_hold;
	w->pool.claim_max = setup->claim_max;
	w->engine = engine_new(&config);
	w->pool.stamp = 1000;
	if (w->engine)
		engine_stamp(w->engine, w->pool.stamp);
	if (w->engine)
		engine_on_claims(w->engine, look_at_claims, w);
	if (w->engine && setup->slice)
		engine_on_pause(w->engine, setup->slice, look_in_between, w);
	if (!w->engine)
		ref_complain(&w->pool, "engine_new() refuses halves of %llu bytes, extents of %llu",
			     (unsigned long long)setup->half, (unsigned long long)setup->extent);
	return w;
}

const char *quota_name(uint32_t quota)
{
	static const char *const names[REF_QUOTAS] = { "a", "b", "c", "d" };

	return names[quota];
}

static void attach_group(struct world *w, struct ref_session *s, struct side *e, uint32_t i, const struct geometry *g)
{
	struct ref_group *o = &s->groups[i];
	int64_t private = ref_reservation(s, i, s->max_seq, false);

	if (g->page_bytes != o->class->page_bytes || g->num_pages != o->class->num_pages || g->width != o->width ||
	    g->private_pages != private || g->page_bytes % g->shape.layer_stride)
		ref_complain(
			&w->pool,
			"model_check: group %u: %llu bytes, %d pages, width %d, %d private, should be %llu %d %d %lld",
			i, (unsigned long long)g->page_bytes, g->num_pages, g->width, g->private_pages,
			(unsigned long long)o->class->page_bytes, o->class->num_pages, o->width, (long long)private);
	e->tables[i].cells = calloc((size_t)s->max_batch * (o->class->joined ? 1 : 2) * (size_t)o->width,
				    sizeof *e->tables[i].cells);
	e->tables[i].rows = calloc((size_t)s->max_batch, sizeof *e->tables[i].rows);
	o->shown = e->tables[i].cells;
}

static void run_attach(struct world *w, const struct command *c)
{
	const struct ref_model *m = &w->setup.models[(uint64_t)c->value % w->setup.n_models];
	struct ref_session *s = &w->sessions[c->session];
	struct side *e = &w->sides[c->session];
	struct geometry g[WIRE_MAX_GROUPS] = { 0 };
	struct model model;
	struct fault f;

	if (s->attached)
		return;
	to_model(m, &model);
	compare_code(w, "model_check", model_check(&model, w->setup.half, g, &f), ref_model_check(m, w->setup.half),
		     &f);
	if (w->pool.error[0] || w->code)
		return;
	ref_attach(s, &w->pool, m, w->setup.quotas[m - w->setup.models]);
	memset(e, 0, sizeof *e);
	memset(e->device, -1, sizeof e->device);
	e->model = (uint32_t)c->value % w->setup.n_models;
	for (uint32_t i = 0; i < s->n_groups; i++)
		attach_group(w, s, e, i, &g[i]);
	e->session = session_new(w->engine, &model, e->tables, (uint32_t)c->session + 1);
	if (!e->session || session_join(e->session, quota_name((uint32_t)(s->quota - w->pool.quotas))) != 0)
		ref_complain(&w->pool, "session_new() or session_join() refuses");
	for (uint32_t i = 0; i < s->n_groups && e->session; i++)
		if (session_class(e->session, i) != s->groups[i].class_index)
			ref_complain(&w->pool, "group %u is of class %u, it should be %u", i,
				     session_class(e->session, i), s->groups[i].class_index);
}

static void detach(struct world *w, uint32_t session)
{
	struct side *e = &w->sides[session];

	if (e->session)
		session_free(e->session);
	for (uint32_t i = 0; i < REF_GROUPS; i++) {
		free(e->tables[i].cells);
		free(e->tables[i].rows);
		free(e->at_end[i]);
	}
	/* the next session here may be given the same handles */
	for (uint32_t i = 0; i < WORLD_COMMANDS; i++)
		if (w->labels[i].session == session)
			w->labels[i].handle = 0;
	memset(e, 0, sizeof *e);
	ref_detach(&w->sessions[session]);
}

static void run_end(struct world *w, const struct command *c)
{
	struct ref_session *s = &w->sessions[c->session];
	struct side *e = &w->sides[c->session];

	for (uint32_t i = 0; i < s->n_groups && !s->ended; i++) {
		size_t n = (size_t)s->max_batch * (s->groups[i].class->joined ? 1 : 2) * (size_t)s->groups[i].width;

		e->at_end[i] = malloc(n * sizeof *e->at_end[i]);
		memcpy(e->at_end[i], e->tables[i].cells, n * sizeof *e->at_end[i]);
	}
	if (!s->ended)
		ref_end(s);
	session_end(e->session);
}

static void run_reclaim(struct world *w, const struct command *c)
{
	int64_t got, want;

	if (!w->sessions[c->session].ended)
		run_end(w, c);
	got = session_reclaim(w->sides[c->session].session);
	want = ref_release_quarantined(&w->sessions[c->session]);
	if (got != want)
		ref_complain(&w->pool, "session_reclaim: %lld pages come back, it should be %lld", (long long)got,
			     (long long)want);
	detach(w, c->session);
}

struct world *world_free(struct world *w)
{
	if (!w)
		return NULL;
	for (uint32_t i = 0; i < REF_SESSIONS; i++) {
		if (!w->sessions[i].attached)
			continue;
		session_end(w->sides[i].session);
		session_reclaim(w->sides[i].session);
		detach(w, i);
	}
	engine_free(w->engine);
	free(w);
	return NULL;
}

/* Fields of a model and values that are wrong, or just right: the model says what must be answered. */
#define FIELD(name, value)                                                                                             \
	{                                                                                                              \
		offsetof(struct ref_model, name), sizeof(((struct ref_model *)0)->name), value                         \
	}
static const struct {
	size_t at, size;
	int64_t value;
} odd_fields[] = {
	FIELD(n_groups, 0),
	FIELD(n_groups, 9),
	FIELD(n_streams, 0),
	FIELD(n_streams, WIRE_MAX_STREAMS),
	FIELD(n_streams, WIRE_MAX_STREAMS + 1),
	FIELD(max_batch, -1),
	FIELD(max_batch, 0),
	FIELD(max_batch, WIRE_MAX_BATCH),
	FIELD(max_batch, WIRE_MAX_BATCH + 1),
	FIELD(max_seq, 0),
	FIELD(max_seq, 1ll << 31),
	FIELD(max_advance, -1),
	FIELD(max_advance, 1),
	FIELD(max_advance, INT32_MAX),
	FIELD(max_rewind, 1),
	FIELD(max_rewind, INT32_MAX),
	FIELD(max_rewind, UINT32_MAX),
	FIELD(in_flight, 1024),
	FIELD(in_flight, UINT32_MAX),
	FIELD(groups[0].kind, 0),
	FIELD(groups[0].kind, WIRE_GROUP_FULL),
	FIELD(groups[0].kind, WIRE_GROUP_SLIDING),
	FIELD(groups[0].kind, 7),
	FIELD(groups[0].window, -5),
	FIELD(groups[0].window, 0),
	FIELD(groups[0].window, INT32_MAX),
	FIELD(groups[0].window, 1ll << 31),
	FIELD(groups[0].page_tokens, 0),
	FIELD(groups[0].page_tokens, 8),
	FIELD(groups[0].page_tokens, 48),
	FIELD(groups[0].page_tokens, 256),
	FIELD(groups[0].page_tokens, 512),
	FIELD(groups[0].layers, 0),
	FIELD(groups[0].layers, 4096),
	FIELD(groups[0].kv_heads, 0),
	FIELD(groups[0].k_head_dim, 0),
	FIELD(groups[0].dtype, 0),
	FIELD(groups[0].dtype, 9),
	FIELD(groups[1].window, 1ll << 40),
	FIELD(groups[1].dtype, 9),
};

static void run_model(struct world *w, const struct command *c)
{
	size_t i = (size_t)c->value % (sizeof odd_fields / sizeof odd_fields[0]);
	struct ref_model m = w->setup.models[0];
	struct geometry g[WIRE_MAX_GROUPS];
	struct model model;
	struct fault f;

	memcpy((char *)&m + odd_fields[i].at, &odd_fields[i].value, odd_fields[i].size);
	to_model(&m, &model);
	compare_code(w, "model_check", model_check(&model, w->setup.half, g, &f), ref_model_check(&m, w->setup.half),
		     &f);
}

/* ---- arguments --------------------------------------------------------------------------- */

uint64_t handle_of(const struct world *w, int32_t label)
{
	if (label < 0 || label >= WORLD_COMMANDS)
		return label == -1 ? 0 : 0xfedcba9876543210ull >> (-label & 15);
	return w->labels[label].handle;
}

struct wire_fence fence_of(struct world *w, uint32_t session, uint32_t mode, uint32_t stream)
{
	struct side *e = &w->sides[session];
	uint64_t armed;

	if (stream >= REF_STREAMS)
		stream = 0;
	if (mode == FENCE_NEW)
		e->armed[stream]++;
	armed = e->armed[stream];
	switch (mode) {
	case FENCE_DONE:
		return (struct wire_fence){ WIRE_FENCE_DONE, 0, 0 };
	case FENCE_OLD:
		return (struct wire_fence){ WIRE_FENCE_LINE, stream, armed ? armed - 1 : 0 };
	case FENCE_POINT:
		return (struct wire_fence){ WIRE_FENCE_POINT, 0, 0 };
	case FENCE_FAILED:
		return (struct wire_fence){ WIRE_FENCE_FAILED, 0, 0 };
	case FENCE_LINE:
		return (struct wire_fence){ WIRE_FENCE_LINE, stream + 1, 0 };
	case FENCE_BEYOND:
		return (struct wire_fence){ WIRE_FENCE_LINE, stream, armed + 1 };
	case FENCE_KIND:
		return (struct wire_fence){ 17, stream, armed };
	default:
		return (struct wire_fence){ WIRE_FENCE_LINE, stream, armed };
	}
}

uint32_t stream_of(struct world *w, uint32_t session, uint64_t handle)
{
	const struct ref_request *r = ref_find(&w->sessions[session], handle);

	return r ? r->stream : 0;
}

struct delivery delivery_of(struct world *w)
{
	/* The engine sets all of it; what it leaves shows. */
	return (struct delivery){ .flags = 99,
				  .n_updates = 99,
				  .n_rows = 99,
				  .n_scrubs = 99,
				  .n_moves = 99,
				  .updates = w->updates,
				  .rows = w->rows,
				  .scrubs = w->scrubs,
				  .moves = w->moves };
}

/* ---- commands ------------------------------------------------------------------------------ */

static void run_rewind(struct world *w, const struct command *c)
{
	uint64_t handle = handle_of(w, c->request);
	struct fault f;
	int got = request_rewind(w->sides[c->session].session, handle, c->list, c->n, &f);

	compare_code(w, "rewind", got, ref_rewind(&w->sessions[c->session], handle, c->list, c->n), &f);
}

static void run_trim(struct world *w, const struct command *c)
{
	uint32_t got = engine_trim(w->engine, (uint32_t)c->value);
	int64_t want = 0;

	for (uint32_t x = 0; x < w->pool.n_extents; x++)
		want += w->pool.holder[x] >= 0 && w->pool.live[x] == 0 && !w->pool.chosen[x];
	for (int i = 0; i < REF_QUOTAS; i++)
		if (w->pool.quotas[i].claim.session)
			want = 0; /* what is kept stays where it is */
	if (want > c->value)
		want = c->value;
	if (got != want)
		ref_complain(&w->pool, "engine_trim: %u extents come back, it should be %lld", got, (long long)want);
	compare_extents(w, NULL, want);
}

static void run_prefill_prepare(struct world *w, const struct command *c)
{
	uint64_t handle = handle_of(w, c->request);
	struct delivery d = delivery_of(w);
	struct fault f;
	int got = request_prefill_prepare(w->sides[c->session].session, handle, c->list, c->n, &d, &f);
	int want = ref_prefill_prepare(&w->sessions[c->session], handle, c->list, c->n, &w->expected);

	compare_code(w, "prefill_prepare", got, want, &f);
	if (want == SWAKV_OK && !w->pool.error[0])
		compare_delivery(w, c->session, &d);
}

static void run_complete(struct world *w, const struct command *c)
{
	struct session *e = w->sides[c->session].session;
	struct ref_session *s = &w->sessions[c->session];
	uint64_t handle = handle_of(w, c->request);
	uint32_t stream = stream_of(w, c->session, handle);
	struct wire_fence fence = fence_of(w, c->session, c->fence, stream);
	uint64_t armed = w->sides[c->session].armed[stream];
	struct delivery d = delivery_of(w);
	struct fault f;

	switch (c->op) {
	case OP_PREFILL_COMPLETE:
		compare_code(w, "prefill_complete", request_prefill_complete(e, handle, &fence, armed, &f),
			     ref_prefill_complete(s, handle, &fence, armed), &f);
		break;
	case OP_FINISH:
		compare_code(w, "finish", request_finish(e, handle, &fence, armed, &f),
			     ref_finish(s, handle, &fence, armed), &f);
		break;
	case OP_ABANDON:
		compare_code(w, "abandon", request_abandon(e, handle, &fence, armed, &f),
			     ref_abandon(s, handle, &fence, armed), &f);
		break;
	default:
		compare_code(w, "compact_complete", request_compact_complete(e, handle, &fence, armed, &d, &f),
			     ref_compact_complete(s, handle, &fence, armed, &w->expected), &f);
		if (w->code == SWAKV_OK && !w->pool.error[0])
			compare_delivery(w, c->session, &d);
	}
}

static void compare_entries(struct world *w, const char *call, const struct wire_entry_fault *faults, uint32_t n_faults,
			    const int *codes, uint32_t n)
{
	uint32_t j = 0;

	w->code = SWAKV_OK;
	for (uint32_t i = 0; i < n && !w->pool.error[0]; i++) {
		const struct wire_entry_fault *e = j < n_faults && faults[j].entry == i ? &faults[j++] : NULL;
		int first = w->code;

		compare_code(w, call, e ? e->fault.code : SWAKV_OK, codes[i], e ? &e->fault : NULL);
		if (first)
			w->code = first;
	}
	if (j != n_faults)
		ref_complain(&w->pool, "%s: %u faults, they are not those of the %u entries in order", call, n_faults,
			     n);
}

static uint32_t step_entries(struct world *w, const struct command *c, struct wire_step_entry *out)
{
	memset(out, 0, STEP_ENTRIES * sizeof *out);
	for (uint32_t i = 0; i < c->n; i++) {
		out[i].request = handle_of(w, c->entries[i].request);
		out[i].tokens = c->entries[i].tokens;
		out[i].accepted = c->entries[i].accepted;
		out[i].fence = fence_of(w, c->session, c->entries[i].fence, stream_of(w, c->session, out[i].request));
	}
	return c->n;
}

static void run_step(struct world *w, const struct command *c)
{
	bool prepare = c->op == OP_STEP_PREPARE;
	const char *call = prepare ? "step_prepare" : "step_complete";
	struct session *e = w->sides[c->session].session;
	struct ref_session *s = &w->sessions[c->session];
	const uint64_t *armed = w->sides[c->session].armed;
	struct wire_step_entry entries[STEP_ENTRIES];
	struct wire_entry_fault faults[STEP_ENTRIES];
	struct step step = { .entries = entries, .counts = c->counts, .n_counts = c->n_counts };
	struct ref_step ref = { .entries = entries, .counts = c->counts, .n_counts = c->n_counts };
	struct delivery d = delivery_of(w);
	struct moves_seen moves;
	int codes[STEP_ENTRIES] = { 0 }, got, want;
	uint32_t n_faults = 99;
	struct fault f;

	step.n = ref.n = step_entries(w, c, entries);
	moves_before(w, c->session, &moves);
	got = prepare ? step_prepare(e, &step, faults, &n_faults, &d, &f)
		      : step_complete(e, &step, armed, faults, &n_faults, &f);
	compare_extents(w, prepare ? s : NULL, 0);
	ref.moves = moves_after(w, &moves, got || !prepare ? NULL : &d);
	for (uint32_t i = 0; i < n_faults && !got; i++)
		if (faults[i].entry < c->n)
			codes[faults[i].entry] = faults[i].fault.code;
	want = prepare ? ref_step_prepare(s, &ref, codes, &w->expected) : ref_step_complete(s, &ref, armed, codes);
	compare_code(w, call, got, want, &f);
	for (int i = 0; i < STEP_ENTRIES; i++)
		w->entry_codes[i] = want ? want : codes[i];
	if (want || w->pool.error[0])
		return;
	compare_entries(w, call, faults, n_faults, codes, c->n);
	if (prepare && !w->pool.error[0])
		compare_delivery(w, c->session, &d);
}

static void run_compact_begin(struct world *w, const struct command *c)
{
	uint64_t handle = handle_of(w, c->request);
	struct delivery d = delivery_of(w);
	struct fault f;
	int got = request_compact_begin(w->sides[c->session].session, handle, c->list, c->n, c->new_batch, c->flags, &d,
					&f);
	int want = ref_compact_begin(&w->sessions[c->session], handle, c->list, c->n, c->new_batch, c->flags,
				     &w->expected);

	compare_code(w, "compact_begin", got, want, &f);
	if (want == SWAKV_OK && !w->pool.error[0])
		compare_delivery(w, c->session, &d);
}

static void run_shutdown(struct world *w, const struct command *c)
{
	struct wire_fence fences[REF_BATCH];
	struct fault f;

	for (uint32_t i = 0; i < c->n; i++)
		fences[i] = fence_of(w, c->session, (uint32_t)c->list[i], i);
	compare_code(w, "shutdown",
		     session_shutdown(w->sides[c->session].session, fences, c->n, w->sides[c->session].armed, &f),
		     ref_shutdown(&w->sessions[c->session], fences, c->n, w->sides[c->session].armed), &f);
}

static void run_reach(struct world *w, const struct command *c)
{
	uint32_t stream = c->stream % REF_STREAMS;
	uint64_t armed = w->sides[c->session].armed[stream];
	uint64_t word = armed > (uint64_t)c->value ? armed - (uint64_t)c->value : 0;

	if (stream >= w->sessions[c->session].n_streams)
		return;
	session_reach(w->sides[c->session].session, stream, word);
	ref_reach(&w->sessions[c->session], stream, word);
}

/* A query by generation, and in pieces: what the pieces say must be the whole. */
static void run_query(struct world *w, const struct command *c)
{
	struct session *e = w->sides[c->session].session;
	struct ref_session *s = &w->sessions[c->session];
	struct ref_request *r = ref_find(s, handle_of(w, c->request));
	struct wire_binding whole[2 * REF_HELD], part[3];
	struct wire_query_state q = { .seq = c->list[0], .group = (uint32_t)c->list[2] };
	struct wire_sequence_state state;
	struct wire_request_state request;
	uint32_t n = 0, m = 0;
	bool valid = r && q.seq >= 0 && q.seq < r->n_seqs && q.group < s->n_groups;
	int want = s->ended ? SWAKV_EGONE : !valid || c->list[1] == 2 ? SWAKV_EINVALID : SWAKV_OK;
	struct fault f;

	if (valid && c->list[1])
		q.generation = r->seqs[q.seq].generation + (c->list[1] == 2 ? 1 : 0);
	compare_code(w, "sequence_query",
		     sequence_query(e, handle_of(w, c->request), &q, &state, whole, 2 * REF_HELD, &n, &f), want, &f);
	for (q.first = 0; want == SWAKV_OK && q.first < n + 3 && !w->pool.error[0]; q.first += 3) {
		if (sequence_query(e, handle_of(w, c->request), &q, &state, part, 3, &m, &f) ||
		    m != (q.first + 3 <= n ? 3
			  : q.first < n    ? n - q.first
					   : 0) ||
		    (m && memcmp(part, whole + q.first, m * sizeof *part) != 0))
			ref_complain(&w->pool, "bindings from %u on differ when asked for in pieces", q.first);
	}
	if (!s->ended)
		compare_code(w, "request_query", request_query(e, handle_of(w, c->request), &request, &f),
			     r ? SWAKV_OK : SWAKV_EINVALID, &f);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

static void dispatch(struct world *w, const struct command *c)
{
	switch (c->op) {
	case OP_ATTACH:
		run_attach(w, c);
		break;
	case OP_MODEL:
		run_model(w, c);
		break;
	case OP_END:
		run_end(w, c);
		break;
	case OP_RECLAIM:
		run_reclaim(w, c);
		break;
	case OP_ARM:
		w->sides[c->session].armed[c->stream % REF_STREAMS]++;
		break;
	case OP_REACH:
		run_reach(w, c);
		break;
	case OP_BEGIN:
		run_begin(w, c);
		break;
	case OP_PREFILL_PREPARE:
		run_prefill_prepare(w, c);
		break;
	case OP_STEP_PREPARE:
	case OP_STEP_COMPLETE:
		run_step(w, c);
		break;
	case OP_REWIND:
		run_rewind(w, c);
		break;
	case OP_RESERVE:
		run_reserve(w, c);
		break;
	case OP_TRIM:
		run_trim(w, c);
		break;
	case OP_LIMIT:
		run_limit(w, c);
		break;
	case OP_WITHDRAW:
		run_withdraw(w, c);
		break;
	case OP_PASS:
		w->pool.stamp += c->value > 0 ? (uint64_t)c->value : 0; /* it only rises */
		engine_stamp(w->engine, w->pool.stamp);
		break;
	case OP_COMPACT_BEGIN:
		run_compact_begin(w, c);
		break;
	case OP_SHUTDOWN:
		run_shutdown(w, c);
		break;
	case OP_QUERY:
		run_query(w, c);
		break;
	case OP_TAKE:
		run_take(w, c);
		break;
	case OP_GIVE:
		run_give(w, c);
		break;
	case OP_OFFER:
		run_offer(w, c);
		break;
	case OP_PIN:
		run_pin(w, c);
		break;
	case OP_PRESS:
		run_press(w);
		break;
	case OP_TURN:
		run_turn(w, c);
		break;
	default:
		run_complete(w, c);
	}
}

static void count_moves(struct world *w, const struct command *c)
{
	for (uint32_t x = 0; x < w->pool.n_extents; x++)
		w->n_moved += w->holder[x] >= 0 && w->holder[x] != w->pool.holder[x];
	for (uint32_t i = 0; i < w->pool.n_classes && (c->op == OP_STEP_PREPARE || c->op == OP_TURN); i++)
		w->n_taken += (uint64_t)w->pool.classes[i].wanted;
}

static bool has_entries(const struct command *c)
{
	return c->op == OP_STEP_PREPARE || c->op == OP_STEP_COMPLETE || c->op == OP_TURN;
}

static void compare_touched(struct world *w, const struct command *c)
{
	struct ref_session *s = &w->sessions[c->session];
	bool emptying[REF_EXTENTS];

	compare_extents(w, NULL, 0);
	see_emptying(w, emptying);
	if (!w->pool.error[0])
		ref_emptying_check(&w->pool, emptying);
	if (!w->pool.error[0])
		ref_check_thrift(&w->pool, w->holder);
	if (!w->pool.error[0])
		ref_check_fullest(&w->pool);
	count_moves(w, c);
	if (w->pool.error[0] || !s->attached)
		return;
	compare_session(w, c->session);
	for (int i = 0; i < REF_REQUESTS && !w->pool.error[0]; i++) {
		bool touched = s->requests[i].live && (w->n_commands % 16 == 0 || c->op == OP_REACH);

		if (s->requests[i].live && !touched) {
			touched = s->requests[i].handle == handle_of(w, c->request);
			for (uint32_t j = 0; j < c->n && has_entries(c); j++)
				touched |= s->requests[i].handle == handle_of(w, c->entries[j].request);
		}
		if (touched)
			compare_request(w, c->session, &s->requests[i]);
	}
}

/* The points of ended requests may be joined or not, so how many are open is the engine's word. */
void count_spare(struct world *w, uint32_t session)
{
	struct ref_session *s = &w->sessions[session];
	struct session_counts counts;
	int64_t most = s->max_batch * (s->in_flight + 3) + 256;

	if (!s->attached)
		return;
	session_count(w->sides[session].session, &counts);
	s->spare = (most < 65536 ? most : 65536) - counts.open_points - ref_live(s);
	for (int i = 0; i < REF_REQUESTS; i++)
		if (s->requests[i].live && s->requests[i].transition != TRANSITION_NONE)
			s->spare -= REF_PROMISE;
}

bool world_run(struct world *w, const struct command *c)
{
	w->code = SWAKV_OK;
	if (w->pool.error[0])
		return false;
	if (!(c->op == OP_ATTACH || c->op == OP_MODEL || c->op == OP_TRIM || c->op == OP_LIMIT || c->op == OP_PASS ||
	      c->op == OP_PRESS) &&
	    !w->sessions[c->session].attached)
		return true;
	w->n_commands++;
	w->pool.command++;
	for (uint32_t i = 0; i < w->pool.n_classes; i++)
		w->pool.classes[i].wanted = 0;
	memcpy(w->holder, w->pool.holder, sizeof w->holder);
	count_spare(w, c->session);
	dispatch(w, c);
	ref_claims_forget(&w->pool);
	if (!w->pool.error[0])
		compare_touched(w, c);
	if (!w->pool.error[0])
		answer_waiting(w);
	if (!w->pool.error[0])
		compare_counts(w);
	return !w->pool.error[0];
}

bool world_scan(struct world *w)
{
	char text[256] = "";

	for (uint32_t i = 0; i < REF_SESSIONS; i++) {
		struct ref_session *s = &w->sessions[i];

		if (!s->attached || w->pool.error[0])
			continue;
		compare_session(w, i);
		for (int j = 0; j < REF_REQUESTS && !w->pool.error[0]; j++)
			if (s->requests[j].live)
				compare_request(w, i, &s->requests[j]);
	}
	if (!engine_check(w->engine, text, sizeof text))
		ref_complain(&w->pool, "engine_check: %s", text);
	if (w->setup.slice && engine_longest(w->engine) > w->setup.slice)
		ref_complain(&w->pool, "%u operations without a pause, where %u are allowed", engine_longest(w->engine),
			     w->setup.slice);
	return !w->pool.error[0];
}
