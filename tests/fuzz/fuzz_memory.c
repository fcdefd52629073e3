/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_memory.c - the ring thread against workers that write anything anywhere in their memory, at any moment
 *
 * Two hostile sessions and an honest one on one broker, without threads: the input
 * says when the ring thread takes a turn, and what the hostile ones write into the
 * whole of what they can write, in between and whenever the ring thread looks at
 * the clock, sleeps or wakes somebody. Some of it is a command that is right, so
 * that requests get far. Whatever comes: no invariant breaks, the honest worker is
 * answered within two rounds and never ended, and when all are gone every page is free.
 */
#include <unistd.h>

#include "hello.h"
#include "ring_rig.h"

enum { HOSTILE = 2, WORKERS = HOSTILE + 1, MAX_MOVES = 200, PAGES = 48 };

static const struct backend_pool pool = { .name = "main",
					  .backend = WIRE_BACKEND_HOST,
					  .fd = -1,
					  .bytes = 1 << 20,
					  .table_area_bytes = 1 << 20,
					  .half_bytes = (uint64_t)PAGES * 16 * 64 * 2,
					  .extent_bytes = (uint64_t)PAGES * 16 * 64 };

struct worker {
	struct rig_worker rig;
	uint32_t sent, taken; /* by the honest one */
};

static struct worker workers[WORKERS];
static struct session_memory memories[WORKERS];
static struct input *input; /* of this run; NULL: it is over, and nobody writes any more */

/* ---- what the hostile ones write ------------------------------------------------------------------- */

static void write_anything(struct worker *w)
{
	const struct session_layout *l = &w->rig.channel.memory.layout;
	uint64_t at = input_u32(input) % l->session_bytes;
	uint8_t n = 1 + input_u8(input) % 64;

	input_bytes(input, w->rig.channel.memory.session + at, n < l->session_bytes - at ? n : l->session_bytes - at);
}

/* A word of the controls, lines or boards: near what it was, or a number that sums overflow with. */
static void write_word(struct worker *w)
{
	static const uint64_t edges[] = { 0, 1, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ull << 63, 255 };
	uint64_t at = (uint64_t)input_u16(input) * 8 % w->rig.channel.memory.layout.commands_slots;
	uint64_t *word = (void *)(w->rig.channel.memory.session + at);
	uint8_t how = input_u8(input);

	*word = how & 128 ? edges[how % 8] : *word + (uint64_t)(int64_t)((int8_t)(how << 1) / 2);
}

/* A command of the right form, in the slots that are next. */
static void write_command(struct worker *w)
{
	union {
		struct wire_command head;
		unsigned char bytes[2 * RING_SLOT];
	} message = { 0 };
	unsigned char *payload = message.bytes + sizeof(message.head);
	static const uint16_t ops[] = { WIRE_OP_BEGIN,
					WIRE_OP_PREFILL_PREPARE,
					WIRE_OP_PREFILL_COMPLETE,
					WIRE_OP_STEP_PREPARE,
					WIRE_OP_STEP_COMPLETE,
					WIRE_OP_FINISH,
					WIRE_OP_ABANDON,
					WIRE_OP_QUERY_PAGES,
					WIRE_OP_TAKE,
					WIRE_OP_GIVE,
					WIRE_OP_NOP,
					WIRE_OP_QUERY_STATE,
					WIRE_OP_COMPACT_BEGIN,
					WIRE_OP_STEP_TURN,
					WIRE_OP_REWIND,
					WIRE_OP_CLOSE };
	uint8_t v = input_u8(input), size = input_u8(input) % 96;
	struct wire_step_entry entry = { .tokens = 1, .fence.kind = WIRE_FENCE_DONE };
	struct wire_begin begin = { .wait_ms = v & 64 };
	int32_t one = 1 + v % 64, slot = (v >> 4) % 4;

	message.head.op = ops[v % 16];
	message.head.n = message.head.n_slots = 1;
	message.head.user_data = v;
	message.head.request = entry.request =
		w->rig.channel.session ? load_relaxed(&w->rig.channel.commands.control->tail) : 0;
	session_next_request(w->rig.channel.session, &entry.request);
	message.head.request = entry.request;
	switch (message.head.op) {
	case WIRE_OP_BEGIN:
		memcpy(payload, &begin, sizeof(begin));
		memcpy(payload + sizeof(begin), &slot, sizeof(slot));
		break;
	case WIRE_OP_PREFILL_PREPARE:
		memcpy(payload, &one, sizeof(one));
		break;
	case WIRE_OP_STEP_PREPARE:
	case WIRE_OP_STEP_COMPLETE:
		message.head.request = 0;
		memcpy(payload, &entry, sizeof(entry));
		message.head.n_slots = message_slots(sizeof(entry));
		break;
	case WIRE_OP_PREFILL_COMPLETE:
	case WIRE_OP_FINISH:
	case WIRE_OP_ABANDON:
		memcpy(payload, &entry.fence, sizeof(entry.fence));
		break;
	default:
		message.head.n_slots = message_slots(size);
		input_bytes(input, payload, size);
	}
	ring_producer_write_spsc(&w->rig.commands, 0, &message, sizeof(message));
	ring_producer_publish_spsc(&w->rig.commands, message.head.n_slots);
}

