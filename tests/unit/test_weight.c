/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_weight.c - no command does more than it weighs
 *
 * By its weight a command is executed in the middle of another session's, where
 * it is not cut: one that did more would hold up all others. Random commands of
 * every operation, of sessions with few long and with many short sequences, are
 * weighed and then counted.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/internal.h"
#include "engine/slice.h"
#include "hello.h"
#include "ring/command_weight.h"
#include "ring/operation.h"
#include "session/handshake.h"
#include "wire_turn.h"

enum { WORKERS = 4, STREAMS = 3, PAGES = 6000, BATCH = 48, COMMANDS = 60000 };

static struct backend_pool pool = { .name = "main",
				    .backend = WIRE_BACKEND_HOST,
				    .fd = -1,
				    .bytes = 1 << 24,
				    .table_area_bytes = 1 << 24,
				    .half_bytes = (uint64_t)PAGES * 16 * 64 * 2,
				    .extent_bytes = 100 * 16 * 64 * 2 + 128 };

struct life {
	uint64_t handle; /* 0: none */
	int32_t n;
};

struct worker {
	struct channel c;
	struct life requests[6];
	int32_t pages[800]; /* taken of group 0, and not given yet */
	uint32_t n_pages;
	int32_t max_batch;
};

static struct engine *engine;
static struct workspace *w;
static struct worker workers[WORKERS];
static uint64_t random_state = 0x9e3779b97f4a7c15ull;
static uint32_t n_of[WIRE_OP_COUNT], n_done[WIRE_OP_COUNT];

static uint32_t draw(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % n;
}

/* Window and full, one token a step and chunks, few and many slots. */
static void attach(int i)
{
	struct worker *k = &workers[i];
	struct wire_hello hello = good_hello();
	struct session_layout l;
	struct handshake h;
	struct refusal r;

	hello.n_streams = STREAMS;
	hello.n_groups = 1 + (uint32_t)(i % 2);
	hello.max_batch = k->max_batch = i % 2 ? BATCH : 6;
	hello.max_seq = i % 2 ? 1024 : 8192;
	hello.max_rewind = i % 2 ? 40 : 0;
	hello.max_advance = i == 3 ? 4 : 0;
	hello.in_flight = 8;
	hello.flags |= i > 1 ? WIRE_HELLO_CHUNK_MAPPED : 0;
	if (hello.n_groups > 1) {
		hello.groups[1] = hello.groups[0];
		hello.groups[1].kind = WIRE_GROUP_FULL;
		hello.groups[1].window = 0;
	}
	cr_assert_eq(handshake_check(&h, &hello, sizeof(hello), &pool, &r), 0, "%s", r.text);
	session_layout_init(&l, &h.model, h.geometry);
	k->c = (struct channel){ .id = (uint32_t)i + 1, .generation = 1, .tag = (uint32_t)i + 1, .model = h.model };
	memcpy(k->c.geometry, h.geometry, sizeof(k->c.geometry));
	memcpy(k->c.model_name, "m", 2);
	cr_assert_eq(session_memory_init(&k->c.memory, &l), 0);
	cr_assert(channel_start(&k->c, engine));
	k->c.state = CHANNEL_ATTACHED;
	memset(k->requests, 0, sizeof(k->requests));
	k->n_pages = 0;
}

static void detach(int i)
{
	session_end(workers[i].c.session);
	session_reclaim(workers[i].c.session);
	channel_stop(&workers[i].c);
	session_memory_deinit(&workers[i].c.memory);
}

static void setup(void)
{
	engine = engine_new(&(struct engine_config){
		.half_bytes = pool.half_bytes, .extent_bytes = pool.extent_bytes, .scrub = WIRE_SCRUB_OWNER_CHANGE });
	w = workspace_new();
	cr_assert(engine && w);
	engine_on_pause(engine, 1 << 30, NULL, NULL); /* never: all that a command does is in one count */
	for (int i = 0; i < WORKERS; i++)
		attach(i);
}

static void teardown(void)
{
	for (int i = 0; i < WORKERS; i++)
		detach(i);
	workspace_free(w);
	engine_free(engine);
}

TestSuite(weight, .init = setup, .fini = teardown, .timeout = 120);

