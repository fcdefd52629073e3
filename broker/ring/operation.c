/* SPDX-License-Identifier: Apache-2.0 */
/* operation.c - see operation.h */
#include "operation.h"

#include <string.h>

#include "clock.h"
#include "command_weight.h"
#include "operation_turn.h"
#include "tally.h"

/* ---- what can be said of a command without the engine --------------------------- */

/* Apart, and last in what calls it: a command that is well-formed costs no more for it. */
static __attribute__((cold, noinline)) void refuse(struct workspace *w, enum fault_reason reason, int64_t a, int64_t b)
{
	w->formed = false;
	fault_set(&w->fault, reason, -1, a, b);
}

static inline void check_step(struct workspace *w, const struct channel *c)
{
	const struct wire_command *head = command_head(w);
	uint32_t max_batch = c->memory.layout.max_batch;

	if (head->n == 0 || head->n > max_batch)
		refuse(w, FAULT_STEP_COUNT, head->n, max_batch);
	else if (head->request > max_batch)
		refuse(w, FAULT_STEP_LISTED, (int64_t)head->request, max_batch);
}

static void check_turn(struct workspace *w, const struct channel *c)
{
	int64_t got, most;
	enum fault_reason reason = turn_check(command_head(w), c->memory.layout.max_batch, &got, &most);

	if (reason)
		refuse(w, reason, got, most);
}

static void check_give(struct workspace *w, const struct channel *c)
{
	const struct wire_command *head = command_head(w);

	if (head->n == 0 || head->n > WIRE_MAX_PAGES)
		refuse(w, FAULT_GIVE_COUNT, head->n, WIRE_MAX_PAGES);
	else if (head->request > c->memory.layout.n_streams)
		refuse(w, FAULT_GIVE_FENCES, (int64_t)head->request, c->memory.layout.n_streams);
}

static void check_group(struct workspace *w, const struct channel *c)
{
	uint32_t group = command_head(w)->n, n_groups = c->memory.layout.n_groups;

	if (group >= n_groups)
		refuse(w, FAULT_GROUP_RANGE, group, (int64_t)n_groups - 1);
}

/* ---- how it is executed ---------------------------------------------------------- */

static uint64_t armed_of(const struct channel *c, uint64_t handle)
{
	int stream = request_stream(c->session, handle);

	return stream >= 0 && (uint32_t)stream < c->memory.layout.n_streams ? c->armed[stream] : 0;
}

/* An answer of @slots slots that comes later needs its room in the reply ring beside the largest one. */
static bool may_wait(const struct channel *c, uint32_t slots)
{
	return c->memory.layout.max_reply_slots + c->waiting_slots + slots <= c->memory.layout.ring_slots;
}

/* 0 when it may begin requests and take pages. */
static int check_closed(struct workspace *w, const struct channel *c)
{
	enum fault_reason why = channel_closed_for(c);

	return why ? fault_set(&w->fault, why, -1, 0, 0) : 0;
}

static int do_nop(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	return 0;
}

static int do_begin(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = command_head(w);
	const struct wire_begin *begin = command_payload(w);
	const int32_t *slots = (const int32_t *)(begin + 1);
	struct begin b;
	int code;

	w->room = waited_slots(false, 0);
	if ((code = check_closed(w, c)))
		return code;
	if ((begin->flags & ~(uint32_t)WIRE_BEGIN_FLAGS) || begin->reserved)
		return fault_set(&w->fault, FAULT_RESERVED, -1, begin->reserved ? begin->reserved : begin->flags, 0);
	b = (struct begin){
		.stream = begin->stream,
		.n_slots = head->n,
		.max_tokens = begin->max_tokens,
		.slots = slots,
		.wait = may_wait(c, w->room) ? begin->wait_ms * NS_PER_MS : 0,
		.ticket = head->user_data,
		.unordered = begin->flags & WIRE_BEGIN_UNORDERED,
		.pinned = begin->flags & WIRE_BEGIN_PINNED,
	};
	code = request_begin_waiting(c->session, &b, &w->value, &w->fault);
	for (uint32_t i = 0; code == 0 && i < head->n; i++)
		c->begun_ns[slots[i]] = now_ns; /* the engine has checked the slots */
	if ((code == SWAKV_ENOPAGES || code == SWAKV_EPENDING) && begin->wait_ms && !may_wait(c, w->room))
		return fault_set(&w->fault, FAULT_WAITS_FULL, -1, c->n_waiting, 0);
	return code;
}

