/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.c - what the broker knows of a request and its sequences (swakv_state.3)
 *
 * A sequence can have more pages than fit one answer, so they are asked for in
 * chunks; when the sequence changed between two chunks the reading starts anew.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call_answer.h"
#include "call_collect.h"
#include "call_send.h"
#include "request.h"
#include "session.h"
#include "sized.h"

#define RESTARTS 64

/* Sends a query and waits; the payload comes to @answer. */
static int query(struct swakv_request *r, uint16_t op, const struct part *part, void *answer, size_t size, uint32_t *n)
{
	struct swakv_session *s = r->session;
	struct call *c = request_call(r, op, call_effect_answer);
	uint32_t index;
	int e;

	if (!c)
		return SWAKV_ENOMEM;
	c->answer = answer;
	c->answer_size = size;
	c->answer_count = n;
	index = part ? 1 : 0;
	e = call_send(s, c, r->handle, index, part, index);
	return e < 0 ? e : call_return(s, c, NULL);
}

int swakv_request_get_state(swakv_request *r, struct swakv_request_state *out)
{
	const struct sized kind = SIZED(swakv_request_state, pending_batch);
	struct swakv_request_state own;
	struct wire_request_state state;
	uint32_t n;
	int e = request_enter(r);

	if (e < 0)
		return e;
	if (!out)
		return session_error(r->session, SWAKV_EINVALID, "the pointer for the state is NULL");
	if (!sized_check(&kind, out, r->session->error, sizeof(r->session->error)))
		return SWAKV_EINVALID;
	e = query(r, WIRE_OP_QUERY_REQUEST, NULL, &state, sizeof(state), &n);
	if (e < 0)
		return e;
	own = (struct swakv_request_state){
		.phase = (enum swakv_phase)state.phase,
		.transition = (enum swakv_transition)state.transition,
		.stream = state.stream,
		.batch = state.n_seqs,
		.open_points = state.open_points,
		.pending_batch = state.pending_batch,
	};
	sized_give(&kind, out, &own);
	return 0;
}

/* ---- one sequence --------------------------------------------------------------------- */

static const struct sized kind_of_sequence = SIZED_INIT(swakv_sequence_state, staged);

struct chunk {
	struct wire_sequence_state state;
	struct wire_binding bindings[WIRE_STATE_CHUNK];
};

/* All pages of a sequence, in the order of the wire format. */
struct pages {
	struct wire_binding *p;
	uint64_t n;
};

static uint64_t pages_total(const struct wire_sequence_state *w)
{
	return (uint64_t)w->n_bound + w->n_reserved + w->n_new + w->n_retiring + w->n_staged;
}

/* One pass over the chunks. 1: the sequence changed meanwhile. */
static int pages_read(struct swakv_request *r, uint32_t seq, uint32_t group, struct wire_sequence_state *state,
		      struct pages *pages)
{
	struct wire_query_state q = { .seq = (int32_t)seq, .group = group };
	const struct part part = { &q, sizeof(q) };
	struct chunk chunk;
	uint64_t at = 0;
	uint32_t n;
	int e;

	do {
		q.first = (uint32_t)at;
		e = query(r, WIRE_OP_QUERY_STATE, &part, &chunk, sizeof(chunk), &n);
		if (e < 0)
			return e;
		if (at == 0) {
			*state = chunk.state;
			pages->n = pages_total(state);
			if (pages->n > 8 * (uint64_t)INT32_MAX / sizeof(*pages->p))
				return session_break(r->session, "the broker says a sequence has %" PRIu64 " pages",
						     pages->n);
			free(pages->p);
			pages->p = calloc(pages->n + 1, sizeof(*pages->p));
			if (!pages->p)
				return session_error(r->session, SWAKV_ENOMEM, "out of memory");
		} else if (chunk.state.change != state->change) {
			return 1;
		}
		if (n > WIRE_STATE_CHUNK || n > pages->n - at || (n == 0 && at < pages->n))
			return session_break(r->session,
					     "the broker gave %" PRIu32 " pages of a sequence that has %" PRIu64
					     ", from %" PRIu64 " on",
					     n, pages->n, at);
		memcpy(pages->p + at, chunk.bindings, n * sizeof(chunk.bindings[0]));
		at += n;
	} while (at < pages->n);
	return 0;
}

/* The next @n of @p as bindings. NULL: out of memory. */
static struct swakv_binding *take_bindings(const struct wire_binding **p, uint32_t n)
{
	struct swakv_binding *out = calloc((size_t)n + 1, sizeof(*out));

	for (uint32_t i = 0; out && i < n; i++)
		out[i] = (struct swakv_binding){ (*p)[i].logical, (*p)[i].page };
	*p += n;
	return out;
}