/* Weighs and executes the command whose payload is in the workspace already. */
static int command(struct worker *k, uint16_t op, uint64_t request, uint32_t n, size_t bytes)
{
	struct wire_command *head = (struct wire_command *)(void *)w->message;
	uint64_t weight, looked = engine->pool.looked;
	uint32_t spent;
	bool progress;

	*head = (struct wire_command){
		.op = op, .n_slots = (uint16_t)message_slots(bytes), .n = n, .user_data = 1, .request = request
	};
	operation_decode(w, &k->c);
	weight = command_weight(w, &k->c);
	engine_looked(engine);
	cr_assert_eq(channel_refresh(&k->c, &progress), VIOLATION_NONE);
	operation_execute(w, &k->c, 1);
	/* Searches for extents are counted, and not weighed. */
	spent = engine_spent(engine);
	spent -= spent < (engine->pool.looked - looked) / SLICE_LOOKS ? spent
								      : (engine->pool.looked - looked) / SLICE_LOOKS;
	n_of[op]++;
	n_done[op] += w->code == 0 && w->n_faults == 0;
	cr_assert(weight > ENGINE_LONG || spent <= weight, "operation %u: %u operations, weighed %lu; code %d", op,
		  spent, (unsigned long)weight, w->code);
	return w->code;
}

static void *payload(void)
{
	return w->message + sizeof(struct wire_command);
}

static uint32_t stream_of(const struct worker *k, const struct life *r)
{
	struct wire_request_state s = { 0 };

	request_query(k->c.session, r->handle, &s, NULL);
	return s.stream;
}

/* Of line @line; values that rise, repeat, and fall. */
static struct wire_fence some_fence(struct worker *k, uint32_t line)
{
	struct wire_line *l = &k->c.lines[line];
	uint64_t armed = load_relaxed(&l->armed), back = draw(4) ? 0 : draw(40);

	if (draw(8) == 0)
		return (struct wire_fence){ .kind = WIRE_FENCE_DONE };
	armed += draw(3) > 0;
	store_release(&l->armed, armed);
	return (struct wire_fence){ .kind = WIRE_FENCE_LINE,
				    .line = line,
				    .value = armed > back ? armed - back : armed };
}

static void reach(struct worker *k)
{
	struct wire_line *l = &k->c.lines[draw(STREAMS)];
	uint64_t armed = load_relaxed(&l->armed), word = load_relaxed(&l->word);

	store_release(&l->word, word + draw((uint32_t)(armed - word) + 1));
}

static void begin(struct worker *k, struct life *r)
{
	struct wire_begin *b = payload();
	int32_t *slots = (int32_t *)(void *)(b + 1), n = 1 + (int32_t)draw((uint32_t)k->max_batch / 2);

	*b = (struct wire_begin){ .stream = draw(STREAMS), .max_tokens = draw(2) ? 0 : 1 + draw(1000) };
	for (int32_t i = 0, first = (int32_t)draw((uint32_t)k->max_batch); i < n; i++)
		slots[i] = (first + i) % k->max_batch;
	r->n = command(k, WIRE_OP_BEGIN, 0, (uint32_t)n, sizeof(*b) + (size_t)n * sizeof(int32_t)) ? 0 : n;
	r->handle = r->n ? w->value : 0;
}

static int tokens(struct worker *k, const struct life *r, uint16_t op, uint32_t most)
{
	int32_t *t = payload();

	for (int32_t i = 0; i < r->n; i++)
		t[i] = (int32_t)draw(most) + (op == WIRE_OP_PREFILL_PREPARE);
	return command(k, op, r->handle, (uint32_t)r->n, (size_t)r->n * sizeof(t[0]));
}

static int with_fence(struct worker *k, const struct life *r, uint16_t op)
{
	struct wire_fence *fence = payload();

	*fence = some_fence(k, stream_of(k, r));
	if (draw(200) == 0)
		fence->kind = WIRE_FENCE_FAILED;
	else if (op == WIRE_OP_FINISH && draw(2))
		fence->kind = WIRE_FENCE_POINT;
	return command(k, op, r->handle, 0, sizeof(*fence));
}

/* A step of all requests of the worker, one of one token or of several; @op says which half. */
static void step(struct worker *k, uint16_t op)
{
	struct wire_step_entry *e = payload();
	uint32_t n = 0, each = draw(3) ? 1 : 1 + draw(60);

	for (size_t i = 0; i < sizeof(k->requests) / sizeof(k->requests[0]); i++)
		if (k->requests[i].handle)
			e[n++] = (struct wire_step_entry){ .request = k->requests[i].handle,
							   .tokens = op == WIRE_OP_STEP_PREPARE ? (int32_t)each : 0,
							   .accepted = op == WIRE_OP_STEP_COMPLETE && draw(6) == 0,
							   .fence = some_fence(k, stream_of(k, &k->requests[i])) };
	if (n)
		command(k, op, 0, n, n * sizeof(*e));
}

