/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_commands.c - the broker's command path against workers that write what they like
 *
 * Two sessions, one of them with two layer groups, share one engine. The input is a
 * list of moves of their workers: the right next command of a request, so that
 * requests get far; commands of any kind; slots, positions and timeline words of
 * any value. The broker reads lines, takes, executes and answers as its ring
 * thread does, from memory that ends where the command ends. Whatever comes: no invariant of
 * the engine breaks, no reply is larger than what was reserved for it, and when
 * both sessions have ended every page is free.
 */
#include <sanitizer/asan_interface.h>

#include "clock.h"
#include "input.h"
#include "ring/command_weight.h"
#include "ring/commands.h"
#include "ring/operation.h"
#include "wire_turn.h"

enum { N_SESSIONS = 2, MAX_BATCH = 4, N_STREAMS = 2, N_HANDLES = 8, MAX_MOVES = 256 };

/* Where a request stands, as its worker knows it. */
enum stage { STEP_BEGUN, STEP_PREFILLING, STEP_SETTLED, STEP_DECODING, STEP_COMPACTING };

struct request {
	uint64_t handle;
	enum stage step;
	uint32_t stream;
	uint32_t n; /* sequences */
};

struct worker {
	struct channel channel;
	bool gone; /* the broker has ended the session */
	uint32_t tail;
	struct request requests[N_HANDLES]; /* its last begins */
	unsigned n_requests;
	struct request begun; /* what a successful begin makes */
	struct request *next; /* whom a success of the command on its way moves, and how far */
	enum stage next_step;
	uint32_t next_n;
};

static struct workspace *workspace;
static struct engine *engine;
static uint64_t now;         /* of the engine */
static size_t message_bytes; /* that any command of these sessions may have */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	workspace = workspace_new();
	FUZZ_CHECK(workspace);
	return 0;
}

/* ---- a session without a process ------------------------------------------- */

static void worker_start(struct worker *w, struct engine *e, uint32_t index, const struct engine_config *config)
{
	struct channel *c = &w->channel;
	struct session_memory *m = &c->memory;
	struct fault f;

	c->id = index + 1;
	c->tag = index + 1;
	c->model_name[0] = index ? 'b' : 'a';
	c->model = (struct model){ .n_groups = 1 + index,
				   .n_streams = N_STREAMS,
				   .max_batch = MAX_BATCH,
				   .max_seq = 128,
				   .max_advance = index ? 2 : 0,
				   .max_rewind = 9 * index,
				   .chunk_mapped = index };
	c->model.groups[1] = (struct wire_group){ .kind = WIRE_GROUP_FULL,
						  .page_tokens = 32,
						  .layers = 1,
						  .kv_heads = 1,
						  .k_head_dim = 8,
						  .v_head_dim = 8,
						  .dtype = WIRE_F16 };
	c->model.groups[0] = (struct wire_group){ .kind = WIRE_GROUP_SLIDING,
						  .page_tokens = 16,
						  .window = index ? 16 : 40,
						  .layers = 1,
						  .kv_heads = 1 + index,
						  .k_head_dim = 16,
						  .v_head_dim = 16,
						  .dtype = WIRE_F16 };
	FUZZ_CHECK(model_check(&c->model, config->half_bytes, c->geometry, &f) == 0);
	session_layout_init(&m->layout, &c->model, c->geometry);
	m->session = aligned_alloc(4096, m->layout.session_bytes);
	m->tables = aligned_alloc(4096, m->layout.tables_bytes);
	FUZZ_CHECK(m->session && m->tables);
	message_bytes = (size_t)m->layout.max_command_slots * RING_SLOT;
	memset(m->session, 0, m->layout.session_bytes);
	memset(m->tables, 0, m->layout.tables_bytes);
	FUZZ_CHECK(channel_start(c, e));
	c->state = CHANNEL_ATTACHED;
}

static void worker_end(struct worker *w)
{
	if (!w->gone)
		session_end(w->channel.session);
	w->gone = true;
}