static int32_t *take_pages(const struct wire_binding **p, uint32_t n)
{
	int32_t *out = calloc((size_t)n + 1, sizeof(*out));

	for (uint32_t i = 0; out && i < n; i++)
		out[i] = (*p)[i].page; /* NOLINT(clang-analyzer-core.NullDereference): where @n is not 0, @p is what
					  came */
	*p += n;
	return out;
}

static void state_free(struct swakv_sequence_state *state)
{
	free(state->bindings);
	free(state->new_bindings);
	free(state->retiring);
	free(state->reserved);
	free(state->staged);
}

static int state_fill(struct swakv_session *s, const struct wire_sequence_state *w, const struct wire_binding *p,
		      struct swakv_sequence_state *out)
{
	*out = (struct swakv_sequence_state){
		.slot = w->slot,
		.generation = w->generation,
		.window = w->window,
		.page_tokens = w->page_tokens,
		.endpoint = w->endpoint,
		.pending_endpoint = w->pending_endpoint,
		.retained_begin = w->retained_begin,
		.retained_end = w->retained_end,
		.input_length = w->length,
		.pending_map = w->pending_map,
		.n_bindings = w->n_bound,
		.n_reserved = w->n_reserved,
		.n_new = w->n_new,
		.n_retiring = w->n_retiring,
		.n_staged = w->n_staged,
	};
	/* in the order of the wire format, which an initialiser would not keep */
	out->bindings = take_bindings(&p, w->n_bound);
	out->reserved = take_pages(&p, w->n_reserved);
	out->new_bindings = take_bindings(&p, w->n_new);
	out->retiring = take_bindings(&p, w->n_retiring);
	out->staged = take_pages(&p, w->n_staged);
	if (out->bindings && out->new_bindings && out->retiring && out->reserved && out->staged)
		return 0;
	state_free(out);
	return session_error(s, SWAKV_ENOMEM, "out of memory");
}

int swakv_sequence_get_state(swakv_request *r, uint32_t seq, struct swakv_sequence_state *out)
{
	return swakv_sequence_get_group_state(r, seq, 0, out);
}

int swakv_sequence_get_group_state(swakv_request *r, uint32_t seq, uint32_t group, struct swakv_sequence_state *out)
{
	struct swakv_sequence_state own = { 0 };
	struct wire_sequence_state state;
	struct pages pages = { 0 };
	int e = request_enter(r);

	if (e < 0)
		return e;
	if (!out)
		return session_error(r->session, SWAKV_EINVALID, "the pointer for the state is NULL");
	if (!sized_check(&kind_of_sequence, out, r->session->error, sizeof(r->session->error)))
		return SWAKV_EINVALID;
	if ((e = session_group(r->session, group)) < 0)
		return e;
	if (seq > INT32_MAX)
		return session_error(r->session, SWAKV_EINVALID,
				     "sequence %" PRIu32 " is outside the batch (size %" PRIu32 ")", seq, r->n);
	sized_give(&kind_of_sequence, out, &own);
	e = 1;
	for (int i = 0; e == 1 && i < RESTARTS; i++)
		e = pages_read(r, seq, group, &state, &pages);
	if (e == 1)
		e = session_error(r->session, SWAKV_EBUSY, "the sequence changed %d times while it was read", RESTARTS);
	if (e == 0)
		e = state_fill(r->session, &state, pages.p, &own);
	if (e == 0)
		sized_give(&kind_of_sequence, out, &own);
	free(pages.p);
	return e;
}

void swakv_sequence_state_clear(struct swakv_sequence_state *state)
{
	struct swakv_sequence_state own;

	if (!state || !sized_take(&kind_of_sequence, &own, state, NULL, 0))
		return;
	state_free(&own);
	own = (struct swakv_sequence_state){ 0 };
	sized_give(&kind_of_sequence, state, &own);
}

/* ---- the session ------------------------------------------------------------------------ */

static int free_pages_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
			     const unsigned char *payload, size_t len)
{
	if (c->result == 0 && c->answer)
		*(int64_t *)c->answer = (int64_t)reply->value;
	return c->result;
}

int swakv_session_free_pages(swakv_session *s, int64_t *out)
{
	return swakv_session_group_free_pages(s, 0, out);
}

int swakv_session_group_free_pages(swakv_session *s, uint32_t group, int64_t *out)
{
	struct call *c;
	int r = session_enter(s);

	if (r < 0)
		return r;
	if (!out)
		return session_error(s, SWAKV_EINVALID, "the pointer for the number is NULL");
	if ((r = session_group(s, group)) < 0)
		return r;
	c = call_new(s, WIRE_OP_QUERY_PAGES, 0, free_pages_effect);
	if (!c)
		return SWAKV_ENOMEM;
	c->answer = out;
	r = call_send(s, c, 0, group, NULL, 0);
	return r < 0 ? r : call_return(s, c, NULL);
}