/* The end of a step, and the next, of all requests of the worker; sometimes one ends, or begins beside them. */
static void turn(struct worker *k)
{
	struct wire_fence *fence = payload();
	uint64_t *entries = (uint64_t *)(void *)(fence + 1);
	union wire_turn_detail details[sizeof(k->requests) / sizeof(k->requests[0])];
	uint32_t n = 0, n_details = 0, n_slots = 0;
	struct life *fresh = NULL, *over = NULL;
	int32_t slots[BATCH];

	*fence = (struct wire_fence){ .kind = WIRE_FENCE_DONE };
	for (size_t i = 0; i < sizeof(k->requests) / sizeof(k->requests[0]); i++) {
		struct life *r = &k->requests[i];
		uint32_t what = WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE;

		if (!r->handle && !fresh && draw(4) == 0) {
			fresh = r;
			r->n = 1 + (int32_t)draw((uint32_t)k->max_batch / 2);
			for (int32_t j = 0; j < r->n; j++)
				slots[n_slots++] = ((int32_t)draw(2) * k->max_batch / 2 + j) % k->max_batch;
			details[n_details++].begin = (struct wire_begin){ .stream = draw(STREAMS) };
			entries[n++] = wire_turn_entry((uint64_t)r->n, WIRE_TURN_BEGIN);
			continue;
		}
		if (!r->handle)
			continue;
		if (!over && draw(20) == 0) {
			over = r;
			what = WIRE_TURN_COMPLETE | WIRE_TURN_FINISH;
		}
		if (draw(4) == 0)
			what &= ~(uint32_t)(draw(2) ? WIRE_TURN_COMPLETE : WIRE_TURN_PREPARE);
		if (draw(3)) {
			what |= what & WIRE_TURN_COMPLETE ? WIRE_TURN_DETAIL : 0;
			details[n_details].step.fence = some_fence(k, stream_of(k, r));
			details[n_details].step.tokens = (int32_t)(draw(3) ? 1 : 1 + draw(60));
			details[n_details].step.accepted = draw(6) == 0;
			n_details += what & WIRE_TURN_COMPLETE ? 1 : 0;
		}
		entries[n++] = wire_turn_entry(r->handle, what);
	}
	if (n == 0 || n > (uint32_t)k->max_batch)
		return;
	memcpy(entries + n, details, n_details * sizeof(details[0]));
	memcpy((char *)(entries + n) + n_details * sizeof(details[0]), slots, n_slots * sizeof(slots[0]));
	if (command(k, WIRE_OP_STEP_TURN, n_details | (uint64_t)n_slots << 32, n,
		    sizeof(*fence) + n * sizeof(*entries) + n_details * sizeof(details[0]) +
			    n_slots * sizeof(slots[0])) != 0)
		return;
	if (fresh)
		fresh->handle = w->n_begun ? w->begun[0].handle : 0;
	if (over && request_stream(k->c.session, over->handle) < 0)
		over->handle = 0;
}

static void compact(struct worker *k, struct life *r)
{
	struct wire_compact *c = payload();
	int32_t *map = (int32_t *)(void *)(c + 1), kept = 0;
	struct wire_request_state s;

	if (request_query(k->c.session, r->handle, &s, NULL) || (uint32_t)r->n != s.n_seqs)
		return;
	for (int32_t i = r->n; i-- > 0;)
		map[i] = draw(4) ? kept++ : -1;
	*c = (struct wire_compact){ .new_batch = kept, .flags = draw(2) ? WIRE_COMPACT_MOVE_ROWS : 0 };
	if (command(k, WIRE_OP_COMPACT_BEGIN, r->handle, (uint32_t)r->n, sizeof(*c) + (size_t)r->n * sizeof(int32_t)))
		return;
	with_fence(k, r, WIRE_OP_COMPACT_COMPLETE);
	r->n = kept;
}

static void query(struct worker *k, const struct life *r)
{
	struct wire_query_state *q = payload();

	*q = (struct wire_query_state){ .seq = (int32_t)draw((uint32_t)r->n + 1),
					.first = draw(2) ? 0 : draw(300),
					.group = draw(2) };
	command(k, WIRE_OP_QUERY_STATE, r->handle, 0, sizeof(*q));
	command(k, WIRE_OP_QUERY_REQUEST, r->handle, 0, 0);
	command(k, WIRE_OP_QUERY_PAGES, 0, 0, 0);
	command(k, draw(2) ? WIRE_OP_PIN : WIRE_OP_UNPIN, r->handle, 0, 0);
}

