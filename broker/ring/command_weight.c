/* SPDX-License-Identifier: Apache-2.0 */
/* command_weight.c - see command_weight.h; a command that will be refused for its form weighs nothing */
#include "command_weight.h"

#include "operation.h"

/* The greatest of @n counts. */
static int64_t greatest(const int32_t *counts, uint32_t n)
{
	int64_t most = 0;

	for (uint32_t i = 0; i < n; i++)
		most = counts[i] > most ? counts[i] : most;
	return most;
}

static uint64_t entry_weight(const struct channel *c, const struct wire_step_entry *e, bool complete, int64_t listed)
{
	int64_t tokens = e->tokens > 0 ? e->tokens : listed;

	if (complete)
		tokens = e->accepted == 0 || e->accepted == 1 ? WEIGHT_DECODE : WEIGHT_PENDING;
	else if (e->tokens == 1)
		tokens = WEIGHT_DECODE;
	if (complete && e->fence.kind == WIRE_FENCE_FAILED)
		tokens = WEIGHT_WHOLE;
	return 1 + request_weight(c->session, e->request, tokens); /* 1: it may be refused */
}

uint64_t weight_step(const struct workspace *w, const struct channel *c)
{
	const struct wire_command *head = command_head(w);
	const struct wire_step_entry *entries = command_payload(w);
	int64_t listed = greatest((const int32_t *)(entries + head->n), (uint32_t)head->request);
	uint64_t n = 0, highest[WIRE_MAX_STREAMS] = { 0 };
	bool complete = head->op == WIRE_OP_STEP_COMPLETE;

	for (uint32_t i = 0; i < head->n && n <= ENGINE_LONG; i++) {
		const struct wire_fence *fence = &entries[i].fence;

		n += entry_weight(c, &entries[i], complete, listed);
		if (!complete || fence->line >= WIRE_MAX_STREAMS)
			continue;
		n += fence_weight(c->session, entries[i].request, fence, highest[fence->line]);
		if (fence->kind == WIRE_FENCE_LINE && fence->value > highest[fence->line])
			highest[fence->line] = fence->value;
	}
	return n;
}

uint64_t weight_begin(const struct workspace *w, const struct channel *c)
{
	const struct wire_begin *begin = command_payload(w);

	return begin_weight(c->session, begin->max_tokens, command_head(w)->n);
}

uint64_t weight_tokens(const struct workspace *w, const struct channel *c)
{
	const struct wire_command *head = command_head(w);

	return request_weight(c->session, head->request, greatest(command_payload(w), head->n));
}

uint64_t weight_rewind(const struct workspace *w, const struct channel *c)
{
	const struct wire_fence none = { .kind = WIRE_FENCE_DONE };

	return weight_tokens(w, c) + fence_weight(c->session, command_head(w)->request, &none, 0);
}

uint64_t weight_reserve(const struct workspace *w, const struct channel *c)
{
	const int64_t *max_tokens = command_payload(w);
	struct wire_request_state r;

	if (request_query(c->session, command_head(w)->request, &r, NULL) != 0)
		return 0;
	return 2 * begin_weight(c->session, *max_tokens, r.n_seqs);
}

uint64_t weight_rows(const struct workspace *w, const struct channel *c)
{
	return request_weight(c->session, command_head(w)->request, 0);
}

uint64_t weight_whole(const struct workspace *w, const struct channel *c)
{
	uint64_t handle = command_head(w)->request;

	return request_weight(c->session, handle, WEIGHT_WHOLE) +
	       fence_weight(c->session, handle, command_payload(w), 0);
}

/* Those behind its session's points, which it may pass over, are weighed with every command. */
uint64_t weight_state(const struct workspace *w, const struct channel *c)
{
	return WIRE_STATE_CHUNK;
}

uint64_t weight_pages(const struct workspace *w, const struct channel *c)
{
	const struct wire_command *head = command_head(w);

	return pages_weight(c->session, head->n, head->op == WIRE_OP_GIVE ? head->request : 0);
}

uint64_t weight_session(const struct workspace *w, const struct channel *c)
{
	return session_weight(c->session);
}

uint64_t command_weight(const struct workspace *w, const struct channel *c)
{
	uint64_t own = 0;

	if (!w->formed)
		return 0;
	if (w->operation->weight)
		own = w->operation->weight(w, c);
	return own + points_weight(c->session);
}
