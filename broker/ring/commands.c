/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

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
	w->delivery = (struct delivery){ .updates = w->updates, .rows = w->rows, .scrubs = w->scrubs };
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

static const struct wire_command *head_of(const struct workspace *w)
{
	return (const struct wire_command *)w->message;
}

static const void *payload_of(const struct workspace *w)
{
	return w->message + sizeof(struct wire_command);
}

static bool is_step(const struct wire_command *head)
{
	return head->op == WIRE_OP_STEP_PREPARE || head->op == WIRE_OP_STEP_COMPLETE;
}

/* Of a step: entries, and the counts that they list. More counts than any step may have are no number of bytes. */
static uint64_t step_bytes(const struct wire_command *head)
{
	uint64_t n_counts = head->request <= WIRE_MAX_BATCH ? head->request : WIRE_MAX_BATCH + 1;

	return (uint64_t)head->n * sizeof(struct wire_step_entry) + n_counts * sizeof(int32_t);
}

/* Bytes that the payload of @head must have; UINT64_MAX for an unknown operation. */
static uint64_t payload_bytes(const struct wire_command *head)
{
	switch (head->op) {
	case WIRE_OP_NOP:
	case WIRE_OP_CLOSE:
	case WIRE_OP_QUERY_PAGES:
	case WIRE_OP_QUERY_REQUEST:
	case WIRE_OP_WITHDRAW:
		return 0;
	case WIRE_OP_BEGIN:
		return sizeof(struct wire_begin) + (uint64_t)head->n * sizeof(int32_t);
	case WIRE_OP_PREFILL_PREPARE:
	case WIRE_OP_REWIND:
		return (uint64_t)head->n * sizeof(int32_t);
	case WIRE_OP_RESERVE:
		return sizeof(int64_t);
	case WIRE_OP_PREFILL_COMPLETE:
	case WIRE_OP_COMPACT_COMPLETE:
	case WIRE_OP_FINISH:
	case WIRE_OP_ABANDON:
		return sizeof(struct wire_fence);
	case WIRE_OP_STEP_PREPARE:
	case WIRE_OP_STEP_COMPLETE:
		return step_bytes(head);
	case WIRE_OP_COMPACT_BEGIN:
		return sizeof(struct wire_compact) + (uint64_t)head->n * sizeof(int32_t);
	case WIRE_OP_SHUTDOWN:
		return (uint64_t)head->n * sizeof(struct wire_fence);
	case WIRE_OP_QUERY_STATE:
		return sizeof(struct wire_query_state);
	default:
		return UINT64_MAX;
	}
}

bool commands_have_fences(const struct workspace *w)
{
	const struct wire_command *head = head_of(w);
	uint64_t payload = payload_bytes(head);

	if (payload > (uint64_t)head->n_slots * RING_SLOT - sizeof(*head))
		return false; /* refused for that */
	if (head->op == WIRE_OP_STEP_COMPLETE) {
		const struct wire_step_entry *entries = payload_of(w);

		for (uint32_t i = 0; i < head->n; i++)
			if (entries[i].fence.kind != WIRE_FENCE_DONE)
				return true;
		return false;
	}
	return ((const struct wire_fence *)payload_of(w))->kind != WIRE_FENCE_DONE;
}

/* What can be said without the engine. */
static inline __attribute__((always_inline)) int check_shape(const struct workspace *w, const struct channel *c,
							     struct fault *f)
{
	const struct wire_command *head = head_of(w);
	uint64_t payload = payload_bytes(head);

	if (payload == UINT64_MAX)
		return fault_set(f, FAULT_OPCODE, -1, head->op, 0);
	if (message_slots(payload) != head->n_slots || payload > (uint64_t)head->n_slots * RING_SLOT)
		return fault_set(f, FAULT_MESSAGE, -1, (int64_t)head->n_slots * RING_SLOT,
				 (int64_t)(sizeof(*head) + payload));
	if (head->reserved)
		return fault_set(f, FAULT_RESERVED, -1, (int64_t)head->reserved, 0);
	if (is_step(head) && (head->n == 0 || head->n > c->memory.layout.max_batch))
		return fault_set(f, FAULT_STEP_COUNT, -1, head->n, c->memory.layout.max_batch);
	if (is_step(head) && head->request > c->memory.layout.max_batch)
		return fault_set(f, FAULT_STEP_LISTED, -1, (int64_t)head->request, c->memory.layout.max_batch);
	if (head->op == WIRE_OP_QUERY_PAGES && head->n >= c->memory.layout.n_groups)
		return fault_set(f, FAULT_GROUP_RANGE, -1, head->n, (int64_t)c->memory.layout.n_groups - 1);
	return 0;
}

