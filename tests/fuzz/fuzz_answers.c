/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_answers.c - the library against any answer, and any byte in the memory that it shares with its broker
 *
 * A session at the fake broker of the unit tests, without a server: the input says
 * what is asked, and what is answered, at first mostly of the right form. Whatever
 * comes: nothing is read or written outside what the call was given, the device
 * table names pages of the pool only, and a session that is broken says why.
 */
#include "fake_broker.c" /* and its stub of Criterion */

enum { MAX_MOVES = 64, TICKETS = 16, MOST_PAGES = 5 };

static struct fake fake;
static swakv_session *session;
static swakv_request *requests[FAKE_BATCH];
static swakv_ticket tickets[TICKETS];
static uint32_t n_tickets;
static int32_t *ids; /* of takes: as many as a call may fill, and no place more */
static uint32_t n_ids;

static void note(int code, swakv_ticket t)
{
	FUZZ_CHECK(code <= 0);
	if (code == 0 && n_tickets < TICKETS)
		tickets[n_tickets++] = t;
}

static void ask(struct input *in)
{
	const int32_t lengths[] = { 1 + input_u8(in) % 64 };
	uint8_t v = input_u8(in);
	int32_t slot = v % FAKE_BATCH;
	struct swakv_begin_options begin = { .size = sizeof(begin), .slots = &slot, .n_slots = 1, .stream = v >> 7 };
	const struct swakv_fence done = { .kind = SWAKV_FENCE_DONE };
	swakv_request **r = &requests[slot];
	swakv_ticket t;

	if (n_tickets == TICKETS)
		return;
	if (!*r) {
		note(swakv_request_begin(session, &begin, r, &t), t);
		return;
	}
	switch (v >> 2 & 7) {
	case 0:
		note(swakv_prefill_prepare(*r, lengths, 1, &t), t);
		break;
	case 1:
		note(swakv_prefill_complete(*r, done, &t), t);
		break;
	case 2:
	case 3:
		note(swakv_decode_prepare(*r, &t), t);
		break;
	case 4:
		note(swakv_decode_complete(*r, done, &t), t);
		break;
	case 5:
		note(swakv_pages_take(session, 0, 0, 0, 1, MOST_PAGES, 0, ids, &n_ids, &t), t);
		break;
	case 6:
		note(swakv_request_finish(*r, &t), t);
		break;
	default:
		note(swakv_session_ping(session, &t), t);
	}
}

/* The answer to the next command, which the input changes in places; or one to none. */
static void answer(struct input *in)
{
	unsigned char payload[FAKE_MESSAGE * RING_SLOT] = { 0 };
	struct wire_reply reply = { .op = input_u8(in) % (WIRE_OP_COUNT + 1), .user_data = input_u8(in) };
	struct wire_delivery *d = (void *)payload;
	struct wire_row row = { .row = input_u8(in) % 8, .first = 0, .end = input_u8(in) % 8, .version = 1 };
	uint8_t how = input_u8(in);
	struct fake_command c;
	size_t len = sizeof(*d);

	if (fake_has_command(&fake)) {
		int64_t fill = ring_consumer_fill_spsc(&fake.commands);

		ring_consumer_first_spsc(&fake.commands, fill, &c);
		if (c.head.n_slots < 1 || c.head.n_slots > FAKE_MESSAGE || c.head.n_slots > fill)
			return; /* this broker has written over it */
		command_read(&fake, &c);
		reply.op = c.head.op;
		reply.user_data = c.head.user_data;
	}
	reply.value = how & 1 ? 0x100 + how : 0;
	if (how & 2) { /* of so many updates of a row, or pages */
		d->n_updates = reply.n = input_u8(in) % 8;
		d->n_rows = 1;
		for (uint32_t i = 0; i < d->n_updates; i++) {
			struct wire_update u = { .cell = input_u8(in) % 40, .page = (int8_t)input_u8(in) % 32 };

			memcpy(payload + len, &u, sizeof(u));
			len += sizeof(u);
		}
		memcpy(payload + len, &row, sizeof(row));
		len += sizeof(row);
	}
	if (how & 4)
		reply.code = -(int8_t)(input_u8(in) % 32);
	if (how & 8)
		input_bytes(in, payload + input_u8(in) % 128, input_u8(in) % 64);
	if (how & 16)
		len = input_u16(in) % (sizeof(payload) - RING_SLOT);
	if (how & 32)
		input_bytes(in, &reply, sizeof(reply));
	reply.n_slots = (uint16_t)((sizeof(reply) + len + RING_SLOT - 1) / RING_SLOT);
	if (ring_producer_space_spsc(&fake.replies, reply.n_slots) == 1)
		reply_send(&fake, &reply, payload, len);
}

static void write_anything(struct input *in)
{
	uint32_t at = input_u16(in);
	uint8_t n = 1 + input_u8(in) % 32;
	bool tables = input_u8(in) & 1;

	at %= (tables ? TABLES_BYTES : SESSION_BYTES) - 32;
	input_bytes(in, (tables ? fake.tables : fake.memory) + at, n);
}

static void collect(void)
{
	for (uint32_t i = 0; i < n_tickets;) {
		int code = swakv_poll(session, tickets[i]);

		FUZZ_CHECK(code <= 0);
		if (code == SWAKV_EAGAIN)
			i++;
		else
			tickets[i] = tickets[--n_tickets];
	}
}

static void check_table(void)
{
	for (uint32_t i = 0; i < FAKE_BATCH * 2 * FAKE_WIDTH; i++)
		FUZZ_CHECK(fake.device[i] >= -1 && fake.device[i] < 2 * FAKE_PAGES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	swakv_ticket t;

	fake = (struct fake){ 0 };
	fake_open(&fake);
	session = fake_attach(&fake, NULL);
	ids = malloc(MOST_PAGES * sizeof(*ids));
	n_tickets = 0;
	for (int n = 0; in.left > 0 && n < MAX_MOVES; n++) {
		uint8_t move = input_u8(&in) % 16;

		if (move < 6)
			ask(&in);
		else if (move < 15)
			answer(&in);
		else
			write_anything(&in);
		collect();
		if (ring_consumer_fill_spsc(&fake.commands) < 0)
			break; /* written over: this broker cannot go on */
	}
	check_table();
	/* A position that no broker writes ends the session at once; the end of the connection is noticed later. */
	store_release(&fake.replies.control->tail, fake.replies.mine + 2 * FAKE_SLOTS);
	FUZZ_CHECK(swakv_session_ping(session, &t) == SWAKV_EGONE || swakv_poll(session, t) == SWAKV_EGONE);
	collect();
	FUZZ_CHECK(n_tickets == 0);
	fake_die(&fake);
	for (uint32_t i = 0; i < FAKE_BATCH; i++) {
		swakv_request_free(requests[i]);
		requests[i] = NULL;
	}
	FUZZ_CHECK(swakv_session_error(session));
	swakv_session_close(session);
	fake_close(&fake);
	free(ids);
	return 0;
}
