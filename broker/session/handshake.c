/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.c - see handshake.h
 *
 * Skew must show before anything is mapped, so versions and sizes come before
 * all that depends on them, and a hello too short to hold even those is told
 * apart from one of another size.
 */
#include "handshake.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "model_name.h"

static const unsigned char zeroes[sizeof(struct wire_group) * WIRE_MAX_GROUPS];

int refusal_set(struct refusal *r, enum fault_reason reason, int64_t got, int64_t want)
{
	int code = fault_set(&r->fault, reason, -1, got, want);

	fault_format(&r->fault, r->text, sizeof(r->text));
	return code;
}

int refusal_text(struct refusal *r, enum fault_reason reason, int64_t got, int64_t want, const char *text)
{
	int code = fault_set(&r->fault, reason, -1, got, want);

	snprintf(r->text, sizeof(r->text), "%s", text);
	return code;
}

/* 0 when all bytes are zero, else one more than the index of the first that is not. */
static size_t first_set(const void *p, size_t bytes)
{
	const unsigned char *b = p;

	for (size_t i = 0; i < bytes; i++)
		if (b[i])
			return i + 1;
	return 0;
}

static int check_version(struct handshake *h, size_t bytes, struct refusal *r)
{
	const struct wire_hello *hello = &h->hello;
	const size_t least = offsetof(struct wire_hello, size_welcome);
	struct {
		uint64_t got, want;
	} sizes[] = {
		{ hello->size, sizeof(struct wire_hello) },
		{ bytes, sizeof(struct wire_hello) },
		{ hello->size_welcome, sizeof(struct wire_welcome) },
		{ hello->size_command, sizeof(struct wire_command) },
		{ hello->size_reply, sizeof(struct wire_reply) },
		{ hello->size_ring_control, sizeof(struct ring_control) },
	};

	if (bytes < least || hello->magic != WIRE_MAGIC)
		return refusal_text(r, FAULT_MESSAGE, (int64_t)bytes, (int64_t)sizeof(*hello),
				    "the first message is not a swakv hello");
	if (hello->version_min > hello->version_max || hello->version_max < WIRE_VERSION_MIN)
		return refusal_set(r, FAULT_VERSION, hello->version_max, WIRE_VERSION_MAX);
	if (hello->version_min > WIRE_VERSION_MAX)
		return refusal_set(r, FAULT_VERSION, hello->version_min, WIRE_VERSION_MAX);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (sizes[i].got != sizes[i].want)
			return refusal_set(r, FAULT_STRUCT_SIZE, (int64_t)sizes[i].got, (int64_t)sizes[i].want);
	h->version = hello->version_max < WIRE_VERSION_MAX ? hello->version_max : WIRE_VERSION_MAX;
	return 0;
}

static int check_reserved(const struct wire_hello *hello, struct refusal *r)
{
	const struct wire_group *unused = &hello->groups[hello->n_groups];

	if (hello->flags &
		    ~(uint32_t)(WIRE_HELLO_CHUNK_MAPPED | WIRE_HELLO_EVENTS | WIRE_HELLO_JOINABLE | WIRE_HELLO_JOIN) ||
	    ((hello->flags & WIRE_HELLO_JOIN) && (hello->flags & (WIRE_HELLO_JOINABLE | WIRE_HELLO_EVENTS))))
		return refusal_set(r, FAULT_RESERVED, hello->flags, 0);
	if (!(hello->flags & WIRE_HELLO_JOIN) && memcmp(&hello->join, zeroes, sizeof(hello->join)) != 0)
		return refusal_text(r, FAULT_RESERVED, hello->join.session_id, 0,
				    "the hello names a session to join, but lacks the flag for it");
	for (size_t i = 0; i < sizeof(hello->reserved) / sizeof(hello->reserved[0]); i++)
		if (hello->reserved[i])
			return refusal_set(r, FAULT_RESERVED, (int64_t)hello->reserved[i], 0);
	for (uint32_t g = 0; g < hello->n_groups; g++)
		for (size_t i = 0; i < sizeof(hello->groups[g].reserved) / sizeof(uint32_t); i++)
			if (hello->groups[g].reserved[i])
				return refusal_set(r, FAULT_RESERVED, hello->groups[g].reserved[i], 0);
	if (memcmp(unused, zeroes, (WIRE_MAX_GROUPS - hello->n_groups) * sizeof(*unused)) != 0)
		return refusal_text(r, FAULT_RESERVED,
				    (int64_t)first_set(unused, (WIRE_MAX_GROUPS - hello->n_groups) * sizeof(*unused)),
				    0, "a layer group after the last declared one is not zero");
	return 0;
}

/* Terminated, printable, and zero behind the end. */
static bool name_valid(const char name[WIRE_NAME])
{
	size_t len = strnlen(name, WIRE_NAME);

	if (len == WIRE_NAME || memcmp(name + len, zeroes, WIRE_NAME - len) != 0)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)name[i]))
			return false;
	return true;
}

static int check_names(const struct wire_hello *hello, const struct backend_pool *pool, struct refusal *r)
{
	if (!name_valid(hello->pool))
		return refusal_text(r, FAULT_POOL_NAME, 0, 1,
				    "the pool's name is not a terminated, printable text of up to 31 bytes");
	if (!model_name_received(hello->model))
		return refusal_text(r, FAULT_MODEL_NAME, 0, WIRE_MODEL_NAME - 1,
				    "the model's name is not valid: it has " MODEL_NAME_RULE ", and zeroes after them");
	if (hello->pool[0] && strcmp(hello->pool, pool->name) != 0) {
		fault_set(&r->fault, FAULT_POOL_NAME, -1, 0, 1);
		snprintf(r->text, sizeof(r->text), "the broker has no pool \"%s\"; it serves \"%s\"", hello->pool,
			 pool->name);
		return r->fault.code;
	}
	return 0;
}

