/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include <stdlib.h>

#include "operation.h"

struct reply {
	struct channel *channel;
	size_t bytes;
};

struct workspace *workspace_new(void)
{
	struct workspace *w = calloc(1, sizeof(*w));
	struct model largest = { .n_groups = WIRE_MAX_GROUPS,
				 .n_streams = WIRE_MAX_STREAMS,
				 .max_batch = WIRE_MAX_BATCH };
	struct geometry g[WIRE_MAX_GROUPS] = { 0 }; /* as wide as nothing: no message depends on it */
	struct session_layout l;

	if (!w)
		return NULL;
	session_layout_init(&l, &largest, g);
	w->delivery =
		(struct delivery){ .updates = w->updates, .rows = w->rows, .scrubs = w->scrubs, .moves = w->moves };
	w->message = aligned_alloc(CACHELINE, (size_t)l.max_command_slots * RING_SLOT);
	return w->message ? w : workspace_free(w);
}

struct workspace *workspace_free(struct workspace *w)
{
	if (w) {
		free(w->message);
		free(w);
	}
	return NULL;
}

static inline void reply_put(struct reply *r, const void *src, size_t bytes)
{
	ring_producer_write_spsc(&r->channel->replies, r->bytes, src, bytes);
	r->bytes += bytes;
}

static void put_delivery(struct workspace *w, struct reply *r)
{
	const struct delivery *d = &w->delivery;
	struct wire_delivery head = {
		.flags = d->flags | d->n_moves * WIRE_DELIVERY_MOVE,
		.n_faults = w->n_faults,
		.n_updates = d->n_updates,
		.n_rows = d->n_rows,
		.n_scrubs = d->n_scrubs,
		.n_begun = w->n_begun,
	};

	reply_put(r, &head, sizeof(head));
	reply_put(r, w->faults, w->n_faults * sizeof(w->faults[0]));
	reply_put(r, w->updates, d->n_updates * sizeof(w->updates[0]));
	reply_put(r, w->rows, d->n_rows * sizeof(w->rows[0]));
	reply_put(r, w->scrubs, d->n_scrubs * sizeof(w->scrubs[0]));
	reply_put(r, w->begun, w->n_begun * sizeof(w->begun[0]));
	reply_put(r, w->moves, d->n_moves * sizeof(w->moves[0]));
}

static void put_payload(struct workspace *w, struct reply *r)
{
	switch (w->operation->answer) {
	case ANSWER_DELIVERY:
		put_delivery(w, r);
		break;
	case ANSWER_REQUEST:
		reply_put(r, &w->request, sizeof(w->request));
		break;
	case ANSWER_SEQUENCE:
		reply_put(r, &w->sequence, sizeof(w->sequence));
		reply_put(r, w->bindings, w->n * sizeof(w->bindings[0]));
		break;
	case ANSWER_PAGES:
		reply_put(r, w->pages, w->n * sizeof(w->pages[0]));
		break;
	case ANSWER_HEADER:
		break;
	}
}

/* True when the outcome is a header alone, or one and a delivery that names nothing; nearly all are. */
static bool is_short(const struct workspace *w)
{
	const struct delivery *d = &w->delivery;

	return w->code == 0 && w->operation->answer <= ANSWER_DELIVERY && w->n_faults == 0 && d->n_updates == 0 &&
	       d->n_rows == 0 && d->n_scrubs == 0 && w->n_begun == 0;
}

void commands_reply(struct workspace *w, struct channel *c)
{
	const struct wire_command *command = command_head(w);
	struct wire_reply head = {
		.op = command->op, .code = w->code, .user_data = command->user_data, .value = w->value, .n = w->n
	};
	struct reply r = { .channel = c, .bytes = sizeof(head) };

	c->n_commands++;
	c->n_refused += w->code != 0;
	if (is_short(w)) {
		/* A header, and the delivery of an operation that has one: all zero but for the flags. */
		uint64_t slot[RING_EXPRESS + 1] = { wire_head_word(command->op, 1, 0), command->user_data, w->value,
						    w->n, w->delivery.flags };

		/* A worker that sent more before this answer is not in want of it alone. */
		if (ring_consumer_seen_spsc(&c->commands) > command->n_slots)
			ring_producer_queue_spsc(&c->replies, slot);
		else
			ring_producer_send_spsc(&c->replies, slot);
		return;
	}
	if (w->code == 0)
		put_payload(w, &r);
	else
		reply_put(&r, &w->fault, sizeof(w->fault));
	head.n_slots = (uint16_t)message_slots(r.bytes - sizeof(head));
	ring_producer_write_spsc(&c->replies, 0, &head, sizeof(head));
	ring_producer_publish_spsc(&c->replies, head.n_slots);
}

void commands_answer(struct channel *c, const struct admission *a, uint64_t now_ns)
{
	struct wire_reply head = {
		.op = a->took ? WIRE_OP_TAKE : WIRE_OP_BEGIN,
		.code = a->code,
		.user_data = a->ticket,
		.value = a->handle,
		.n = a->n_pages,
	};
	struct reply r = { .channel = c, .bytes = sizeof(head) };

	if (a->code)
		reply_put(&r, &a->fault, sizeof(a->fault));
	else if (a->took)
		reply_put(&r, a->pages, a->n_pages * sizeof(a->pages[0]));
	head.n_slots = (uint16_t)message_slots(r.bytes - sizeof(head));
	ring_producer_write_spsc(&c->replies, 0, &head, sizeof(head));
	ring_producer_publish_spsc(&c->replies, head.n_slots);
	for (uint32_t i = 0; a->code == 0 && i < a->n_slots; i++)
		c->begun_ns[a->slots[i]] = now_ns;
}
_Static_assert(sizeof(struct wire_reply) + sizeof(struct fault) == RING_SLOT, "a refusal takes one slot");
