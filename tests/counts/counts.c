/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counts.c - fixed amounts of work, for counting instructions
 *
 * `counts NAME` prepares, then runs work_NAME() a number of times that it prints;
 * callgrind collects inside work_* only (tests/counts/run). Commands go
 * through the broker's own path, both ends of the rings in this one process.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "ring/operation.h"
#include "ring/tally.h"
#include "wire_turn.h"

#define BATCH   256
#define WINDOW  1024
#define P       128
#define LENGTH  4000
#define MAX_SEQ 131072
#define TURNS   64 /* of LENGTH + 1 .. LENGTH + TURNS: no sequence changes a page */

static struct engine *engine;
static struct channel channel;
static struct workspace *workspace;
static struct tallies tallies;
/* the worker's ends */
static struct ring_producer_spsc commands;
static struct ring_consumer_spsc replies;
static uint64_t handle;

static void open_session(void)
{
	static const struct model model = { .n_groups = 1,
					    .n_streams = 1,
					    .max_batch = BATCH,
					    .max_seq = MAX_SEQ,
					    .groups = { { .kind = WIRE_GROUP_SLIDING,
							  .page_tokens = P,
							  .window = WINDOW,
							  .layers = 1,
							  .kv_heads = 1,
							  .k_head_dim = 8,
							  .v_head_dim = 8,
							  .dtype = WIRE_F16 } } };
	struct engine_config config = { .half_bytes = 10000ull * P * 16, .extent_bytes = 10000ull * P * 16 };
	const struct session_layout *l = &channel.memory.layout;

	engine = engine_new(&config);
	workspace = workspace_new();
	channel.model = model;
	channel.tag = 1;
	channel.state = CHANNEL_ATTACHED;
	if (!engine || !workspace || model_check(&model, config.half_bytes, channel.geometry, NULL) != 0)
		errx(1, "no engine");
	session_layout_init(&channel.memory.layout, &model, channel.geometry);
	if (session_memory_init(&channel.memory, l) < 0 || !channel_start(&channel, engine))
		errx(1, "no session");
	if (!tallies_init(&tallies))
		errx(1, "no tallies");
	tally_join(&tallies, &channel);
	ring_producer_init_spsc(&commands, (struct ring_control *)(channel.memory.session + l->commands_control),
				channel.memory.session + l->commands_slots, l->ring_slots);
	ring_consumer_init_spsc(&replies, (struct ring_control *)(channel.memory.session + l->replies_control),
				channel.memory.session + l->replies_slots, l->ring_slots);
}

static void put(uint16_t op, uint32_t n, const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	/* Of a step it is the number of listed counts. */
	bool step = op == WIRE_OP_STEP_PREPARE || op == WIRE_OP_STEP_COMPLETE;
	/* Of a give that of fences. */
	struct wire_command head = { .op = op, .n = n, .request = step || op == WIRE_OP_GIVE ? 0 : handle };

	head.n_slots = (uint16_t)message_slots(a_bytes + b_bytes);
	if (ring_producer_space_spsc(&commands, head.n_slots) != 1)
		errx(1, "command ring full");
	ring_producer_write_spsc(&commands, 0, &head, sizeof(head));
	ring_producer_write_spsc(&commands, sizeof(head), a, a_bytes);
	ring_producer_write_spsc(&commands, sizeof(head) + a_bytes, b, b_bytes);
	ring_producer_publish_spsc(&commands, head.n_slots);
}

/* What the ring thread does for one command. */
static void serve(void)
{
	bool progress;

	int n_slots = channel_take(&channel, workspace->message);

	if (n_slots <= 0)
		errx(1, "no command");
	if (channel_refresh(&channel, &progress) != VIOLATION_NONE)
		errx(1, "violation");
	operation_decode(workspace, &channel);
	operation_execute(workspace, &channel, 0);
	commands_reply(workspace, &channel);
	channel_release(&channel, (uint32_t)n_slots);
	tally_command(&channel, workspace, 0);
	fence_store_load();
	channel_sleeps(&channel);
}

static struct wire_reply get(void)
{
	struct wire_reply head;

	if (ring_consumer_fill_spsc(&replies) <= 0)
		errx(1, "no reply");
	ring_consumer_read_spsc(&replies, 0, &head, sizeof(head));
	ring_consumer_release_spsc(&replies, head.n_slots);
	if (head.code != 0)
		errx(1, "refused: %s", swakv_error_name(head.code));
	return head;
}

static uint64_t handles[BATCH]; /* of requests of one sequence */
static uint32_t n_handles;

static void begin(void)
{
	struct wire_begin b = { 0 };
	int32_t slots[BATCH];

	for (int32_t i = 0; i < BATCH; i++)
		slots[i] = i;
	put(WIRE_OP_BEGIN, BATCH, &b, sizeof(b), slots, sizeof(slots));
	serve();
	handle = get().value;
}