static int do_take(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = command_head(w);
	const struct wire_take *take = command_payload(w);
	struct take t;
	int code;

	w->room = take->wait_ms ? waited_slots(true, head->n) : 0;
	if ((code = check_closed(w, c)))
		return code;
	if (take->reserved)
		return fault_set(&w->fault, FAULT_RESERVED, -1, take->reserved, 0);
	if (take->stream >= c->memory.layout.n_streams)
		return fault_set(&w->fault, FAULT_STREAM_RANGE, -1, take->stream, c->memory.layout.n_streams - 1);
	t = (struct take){
		.group = take->group,
		.flags = take->flags,
		.min = take->min,
		.max = head->n,
		.wait = may_wait(c, w->room) ? take->wait_ms * NS_PER_MS : 0,
		.ticket = head->user_data,
	};
	code = pages_take(c->session, &t, w->pages, &w->n, &w->fault);
	if ((code == SWAKV_ENOPAGES || code == SWAKV_EPENDING) && take->wait_ms && !may_wait(c, w->room))
		return fault_set(&w->fault, FAULT_WAITS_FULL, -1, c->n_waiting, 0);
	return code;
}

static int do_give(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = command_head(w);
	const struct wire_give *give = command_payload(w);
	const struct wire_fence *fences = (const struct wire_fence *)(give + 1);
	const struct give g = {
		.group = give->group,
		.n = head->n,
		.ids = (const int32_t *)(fences + head->request),
		.fences = fences,
		.n_fences = (uint32_t)head->request,
	};

	if (give->reserved)
		return fault_set(&w->fault, FAULT_RESERVED, -1, give->reserved, 0);
	return pages_give(c->session, &g, c->armed, &w->fault);
}

static int do_prefill_prepare(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = command_head(w);

	return request_prefill_prepare(c->session, head->request, command_payload(w), head->n, &w->delivery, &w->fault);
}

static int do_prefill_complete(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	uint64_t handle = command_head(w)->request;

	return request_prefill_complete(c->session, handle, command_payload(w), armed_of(c, handle), &w->fault);
}

static struct step step_of(const struct workspace *w)
{
	const struct wire_command *head = command_head(w);
	const struct wire_step_entry *entries = command_payload(w);

	return (struct step){
		.entries = entries,
		.counts = (const int32_t *)(entries + head->n),
		.n = head->n,
		.n_counts = (uint32_t)head->request,
	};
}

static int do_step_prepare(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct step step = step_of(w);

	return step_prepare(c->session, &step, w->faults, &w->n_faults, &w->delivery, &w->fault);
}

static int do_step_complete(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct step step = step_of(w);

	return step_complete(c->session, &step, c->armed, w->faults, &w->n_faults, &w->fault);
}

static int do_rewind(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = command_head(w);

	return request_rewind(c->session, head->request, command_payload(w), head->n, &w->fault);
}

static int do_reserve(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const int64_t *max_tokens = command_payload(w);

	return request_reserve(c->session, command_head(w)->request, *max_tokens, &w->fault);
}

static int do_compact_begin(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = command_head(w);
	const struct wire_compact *compact = command_payload(w);

	return request_compact_begin(c->session, head->request, (const int32_t *)(compact + 1), head->n,
				     compact->new_batch, compact->flags, &w->delivery, &w->fault);
}

