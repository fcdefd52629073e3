/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_handshake.c - the broker against any hello, the library against any welcome
 *
 * A good hello is overwritten in places and cut or extended to any length.
 * What the broker accepts it must be able to lay out, and the library must
 * accept the welcome to it: the two sides agree on what is possible. Then the
 * welcome is overwritten likewise; what the library still accepts lies inside
 * the memories that it names.
 */
#include "hello.h"
#include "input.h"
#include "session/handshake.h"
#include "welcome.h"

static const struct backend_pool pool = {
	.name = "main",
	.backend = WIRE_BACKEND_HOST,
	.export_kind = WIRE_EXPORT_MEMFD,
	.device = "host memory",
	.fd = 0,
	.bytes = 65 << 20,
	.table_area_bytes = 1 << 20,
	.half_bytes = 32 << 20,
	.extent_bytes = 1 << 20,
};

/* One change somewhere in @size bytes: a byte, a small number or any number in a word. */
static void overwrite(void *at, size_t size, struct input *in)
{
	uint32_t where = input_u16(in), n = input_u8(in);
	uint64_t v = n & 128 ? (uint64_t)input_u32(in) << (n & 32) : input_u8(in);
	size_t bytes = (size_t)1 << (n & 3);

	where = (uint32_t)(where % size) & ~(uint32_t)(bytes - 1);
	memcpy((char *)at + where, &v, bytes);
}

static bool inside(uint64_t offset, uint64_t bytes, uint64_t total)
{
	return offset <= total && bytes <= total - offset;
}

static void check_layout(const struct session_layout *l)
{
	uint64_t ring = (uint64_t)l->ring_slots * RING_SLOT;

	FUZZ_CHECK(l->ring_slots && (l->ring_slots & (l->ring_slots - 1)) == 0);
	FUZZ_CHECK(l->max_reply_slots <= l->ring_slots && l->max_command_slots <= l->ring_slots);
	FUZZ_CHECK(l->max_reply_slots <= UINT16_MAX && l->max_command_slots <= UINT16_MAX);
	FUZZ_CHECK(inside(l->commands_slots, ring, l->replies_slots));
	FUZZ_CHECK(inside(l->replies_slots, ring, l->session_bytes));
	FUZZ_CHECK(inside(l->lines, l->n_streams * sizeof(struct wire_line), l->commands_slots));
	for (uint32_t i = 0; i < l->n_groups; i++) {
		FUZZ_CHECK(inside(l->cells[i], l->cells_bytes[i], l->rows[i]));
		FUZZ_CHECK(inside(l->rows[i], l->max_batch * sizeof(struct wire_row_head), l->tables_bytes));
	}
}

static void check_group(const struct wire_welcome *w, const struct wire_hello *h, uint32_t group)
{
	const struct wire_layout *l = &w->layouts[group];
	const struct wire_pool *p = &w->pools[l->pool];
	bool joined = h->groups[group].form == WIRE_JOINED;

	FUZZ_CHECK(inside(w->tables[group].host_offset,
			  (uint64_t)h->max_batch * (joined ? 1 : 2) * (uint64_t)l->width * 4, w->tables_bytes));
	/* first and last K and V page, or first and last joined one, by the formula of wire_layout */
	for (int64_t id = 0; id<l->num_pages; id += l->num_pages> 1 ? l->num_pages - 1 : 1) {
		uint64_t k = l->base + (uint64_t)id * l->page_stride;
		uint64_t v = joined ? k : l->v_base + (uint64_t)(id + l->num_pages) * l->page_stride;

		FUZZ_CHECK(inside(k, l->page_stride, p->bytes) && inside(v, l->page_stride, p->bytes));
	}
}