static void prefill(int32_t length)
{
	struct wire_fence done = { .kind = WIRE_FENCE_DONE };
	int32_t lengths[BATCH];

	for (int32_t i = 0; i < BATCH; i++)
		lengths[i] = length;
	put(WIRE_OP_PREFILL_PREPARE, BATCH, lengths, sizeof(lengths), NULL, 0);
	serve();
	get();
	put(WIRE_OP_PREFILL_COMPLETE, 0, &done, sizeof(done), NULL, 0);
	serve();
	get();
}

static void step(void)
{
	struct wire_step_entry e = { .request = handle, .tokens = 1 };

	put(WIRE_OP_STEP_PREPARE, 1, &e, sizeof(e), NULL, 0);
	serve();
	get();
	put(WIRE_OP_STEP_COMPLETE, 1, &e, sizeof(e), NULL, 0);
	serve();
	get();
}

/* Each request of one sequence has prepared a step; or the one of them all, or of one. */
static void turn_with(uint32_t what, struct wire_fence fence)
{
	uint64_t entries[BATCH];

	for (uint32_t i = 0; i < n_handles; i++)
		entries[i] = wire_turn_entry(handles[i], what);
	handle = 0;
	put(WIRE_OP_STEP_TURN, n_handles, &fence, sizeof(fence), entries, n_handles * sizeof(entries[0]));
	serve();
	get();
}

static void turn(uint32_t what)
{
	turn_with(what, (struct wire_fence){ .kind = WIRE_FENCE_DONE });
}

static void finish(void)
{
	struct wire_fence point = { .kind = WIRE_FENCE_POINT };

	put(WIRE_OP_FINISH, 0, &point, sizeof(point), NULL, 0);
	serve();
	get();
}

/* ---- the work --------------------------------------------------------------- */

#define WORK __attribute__((noinline, used)) static void

WORK work_noop(int turns)
{
	for (int i = 0; i < turns; i++) {
		put(WIRE_OP_NOP, 0, NULL, 0, NULL, 0);
		serve();
		get();
	}
}

WORK work_step(int turns)
{
	for (int i = 0; i < turns; i++)
		step();
}

WORK work_turn(int turns)
{
	for (int i = 0; i < turns; i++)
		turn(WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE);
}

/* The fence of all is a mark that is reached a step later. */
WORK work_turn_marked(int turns)
{
	for (uint64_t mark = 1; mark <= (uint64_t)turns; mark++) {
		store_release(&channel.lines[0].armed, mark);
		store_release(&channel.lines[0].word, mark - 1);
		turn_with(WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE,
			  (struct wire_fence){ .kind = WIRE_FENCE_LINE, .value = mark });
	}
}

/* The engine alone, without rings. */
WORK work_engine_step(int turns)
{
	struct wire_step_entry e = { .request = handle, .tokens = 1 };

	for (int i = 0; i < turns; i++) {
		struct workspace *w = workspace;

		if (step_prepare(channel.session, &(struct step){ .entries = &e, .n = 1 }, w->faults, &w->n_faults,
				 &w->delivery, &w->fault) ||
		    w->n_faults ||
		    step_complete(channel.session, &(struct step){ .entries = &e, .n = 1 }, channel.armed, w->faults,
				  &w->n_faults, &w->fault) ||
		    w->n_faults)
			errx(1, "step refused");
	}
}

WORK work_begin_finish(int turns)
{
	for (int i = 0; i < turns; i++) {
		begin();
		finish();
	}
}

WORK work_prefill(int turns)
{
	prefill(LENGTH);
	(void)turns;
}

/* What counting costs a command: one that is nothing to count, and the two of a step. The loop has one in sixteen. */
#define SIXTEEN(what) what what what what what what what what what what what what what what what what

WORK work_tally_nothing(int turns)
{
	struct channel *c = &channel;
	struct workspace *w = workspace;

	for (int i = 0; i < turns; i += 16) {
		SIXTEEN(tally_command(c, w, 0); __asm__ volatile("" ::: "memory");)
	}
}

WORK work_tally_prepare(int turns)
{
	for (int i = 0; i < turns; i++)
		tally_step_prepare(&channel, workspace, 1000);
}

WORK work_tally_complete(int turns)
{
	uint64_t first = ((const struct wire_step_entry *)command_payload(workspace))->request;

	for (int i = 0; i < turns; i += 16) {
		SIXTEEN(tally_step_complete(&channel, workspace, 1u << 20);
			channel.steps[(first >> 32) % TALLY_STEPS].handle = first;)
	}
}

static int32_t pages[WIRE_MAX_PAGES];

static void take(uint32_t n)
{
	const struct wire_take take = { .flags = WIRE_TAKE_OVERWRITES, .min = n };

	put(WIRE_OP_TAKE, n, &take, sizeof(take), NULL, 0);
	serve();
	get();
}