static void worker_stop(struct worker *w)
{
	worker_end(w);
	session_reclaim(w->channel.session);
	channel_stop(&w->channel);
	free(w->channel.memory.session);
	free(w->channel.memory.tables);
}

/* ---- what the worker writes --------------------------------------------------- */

static uint64_t any_handle(struct worker *w, struct input *in)
{
	uint8_t which = input_u8(in);

	return which < 240 && w->n_requests ? w->requests[which % w->n_requests].handle : input_u32(in);
}

static struct wire_fence any_fence(struct worker *w, struct input *in)
{
	uint8_t v = input_u8(in);
	uint32_t line = (v >> 3) % (N_STREAMS + 1);

	return (struct wire_fence){
		.kind = v % 5,
		.line = line,
		.value = line < N_STREAMS
				 ? load_relaxed(&w->channel.lines[line].armed) + (uint64_t)(int64_t)((v >> 5) - 3)
				 : 0,
	};
}

/* Small numbers, negative ones too. */
static void put_numbers(unsigned char *to, uint32_t n, struct input *in)
{
	for (uint32_t i = 0; i < n; i++) {
		int32_t v = (int8_t)input_u8(in);

		memcpy(to + i * sizeof(v), &v, sizeof(v));
	}
}

/* *@n_counts: what they list, as their last bytes. */
static size_t put_entries(struct worker *w, unsigned char *to, uint32_t n, uint64_t *n_counts, struct input *in)
{
	*n_counts = input_u8(in) % (MAX_BATCH + 2);
	for (uint32_t i = 0; i < n; i++) {
		struct wire_step_entry e = { .request = any_handle(w, in), .tokens = 1, .fence = any_fence(w, in) };
		uint8_t odd = input_u8(in);

		if (odd > 200)
			e.tokens = (int8_t)input_u8(in);
		if (odd & 1)
			e.accepted = (int8_t)odd;
		memcpy(to + i * sizeof(e), &e, sizeof(e));
	}
	put_numbers(to + n * sizeof(struct wire_step_entry), (uint32_t)*n_counts, in);
	return n * sizeof(struct wire_step_entry) + *n_counts * sizeof(int32_t);
}

/* *@listed: how many details and counts. */
static size_t put_turn(struct worker *w, unsigned char *to, uint32_t n, uint64_t *listed, struct input *in)
{
	struct wire_fence fence = any_fence(w, in);
	uint32_t n_details = input_u8(in) % (MAX_BATCH + 1), n_counts = input_u8(in) % (2 * MAX_BATCH + 2);
	unsigned char *at = to;

	*listed = n_details | (uint64_t)n_counts << 32;
	memcpy(at, &fence, sizeof(fence));
	at += sizeof(fence);
	for (uint32_t i = 0; i < n; i++, at += sizeof(uint64_t)) {
		uint32_t what = input_u8(in) % 16;
		uint64_t e = what == WIRE_TURN_BEGIN ? input_u8(in) % (MAX_BATCH + 2) : any_handle(w, in);

		e = wire_turn_entry(wire_turn_handle(e), what);
		memcpy(at, &e, sizeof(e));
	}
	for (uint32_t i = 0; i < n_details; i++, at += sizeof(union wire_turn_detail)) {
		union wire_turn_detail d = { .step = { any_fence(w, in), (int8_t)input_u8(in) % 8,
						       (int8_t)input_u8(in) % 8 } };

		memcpy(at, &d, sizeof(d));
	}
	put_numbers(at, n_counts, in);
	return (size_t)(at - to) + n_counts * sizeof(int32_t);
}

