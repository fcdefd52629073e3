/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_broker.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define SESSION_BYTES 16384
#define TABLES_BYTES  4096
#define TABLE_AREA    4096
#define HALF_BYTES    (FAKE_PAGES * FAKE_PAGE_BYTES + FAKE_HALF_REST)
#define POOL_BYTES    (TABLE_AREA + 2 * HALF_BYTES)
#define PATIENCE_MS   60000

/* ---- making it --------------------------------------------------------------------- */

static unsigned char *memory_new(const char *name, size_t bytes, int *fd)
{
	void *p;

	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_geq(*fd, 0);
	cr_assert_eq(ftruncate(*fd, (off_t)bytes), 0);
	cr_assert_eq(fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	return p;
}

static void welcome_fill(struct fake *f)
{
	struct wire_welcome *w = &f->welcome;

	*w = (struct wire_welcome){
		.magic = WIRE_MAGIC,
		.size = sizeof(*w),
		.version = WIRE_VERSION_MAX,
		.n_fds = (uint16_t)f->n_fds,
		.session_id = 7,
		.session_generation = 3,
		.max_message_slots = FAKE_MESSAGE,
		.n_pools = 1,
		.n_groups = 1,
		.n_tables = 1,
		.n_streams = FAKE_STREAMS,
		.session_bytes = SESSION_BYTES,
		.tables_bytes = TABLES_BYTES,
		.lines_offset = 1024,
		.wait_offset = 512,
		.boards_offset = 12288,
		.ranges_offset = 12288 + 1024,
		.commands = { .control_offset = 0, .slots_offset = 4096, .n_slots = FAKE_SLOTS },
		.replies = { .control_offset = 256, .slots_offset = 8192, .n_slots = FAKE_SLOTS },
	};
	w->pools[0] = (struct wire_pool){
		.name = "main",
		.backend = WIRE_BACKEND_HOST,
		.export_kind = WIRE_EXPORT_MEMFD,
		.bytes = POOL_BYTES,
		.table_area_bytes = TABLE_AREA,
		.half_bytes = HALF_BYTES,
		.fd_index = WIRE_FD_POOLS,
		.device = "a fake",
	};
	w->layouts[0] = (struct wire_layout){
		.num_pages = FAKE_PAGES,
		.private_pages = FAKE_WIDTH,
		.width = FAKE_WIDTH,
		.page_stride = FAKE_PAGE_BYTES,
		.layer_stride = FAKE_PAGE_BYTES,
		.base = TABLE_AREA,
		.k_base = TABLE_AREA,
		.v_base = TABLE_AREA + FAKE_HALF_REST,
		.v_first = TABLE_AREA + HALF_BYTES,
		.extra_first = TABLE_AREA + FAKE_PAGE_BYTES,
	};
	w->tables[0] = (struct wire_table){ .device_offset = 1024, .host_offset = 512, .rows_offset = 0 };
	memset(w->boot_id, 0xab, sizeof(w->boot_id));
}

void fake_add_group(struct fake *f)
{
	struct wire_welcome *w = &f->welcome;

	w->n_groups = w->n_tables = 2;
	w->layouts[1] = (struct wire_layout){
		.num_pages = FAKE_FULL_PAGES,
		.private_pages = FAKE_FULL_WIDTH,
		.width = FAKE_FULL_WIDTH,
		.page_stride = FAKE_FULL_BYTES,
		.layer_stride = FAKE_FULL_BYTES,
		.base = TABLE_AREA,
		.k_base = TABLE_AREA,
		.v_base = TABLE_AREA + FAKE_HALF_REST,
		.v_first = TABLE_AREA + HALF_BYTES,
		.extra_first = TABLE_AREA + FAKE_FULL_BYTES,
	};
	w->tables[1] =
		(struct wire_table){ .group = 1, .device_offset = 2048, .host_offset = 2048, .rows_offset = 1024 };
	f->full_device = (void *)(f->pool + w->tables[1].device_offset);
	memset(f->tables + w->tables[1].host_offset, 0xff, FAKE_BATCH * 2 * FAKE_FULL_WIDTH * sizeof(int32_t));
}

void fake_open(struct fake *f)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	*f = (struct fake){ .sock = -1, .client_pidfd = -1 };
	snprintf(f->dir, sizeof(f->dir), "/tmp/swakv-fake-XXXXXX");
	cr_assert_not_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/s.sock", f->dir);
	memcpy(a.sun_path, f->path, sizeof(f->path));
	f->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(f->listener, (const struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(f->listener, 4), 0);
	f->memory = memory_new("session", SESSION_BYTES, &f->fds[WIRE_FD_SESSION]);
	f->tables = memory_new("tables", TABLES_BYTES, &f->fds[WIRE_FD_TABLES]);
	f->fds[WIRE_FD_DOORBELL] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->pool = memory_new("pool", POOL_BYTES, &f->fds[WIRE_FD_POOLS]);
	f->n_fds = f->send_fds = WIRE_FD_POOLS + 1;
	f->send_bytes = sizeof(f->welcome);
	welcome_fill(f);
	f->lines = (void *)(f->memory + f->welcome.lines_offset);
	f->wait = (void *)(f->memory + f->welcome.wait_offset);
	f->rows = (void *)(f->tables + f->welcome.tables[0].rows_offset);
	f->cells = (void *)(f->tables + f->welcome.tables[0].host_offset);
	f->device = (void *)(f->pool + f->welcome.tables[0].device_offset);
	memset(f->cells, 0xff, FAKE_BATCH * 2 * FAKE_WIDTH * sizeof(int32_t));
	memset(f->pool, 0x77, POOL_BYTES);
	ring_consumer_init_spsc(&f->commands, (void *)(f->memory + f->welcome.commands.control_offset),
				f->memory + f->welcome.commands.slots_offset, FAKE_SLOTS);
	ring_producer_init_spsc(&f->replies, (void *)(f->memory + f->welcome.replies.control_offset),
				f->memory + f->welcome.replies.slots_offset, FAKE_SLOTS);
}

void fake_die(struct fake *f)
{
	if (f->sock >= 0)
		close(f->sock);
	f->sock = -1;
}

void fake_close(struct fake *f)
{
	if (f->dir[0] == '\0')
		return;
	if (f->serving) {
		store_release(&f->stop, 1);
		pthread_join(f->server, NULL);
	}
	fake_die(f);
	for (uint32_t i = 0; i < f->n_fds; i++)
		close(f->fds[i]);
	if (f->client_pidfd >= 0)
		close(f->client_pidfd);
	munmap(f->memory, SESSION_BYTES);
	munmap(f->tables, TABLES_BYTES);
	munmap(f->pool, POOL_BYTES);
	if (f->listener >= 0)
		close(f->listener);
	unlink(f->path);
	rmdir(f->dir);
	f->dir[0] = '\0';
}

/* ---- greeting ----------------------------------------------------------------------------- */

static void hello_take(struct fake *f)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { &f->hello, sizeof(f->hello) };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)
	};

	cr_assert_eq(recvmsg(f->sock, &m, MSG_CMSG_CLOEXEC), (ssize_t)sizeof(f->hello));
	if (m.msg_controllen >= CMSG_LEN(sizeof(int)))
		memcpy(&f->client_pidfd, CMSG_DATA(&control.header), sizeof(int));
}