static int do_compact_complete(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	uint64_t handle = command_head(w)->request;

	return request_compact_complete(c->session, handle, command_payload(w), armed_of(c, handle), &w->delivery,
					&w->fault);
}

static int do_finish(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	uint64_t handle = command_head(w)->request;

	return request_finish(c->session, handle, command_payload(w), armed_of(c, handle), &w->fault);
}

static int do_abandon(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	uint64_t handle = command_head(w)->request;

	return request_abandon(c->session, handle, command_payload(w), armed_of(c, handle), &w->fault);
}

static int do_shutdown(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	return session_shutdown(c->session, command_payload(w), command_head(w)->n, c->armed, &w->fault);
}

static int do_withdraw(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	w->value = session_withdraw(c->session, command_head(w)->request);
	return 0;
}

static int do_pin(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_command *head = command_head(w);

	return request_pin(c->session, head->request, head->op == WIRE_OP_PIN, &w->fault);
}

static int do_close(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	w->closed = true;
	return 0;
}

static int do_query_pages(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	w->value = (uint64_t)session_free_pages(c->session, command_head(w)->n);
	return 0;
}

static int do_query_request(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	return request_query(c->session, command_head(w)->request, &w->request, &w->fault);
}

static int do_query_state(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct wire_query_state *q = command_payload(w);

	return sequence_query(c->session, command_head(w)->request, q, &w->sequence, w->bindings, WIRE_STATE_CHUNK,
			      &w->n, &w->fault);
}

/* ---- the table ------------------------------------------------------------------- */

#define SIZE(name) sizeof(struct wire_##name)

/* clang-format off */
/*        operation         executed by          payload            counted    check        fences  answer    weight           tally */
#define OPERATIONS(X) \
	X(NOP,              do_nop,              0,                 NOTHING,   NULL,        NONE,   HEADER,   NULL,            NULL)                  \
	X(BEGIN,            do_begin,            SIZE(begin),       SEQUENCES, NULL,        NONE,   HEADER,   weight_begin,    tally_begin)           \
	X(PREFILL_PREPARE,  do_prefill_prepare,  0,                 SEQUENCES, NULL,        NONE,   DELIVERY, weight_tokens,   tally_prefill)         \
	X(PREFILL_COMPLETE, do_prefill_complete, SIZE(fence),       NOTHING,   NULL,        IF_ANY, HEADER,   weight_whole,    NULL)                  \
	X(STEP_PREPARE,     do_step_prepare,     0,                 ENTRIES,   check_step,  NONE,   DELIVERY, weight_step,     tally_step_prepare)    \
	X(STEP_COMPLETE,    do_step_complete,    0,                 ENTRIES,   check_step,  IF_ANY, DELIVERY, weight_step,     tally_step_complete)   \
	X(COMPACT_BEGIN,    do_compact_begin,    SIZE(compact),     SEQUENCES, NULL,        NONE,   DELIVERY, weight_rows,     NULL)                  \
	X(COMPACT_COMPLETE, do_compact_complete, SIZE(fence),       NOTHING,   NULL,        IF_ANY, DELIVERY, weight_whole,    NULL)                  \
	X(FINISH,           do_finish,           SIZE(fence),       NOTHING,   NULL,        ALL,    HEADER,   weight_whole,    NULL)                  \
	X(ABANDON,          do_abandon,          SIZE(fence),       NOTHING,   NULL,        ALL,    HEADER,   weight_whole,    NULL)                  \
	X(SHUTDOWN,         do_shutdown,         0,                 STREAMS,   NULL,        ALL,    HEADER,   weight_session,  NULL)                  \
	X(CLOSE,            do_close,            0,                 NOTHING,   NULL,        NONE,   HEADER,   weight_session,  NULL)                  \
	X(QUERY_PAGES,      do_query_pages,      0,                 NOTHING,   check_group, NONE,   HEADER,   NULL,            NULL)                  \
	X(QUERY_REQUEST,    do_query_request,    0,                 NOTHING,   NULL,        NONE,   REQUEST,  NULL,            NULL)                  \
	X(QUERY_STATE,      do_query_state,      SIZE(query_state), NOTHING,   NULL,        NONE,   SEQUENCE, weight_state,    NULL)                  \
	X(REWIND,           do_rewind,           0,                 SEQUENCES, NULL,        NONE,   HEADER,   weight_rewind,   NULL)                  \
	X(RESERVE,          do_reserve,          sizeof(int64_t),   NOTHING,   NULL,        NONE,   HEADER,   weight_reserve,  NULL)                  \
	X(WITHDRAW,         do_withdraw,         0,                 NOTHING,   NULL,        NONE,   HEADER,   NULL,            NULL)                  \
	X(TAKE,             do_take,             SIZE(take),        PAGES_ASKED, NULL,      NONE,   PAGES,    weight_pages,    tally_take)            \
	X(GIVE,             do_give,             SIZE(give),        PAGES,     check_give,  ALL,    HEADER,   weight_pages,    NULL)                  \
	X(STEP_TURN,        do_step_turn,        SIZE(fence),       PARTS,     check_turn,  IF_ANY, DELIVERY, weight_turn,     tally_turn)            \
	X(PIN,              do_pin,              0,                 NOTHING,   NULL,        NONE,   HEADER,   NULL,            NULL)                  \
	X(UNPIN,            do_pin,              0,                 NOTHING,   NULL,        NONE,   HEADER,   NULL,            NULL)