/* The payload that @op wants with @n elements; returns its bytes. *@request is changed where it is no handle. */
static size_t put_payload(struct worker *w, unsigned char *to, uint16_t op, uint32_t n, uint64_t *request,
			  struct input *in)
{
	uint8_t b = input_u8(in);
	struct wire_begin begin = { .stream = b % (N_STREAMS + 1),
				    .max_tokens = input_u8(in) & 128,
				    .wait_ms = b & 64 ? b : 0 };
	struct wire_compact compact = { .new_batch = (int32_t)(begin.max_tokens ? n : begin.stream) };
	struct wire_query_state query = { .seq = (int32_t)begin.stream,
					  .first = input_u8(in) % 32,
					  .group = begin.max_tokens ? 0 : begin.stream };
	int64_t reserve = input_u8(in);
	struct wire_fence fence;

	switch (op) {
	case WIRE_OP_BEGIN:
		memcpy(to, &begin, sizeof(begin));
		put_numbers(to + sizeof(begin), n, in);
		return sizeof(begin) + n * sizeof(int32_t);
	case WIRE_OP_PREFILL_PREPARE:
	case WIRE_OP_REWIND:
		put_numbers(to, n, in);
		return n * sizeof(int32_t);
	case WIRE_OP_RESERVE:
		memcpy(to, &reserve, sizeof(reserve));
		return sizeof(reserve);
	case WIRE_OP_COMPACT_BEGIN:
		memcpy(to, &compact, sizeof(compact));
		put_numbers(to + sizeof(compact), n, in);
		return sizeof(compact) + n * sizeof(int32_t);
	case WIRE_OP_STEP_PREPARE:
	case WIRE_OP_STEP_COMPLETE:
		return put_entries(w, to, n, request, in);
	case WIRE_OP_STEP_TURN:
		return put_turn(w, to, n, request, in);
	case WIRE_OP_QUERY_STATE:
		memcpy(to, &query, sizeof(query));
		return sizeof(query);
	case WIRE_OP_SHUTDOWN:
		for (uint32_t i = 0; i < n; i++) {
			fence = any_fence(w, in);
			memcpy(to + i * sizeof(fence), &fence, sizeof(fence));
		}
		return n * sizeof(fence);
	case WIRE_OP_PREFILL_COMPLETE:
	case WIRE_OP_COMPACT_COMPLETE:
	case WIRE_OP_FINISH:
	case WIRE_OP_ABANDON:
		fence = any_fence(w, in);
		memcpy(to, &fence, sizeof(fence));
		return sizeof(fence);
	default:
		return 0;
	}
}

/* Writes @slots slots at the worker's tail and publishes them. */
static void publish(struct worker *w, const unsigned char *message, uint32_t slots)
{
	const struct session_layout *l = &w->channel.memory.layout;
	unsigned char *ring = w->channel.memory.session + l->commands_slots;

	for (uint32_t i = 0; i < slots; i++)
		memcpy(ring + (size_t)((w->tail + i) % l->ring_slots) * RING_SLOT, message + (size_t)i * RING_SLOT,
		       RING_SLOT);
	w->tail += slots;
	store_release(&w->channel.commands.control->tail, w->tail);
}

static void lie(struct wire_command *head, uint8_t how, struct input *in)
{
	switch (how % 4) {
	case 0:
		head->n = input_u16(in) % 64;
		break;
	case 1:
		head->n_slots = (uint16_t)(1 + how / 4 % 4);
		break;
	case 2:
		head->n = input_u32(in);
		break;
	default:
		input_bytes(in, head, sizeof(*head));
	}
}

static void send_command(struct worker *w, struct input *in)
{
	_Alignas(8) unsigned char message[8 * RING_SLOT] = { 0 };
	struct wire_command head = { .op = input_u8(in) % (WIRE_OP_COUNT + 1), .user_data = w->tail };
	uint8_t odd = input_u8(in);
	size_t bytes;

	w->next = NULL;
	w->begun = (struct request){ .n = 1 };
	head.n = input_u8(in) % (MAX_BATCH + 2);
	head.request = any_handle(w, in);
	bytes = put_payload(w, message + sizeof(head), head.op, head.n, &head.request, in);
	head.n_slots = (uint16_t)message_slots(bytes);
	if (odd >= 192) /* a header that lies */
		lie(&head, odd, in);
	memcpy(message, &head, sizeof(head));
	publish(w, message, message_slots(bytes));
}

