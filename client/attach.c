/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.c - from a name to a session
 *
 * Steps: connect, greet, check the welcome, map the session's memory, import
 * the pool, bring the device table to its first state (-1 everywhere). Each
 * step may fail with a sentence of its own; what was made before it is undone
 * by session_release(). Memory is mapped so that a child of this process does not
 * inherit it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cleanup.h"
#include "clock.h"
#include "connect.h"
#include "driver.h"
#include "incarnation.h"
#include "join.h"
#include "layout.h"
#include "model_name.h"
#include "page_shape.h"
#include "pool_import.h"
#include "session.h"
#include "sized.h"
#include "welcome.h"

#define DEFAULT_TIMEOUT_MS 30000
#define DEFAULT_SPIN_US    50
#define DEFAULT_PAGE       128

struct attach {
	struct swakv_session *s;
	struct connection connection;
	struct wire_hello hello;
	struct text why;
};

/* ---- hello ---------------------------------------------------------------------- */

/* A name is refused rather than cut: the broker finds a model's limits by it. */
static int names_fill(struct attach *a, const char *pool, const char *model)
{
	size_t longest = strlen(pool);

	if (longest >= WIRE_NAME)
		return text_set(&a->why, SWAKV_EINVALID,
				"pool name '%.40s...' has %zu characters, at most %d are allowed", pool, longest,
				WIRE_NAME - 1);
	if (!model_name_valid(model))
		return text_set(&a->why, SWAKV_EINVALID,
				"'%.*s%s' (%zu bytes) cannot be the name of a model: a name has " MODEL_NAME_RULE,
				WIRE_MODEL_NAME - 1, model, strlen(model) >= WIRE_MODEL_NAME ? "..." : "",
				strlen(model));
	memcpy(a->hello.pool, pool, longest);
	memcpy(a->hello.model, model, strlen(model));
	return 0;
}

static int group_fill(struct attach *a, uint32_t i, const struct swakv_group *g)
{
	struct wire_group *w = &a->hello.groups[i];
	const char *tag = g->tag ? g->tag : "";

	if (strlen(tag) >= WIRE_TAG)
		return text_set(&a->why, SWAKV_EINVALID,
				"group %" PRIu32 ": tag '%.40s' has %zu characters, at most %d are allowed", i, tag,
				strlen(tag), WIRE_TAG - 1);
	if (g->flags & ~(uint64_t)SWAKV_GROUP_MOVABLE)
		return text_set(&a->why, SWAKV_EINVALID,
				"group %" PRIu32 ": flags %" PRIu64 " have an unknown bit, known is %d", i, g->flags,
				SWAKV_GROUP_MOVABLE);
	*w = (struct wire_group){
		.kind = (uint32_t)g->kind,
		.page_tokens = g->page_tokens ? g->page_tokens : DEFAULT_PAGE,
		.window = g->window,
		.layers = g->layers,
		.kv_heads = g->kv_heads,
		.k_head_dim = g->head_dim,
		.v_head_dim = g->v_head_dim ? g->v_head_dim : g->head_dim,
		.dtype = (uint32_t)g->dtype,
		.k_bytes = g->k_bytes,
		.v_bytes = g->v_bytes,
		.extra_bytes = g->extra_bytes,
		.align = g->align,
		.form = (uint32_t)g->form,
		.order = (uint32_t)g->order,
		.flags = g->flags & SWAKV_GROUP_MOVABLE ? WIRE_GROUP_MOVABLE : 0,
	};
	memcpy(w->tag, tag, strlen(tag));
	return 0;
}

static int groups_fill(struct attach *a, const struct swakv_model *m)
{
	const struct sized kind = SIZED(swakv_group, tag);
	char why[SESSION_ERROR];
	uint32_t bad;
	int r = 0;

	if (!sized_check_list(&kind, m->groups, m->n_groups, &bad, why, sizeof(why)))
		return text_set(&a->why, SWAKV_EINVALID, "group %" PRIu32 ": %s", bad, why);
	for (uint32_t i = 0; r == 0 && i < m->n_groups; i++) {
		struct swakv_group g;

		(void)sized_take(&kind, &g, sized_at(m->groups, i), NULL, 0);
		r = group_fill(a, i, &g);
	}
	return r;
}