static void take_model(struct handshake *h)
{
	const struct wire_hello *hello = &h->hello;

	h->model = (struct model){
		.n_groups = hello->n_groups,
		.n_streams = hello->n_streams,
		.max_batch = hello->max_batch > INT32_MAX ? INT32_MAX : (int32_t)hello->max_batch,
		.max_seq = hello->max_seq,
		.max_advance = hello->max_advance,
		.in_flight = hello->in_flight,
		.max_rewind = hello->max_rewind,
		.chunk_mapped = hello->flags & WIRE_HELLO_CHUNK_MAPPED,
	};
	memcpy(h->model.groups, hello->groups, sizeof(h->model.groups));
}

int handshake_check(struct handshake *h, const void *message, size_t bytes, const struct backend_pool *pool,
		    struct refusal *r)
{
	int code;

	memset(h, 0, sizeof(*h));
	memcpy(&h->hello, message, bytes < sizeof(h->hello) ? bytes : sizeof(h->hello));
	code = check_version(h, bytes, r);
	if (code)
		return code;
	if (h->hello.n_groups > WIRE_MAX_GROUPS)
		return refusal_set(r, FAULT_MODEL_GROUPS, h->hello.n_groups, WIRE_MAX_GROUPS);
	code = check_reserved(&h->hello, r);
	if (code)
		return code;
	code = check_names(&h->hello, pool, r);
	if (code)
		return code;
	take_model(h);
	code = model_check(&h->model, pool->half_bytes, h->geometry, &r->fault);
	if (code == 0)
		code = model_check_pages(&h->model, h->geometry, pool->min_page_bytes, &r->fault);
	if (code)
		fault_format(&r->fault, r->text, sizeof(r->text));
	return code;
}

void welcome_refuse(struct wire_welcome *w, const struct refusal *r, const uint8_t boot_id[16])
{
	*w = (struct wire_welcome){
		.magic = WIRE_MAGIC,
		.size = sizeof(*w),
		.version = WIRE_VERSION_MAX,
		.code = r->fault.code,
		.fault = r->fault,
	};
	memcpy(w->boot_id, boot_id, sizeof(w->boot_id));
	snprintf(w->text, sizeof(w->text), "%s", r->text);
}

static void welcome_pool(struct wire_pool *w, const struct backend_pool *pool)
{
	*w = (struct wire_pool){
		.backend = pool->backend,
		.export_kind = pool->export_kind,
		.bytes = pool->bytes,
		.table_area_bytes = pool->table_area_bytes,
		.half_bytes = pool->half_bytes,
		.fd_index = pool->fd >= 0 ? WIRE_FD_POOLS : -1,
	};
	snprintf(w->name, sizeof(w->name), "%s", pool->name);
	snprintf(w->device, sizeof(w->device), "%s", pool->device);
	memcpy(w->device_uuid, pool->device_uuid, sizeof(w->device_uuid));
	memcpy(w->ipc_handle, pool->ipc_handle, sizeof(w->ipc_handle));
}

static void welcome_layout(struct wire_layout *w, const struct geometry *g, const struct backend_pool *pool)
{
	uint64_t base = pool->table_area_bytes;

	*w = (struct wire_layout){
		.num_pages = g->num_pages,
		.private_pages = g->private_pages,
		.width = g->width,
		.page_stride = g->page_bytes,
		.layer_stride = g->shape.layer_stride,
		.k_token_stride = g->shape.k_stride,
		.v_token_stride = g->shape.v_stride,
		.base = base,
		.k_base = base + g->shape.k_at,
		.v_first = base + (g->shape.joined ? 0 : pool->half_bytes) + g->shape.v_at,
		.extra_first = base + g->shape.extra_at,
		.flags = g->wide ? WIRE_LAYOUT_WIDE : 0,
	};
	w->v_base = g->shape.joined ? w->v_first : w->v_first - (uint64_t)g->num_pages * g->page_bytes;
}

void welcome_fill(struct wire_welcome *w, const struct handshake *h, const struct session_layout *l,
		  const struct backend_pool *pool, const uint64_t *table_offsets)
{
	*w = (struct wire_welcome){
		.magic = WIRE_MAGIC,
		.size = sizeof(*w),
		.version = h->version,
		.n_fds = pool->fd >= 0 ? WIRE_FD_POOLS + 1 : WIRE_FD_POOLS,
		.max_message_slots = l->max_command_slots,
		.n_pools = 1,
		.n_groups = l->n_groups,
		.n_tables = l->n_groups,
		.n_streams = l->n_streams,
		.session_bytes = l->session_bytes,
		.tables_bytes = l->tables_bytes,
		.lines_offset = l->lines,
		.wait_offset = l->wait,
		.boards_offset = l->boards,
		.ranges_offset = l->ranges,
		.commands = { l->commands_control, l->commands_slots, l->ring_slots, 0 },
		.replies = { l->replies_control, l->replies_slots, l->ring_slots, 0 },
	};
	welcome_pool(&w->pools[0], pool);
	for (uint32_t i = 0; i < l->n_groups; i++) {
		welcome_layout(&w->layouts[i], &h->geometry[i], pool);
		w->tables[i] = (struct wire_table){
			.group = i,
			.device_offset = table_offsets[i],
			.host_offset = l->cells[i],
			.rows_offset = l->rows[i],
		};
	}
}