/* The fence of a complete: mostly a value that was just armed, for which the word will come later. */
static struct wire_fence next_fence(struct worker *w, const struct request *r, struct input *in)
{
	struct wire_line *line = &w->channel.lines[r->stream];
	uint8_t v = input_u8(in);

	if (v < 32)
		return (struct wire_fence){ .kind = WIRE_FENCE_DONE };
	if (v > 252)
		return (struct wire_fence){ .kind = WIRE_FENCE_FAILED };
	store_release(&line->armed, load_relaxed(&line->armed) + 1);
	return (struct wire_fence){ .kind = WIRE_FENCE_LINE, .line = r->stream, .value = load_relaxed(&line->armed) };
}

static size_t next_begin(struct worker *w, struct wire_command *head, unsigned char *to, struct input *in)
{
	uint8_t v = input_u8(in);
	struct wire_begin begin = { .stream = v % N_STREAMS, .wait_ms = v & 64 ? v : 0 };

	head->op = WIRE_OP_BEGIN;
	head->n = 1 + (v >> 1) % 3;
	memcpy(to, &begin, sizeof(begin));
	for (uint32_t i = 0; i < head->n; i++) {
		int32_t slot = (int32_t)(((v >> 3) + i) % MAX_BATCH);

		memcpy(to + sizeof(begin) + i * sizeof(slot), &slot, sizeof(slot));
	}
	w->begun = (struct request){ .stream = begin.stream, .n = head->n };
	return sizeof(begin) + head->n * sizeof(int32_t);
}

static size_t next_prefill(struct worker *w, struct wire_command *head, unsigned char *to, struct input *in)
{
	head->op = WIRE_OP_PREFILL_PREPARE;
	head->n = w->next->n;
	for (uint32_t i = 0; i < head->n; i++) {
		int32_t length = 1 + input_u8(in) % 127;

		memcpy(to + i * sizeof(length), &length, sizeof(length));
	}
	w->next_step = STEP_PREFILLING;
	return head->n * sizeof(int32_t);
}

static size_t next_compact(struct worker *w, struct wire_command *head, unsigned char *to, uint8_t v)
{
	struct wire_compact compact = { .flags = v & 1 ? WIRE_COMPACT_MOVE_ROWS : 0 };

	head->op = WIRE_OP_COMPACT_BEGIN;
	head->n = w->next->n;
	for (uint32_t i = 0; i < head->n; i++) { /* bits of v say who goes; who stays is turned round */
		int32_t stays = !(v >> (i + 1) & 1);

		compact.new_batch += stays;
		memcpy(to + sizeof(compact) + i * sizeof(stays), &stays, sizeof(stays));
	}
	for (uint32_t i = 0, left = (uint32_t)compact.new_batch; i < head->n; i++) {
		int32_t stays;

		memcpy(&stays, to + sizeof(compact) + i * sizeof(stays), sizeof(stays));
		stays = stays ? (int32_t)--left : -1;
		memcpy(to + sizeof(compact) + i * sizeof(stays), &stays, sizeof(stays));
	}
	memcpy(to, &compact, sizeof(compact));
	w->next_step = STEP_COMPACTING;
	w->next_n = (uint32_t)compact.new_batch;
	return sizeof(compact) + head->n * sizeof(int32_t);
}