/* clang-format on */

enum {
	EACH_OF_NOTHING = 0,
	EACH_OF_SEQUENCES = sizeof(int32_t),
	EACH_OF_ENTRIES = sizeof(struct wire_step_entry),
	EACH_OF_STREAMS = sizeof(struct wire_fence),
	EACH_OF_PAGES = sizeof(int32_t),
	EACH_OF_PAGES_ASKED = 0,
	EACH_OF_PARTS = sizeof(uint64_t),

	LISTED_IN_NOTHING = 0,
	LISTED_IN_SEQUENCES = 0,
	LISTED_IN_ENTRIES = sizeof(int32_t),
	LISTED_IN_STREAMS = 0,
	LISTED_IN_PAGES = sizeof(struct wire_fence),
	LISTED_IN_PAGES_ASKED = 0,
	LISTED_IN_PARTS = sizeof(union wire_turn_detail) + TURN_COUNTS * sizeof(int32_t),
};

#define ROW(op, executed_by, payload, counts, check_of, fences_of, answer_of, weight_of, tally_of)                     \
	[WIRE_OP_##op] = {                                                                                             \
		.execute = executed_by,                                                                                \
		.fixed = payload,                                                                                      \
		.each = EACH_OF_##counts,                                                                              \
		.listed = LISTED_IN_##counts,                                                                          \
		.counted = COUNTED_##counts,                                                                           \
		.is_step = COUNTED_##counts == COUNTED_ENTRIES,                                                        \
		.check = check_of,                                                                                     \
		.fences = FENCES_##fences_of,                                                                          \
		.answer = ANSWER_##answer_of,                                                                          \
		.weight = weight_of,                                                                                   \
		.tally = tally_of,                                                                                     \
	},
const struct operation operations[] = { OPERATIONS(ROW) };

#define ONE(...) +1
_Static_assert(0 OPERATIONS(ONE) == WIRE_OP_COUNT - WIRE_OP_NOP, "each operation stands here once");
_Static_assert(sizeof(operations) == WIRE_OP_COUNT * sizeof(operations[0]), "no operation is unknown to wire.h");

/* ---- a command ------------------------------------------------------------------- */