static int hello_fill(struct attach *a, const struct swakv_attach_options *o, const struct swakv_model *m)
{
	struct wire_hello *h = &a->hello;
	int r;

	if (m->n_groups < 1 || m->n_groups > WIRE_MAX_GROUPS)
		return text_set(&a->why, SWAKV_EINVALID, "a model has 1 to %d layer groups, %" PRIu32 " were given",
				WIRE_MAX_GROUPS, m->n_groups);
	if (!m->groups)
		return text_set(&a->why, SWAKV_EINVALID, "groups is NULL, though n_groups is %" PRIu32, m->n_groups);
	if (o->flags & ~(uint32_t)(SWAKV_ATTACH_EVENTS | SWAKV_ATTACH_JOINABLE))
		return text_set(&a->why, SWAKV_EINVALID, "flags %" PRIu32 " have an unknown bit, known are %d",
				o->flags, SWAKV_ATTACH_EVENTS | SWAKV_ATTACH_JOINABLE);
	if (o->flags && o->join)
		return text_set(&a->why, SWAKV_EINVALID,
				"flags are %" PRIu32 ": a process that joins a session sets none", o->flags);
	if (o->n_streams > WIRE_MAX_STREAMS)
		return text_set(&a->why, SWAKV_EINVALID, "n_streams %" PRIu32 " is more than %d", o->n_streams,
				WIRE_MAX_STREAMS);
	if (m->max_batch < 1 || m->max_batch > WIRE_MAX_BATCH)
		return text_set(&a->why, SWAKV_EINVALID, "max_batch %" PRIu32 " is outside 1 to %d", m->max_batch,
				WIRE_MAX_BATCH);
	if (m->max_seq < 1 || m->max_seq > INT32_MAX)
		return text_set(&a->why, SWAKV_EINVALID, "max_seq %" PRId64 " is outside 1 to %d", m->max_seq,
				INT32_MAX);
	if (m->chunk != SWAKV_CHUNK_RETAINED && m->chunk != SWAKV_CHUNK_MAPPED)
		return text_set(&a->why, SWAKV_EINVALID, "chunk %d is unknown, see enum swakv_chunk", (int)m->chunk);
	*h = (struct wire_hello){
		.magic = WIRE_MAGIC,
		.size = sizeof(*h),
		.version_min = WIRE_VERSION_MIN,
		.version_max = WIRE_VERSION_MAX,
		.size_welcome = sizeof(struct wire_welcome),
		.size_command = sizeof(struct wire_command),
		.size_reply = sizeof(struct wire_reply),
		.size_ring_control = sizeof(struct ring_control),
		.n_groups = m->n_groups,
		.n_streams = o->n_streams ? o->n_streams : 1,
		.max_batch = m->max_batch,
		.max_seq = m->max_seq,
		.flags = (m->chunk == SWAKV_CHUNK_MAPPED ? WIRE_HELLO_CHUNK_MAPPED : 0u) |
			 (o->flags & SWAKV_ATTACH_EVENTS ? WIRE_HELLO_EVENTS : 0u) |
			 (o->flags & SWAKV_ATTACH_JOINABLE ? WIRE_HELLO_JOINABLE : 0u),
		.max_advance = m->max_advance,
		.in_flight = m->in_flight,
		.max_rewind = m->max_rewind,
	};
	join_fill(h, o->join);
	r = groups_fill(a, m);
	return r < 0 ? r : names_fill(a, o->pool ? o->pool : "", m->name && m->name[0] ? m->name : "unnamed");
}

/* ---- memory ----------------------------------------------------------------------- */

static int memory_map(struct attach *a, struct mapping *m, int fd, uint64_t bytes, int protection, const char *what)
{
	int r = welcome_check_memory(fd, bytes, what, &a->why);
	void *p;

	if (r < 0)
		return r;
	p = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return text_set(&a->why, SWAKV_ESYSTEM, "mapping the broker's %s failed: %s", what, strerror(errno));
	*m = (struct mapping){ .p = p, .bytes = bytes };
	if (madvise(p, bytes, MADV_DONTFORK) < 0)
		return text_set(&a->why, SWAKV_ESYSTEM, "keeping the broker's %s from child processes failed: %s", what,
				strerror(errno));
	return 0;
}