static void welcome_send(struct fake *f)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(WIRE_MAX_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov = { &f->welcome, f->send_bytes };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (f->send_fds > 0) {
		m.msg_control = control.space;
		m.msg_controllen = CMSG_SPACE(f->send_fds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(f->send_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), f->fds, f->send_fds * sizeof(int));
	}
	cr_assert_eq(sendmsg(f->sock, &m, MSG_NOSIGNAL), (ssize_t)f->send_bytes);
}

static void *greet(void *arg)
{
	struct fake *f = arg;

	while ((f->sock = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 && f->n_turned_away < f->turn_away) {
		f->n_turned_away++;
		close(f->sock);
	}
	if (f->sock < 0) /* the attach has given up */
		return NULL;
	if (f->haste != FAKE_READS) {
		struct pollfd p = { .fd = f->sock, .events = POLLIN };

		cr_assert_geq(poll(&p, 1, f->haste == FAKE_DOES_NOT_WAIT ? 0 : -1), 0);
		f->twist(f);
		welcome_send(f);
		fake_die(f);
		return NULL;
	}
	hello_take(f);
	if (f->twist)
		f->twist(f);
	if (f->send_bytes == 0)
		fake_die(f);
	else if (!f->mute)
		welcome_send(f);
	return NULL;
}

int fake_try_attach(struct fake *f, struct swakv_attach_options *o, swakv_session **s, char *why, size_t size)
{
	const struct swakv_group g[2] = {
		{ .size = sizeof(g[0]),
		  .kind = SWAKV_SLIDING,
		  .window = 32,
		  .page_tokens = 16,
		  .layers = 1,
		  .kv_heads = 1,
		  .head_dim = 8,
		  .dtype = SWAKV_F16 },
		{ .size = sizeof(g[0]),
		  .kind = SWAKV_FULL,
		  .page_tokens = 32,
		  .layers = 1,
		  .kv_heads = 1,
		  .head_dim = 8,
		  .dtype = SWAKV_F16 },
	};
	const struct swakv_model m = { .size = sizeof(m),
				       .name = "fake",
				       .groups = g,
				       .n_groups = f->welcome.n_groups,
				       .max_batch = FAKE_BATCH,
				       .max_seq = FAKE_WIDTH * 16,
				       .max_advance = 3,
				       .in_flight = 4,
				       .max_rewind = 5,
				       .chunk = SWAKV_CHUNK_MAPPED };
	struct swakv_attach_options none = { .size = sizeof(none) };
	int r;

	o = o ? o : &none;
	o->socket = f->path;
	o->n_streams = FAKE_STREAMS;
	cr_assert_eq(pthread_create(&f->greeter, NULL, greet, f), 0);
	r = swakv_session_attach(o, &m, s, why, size);
	if (f->turn_away == UINT32_MAX)
		shutdown(f->listener, SHUT_RDWR);
	pthread_join(f->greeter, NULL);
	return r;
}

swakv_session *fake_attach(struct fake *f, struct swakv_attach_options *o)
{
	swakv_session *s;
	char why[512] = "";
	int r = fake_try_attach(f, o, &s, why, sizeof(why));

	cr_assert_eq(r, 0, "%s", why);
	return s;
}

void fake_end(struct fake *f, swakv_session *s)
{
	if (f->sock >= 0 && !f->serving) {
		f->serve = NULL;
		fake_serve(f);
	}
	swakv_session_close(s);
	fake_close(f);
}

/* ---- commands -------------------------------------------------------------------------------- */

bool fake_has_command(struct fake *f)
{
	int64_t fill = ring_consumer_fill_spsc(&f->commands);

	cr_assert_geq(fill, 0);
	return fill > 0;
}

static void command_read(struct fake *f, struct fake_command *c)
{
	ring_consumer_first_spsc(&f->commands, ring_consumer_fill_spsc(&f->commands), c);
	cr_assert(c->head.n_slots >= 1 && c->head.n_slots <= FAKE_MESSAGE, "%u slots", c->head.n_slots);
	ring_consumer_read_spsc(&f->commands, RING_SLOT, (unsigned char *)c + RING_SLOT,
				(size_t)(c->head.n_slots - 1) * RING_SLOT);
	ring_consumer_release_spsc(&f->commands, c->head.n_slots);
	if (ring_consumer_must_wake_spsc(&f->commands)) {
		add_relaxed(&f->wait->word, 1);
		syscall(SYS_futex, &f->wait->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

void fake_take(struct fake *f, uint16_t op, struct fake_command *c)
{
	for (int i = 0; i < PATIENCE_MS && !fake_has_command(f); i++)
		usleep(1000);
	cr_assert(fake_has_command(f), "no command came, operation %u was expected", op);
	command_read(f, c);
	cr_assert_eq(c->head.op, op, "operation %u came, %u was expected", c->head.op, op);
}

static void reply_send(struct fake *f, struct wire_reply *reply, const void *payload, size_t len)
{
	reply->n_slots = (uint16_t)((sizeof(*reply) + len + RING_SLOT - 1) / RING_SLOT);
	/* The library may not have come to the answers before this one yet. */
	for (int i = 0; i < PATIENCE_MS && ring_producer_space_spsc(&f->replies, reply->n_slots) == 0; i++)
		usleep(1000);
	cr_assert_eq(ring_producer_space_spsc(&f->replies, reply->n_slots), 1);
	ring_producer_write_spsc(&f->replies, 0, reply, sizeof(*reply));
	ring_producer_write_spsc(&f->replies, sizeof(*reply), payload, len);
	ring_producer_publish_spsc(&f->replies, reply->n_slots);
	fence_store_load();
	if ((f->hello.flags & WIRE_HELLO_EVENTS) && exchange_acq_rel(&f->wait->event, 0))
		(void)send(f->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (ring_producer_must_wake_spsc(&f->replies)) {
		add_relaxed(&f->wait->word, 1);
		syscall(SYS_futex, &f->wait->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

void fake_answer(struct fake *f, const struct fake_command *c, uint64_t value, uint32_t n, const void *payload,
		 size_t len)
{
	struct wire_reply reply = { .op = c->head.op, .user_data = c->head.user_data, .value = value, .n = n };

	reply_send(f, &reply, payload, len);
}

void fake_refuse(struct fake *f, const struct fake_command *c, enum fault_reason reason, int64_t got, int64_t want)
{
	struct fault fault;
	struct wire_reply reply = { .op = c->head.op, .user_data = c->head.user_data };

	reply.code = fault_set(&fault, reason, -1, got, want);
	reply_send(f, &reply, &fault, sizeof(fault));
}

void fake_deliver(struct fake *f, const struct fake_command *c, const struct fake_delivery *d)
{
	struct wire_delivery head = { .flags = d->flags,
				      .n_faults = d->n_faults,
				      .n_updates = d->n_updates,
				      .n_rows = d->n_rows,
				      .n_scrubs = d->n_scrubs };
	unsigned char payload[FAKE_MESSAGE * RING_SLOT];
	size_t at = 0;

#define PUT(p, bytes)                                                                                                  \
	do {                                                                                                           \
		if ((bytes) > 0)                                                                                       \
			memcpy(payload + at, (p), (bytes));                                                            \
		at += (bytes);                                                                                         \
	} while (0)
	PUT(&head, sizeof(head));
	PUT(d->faults, d->n_faults * sizeof(*d->faults));
	PUT(d->updates, d->n_updates * sizeof(*d->updates));
	PUT(d->rows, d->n_rows * sizeof(*d->rows));
	PUT(d->scrubs, d->n_scrubs * sizeof(*d->scrubs));
#undef PUT
	fake_answer(f, c, 0, 0, payload, at);
}

static void serve_default(struct fake *f, const struct fake_command *c)
{
	struct wire_delivery empty = { 0 };

	fake_answer(f, c, c->head.op == WIRE_OP_BEGIN ? 0x100 : 0, 0, &empty, sizeof(empty));
}

static void *server(void *arg)
{
	struct fake *f = arg;
	struct fake_command c;

	while (!load_acquire(&f->stop)) {
		struct pollfd p = { .fd = f->fds[WIRE_FD_DOORBELL], .events = POLLIN };
		uint64_t rings;

		while (fake_has_command(f)) {
			command_read(f, &c);
			if (f->serve)
				f->serve(f, &c);
			else
				serve_default(f, &c);
		}
		if (ring_consumer_sleep_spsc(&f->commands) == 0 && poll(&p, 1, 5) == 1 &&
		    read(p.fd, &rings, sizeof(rings)) < 0)
			cr_assert_eq(errno, EAGAIN);
		ring_consumer_awake_spsc(&f->commands);
	}
	return NULL;
}

void fake_serve(struct fake *f)
{
	f->serving = true;
	cr_assert_eq(pthread_create(&f->server, NULL, server, f), 0);
}

/* ---- shorthands -------------------------------------------------------------------------------- */

void fake_row(struct fake *f, uint32_t row, const int32_t k[FAKE_WIDTH], uint32_t version)
{
	int32_t *cells = f->cells + (size_t)row * 2 * FAKE_WIDTH;

	for (uint32_t i = 0; i < FAKE_WIDTH; i++) {
		cells[i] = k[i];
		cells[FAKE_WIDTH + i] = k[i] < 0 ? -1 : k[i] + FAKE_PAGES;
	}
	store_relaxed(&f->rows[row].version, version);
}

swakv_request *fake_begin(struct fake *f, swakv_session *s, uint32_t stream, const int32_t *slots, uint32_t n)
{
	static uint64_t handle = 0x1000;
	struct swakv_begin_options o = { .size = sizeof(o), .stream = stream, .slots = slots, .n_slots = n };
	struct fake_command c;
	swakv_request *r;
	swakv_ticket t;

	cr_assert_eq(swakv_request_begin(s, &o, &r, &t), 0, "%s", swakv_session_error(s));
	fake_take(f, WIRE_OP_BEGIN, &c);
	fake_answer(f, &c, handle++, 0, NULL, 0);
	cr_assert_eq(swakv_wait(s, t), 0);
	cr_assert_not_null(r);
	return r;
}

int fake_prefill(struct fake *f, swakv_session *s, swakv_request *r, const struct fake_delivery *d)
{
	int32_t lengths[FAKE_BATCH] = { 16, 16, 16, 16 };
	struct fake_command c;
	swakv_ticket t;

	cr_assert_eq(swakv_prefill_prepare(r, lengths, swakv_request_batch(r), &t), 0);
	fake_take(f, WIRE_OP_PREFILL_PREPARE, &c);
	fake_deliver(f, &c, d);
	return swakv_wait(s, t);
}
