/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ring.c - the broker's two ring ends against a client that writes what it likes
 *
 * The input is a list of moves: the client overwrites positions, flags and
 * slots; the broker takes messages from one ring and puts replies into the
 * other, as its own code does, trusting nothing it has not checked. The memory
 * ends where the slots end, so a step outside is seen.
 */
#include <errno.h>

#include "input.h"
#include "ring.h"
#include "wire.h"

enum { SLOTS = 8 };

enum move {
	MOVE_COMMAND_TAIL,
	MOVE_REPLY_HEAD,
	MOVE_FLAGS,
	MOVE_SLOT,
	MOVE_TAKE,
	MOVE_REPLY,
	MOVE_STARVE,
	MOVE_SLEEP,
	N_MOVES
};

struct ends {
	struct ring_control *control[2]; /* commands, replies */
	unsigned char *slots[2];
	struct ring_consumer_spsc commands;
	struct ring_producer_spsc replies;
};

/* The largest message that the fill allows, whatever its header claims. */
static int take(struct ends *e)
{
	struct wire_command header;
	unsigned char message[SLOTS * RING_SLOT];
	uint32_t before = e->commands.mine;
	int64_t fill = ring_consumer_fill_spsc(&e->commands);

	FUZZ_CHECK(fill == -EPROTO || (fill >= 0 && fill <= SLOTS));
	if (fill <= 0)
		return (int)fill;
	ring_consumer_first_spsc(&e->commands, fill, message);
	memcpy(&header, message, sizeof(header));
	if (header.n_slots == 0 || header.n_slots > fill)
		return -EPROTO;
	if (header.n_slots > 1)
		ring_consumer_read_spsc(&e->commands, 0, message, header.n_slots * RING_SLOT);
	ring_consumer_release_spsc(&e->commands, header.n_slots);
	FUZZ_CHECK(e->commands.mine == before + header.n_slots);
	FUZZ_CHECK(load_relaxed(&e->control[0]->head) == e->commands.mine);
	return 0;
}

static int reply(struct ends *e, uint32_t n)
{
	unsigned char message[SLOTS * RING_SLOT];
	int space = ring_producer_space_spsc(&e->replies, n);

	FUZZ_CHECK(space == 0 || space == 1 || space == -EPROTO);
	if (space <= 0)
		return space;
	memset(message, (int)n, sizeof(message));
	ring_producer_write_spsc(&e->replies, 0, message, 32);
	ring_producer_write_spsc(&e->replies, 32, message, n * RING_SLOT - 32);
	ring_producer_publish_spsc(&e->replies, n);
	FUZZ_CHECK(e->replies.mine - e->replies.peer <= SLOTS); /* nothing unread was overwritten */
	FUZZ_CHECK(load_relaxed(&e->control[1]->tail) == e->replies.mine);
	return 0;
}

/* One move; negative: the broker ends the session. */
static int make_move(struct ends *e, struct input *in)
{
	unsigned which;
	int r;

	switch (input_u8(in) % N_MOVES) {
	case MOVE_COMMAND_TAIL: /* mostly near the truth, so that many are believed */
		store_relaxed(&e->control[0]->tail, e->commands.mine + (uint32_t)(int8_t)input_u8(in));
		return 0;
	case MOVE_REPLY_HEAD:
		store_relaxed(&e->control[1]->head, e->replies.mine - (uint32_t)(int8_t)input_u8(in));
		return 0;
	case MOVE_FLAGS:
		which = input_u8(in) & 1;
		store_relaxed(&e->control[which]->need_wakeup, input_u32(in));
		store_relaxed(&e->control[which]->need_space, input_u32(in));
		store_relaxed(which ? &e->control[1]->tail : &e->control[0]->head,
			      input_u32(in)); /* the broker's own */
		return 0;
	case MOVE_SLOT:
		which = input_u8(in);
		input_bytes(in, e->slots[which & 1] + (which >> 1) % SLOTS * RING_SLOT, sizeof(struct wire_command));
		return 0;
	case MOVE_TAKE:
		r = take(e);
		ring_consumer_must_wake_spsc(&e->commands);
		return r;
	case MOVE_REPLY:
		r = reply(e, 1 + input_u8(in) % SLOTS);
		ring_producer_must_wake_spsc(&e->replies);
		return r;
	case MOVE_STARVE:
		r = ring_producer_want_space_spsc(&e->replies, 1 + input_u8(in) % SLOTS);
		FUZZ_CHECK(r == 0 || r == 1 || r == -EPROTO);
		ring_producer_clear_want_spsc(&e->replies);
		return r;
	case MOVE_SLEEP:
	default:
		r = ring_consumer_sleep_spsc(&e->commands);
		FUZZ_CHECK(r == 0 || r == 1 || r == -EPROTO);
		ring_consumer_awake_spsc(&e->commands);
		return r;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint32_t start = input_u32(&in);
	struct ends e;

	for (int i = 0; i < 2; i++) {
		e.control[i] = aligned_alloc(CACHELINE, sizeof(*e.control[i]));
		e.slots[i] = calloc(SLOTS, RING_SLOT);
		FUZZ_CHECK(e.control[i] && e.slots[i]);
		memset(e.control[i], 0, sizeof(*e.control[i]));
		store_relaxed(&e.control[i]->head, start);
		store_relaxed(&e.control[i]->tail, start);
	}
	ring_consumer_init_spsc(&e.commands, e.control[0], e.slots[0], SLOTS);
	ring_producer_init_spsc(&e.replies, e.control[1], e.slots[1], SLOTS);
	/* anywhere in the positions' range, the wrap included */
	e.commands.mine = e.commands.peer = e.replies.mine = e.replies.peer = start;
	while (in.left > 0 && make_move(&e, &in) >= 0)
		;
	for (int i = 0; i < 2; i++) {
		free(e.control[i]);
		free(e.slots[i]);
	}
	return 0;
}