static int session_map(struct attach *a)
{
	struct swakv_session *s = a->s;
	const struct wire_welcome *w = &s->welcome;
	unsigned char *base;
	int *fds = a->connection.fds;
	int r = memory_map(a, &s->memory, fds[WIRE_FD_SESSION], w->session_bytes, PROT_READ | PROT_WRITE,
			   "session memory");

	if (r == 0)
		r = memory_map(a, &s->tables_memory, fds[WIRE_FD_TABLES], w->tables_bytes, PROT_READ, "page tables");
	if (r < 0)
		return r;
	base = s->memory.p;
	ring_producer_init_spsc(&s->commands, (void *)(base + w->commands.control_offset),
				base + w->commands.slots_offset, w->commands.n_slots);
	ring_consumer_init_spsc(&s->replies, (void *)(base + w->replies.control_offset), base + w->replies.slots_offset,
				w->replies.n_slots);
	s->wait = (void *)(base + w->wait_offset);
	s->boards = (void *)(base + w->boards_offset);
	s->ranges = w->ranges_offset ? (void *)(base + w->ranges_offset) : NULL;
	s->doorbell = steal_fd(&fds[WIRE_FD_DOORBELL]);
	s->sock = steal_fd(&a->connection.sock);
	return 0;
}

/* ---- pool, table and streams --------------------------------------------------------- */

static int session_import(struct attach *a, const struct swakv_attach_options *o)
{
	struct swakv_session *s = a->s;
	struct wire_pool *pool = &s->welcome.pools[s->welcome.tables[0].pool];
	int index = pool->export_kind != WIRE_EXPORT_CUDA_IPC ? pool->fd_index : -1;
	const struct pool_request q = {
		.pool = pool,
		.boot_id = s->welcome.boot_id,
		.incarnation = s->incarnation,
		.fd = index >= 0 ? a->connection.fds[index] : -1,
		.cuda_library = o->cuda_library,
		.broker = s->broker,
		.look = s->look,
		.broker_pid = a->connection.broker_pid,
	};
	int r = pool_import_get(&q, &s->pool, &a->why);

	for (uint32_t i = 0; i < WIRE_MAX_POOLS; i++)
		explicit_bzero(s->welcome.pools[i].ipc_handle, sizeof(s->welcome.pools[i].ipc_handle));
	return r;
}

/* A device table is this session's alone: -1 everywhere before anything can read it. */
static int table_clear(struct attach *a, uint64_t address, uint64_t n_words)
{
	struct driver *d = a->s->pool->driver;

	if (!d) {
		memset((void *)(uintptr_t)address, 0xff, n_words * sizeof(int32_t));
		return 0;
	}
	if (driver_fill32(d, NULL, address, UINT32_MAX, n_words) < 0 || driver_stream_synchronize(d, NULL) < 0)
		return text_set(&a->why, SWAKV_EDEVICE, "filling the device table with -1 failed: %s", driver_why(d));
	return 0;
}