static size_t next_step(struct worker *w, struct wire_command *head, unsigned char *to, struct input *in)
{
	struct wire_step_entry e = { .request = w->next->handle };
	bool prepare = w->next->step == STEP_SETTLED;
	uint8_t v = input_u8(in);
	int32_t count = v < 96 ? 1 : v % 24; /* a decode, an extend, or counts that are listed */

	head->op = prepare ? WIRE_OP_STEP_PREPARE : WIRE_OP_STEP_COMPLETE;
	head->n = 1;
	head->request = v >= 192 ? w->next->n : 0;
	for (uint32_t i = 0; i < head->request; i++) {
		int32_t listed = input_u8(in) % 20;

		memcpy(to + sizeof(e) + i * sizeof(listed), &listed, sizeof(listed));
	}
	if (head->request)
		count = -(int32_t)head->request;
	if (prepare) {
		e.tokens = count;
	} else {
		e.accepted = v < 96 ? 0 : count;
		e.fence = next_fence(w, w->next, in);
	}
	memcpy(to, &e, sizeof(e));
	w->next_step = prepare ? STEP_DECODING : STEP_SETTLED;
	return sizeof(e) + head->request * sizeof(int32_t);
}

/* The end of the request's step, and its next; another may begin beside it. */
static size_t next_turn(struct worker *w, struct wire_command *head, unsigned char *to, struct input *in)
{
	uint8_t v = input_u8(in);
	const struct wire_fence fence = next_fence(w, w->next, in);
	uint64_t e[2] = { wire_turn_entry(w->next->handle, WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE),
			  wire_turn_entry(1, WIRE_TURN_BEGIN) };
	const union wire_turn_detail begin = { .begin = { .stream = v % N_STREAMS } };
	const int32_t slot = v / 2 % MAX_BATCH;

	head->op = WIRE_OP_STEP_TURN;
	head->n = 1 + (v >= 128);
	head->request = v >= 128 ? 1 | 1ull << 32 : 0;
	memcpy(to, &fence, sizeof(fence));
	memcpy(to + sizeof(fence), e, head->n * sizeof(e[0]));
	w->next_step = STEP_DECODING;
	if (v < 128)
		return sizeof(fence) + sizeof(e[0]);
	memcpy(to + sizeof(fence) + sizeof(e), &begin, sizeof(begin));
	memcpy(to + sizeof(fence) + sizeof(e) + sizeof(begin), &slot, sizeof(slot));
	w->begun = (struct request){ .stream = v % N_STREAMS, .n = 1 };
	return sizeof(fence) + sizeof(e) + sizeof(begin) + sizeof(slot);
}

static size_t next_rewind(struct worker *w, struct wire_command *head, unsigned char *to, struct input *in)
{
	head->op = WIRE_OP_REWIND;
	head->n = w->next->n;
	for (uint32_t i = 0; i < head->n; i++) {
		int32_t tokens = input_u8(in) % 8;

		memcpy(to + i * sizeof(tokens), &tokens, sizeof(tokens));
	}
	w->next_step = STEP_SETTLED;
	return head->n * sizeof(int32_t);
}

static size_t next_complete(struct worker *w, struct wire_command *head, unsigned char *to, uint16_t op,
			    struct input *in)
{
	struct wire_fence fence = next_fence(w, w->next, in);

	head->op = op;
	memcpy(to, &fence, sizeof(fence));
	w->next_step = STEP_SETTLED;
	return sizeof(fence);
}

/* The next thing that the request of this command would rightly do; returns the payload's bytes. */
static size_t next_payload(struct worker *w, struct wire_command *head, unsigned char *to, struct input *in)
{
	uint8_t v = input_u8(in);

	if (w->n_requests == 0 || v > 220)
		return next_begin(w, head, to, in);
	w->next = &w->requests[v % w->n_requests];
	w->next_n = w->next->n;
	head->request = w->next->handle;
	switch (w->next->step) {
	case STEP_BEGUN:
		return next_prefill(w, head, to, in);
	case STEP_PREFILLING:
		return next_complete(w, head, to, WIRE_OP_PREFILL_COMPLETE, in);
	case STEP_COMPACTING:
		return next_complete(w, head, to, WIRE_OP_COMPACT_COMPLETE, in);
	case STEP_SETTLED:
		if (v >= 210)
			return next_complete(w, head, to, WIRE_OP_FINISH, in);
		if (v >= 195)
			return next_compact(w, head, to, input_u8(in));
		if (v >= 180)
			return next_rewind(w, head, to, in);
		break;
	case STEP_DECODING:
		if (v & 1)
			return next_turn(w, head, to, in);
		break;
	}
	return next_step(w, head, to, in);
}

