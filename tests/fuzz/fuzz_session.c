/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_session.c - the broker against what workers have sent, byte by byte
 *
 * The input is a worker's life as tests/fuzz/seed records it: its hello, then its
 * commands as they lay in the ring, and its lines as they stood when it sent each.
 * A fresh broker gives the handles that the recorded one gave, so that what is
 * played back gets as far, and what the fuzzer changes in it begins there. A
 * command or answer is always taken whole; whatever comes, no invariant breaks,
 * and when the session has ended every page is free.
 */
#include <unistd.h>

#include "ring_rig.h"

enum { MAX_COMMANDS = 400, MOST_BYTES = 4 << 20, LINE = 0 /* a command has as many slots as its record says */ };

static const struct backend_pool pool = { .name = "main",
					  .backend = WIRE_BACKEND_HOST,
					  .fd = -1,
					  .bytes = 65 << 20,
					  .table_area_bytes = 1 << 20,
					  .half_bytes = 32 << 20,
					  .extent_bytes = 1 << 20 };

/* A line, as the worker and its device had it. */
static void set_line(struct rig_worker *w, struct input *in)
{
	uint32_t line = input_u8(in) % w->channel.memory.layout.n_streams;
	struct wire_line *l = (void *)(w->channel.memory.session + w->channel.memory.layout.lines);

	store_release(&l[line].armed, input_u32(in));
	store_release(&l[line].word, input_u32(in));
}

/* A command, and what it is answered at once. */
static void play(struct rig_worker *w, uint8_t n_slots, struct input *in)
{
	unsigned char message[UINT8_MAX * RING_SLOT];
	_Alignas(CACHELINE) unsigned char reply[RING_SLOT];
	const struct wire_reply *head = (const void *)reply;
	int64_t fill;

	input_bytes(in, message, (size_t)n_slots * RING_SLOT);
	if (ring_producer_space_spsc(&w->commands, n_slots) != 1)
		return;
	ring_producer_write_spsc(&w->commands, 0, message, (size_t)n_slots * RING_SLOT);
	ring_producer_publish_spsc(&w->commands, n_slots);
	ring_turn(&rig_ring);
	while ((fill = ring_consumer_fill_spsc(&w->replies)) > 0) {
		ring_consumer_first_spsc(&w->replies, fill, reply);
		FUZZ_CHECK(head->n_slots >= 1 && head->n_slots <= fill && head->code <= 0);
		ring_consumer_release_spsc(&w->replies, head->n_slots);
	}
	FUZZ_CHECK(fill == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char name[32];

	snprintf(name, sizeof(name), "fuzz-session-%d", (int)getpid());
	rig_init(name);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct session_memory memory = { 0 };
	struct rig_worker w;
	struct wire_hello hello;
	struct session_layout l;
	struct handshake h;
	struct refusal r;

	input_bytes(&in, &hello, sizeof(hello));
	memset(hello.pool, 0, sizeof(hello.pool)); /* there is one, whatever it is called */
	if (handshake_check(&h, &hello, sizeof(hello), &pool, &r))
		return 0; /* fuzz_handshake.c is about those */
	session_layout_init(&l, &h.model, h.geometry);
	if (l.max_batch > 1024 || l.tables_bytes > MOST_BYTES || l.session_bytes > MOST_BYTES)
		return 0; /* for which no broker with this table area has room */
	rig_start(&pool, 32, 1);
	rig_attach(&w, 1, &h, &memory);
	for (int n = 0; in.left > 0 && n < MAX_COMMANDS && w.channel.state == CHANNEL_ATTACHED; n++) {
		uint8_t kind = input_u8(&in);

		if (kind == LINE)
			set_line(&w, &in);
		else
			play(&w, kind, &in);
	}
	ring_turn(&rig_ring);
	rig_check_engine();
	rig_end(&w);
	rig_stop();
	free(memory.session);
	free(memory.tables);
	return 0;
}