uint32_t operation_most(const struct operation *o, uint32_t max_batch, uint32_t n_streams)
{
	switch (o->counted) {
	case COUNTED_SEQUENCES:
	case COUNTED_ENTRIES:
	case COUNTED_PARTS:
		return max_batch;
	case COUNTED_STREAMS:
		return n_streams;
	case COUNTED_PAGES:
	case COUNTED_PAGES_ASKED:
		return WIRE_MAX_PAGES;
	}
	return 0;
}

uint32_t operation_most_listed(const struct operation *o, uint32_t max_batch, uint32_t n_streams)
{
	if (!o->listed)
		return 0;
	return is_over_requests(o) ? max_batch : n_streams;
}

/* Bytes that the payload of @head must have. More than any command may list is no number of bytes. */
static uint64_t payload_bytes(const struct operation *o, const struct wire_command *head)
{
	uint64_t bytes = operation_payload(o, head->n);

	if (o->counted == COUNTED_PARTS)
		bytes += turn_listed(head);
	else if (o->listed)
		bytes += (head->request <= WIRE_MAX_BATCH ? head->request : WIRE_MAX_BATCH + 1) * o->listed;
	return bytes;
}

void operation_decode(struct workspace *w, const struct channel *c)
{
	const struct wire_command *head = command_head(w);
	const struct operation *o = operation_of(head->op);
	uint64_t bytes;

	w->operation = o;
	w->formed = true;
	if (!o) {
		refuse(w, FAULT_OPCODE, head->op, 0);
		return;
	}
	bytes = sizeof(*head) + payload_bytes(o, head);
	if ((bytes + RING_SLOT - 1) / RING_SLOT != head->n_slots)
		refuse(w, FAULT_MESSAGE, (int64_t)head->n_slots * RING_SLOT, (int64_t)bytes);
	else if (head->reserved)
		refuse(w, FAULT_RESERVED, (int64_t)head->reserved, 0);
	else if (o->check && o->is_step)
		check_step(w, c); /* directly, as it is every step's */
	else if (o->check)
		o->check(w, c);
}

bool operation_reads_lines(const struct workspace *w)
{
	const struct wire_step_entry *entries = command_payload(w);

	if (!w->formed || w->operation->fences != FENCES_IF_ANY)
		return w->formed && w->operation->fences == FENCES_ALL;
	if (w->operation->counted == COUNTED_PARTS)
		return turn_reads_lines(w);
	if (!w->operation->is_step)
		return ((const struct wire_fence *)command_payload(w))->kind != WIRE_FENCE_DONE;
	for (uint32_t i = 0; i < command_head(w)->n; i++)
		if (entries[i].fence.kind != WIRE_FENCE_DONE)
			return true;
	return false;
}

/* What every step wants is called directly, so that it is part of the caller. */
static inline int dispatch(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	const struct operation *o = w->operation;

	if (o->is_step)
		return o == &operations[WIRE_OP_STEP_PREPARE] ? do_step_prepare(w, c, now_ns)
							      : do_step_complete(w, c, now_ns);
	return o->execute(w, c, now_ns);
}

static bool starves(int code)
{
	return code == SWAKV_ENOPAGES || code == SWAKV_EPENDING;
}

void operation_execute(struct workspace *w, struct channel *c, uint64_t now_ns)
{
	ring_trace_add(&w->trace, c->id, command_head(w)->op);
	w->value = 0;
	w->n = 0;
	w->n_faults = 0;
	w->n_begun = 0;
	w->closed = false;
	w->delivery.flags = 0;
	w->delivery.n_updates = 0;
	w->delivery.n_rows = 0;
	w->delivery.n_scrubs = 0;
	w->delivery.n_moves = 0;
	w->code = w->formed ? dispatch(w, c, now_ns) : w->fault.code;
	w->starved = starves(w->code);
	for (uint32_t i = 0; w->code == 0 && i < w->n_faults; i++)
		w->starved |= starves(w->faults[i].fault.code);
	c->last_op = command_head(w)->op;
	c->last_code = w->code;
	c->last_ns = now_ns;
}