static void write_some(void)
{
	struct worker *w;
	uint8_t what;

	if (!input || input->left == 0)
		return;
	what = input_u8(input);
	w = &workers[(what >> 6) % HOSTILE];
	switch (what % 8) {
	case 0:
		write_anything(w);
		break;
	case 1:
	case 2:
		write_word(w);
		break;
	case 3:
	case 4:
		write_command(w);
		break;
	default: /* nothing, this time */
		break;
	}
}

/* ---- sessions --------------------------------------------------------------------------------------------- */

static void take_mail(void)
{
	struct mail m;

	while (mailbox_take_spsc(rig_ring.outbox, &m))
		FUZZ_CHECK(m.kind != MAIL_KICKED || m.channel != &workers[HOSTILE].rig.channel);
}

static void attach(uint32_t i)
{
	struct wire_hello hello = good_hello();
	struct handshake h;
	struct refusal r;

	hello.groups[0].window = i == 0 ? 0 : 64;
	hello.groups[0].kind = i == 0 ? WIRE_GROUP_FULL : WIRE_GROUP_SLIDING;
	hello.max_seq = i == 0 ? 256 : 4096;
	hello.max_advance = i;
	FUZZ_CHECK(handshake_check(&h, &hello, sizeof(hello), &pool, &r) == 0);
	workers[i] = (struct worker){ 0 };
	rig_attach(&workers[i].rig, i + 1, &h, &memories[i]); /* as large each time */
	FUZZ_CHECK(workers[i].rig.channel.state == CHANNEL_ATTACHED);
	take_mail();
}

/* One nop is always on its way; it is answered at the latest in the second turn that begins after it. */
static void honest(struct worker *w, bool first)
{
	unsigned char reply[RING_SLOT] __attribute__((aligned(CACHELINE)));
	const struct wire_command nop = { .op = WIRE_OP_NOP, .n_slots = 1, .user_data = w->sent };
	int64_t fill = ring_consumer_fill_spsc(&w->rig.replies);

	FUZZ_CHECK(w->rig.channel.state == CHANNEL_ATTACHED);
	FUZZ_CHECK(w->rig.channel.longest_wait <= 2);
	if (fill > 0) {
		ring_consumer_first_spsc(&w->rig.replies, fill, reply);
		ring_consumer_release_spsc(&w->rig.replies, 1);
		FUZZ_CHECK(((const struct wire_reply *)(const void *)reply)->code == 0);
		w->taken++;
	}
	if (fill <= 0 && !first)
		return;
	ring_producer_write_spsc(&w->rig.commands, 0, &nop, sizeof(nop));
	ring_producer_publish_spsc(&w->rig.commands, 1);
	w->sent++;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char name[32];

	snprintf(name, sizeof(name), "fuzz-memory-%d", (int)getpid());
	rig_init(name);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	rig_start(&pool, 8, WORKERS);
	for (uint32_t i = 0; i < WORKERS; i++)
		attach(i);
	input = &in;
	rig_between = write_some;
	for (int n = 0; in.left > 0 && n < MAX_MOVES; n++) {
		honest(&workers[HOSTILE], n == 0);
		for (uint8_t k = input_u8(&in) % 4; k > 0; k--)
			write_some();
		ring_turn(&rig_ring);
		take_mail();
		if (n % 8 == 7)
			rig_check_engine();
	}
	input = NULL;
	ring_turn(&rig_ring);
	ring_turn(&rig_ring);
	honest(&workers[HOSTILE], false);
	FUZZ_CHECK(size == 0 || workers[HOSTILE].taken > 0);
	rig_check_engine();
	for (uint32_t i = 0; i < WORKERS; i++)
		rig_end(&workers[i].rig);
	rig_stop();
	return 0;
}