static void send_next(struct worker *w, struct input *in)
{
	_Alignas(8) unsigned char message[8 * RING_SLOT] = { 0 };
	struct wire_command head = { .user_data = w->tail };
	size_t bytes;

	w->next = NULL;
	bytes = next_payload(w, &head, message + sizeof(head), in);
	head.n_slots = (uint16_t)message_slots(bytes);
	memcpy(message, &head, sizeof(head));
	publish(w, message, head.n_slots);
}

/* Moves a timeline line as a worker does, or as none may. */
static void move_line(struct worker *w, struct input *in)
{
	uint8_t v = input_u8(in);
	struct wire_line *line = &w->channel.lines[v % N_STREAMS];

	if (v & 2)
		store_release(&line->armed, load_relaxed(&line->armed) + 1);
	if (v & 4)
		store_release(&line->word, load_relaxed(&line->armed));
	if (v == 255)
		store_release(&line->word, load_relaxed(&line->armed) + 1);
	if (v == 254)
		store_release(&line->armed, input_u32(in));
}

/* Anything anywhere in the first bytes of the session memory: controls, wait word, lines, command slots. */
static void write_raw(struct worker *w, struct input *in)
{
	const struct session_layout *l = &w->channel.memory.layout;
	uint64_t at = input_u16(in) % (l->commands_slots + 4096);

	input_bytes(in, w->channel.memory.session + at, 1 + at % 8);
}

/* ---- what the broker does ------------------------------------------------------ */

static void note_begun(struct worker *w, uint64_t handle)
{
	w->begun.handle = handle;
	w->requests[w->n_requests < N_HANDLES ? w->n_requests++ : w->tail % N_HANDLES] = w->begun;
}

static void note_reply(struct worker *w)
{
	const struct wire_command *head = (const struct wire_command *)workspace->message;

	if (workspace->code == 0 && workspace->n_faults == 0) {
		if (head->op == WIRE_OP_BEGIN) {
			note_begun(w, workspace->value);
		} else if (w->next) {
			w->next->step = w->next_step;
			w->next->n = w->next_n;
		}
	}
	if (workspace->code == 0 && workspace->n_begun > 0)
		note_begun(w, workspace->begun[0].handle);
	w->next = NULL;
}

/* Begins that waited and are decided now: each answer has its room. */
static void answer_waiting(struct worker *workers)
{
	struct admission a;

	engine_stamp(engine, now += NS_PER_MS);
	while (engine_admit(engine, &a)) {
		struct worker *w = workers;

		while (w < workers + N_SESSIONS && (w->gone || w->channel.session != a.session))
			w++;
		FUZZ_CHECK(w < workers + N_SESSIONS && w->channel.n_waiting > 0);
		FUZZ_CHECK(a.code != SWAKV_EAGAIN && (a.code == 0) == (a.handle != 0));
		w->channel.n_waiting--;
		FUZZ_CHECK(ring_producer_space_spsc(&w->channel.replies, 1) != 0);
		commands_answer(&w->channel, &a, 1);
		if (a.code == 0)
			w->requests[w->n_requests < N_HANDLES ? w->n_requests++ : w->tail % N_HANDLES] =
				(struct request){ .handle = a.handle,
						  .stream = (uint32_t)request_stream(a.session, a.handle),
						  .n = a.n_slots };
		store_release(&w->channel.replies.control->head, w->channel.replies.mine);
	}
}

/* An administrator changes what a model may have. */
static void change_limits(struct input *in)
{
	uint64_t bytes = input_u16(in);
	uint8_t v = input_u8(in);
	char name[] = { v & 4 ? 'a' : 'b', '\0' };
	struct fault f;

	engine_limit(engine, name, v & 1 ? &bytes : NULL, v & 2 ? &bytes : NULL, &f);
}