/* The table of @group; @cell is the first of its cells, among those of all groups. */
static int table_init(struct attach *a, uint32_t group, uint32_t cell)
{
	struct swakv_session *s = a->s;
	const unsigned char *rows = (unsigned char *)s->tables_memory.p + s->welcome.tables[group].rows_offset;
	const struct swakv_layout *l = &s->layouts[group];
	size_t n = (size_t)s->max_batch * (size_t)l->width;
	bool joined = l->form == SWAKV_JOINED;
	uint32_t id_rows = shape_id_rows(joined);
	struct table *t = &s->tables[group];

	s->targets[group] = (struct stream_target){
		.table = l->table,
		.width = l->width,
		.num_pages = l->num_pages,
		.first_page = l->first_page,
		.v_half = joined ? 0 : l->v_base + (uint64_t)l->num_pages * l->page_stride,
		.joined = joined,
		.page_stride = l->page_stride,
	};
	*t = (struct table){
		.target = &s->targets[group],
		.first_row = group * s->max_batch,
		.first_cell = cell,
		.width = (uint32_t)l->width,
		.row_cells = id_rows * (uint32_t)l->width,
		.host = l->host_table,
		.rows = (const struct wire_row_head *)(const void *)rows,
		.mirror = malloc(n * sizeof(int32_t)),
		.state = calloc(s->max_batch, sizeof(struct row)),
		.row_scratch = malloc((size_t)l->width * sizeof(int32_t)),
	};
	if (!t->mirror || !t->state || !t->row_scratch)
		return text_set(&a->why, SWAKV_ENOMEM, "no memory for the mirror of a table with %zu entries", n);
	memset(t->mirror, 0xff, n * sizeof(int32_t));
	return s->joined ? 0 : table_clear(a, l->table, id_rows * (uint64_t)n);
}

static int tables_init(struct attach *a)
{
	struct swakv_session *s = a->s;
	uint32_t cell = 0;
	int r = 0;

	s->slots = calloc(s->max_batch, sizeof(*s->slots));
	s->reply = aligned_alloc(CACHELINE, 2 * (size_t)s->welcome.max_message_slots * RING_SLOT);
	if (!s->slots || !s->reply)
		return text_set(&a->why, SWAKV_ENOMEM, "no memory for %" PRIu32 " slots and the largest answer",
				s->max_batch);
	s->command = s->reply + (size_t)s->welcome.max_message_slots * RING_SLOT;
	for (uint32_t i = 0; r == 0 && i < s->welcome.n_groups; i++) {
		s->layouts[i] =
			layout_derive(&s->welcome, i, &a->hello.groups[i], s->pool->address, s->tables_memory.p);
		r = table_init(a, i, cell);
		cell += s->max_batch * (uint32_t)s->layouts[i].width;
	}
	return r;
}

static int streams_init(struct attach *a)
{
	struct swakv_session *s = a->s;
	unsigned char *base = s->memory.p;
	struct driver *d = s->pool->driver;
	struct wire_line *lines = (void *)(base + s->welcome.lines_offset);
	uint64_t device = 0;

	if (d) {
		if (driver_host_register(d, s->memory.p, s->memory.bytes, &device) < 0)
			return text_set(&a->why, SWAKV_EDEVICE, "registering the session memory failed: %s",
					driver_why(d));
		s->registered = true;
	}
	for (uint32_t i = 0; i < s->welcome.n_streams; i++) {
		stream_init(&s->streams[i], i, &lines[i], s->targets, s->welcome.n_groups);
		s->streams[i].driver = d;
		s->streams[i].word_device = device + s->welcome.lines_offset + i * sizeof(struct wire_line) +
					    offsetof(struct wire_line, word);
	}
	return 0;
}

/* ---- the broker ----------------------------------------------------------------------- */

#define PAUSE_LEAST_NS (5 * NS_PER_MS)
#define PAUSE_MOST_NS  (100 * NS_PER_MS)

static int broker_try(struct attach *a, const struct swakv_attach_options *o)
{
	int r = connection_open(&a->connection, o->broker, o->socket, &a->why);

	return r < 0 ? r : connection_greet(&a->connection, &a->hello, &a->s->welcome, &a->why);
}

/* Connects and greets; while nobody is there, or whoever is there is about to end, again and again for wait_ms. */
static int broker_reach(struct attach *a, const struct swakv_attach_options *o)
{
	uint64_t begin = clock_ns(), until = begin + o->wait_ms * NS_PER_MS, pause = PAUSE_LEAST_NS;
	char said[SESSION_ERROR];
	int r;

	while ((r = broker_try(a, o)) == SWAKV_EGONE) {
		uint64_t now = clock_ns(), ns = until - now < pause ? until - now : pause;
		struct timespec t = { .tv_nsec = (long)ns };

		if (now >= until)
			break;
		nanosleep(&t, NULL);
		pause = 2 * pause < PAUSE_MOST_NS ? 2 * pause : PAUSE_MOST_NS;
		connection_deinit(&a->connection);
		connection_init(&a->connection, clock_ns() + a->s->timeout_ns);
	}
	if (r != SWAKV_EGONE || !o->wait_ms || !a->why.p)
		return r;
	snprintf(said, sizeof(said), "%s", a->why.p);
	return text_set(&a->why, r, "waited %llu ms: %s", (clock_ns() - begin) / NS_PER_MS, said);
}