static void give(uint32_t n)
{
	const struct wire_give give = { 0 };

	put(WIRE_OP_GIVE, n, &give, sizeof(give), pages, n * sizeof(pages[0]));
	serve();
	get();
}

WORK work_take(uint32_t n)
{
	take(n);
}

WORK work_give(uint32_t n)
{
	give(n);
}

/* As the last take of @n left them in the workspace. */
static void note_pages(uint32_t n)
{
	memcpy(pages, workspace->pages, n * sizeof(pages[0]));
}

/* Only what is called work_ is counted: of both the one that is asked for. */
#define TAKES_AND_GIVES(n)                                                                                             \
	static void take_##n(int turns)                                                                                \
	{                                                                                                              \
		for (int i = 0; i < turns; i++) {                                                                      \
			work_take(n);                                                                                  \
			note_pages(n);                                                                                 \
			give(n);                                                                                       \
		}                                                                                                      \
	}                                                                                                              \
	static void give_##n(int turns)                                                                                \
	{                                                                                                              \
		for (int i = 0; i < turns; i++) {                                                                      \
			take(n);                                                                                       \
			note_pages(n);                                                                                 \
			work_give(n);                                                                                  \
		}                                                                                                      \
	}
TAKES_AND_GIVES(1)
TAKES_AND_GIVES(64)
TAKES_AND_GIVES(4096)

static void prepare_plain(void)
{
	begin();
	prefill(LENGTH);
}

/* One step before all sequences map a page. */
static void prepare_boundary(void)
{
	begin();
	prefill(LENGTH / P * P + P);
}

static void prepare_none(void)
{
}

/* The workspace has a command without a request. */
static void prepare_noop(void)
{
	work_noop(1);
}

/* It has the complete of a step. */
static void prepare_step(void)
{
	begin();
	prefill(LENGTH);
	step();
}

/* Steps that end and begin in one command: of one request of all sequences, */
static void prepare_turn(void)
{
	begin();
	prefill(LENGTH);
	handles[n_handles++] = handle;
	turn(WIRE_TURN_PREPARE);
}

/* and of as many requests of one. */
static void prepare_turns(void)
{
	const struct wire_begin b = { 0 };
	const struct wire_fence done = { .kind = WIRE_FENCE_DONE };
	const int32_t length = LENGTH;

	for (int32_t slot = 0; slot < BATCH; slot++) {
		put(WIRE_OP_BEGIN, 1, &b, sizeof(b), &slot, sizeof(slot));
		serve();
		handles[n_handles++] = handle = get().value;
		put(WIRE_OP_PREFILL_PREPARE, 1, &length, sizeof(length), NULL, 0);
		serve();
		get();
		put(WIRE_OP_PREFILL_COMPLETE, 0, &done, sizeof(done), NULL, 0);
		serve();
		get();
	}
	turn(WIRE_TURN_PREPARE);
}

static const struct work {
	const char *name;
	void (*prepare)(void);
	void (*run)(int turns);
	int turns;
} works[] = {
	{ "noop", prepare_none, work_noop, 1000 },
	{ "tally_nothing", prepare_noop, work_tally_nothing, 1600 },
	{ "tally_prepare", prepare_step, work_tally_prepare, 1600 },
	{ "tally_complete", prepare_step, work_tally_complete, 1600 },
	{ "step_plain", prepare_plain, work_step, TURNS },
	{ "step_all_map", prepare_boundary, work_step, 1 },
	{ "turn_plain", prepare_turn, work_turn, TURNS },
	{ "turn_plain_256_requests", prepare_turns, work_turn, TURNS },
	{ "turn_marked_256_requests", prepare_turns, work_turn_marked, TURNS },
	{ "engine_step_plain", prepare_plain, work_engine_step, TURNS },
	{ "engine_step_all_map", prepare_boundary, work_engine_step, 1 },
	{ "begin_finish", prepare_none, work_begin_finish, 4 },
	{ "prefill", begin, work_prefill, 1 },
	{ "take_1", prepare_none, take_1, 100 },
	{ "take_64", prepare_none, take_64, 100 },
	{ "take_4096", prepare_none, take_4096, 4 },
	{ "give_1", prepare_none, give_1, 100 },
	{ "give_64", prepare_none, give_64, 100 },
	{ "give_4096", prepare_none, give_4096, 4 },
};

int main(int argc, char **argv)
{
	const struct work *w = works;
	size_t n = sizeof(works) / sizeof(works[0]);

	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (; w < works + n; w++)
			printf("%s\n", w->name);
		return 0;
	}
	while (argc == 2 && w < works + n && strcmp(w->name, argv[1]) != 0)
		w++;
	if (argc != 2 || w == works + n)
		errx(2, "usage: counts list|NAME");
	open_session();
	w->prepare();
	w->run(w->turns);
	printf("%d\n", w->turns);
	return 0;
}