/* One command, as the ring thread takes it. */
static void serve(struct worker *w)
{
	struct channel *c = &w->channel;
	const struct wire_command *head = (const struct wire_command *)workspace->message;
	bool progress = false;
	uint32_t before = c->replies.mine;
	int r;

	if (w->gone)
		return;
	if (channel_refresh(c, &progress) != VIOLATION_NONE || (r = channel_take(c, workspace->message)) < 0) {
		worker_end(w);
		return;
	}
	for (uint32_t i = 0; i < N_STREAMS; i++)
		FUZZ_CHECK(c->words[i] <= c->armed[i]);
	if (r == 0)
		return;
	ASAN_POISON_MEMORY_REGION(workspace->message + r * RING_SLOT, message_bytes - (size_t)r * RING_SLOT);
	operation_decode(workspace, c);
	command_weight(workspace, c); /* asked before anything has been checked */
	operation_execute(workspace, c, 1);
	if (workspace->closed)
		worker_end(w);
	if (workspace->code == SWAKV_EAGAIN)
		c->n_waiting++;
	else
		commands_reply(workspace, c);
	channel_release(c, (uint32_t)r);
	ASAN_UNPOISON_MEMORY_REGION(workspace->message, message_bytes);
	FUZZ_CHECK(c->replies.mine - before <=
		   reply_slots(head->op, head->n < MAX_BATCH ? head->n : MAX_BATCH, c->memory.layout.n_rows));
	note_reply(w);
	store_release(&c->replies.control->head, c->replies.mine); /* the worker has read it */
}

/* ---- a run ----------------------------------------------------------------------- */

static void check_engine(const struct engine *e)
{
	char why[256];

	if (!engine_check(e, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
}

static void check_all_free(const struct engine *e)
{
	struct engine_counts n;
	struct class_counts k;

	engine_count(e, &n);
	for (uint32_t i = 0; i < n.n_classes; i++) {
		FUZZ_CHECK(engine_class_count(e, i, &k));
		FUZZ_CHECK(k.leased == 0 && k.quarantined == 0 && k.free == k.pages);
	}
	FUZZ_CHECK(n.held + n.free + n.unusable == n.total);
}

static void make_move(struct worker *w, struct input *in, uint8_t move)
{
	switch (move % 16) {
	case 14:
		write_raw(w, in);
		break;
	case 15:
		if (input_u8(in) < 32)
			worker_end(w);
		else
			change_limits(in);
		break;
	case 12:
	case 13:
		move_line(w, in);
		break;
	case 9:
	case 10:
	case 11:
		send_command(w, in);
		serve(w);
		break;
	default:
		send_next(w, in);
		serve(w);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct engine_config config = {
		.half_bytes = 64 * 1024,
		.extent_bytes = 4096,
		.scrub = WIRE_SCRUB_ALWAYS,
		.fresh_is_dirty = true,
		.stamps_a_ms = NS_PER_MS,
		.wait_claim = 20 * NS_PER_MS,
	};
	struct input in = { data, size };
	struct worker workers[N_SESSIONS] = { 0 };
	struct engine *e = engine = engine_new(&config);

	now = 0;
	FUZZ_CHECK(e);
	for (uint32_t i = 0; i < N_SESSIONS; i++)
		worker_start(&workers[i], e, i, &config);
	for (int n = 0; in.left > 0 && n < MAX_MOVES; n++) {
		uint8_t move = input_u8(&in);

		make_move(&workers[move >> 7], &in, move);
		answer_waiting(workers);
		if (n % 8 == 7)
			check_engine(e);
	}
	for (int i = 0; i < N_SESSIONS; i++)
		worker_end(&workers[i]);
	check_engine(e);
	for (int i = 0; i < N_SESSIONS; i++)
		worker_stop(&workers[i]);
	check_engine(e);
	check_all_free(e);
	engine_free(e);
	return 0;
}