/* What the library relies on once it has accepted @w. */
static void check_accepted(const struct wire_welcome *w, const struct wire_hello *h)
{
	FUZZ_CHECK(inside(w->commands.slots_offset, (uint64_t)w->commands.n_slots * RING_SLOT, w->session_bytes));
	FUZZ_CHECK(inside(w->replies.slots_offset, (uint64_t)w->replies.n_slots * RING_SLOT, w->session_bytes));
	FUZZ_CHECK(inside(w->lines_offset, w->n_streams * sizeof(struct wire_line), w->session_bytes));
	for (uint32_t i = 0; i < h->n_groups; i++)
		check_group(w, h, i);
}

/* Where the device tables would lie, one behind the other; false when there is no room for them. */
static bool place_tables(const struct session_layout *l, uint64_t offsets[WIRE_MAX_GROUPS])
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < l->n_groups; i++) {
		offsets[i] = at;
		if (l->cells_bytes[i] > pool.table_area_bytes - at)
			return false;
		at += l->cells_bytes[i];
	}
	return true;
}

static void fuzz_welcome(const struct handshake *h, const struct session_layout *l, struct input *in)
{
	uint64_t tables[WIRE_MAX_GROUPS] = { 0 };
	char sentence[256];
	struct text why = { sentence, sizeof(sentence) };
	struct wire_welcome w;

	if (!place_tables(l, tables)) /* whether there is room is asked elsewhere */
		return;
	welcome_fill(&w, h, l, &pool, tables);
	FUZZ_CHECK(welcome_check(&w, &h->hello, w.n_fds, &why) == 0);
	check_accepted(&w, &h->hello);
	while (in->left > 0) {
		overwrite(&w, sizeof(w), in);
		if (welcome_check(&w, &h->hello, w.n_fds, &why) == 0)
			check_accepted(&w, &h->hello);
	}
}

/* True when the broker accepts the @bytes of @message. */
static bool check_hello(struct handshake *h, const void *message, size_t bytes)
{
	struct refusal why = { 0 };
	int code = handshake_check(h, message, bytes, &pool, &why);

	FUZZ_CHECK(code <= 0);
	FUZZ_CHECK(code == 0 || (why.fault.code == code && why.text[0] && memchr(why.text, '\0', sizeof(why.text))));
	return code == 0;
}

/* A hello as it was sent, and the welcome to it. */
static void fuzz_recorded(struct input *in)
{
	size_t bytes = in->left < sizeof(struct wire_hello) ? in->left : sizeof(struct wire_hello);
	void *message = malloc(bytes); /* no byte more than came */
	char sentence[256];
	struct text text = { sentence, sizeof(sentence) };
	struct wire_welcome w;
	struct handshake h;

	FUZZ_CHECK(message);
	input_bytes(in, message, bytes);
	if (check_hello(&h, message, bytes)) {
		input_bytes(in, &w, sizeof(w));
		if (welcome_check(&w, &h.hello, w.n_fds, &text) == 0)
			check_accepted(&w, &h.hello);
	}
	free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct wire_hello hello = good_hello();
	struct handshake h;
	struct session_layout l;
	unsigned char *message;
	size_t bytes = sizeof(hello);

	if (input_is_recorded(&in, WIRE_MAGIC)) {
		fuzz_recorded(&in);
		return 0;
	}

	memcpy(hello.pool, pool.name, sizeof(hello.pool));
	hello.n_groups = 1 + input_u8(&in) % WIRE_MAX_GROUPS;
	for (uint32_t i = 1; i < hello.n_groups; i++)
		hello.groups[i] = hello.groups[0];
	for (int n = input_u8(&in) % 8; n > 0; n--)
		overwrite(&hello, sizeof(hello), &in);
	if (input_u8(&in) == 1)
		bytes = input_u16(&in) % (2 * sizeof(hello));
	message = calloc(1, bytes ? bytes : 1); /* no byte more than came */
	FUZZ_CHECK(message);
	memcpy(message, &hello, bytes < sizeof(hello) ? bytes : sizeof(hello));
	if (check_hello(&h, message, bytes)) {
		session_layout_init(&l, &h.model, h.geometry);
		check_layout(&l);
		fuzz_welcome(&h, &l, &in);
	}
	free(message);
	return 0;
}