/* ---- all together ------------------------------------------------------------------------ */

/* CPUs that are well placed for who gives commands: a hint, which need not be there. */
static void note_near_cpus(struct swakv_session *s)
{
	cpu_set_t near;

	if (s->welcome.beside > 0 && s->welcome.beside <= CPU_SETSIZE &&
	    cpu_list_beside(CPU_LIST_SYS, (int)s->welcome.beside - 1, &near))
		cpu_list_write(&near, s->near_cpus);
}

static int attach_run(struct attach *a, const struct swakv_attach_options *o, const struct swakv_model *m)
{
	struct swakv_session *s = a->s;
	int r = hello_fill(a, o, m);

	if (r == 0)
		r = broker_reach(a, o);
	if (r == 0)
		r = welcome_check(&s->welcome, &a->hello, a->connection.n_fds, &a->why);
	if (r < 0)
		return r;
	memcpy(s->broker, a->connection.broker, sizeof(s->broker));
	memcpy(s->look, a->connection.look, sizeof(s->look));
	s->broker_pid = a->connection.broker_pid;
	s->max_batch = a->hello.max_batch;
	note_near_cpus(s);
	r = session_map(a);
	if (r == 0)
		r = session_import(a, o);
	if (r == 0)
		r = tables_init(a);
	if (r == 0)
		r = streams_init(a);
	return r;
}

static struct swakv_session *session_create(const struct swakv_attach_options *o)
{
	struct swakv_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	LIST_INIT(&s->requests);
	s->sock = s->doorbell = -1;
	events_init(&s->events, o->flags & SWAKV_ATTACH_EVENTS);
	s->timeout_ns = (o->timeout_ms ? o->timeout_ms : DEFAULT_TIMEOUT_MS) * (uint64_t)1000000;
	s->spin_ns = (o->spin_us ? o->spin_us : DEFAULT_SPIN_US) * (uint64_t)1000;
	s->on_updates = o->on_updates;
	s->on_updates_arg = o->on_updates_arg;
	s->joined = o->join;
	s->joinable = o->flags & SWAKV_ATTACH_JOINABLE;
	s->incarnation = incarnation_get();
	return s;
}

int swakv_session_attach(const struct swakv_attach_options *options, const struct swakv_model *model,
			 swakv_session **out, char *why, size_t why_size)
{
	const struct sized kind_of_options = SIZED(swakv_attach_options, on_updates_arg),
			   kind_of_model = SIZED(swakv_model, chunk);
	struct attach a = { .why = { why, why_size } };
	struct swakv_attach_options o = { 0 };
	struct swakv_model m;
	struct swakv_session *s;
	int r;

	if (!out)
		return text_set(&a.why, SWAKV_EINVALID, "the pointer for the session is NULL");
	*out = NULL;
	if (!model)
		return text_set(&a.why, SWAKV_EINVALID, "no model was given (NULL)");
	if ((options && !sized_take(&kind_of_options, &o, options, why, why_size)) ||
	    !sized_take(&kind_of_model, &m, model, why, why_size))
		return SWAKV_EINVALID;
	s = session_create(&o);
	if (!s)
		return text_set(&a.why, SWAKV_ENOMEM, "out of memory");
	a.s = s;
	connection_init(&a.connection, clock_ns() + s->timeout_ns);
	r = s->incarnation ? attach_run(&a, &o, &m) : text_set(&a.why, SWAKV_ENOMEM, "out of memory");
	connection_deinit(&a.connection);
	if (r < 0) {
		session_release(s);
		return r;
	}
	s->looked_ns = clock_ns();
	*out = s;
	return 0;
}