bool commands_are_formed(const struct workspace *w, const struct channel *c)
{
	return check_shape(w, c, NULL) == 0;
}

static uint64_t armed_of(const struct channel *c, uint64_t handle)
{
	int stream = request_stream(c->session, handle);

	return stream >= 0 && (uint32_t)stream < c->memory.layout.n_streams ? c->armed[stream] : 0;
}

/* An answer that comes later needs its room in the reply ring beside the largest one. */
static bool may_wait(const struct channel *c)
{
	return c->memory.layout.max_reply_slots + c->n_waiting < c->memory.layout.ring_slots;
}

static int do_begin(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = head_of(w);
	const struct wire_begin *begin = payload_of(w);
	const int32_t *slots = (const int32_t *)(begin + 1);
	struct begin b;
	int code;

	if (c->drained)
		return fault_set(&w->fault, FAULT_DRAINED, -1, 0, 0);
	if ((begin->flags & ~(uint32_t)WIRE_BEGIN_UNORDERED) || begin->reserved)
		return fault_set(&w->fault, FAULT_RESERVED, -1, begin->reserved ? begin->reserved : begin->flags, 0);
	b = (struct begin){
		.stream = begin->stream,
		.n_slots = head->n,
		.max_tokens = begin->max_tokens,
		.slots = slots,
		.wait = may_wait(c) ? begin->wait_ms * NS_PER_MS : 0,
		.ticket = head->user_data,
		.unordered = begin->flags & WIRE_BEGIN_UNORDERED,
	};
	code = request_begin_waiting(c->session, &b, &w->value, &w->fault);
	for (uint32_t i = 0; code == 0 && i < head->n; i++)
		c->begun_ns[slots[i]] = now_ns; /* the engine has checked the slots */
	if ((code == SWAKV_ENOPAGES || code == SWAKV_EPENDING) && begin->wait_ms && !may_wait(c))
		return fault_set(&w->fault, FAULT_WAITS_FULL, -1, c->n_waiting, 0);
	return code;
}

static int do_compact_begin(struct workspace *w, struct channel *c)
{
	const struct wire_command *head = head_of(w);
	const struct wire_compact *compact = payload_of(w);

	return request_compact_begin(c->session, head->request, (const int32_t *)(compact + 1), head->n,
				     compact->new_batch, compact->flags, &w->delivery, &w->fault);
}

static int do_query_state(struct workspace *w, struct channel *c)
{
	const struct wire_query_state *q = payload_of(w);

	return sequence_query(c->session, head_of(w)->request, q, &w->sequence, w->bindings, WIRE_STATE_CHUNK, &w->n,
			      &w->fault);
}

static struct step step_of(const struct workspace *w)
{
	const struct wire_command *head = head_of(w);
	const struct wire_step_entry *entries = payload_of(w);

	return (struct step){
		.entries = entries,
		.counts = (const int32_t *)(entries + head->n),
		.n = head->n,
		.n_counts = (uint32_t)head->request,
	};
}

static int do_step_prepare(struct workspace *w, struct channel *c)
{
	const struct step step = step_of(w);

	return step_prepare(c->session, &step, w->faults, &w->n_faults, &w->delivery, &w->fault);
}

static int do_step_complete(struct workspace *w, struct channel *c)
{
	const struct step step = step_of(w);

	return step_complete(c->session, &step, c->armed, w->faults, &w->n_faults, &w->fault);
}

static int dispatch(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = head_of(w);
	struct session *s = c->session;
	const void *payload = payload_of(w);
	struct fault *f = &w->fault;
	uint64_t handle = head->request;

	switch (head->op) {
	case WIRE_OP_NOP:
		return 0;
	case WIRE_OP_BEGIN:
		return do_begin(w, c, now_ns);
	case WIRE_OP_PREFILL_PREPARE:
		return request_prefill_prepare(s, handle, payload, head->n, &w->delivery, f);
	case WIRE_OP_PREFILL_COMPLETE:
		return request_prefill_complete(s, handle, payload, armed_of(c, handle), f);
	case WIRE_OP_STEP_PREPARE:
		return do_step_prepare(w, c);
	case WIRE_OP_STEP_COMPLETE:
		return do_step_complete(w, c);
	case WIRE_OP_REWIND:
		return request_rewind(s, handle, payload, head->n, f);
	case WIRE_OP_RESERVE:
		return request_reserve(s, handle, *(const int64_t *)payload, f);
	case WIRE_OP_COMPACT_BEGIN:
		return do_compact_begin(w, c);
	case WIRE_OP_COMPACT_COMPLETE:
		return request_compact_complete(s, handle, payload, armed_of(c, handle), &w->delivery, f);
	case WIRE_OP_FINISH:
		return request_finish(s, handle, payload, armed_of(c, handle), f);
	case WIRE_OP_ABANDON:
		return request_abandon(s, handle, payload, armed_of(c, handle), f);
	case WIRE_OP_SHUTDOWN:
		return session_shutdown(s, payload, head->n, c->armed, f);
	case WIRE_OP_WITHDRAW:
		w->value = session_withdraw(s, handle);
		return 0;
	case WIRE_OP_CLOSE:
		w->closed = true;
		return 0;
	case WIRE_OP_QUERY_PAGES:
		w->value = (uint64_t)session_free_pages(s, head->n);
		return 0;
	case WIRE_OP_QUERY_REQUEST:
		return request_query(s, handle, &w->request, f);
	case WIRE_OP_QUERY_STATE:
		return do_query_state(w, c);
	default:
		return fault_set(f, FAULT_OPCODE, -1, head->op, 0);
	}
}