static void reserve(struct worker *k, const struct life *r)
{
	*(int64_t *)payload() = 1 + draw((uint32_t)k->c.model.max_seq);
	command(k, WIRE_OP_RESERVE, r->handle, 0, sizeof(int64_t));
}

static void shutdown_session(struct worker *k)
{
	struct wire_fence *fences = payload();

	for (uint32_t i = 0; i < STREAMS; i++) {
		store_release(&k->c.lines[i].word, load_relaxed(&k->c.lines[i].armed));
		fences[i] = (struct wire_fence){ .kind = WIRE_FENCE_DONE };
	}
	command(k, WIRE_OP_SHUTDOWN, 0, STREAMS, STREAMS * sizeof(*fences));
}

static void end(struct worker *k, struct life *r)
{
	if (with_fence(k, r, draw(2) ? WIRE_OP_FINISH : WIRE_OP_ABANDON) != SWAKV_EPHASE)
		r->handle = 0;
}

static void take(struct worker *k)
{
	struct wire_take *t = payload();
	uint32_t most = (uint32_t)(sizeof(k->pages) / sizeof(k->pages[0])) - k->n_pages;
	uint32_t n = 1 + draw(most < 700 ? most + 1 : 700);

	*t = (struct wire_take){ .stream = draw(STREAMS), .flags = draw(2), .min = 1 + draw(n) };
	if (n > most || command(k, WIRE_OP_TAKE, 0, n, sizeof(*t)))
		return;
	for (uint32_t i = 0; i < w->n; i++)
		k->pages[k->n_pages++] = w->pages[i] < 0 ? ~w->pages[i] : w->pages[i];
}

/* The first or last of them is wrong now and then. */
static void give(struct worker *k)
{
	struct wire_give *g = payload();
	struct wire_fence *fences = (struct wire_fence *)(void *)(g + 1);
	uint32_t n = k->n_pages ? 1 + draw(k->n_pages) : 0, n_fences = draw(STREAMS + 1);
	int32_t *ids = (int32_t *)(void *)(fences + n_fences);

	if (n == 0)
		return;
	*g = (struct wire_give){ 0 };
	for (uint32_t i = 0; i < n_fences; i++)
		fences[i] = some_fence(k, i);
	memcpy(ids, k->pages + k->n_pages - n, n * sizeof(*ids));
	if (draw(8) == 0)
		ids[draw(2) ? 0 : n - 1] = draw(2) ? PAGES : ids[n / 2];
	if (command(k, WIRE_OP_GIVE, n_fences, n, sizeof(*g) + n_fences * sizeof(*fences) + n * sizeof(*ids)) == 0)
		k->n_pages -= n;
}

static void live_on(struct worker *k)
{
	struct life *r = &k->requests[draw(sizeof(k->requests) / sizeof(k->requests[0]))];

	if (draw(6) == 0)
		reach(k);
	if (draw(16) == 0)
		take(k);
	if (draw(16) == 0)
		give(k);
	if (draw(100) == 0)
		shutdown_session(k);
	if (!r->handle) {
		begin(k, r);
		if (r->handle && draw(8))
			tokens(k, r, WIRE_OP_PREFILL_PREPARE, (uint32_t)k->c.model.max_seq / 2);
		if (r->handle && draw(8))
			with_fence(k, r, WIRE_OP_PREFILL_COMPLETE);
		return;
	}
	switch (draw(16)) {
	case 0:
		end(k, r);
		break;
	case 1:
		compact(k, r);
		break;
	case 2:
		query(k, r);
		break;
	case 3:
		reserve(k, r);
		break;
	case 4:
		tokens(k, r, WIRE_OP_REWIND, 8);
		break;
	case 5:
		if (draw(4) == 0)
			shutdown_session(k);
		break;
	default:
		step(k, WIRE_OP_STEP_PREPARE);
		for (uint32_t i = draw(4); i > 0; i--)
			turn(k);
		step(k, WIRE_OP_STEP_COMPLETE);
	}
}

/* What each operation of the table does, and that each was done at all. */
Test(weight, no_command_does_more_than_it_weighs)
{
	char why[256];

	for (int i = 0; i < COMMANDS; i++) {
		live_on(&workers[draw(WORKERS)]);
		cr_assert(i % 1000 || engine_check(engine, why, sizeof(why)), "%s", why);
	}
	for (int op = WIRE_OP_NOP + 1; op < WIRE_OP_COUNT; op++)
		if (op != WIRE_OP_CLOSE && op != WIRE_OP_WITHDRAW)
			cr_expect_gt(n_done[op], 10, "operation %d: done %u times of %u", op, n_done[op], n_of[op]);
}
