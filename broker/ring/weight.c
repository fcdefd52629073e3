/* SPDX-License-Identifier: Apache-2.0 */
/* weight.c - see weight.h; a command that will be refused for its form weighs nothing */
#include "weight.h"

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
	if (complete)
		return request_weight(c->session, e->request,
				      e->fence.kind == WIRE_FENCE_FAILED ? WEIGHT_WHOLE : WEIGHT_PENDING);
	return request_weight(c->session, e->request, e->tokens > 0 ? e->tokens : listed);
}

static uint64_t step_weight(const struct wire_command *head, const struct wire_step_entry *entries,
			    const struct channel *c)
{
	int64_t listed = greatest((const int32_t *)(entries + head->n), (uint32_t)head->request);
	uint64_t n = 0;

	for (uint32_t i = 0; i < head->n && n <= ENGINE_SLICE; i++)
		n += entry_weight(c, &entries[i], head->op == WIRE_OP_STEP_COMPLETE, listed);
	return n;
}

static uint64_t reserve_weight(const struct channel *c, uint64_t handle, int64_t max_tokens)
{
	struct wire_request_state r;

	if (request_query(c->session, handle, &r, NULL) != 0)
		return 0;
	return 2 * begin_weight(c->session, max_tokens, r.n_seqs);
}

static uint64_t own_weight(const struct workspace *w, const struct channel *c)
{
	const struct wire_command *head = (const struct wire_command *)w->message;
	const void *payload = w->message + sizeof(*head);

	switch (head->op) {
	case WIRE_OP_BEGIN:
		return begin_weight(c->session, ((const struct wire_begin *)payload)->max_tokens, head->n);
	case WIRE_OP_PREFILL_PREPARE:
	case WIRE_OP_REWIND:
		return request_weight(c->session, head->request, greatest(payload, head->n));
	case WIRE_OP_STEP_PREPARE:
	case WIRE_OP_STEP_COMPLETE:
		return step_weight(head, payload, c);
	case WIRE_OP_RESERVE:
		return reserve_weight(c, head->request, *(const int64_t *)payload);
	case WIRE_OP_COMPACT_BEGIN:
		return request_weight(c->session, head->request, 0);
	case WIRE_OP_PREFILL_COMPLETE:
	case WIRE_OP_COMPACT_COMPLETE:
	case WIRE_OP_FINISH:
	case WIRE_OP_ABANDON:
		return request_weight(c->session, head->request, WEIGHT_WHOLE);
	case WIRE_OP_SHUTDOWN:
	case WIRE_OP_CLOSE:
		return session_weight(c->session);
	default:
		return 0;
	}
}

uint64_t command_weight(const struct workspace *w, const struct channel *c)
{
	return commands_are_formed(w, c) ? own_weight(w, c) + points_weight(c->session) : 0;
}