static bool starves(int code)
{
	return code == SWAKV_ENOPAGES || code == SWAKV_EPENDING;
}

void commands_execute(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	ring_trace_add(&w->trace, c->id, head_of(w)->op);
	w->value = 0;
	w->n = 0;
	w->n_faults = 0;
	w->closed = false;
	w->delivery.flags = 0;
	w->delivery.n_updates = 0;
	w->delivery.n_rows = 0;
	w->delivery.n_scrubs = 0;
	w->code = check_shape(w, c, &w->fault);
	if (w->code == 0)
		w->code = dispatch(w, c, now_ns);
	w->starved = starves(w->code);
	for (uint32_t i = 0; w->code == 0 && i < w->n_faults; i++)
		w->starved |= starves(w->faults[i].fault.code);
	c->last_op = head_of(w)->op;
	c->last_code = w->code;
	c->last_ns = now_ns;
}

static void reply_put(struct reply *r, const void *src, size_t bytes)
{
	ring_producer_write_spsc(&r->channel->replies, r->bytes, src, bytes);
	r->bytes += bytes;
}

static void put_delivery(struct workspace *w, struct reply *r)
{
	const struct delivery *d = &w->delivery;
	struct wire_delivery head = {
		.flags = d->flags,
		.n_faults = w->n_faults,
		.n_updates = d->n_updates,
		.n_rows = d->n_rows,
		.n_scrubs = d->n_scrubs,
	};

	reply_put(r, &head, sizeof(head));
	reply_put(r, w->faults, w->n_faults * sizeof(w->faults[0]));
	reply_put(r, w->updates, d->n_updates * sizeof(w->updates[0]));
	reply_put(r, w->rows, d->n_rows * sizeof(w->rows[0]));
	reply_put(r, w->scrubs, d->n_scrubs * sizeof(w->scrubs[0]));
}

static void put_payload(struct workspace *w, struct reply *r)
{
	switch (head_of(w)->op) {
	case WIRE_OP_PREFILL_PREPARE:
	case WIRE_OP_STEP_PREPARE:
	case WIRE_OP_STEP_COMPLETE:
	case WIRE_OP_COMPACT_BEGIN:
	case WIRE_OP_COMPACT_COMPLETE:
		put_delivery(w, r);
		break;
	case WIRE_OP_QUERY_REQUEST:
		reply_put(r, &w->request, sizeof(w->request));
		break;
	case WIRE_OP_QUERY_STATE:
		reply_put(r, &w->sequence, sizeof(w->sequence));
		reply_put(r, w->bindings, w->n * sizeof(w->bindings[0]));
		break;
	default:
		break;
	}
}

/* True when the outcome is a header alone, or one and a delivery that names nothing; nearly all are. */
static bool is_short(const struct workspace *w)
{
	const struct delivery *d = &w->delivery;

	switch (head_of(w)->op) {
	case WIRE_OP_QUERY_REQUEST:
	case WIRE_OP_QUERY_STATE:
		return false;
	default:
		return w->code == 0 && w->n_faults == 0 && d->n_updates == 0 && d->n_rows == 0 && d->n_scrubs == 0;
	}
}

void commands_reply(struct workspace *w, struct channel *c)
{
	const struct wire_command *command = head_of(w);
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
		.op = WIRE_OP_BEGIN, .n_slots = 1, .code = a->code, .user_data = a->ticket, .value = a->handle
	};

	ring_producer_write_spsc(&c->replies, 0, &head, sizeof(head));
	if (a->code)
		ring_producer_write_spsc(&c->replies, sizeof(head), &a->fault, sizeof(a->fault));
	ring_producer_publish_spsc(&c->replies, 1);
	for (uint32_t i = 0; a->code == 0 && i < a->n_slots; i++)
		c->begun_ns[a->slots[i]] = now_ns;
}
_Static_assert(sizeof(struct wire_reply) + sizeof(struct fault) == RING_SLOT, "a refusal takes one slot");
