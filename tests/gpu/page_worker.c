/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_worker.c - a worker that does to its pages what it is told on stdin
 *
 * A command a line, an answer a line. Its model's window is as long as its
 * sequences, so each of them owns exactly --pages pages; workers with equal
 * --layers have pages of one class, however many a sequence has. With --joined=1
 * the pages are joined.
 *
 *   take N|all     N sequences in one request, or all that the broker gives -> pages ID... | refused CODE SENTENCE
 *   fill PATTERN   every 16-bit element of its pages                        -> filled
 *   watch MS       compares them all, on the device, again and again        -> watched SWEEPS MS CHANGED [PAGE:N...]
 *   give           finishes its requests                                    -> given
 *   write          launches writes of its pages for ever, always --depth ahead of the device, each --repeat times
 *                  over; nothing of it is ever marked                       -> writing, then none
 *   drop           ends its connection to the broker and lives on           -> dropped
 *   scribble PAGE  writes one element of a page, whoever owns it            -> scribbled
 *   memory         of the device                                            -> used BYTES
 *   crash          a kernel with an illegal address; then leaves in order   -> crashed SENTENCE, closed
 *
 * The end of stdin ends it. Exit code 0; 1 wrong arguments or a failed call; 3 no attach.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <swakv/swakv.h>

#include "launch.h"

#define MAX_REQUESTS 256
#define PAGE_TOKENS  64
#define KV_HEADS     8
#define HEAD_DIM     64
#define TOKEN_BYTES  (KV_HEADS * HEAD_DIM * 2) /* of one layer's K */
#define PATTERN_A    0x4141
#define PATTERN_B    0x4242

struct arguments {
	const char *broker, *name;
	uint32_t pages, batch, layers, repeat, depth;
	uint32_t joined; /* 1: pages are joined; 0 when nothing is said */
};

/* A word that the stream writes, with the armed word that a checking driver wants behind it. */
struct counter {
	_Atomic uint64_t word;
	uint64_t armed;
};

struct hand {
	struct arguments a;
	swakv_session *session;
	struct swakv_layout layout;
	struct driver *driver;
	void *stream;
	struct kernel_pages pages;
	swakv_request *requests[MAX_REQUESTS];
	uint32_t n_requests, n_slots;
	int32_t *list; /* K ids of all pages held */
	uint32_t n_pages, max_pages;
	uint16_t pattern;
	/* on the device */
	uint64_t list_at, patterns_at, counts_at;
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void answer(const char *text)
{
	puts(text);
	fflush(stdout);
}

/* ---- failures end the worker ------------------------------------------------ */

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "page_worker: %s: %s\n", what, why);
	exit(1);
}

static void session_ok(struct hand *h, int code, const char *what)
{
	if (code)
		fail(what, swakv_session_error(h->session));
}

static void device_ok(struct hand *h, int code, const char *what)
{
	if (code)
		fail(what, driver_why(h->driver));
}

/* ---- start --------------------------------------------------------------------- */

static void parse(struct arguments *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "broker", required_argument, NULL, 'b' },
		{ "name", required_argument, NULL, 'n' },
		{ "pages", required_argument, NULL, 'p' },
		{ "batch", required_argument, NULL, 'B' },
		{ "layers", required_argument, NULL, 'l' },
		{ "repeat", required_argument, NULL, 'r' },
		{ "depth", required_argument, NULL, 'd' },
		{ "joined", required_argument, NULL, 'j' },
		{ 0 },
	};
	int c;

	*a = (struct arguments){ .name = "pages", .pages = 8, .batch = 1, .layers = 1, .repeat = 1, .depth = 64 };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint32_t number = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

		switch (c) {
		case 'b':
			a->broker = optarg;
			continue;
		case 'n':
			a->name = optarg;
			continue;
		case 'p':
			a->pages = number;
			break;
		case 'B':
			a->batch = number;
			break;
		case 'l':
			a->layers = number;
			break;
		case 'r':
			a->repeat = number;
			break;
		case 'd':
			a->depth = number;
			break;
		case 'j':
			a->joined = number;
			break;
		default:
			exit(1);
		}
		if (number == 0)
			fail(optarg, "wants a number from 1 on");
	}
}

static void attach(struct hand *h)
{
	int64_t tokens = (int64_t)h->a.pages * PAGE_TOKENS;
	const struct swakv_group group = { .size = sizeof(group),
					   .kind = SWAKV_SLIDING,
					   .window = tokens,
					   .page_tokens = PAGE_TOKENS,
					   .layers = h->a.layers,
					   .kv_heads = KV_HEADS,
					   .head_dim = HEAD_DIM,
					   .dtype = SWAKV_F16,
					   .form = h->a.joined ? SWAKV_JOINED : SWAKV_SPLIT };
	const struct swakv_model model = { .size = sizeof(model),
					   .name = h->a.name,
					   .groups = &group,
					   .n_groups = 1,
					   .max_batch = h->a.batch,
					   .max_seq = tokens };
	const struct swakv_attach_options options = { .size = sizeof(options), .broker = h->a.broker };
	char why[256] = "";

	if (swakv_session_attach(&options, &model, &h->session, why, sizeof(why))) {
		fprintf(stderr, "page_worker: attach: %s\n", why);
		exit(3);
	}
	h->layout.size = sizeof(h->layout);
	session_ok(h, swakv_session_get_layout(h->session, 0, &h->layout), "layout");
	session_ok(h, swakv_stream_bind_cuda(h->session, 0, NULL), "stream");
	h->stream = swakv_stream_cuda(h->session, 0);
}

static void prepare(struct hand *h)
{
	const struct swakv_layout *l = &h->layout;
	struct swakv_session_info info = { .size = sizeof(info) };
	char why[DRIVER_WHY];

	swakv_session_get_info(h->session, &info);
	if (driver_open(&h->driver, NULL, info.device_uuid, 0, why))
		fail("driver", why);
	h->pages = (struct kernel_pages){
		.table = l->table,
		.half = { l->first_page, h->a.joined ? 0 : l->v_first },
		.k = l->k_base,
		.v = l->v_first,
		.page_stride = l->page_stride,
		.layer_stride = l->layer_stride,
		.width = l->width,
		.num_pages = l->num_pages,
		.page_tokens = PAGE_TOKENS,
		.kv_heads = KV_HEADS,
		.k_head_dim = HEAD_DIM,
		.v_head_dim = HEAD_DIM,
		.dtype = KERNEL_F16,
		.joined = (int32_t)h->a.joined,
	};
	kernel_pages_rows(&h->pages);
	h->max_pages =
		(uint32_t)l->num_pages > h->a.pages * h->a.repeat ? (uint32_t)l->num_pages : h->a.pages * h->a.repeat;
	h->list = calloc(h->max_pages, sizeof(*h->list));
	if (!h->list)
		fail("memory", "none left");
	device_ok(h, driver_alloc(h->driver, h->max_pages * 4ull, &h->list_at), "memory");
	device_ok(h, driver_alloc(h->driver, h->max_pages * 2ull, &h->patterns_at), "memory");
	device_ok(h, driver_alloc(h->driver, h->max_pages * 4ull, &h->counts_at), "memory");
	device_ok(h, driver_load_image(h->driver, &kernel_image_engine), "kernels");
}

/* ---- pages ------------------------------------------------------------------------ */

/* Notes which pages the last @n slots have. */
static void note_pages(struct hand *h, uint32_t first_slot, uint32_t n)
{
	for (uint32_t slot = first_slot; slot < first_slot + n; slot++) {
		size_t id_rows = h->a.joined ? 1 : 2;
		const int32_t *row = h->layout.host_table + (size_t)slot * id_rows * (size_t)h->layout.width;

		for (uint32_t c = 0; c < h->a.pages; c++)
			h->list[h->n_pages++] = row[c];
	}
}

/* One request of @n sequences with all their pages bound. The step is left open: its kernels are what comes. */
static int take(struct hand *h, uint32_t n)
{
	int32_t *slots = calloc(n, sizeof(*slots)), *lengths = calloc(n, sizeof(*lengths));
	struct swakv_begin_options begin = { .size = sizeof(begin), .slots = slots, .n_slots = n };
	swakv_request *r = NULL;
	int code;

	if (!slots || !lengths)
		fail("memory", "none left");
	if (h->n_requests == MAX_REQUESTS || h->n_slots + n > h->a.batch)
		fail("take", "more than --batch, or too many requests");
	for (uint32_t i = 0; i < n; i++) {
		slots[i] = (int32_t)(h->n_slots + i);
		lengths[i] = (int32_t)(h->a.pages * PAGE_TOKENS);
	}
	code = swakv_request_begin(h->session, &begin, &r, NULL);
	if (code == 0) {
		h->requests[h->n_requests++] = r;
		session_ok(h, swakv_prefill_prepare(r, lengths, n, NULL), "prefill");
		note_pages(h, h->n_slots, n);
		h->n_slots += n;
	}
	free(slots);
	free(lengths);
	return code;
}

static void take_all(struct hand *h)
{
	uint32_t n = h->a.batch;

	while (n > 0 && h->n_slots < h->a.batch) {
		int code;

		if (n > h->a.batch - h->n_slots)
			n = h->a.batch - h->n_slots;
		code = take(h, n);
		if (code == SWAKV_ENOPAGES || code == SWAKV_ENEVER)
			n /= 2;
		else
			session_ok(h, code, "begin");
		/* What came back meanwhile may be a whole extent: not one by one. */
		if (code == 0)
			n *= 2;
	}
}

static void on_take(struct hand *h, const char *argument)
{
	bool all = strcmp(argument, "all") == 0;
	int code = 0;

	if (all)
		take_all(h);
	else
		code = take(h, (uint32_t)strtoul(argument, NULL, 10));
	if (code) {
		printf("refused %s %s\n", swakv_error_name(code), swakv_session_error(h->session));
		fflush(stdout);
		return;
	}
	printf("pages");
	for (uint32_t i = 0; i < h->n_pages; i++)
		printf(" %d", h->list[i]);
	answer("");
	device_ok(h, driver_copy_to_device(h->driver, h->stream, h->list_at, h->list, h->n_pages * 4ull), "page list");
}

static void on_give(struct hand *h)
{
	struct swakv_fence fence;

	session_ok(h, swakv_stream_mark(h->session, 0, &fence), "mark");
	for (uint32_t i = 0; i < h->n_requests; i++) {
		session_ok(h, swakv_prefill_complete(h->requests[i], fence, NULL), "complete");
		session_ok(h, swakv_request_finish(h->requests[i], NULL), "finish");
		swakv_request_free(h->requests[i]);
	}
	session_ok(h, swakv_stream_synchronize(h->session, 0), "synchronize");
	h->n_requests = h->n_slots = h->n_pages = 0;
	answer("given");
}

static void on_fill(struct hand *h, uint16_t pattern)
{
	const struct kernel_fill f = {
		.pages = h->pages, .page_list = h->list_at, .n_pages = (int32_t)h->n_pages, .pattern = pattern
	};

	h->pattern = pattern;
	device_ok(h, driver_run_fill(h->driver, h->stream, &f), "fill");
	device_ok(h, driver_stream_synchronize(h->driver, h->stream), "fill");
	answer("filled");
}

static void print_changed(struct hand *h, const uint32_t *counts)
{
	int shown = 0;

	for (uint32_t i = 0; i < h->n_pages; i++) {
		if (counts[i] && shown++ < 8)
			printf(" %d:%u", h->list[i], counts[i]);
	}
}

static void on_watch(struct hand *h, double ms)
{
	const struct kernel_check c = { .pages = h->pages,
					.page_list = h->list_at,
					.patterns = h->patterns_at,
					.counts = h->counts_at,
					.n_pages = (int32_t)h->n_pages };
	uint32_t *counts = calloc(h->n_pages + 1, sizeof(*counts));
	uint64_t sweeps = 0, changed = 0;
	double start;

	if (!counts)
		fail("memory", "none left");
	device_ok(h, driver_fill16(h->driver, h->stream, h->patterns_at, h->pattern, h->n_pages), "patterns");
	device_ok(h, driver_fill32(h->driver, h->stream, h->counts_at, 0, h->n_pages), "counts");
	start = now_ms();
	do {
		device_ok(h, driver_run_check(h->driver, h->stream, &c), "check");
		device_ok(h, driver_stream_synchronize(h->driver, h->stream), "check");
		sweeps++;
	} while (now_ms() - start < ms);
	device_ok(h, driver_copy_to_host(h->driver, h->stream, counts, h->counts_at, h->n_pages * 4ull), "counts");
	device_ok(h, driver_stream_synchronize(h->driver, h->stream), "counts");
	for (uint32_t i = 0; i < h->n_pages; i++)
		changed += counts[i] != 0;
	printf("watched %" PRIu64 " %.0f %" PRIu64, sweeps, now_ms() - start, changed);
	print_changed(h, counts);
	answer("");
	free(counts);
}

/* ---- what does harm --------------------------------------------------------------- */

struct writer {
	struct kernel_fill fill;
	struct kernel_kv_write kv;
	struct counter *counter; /* launches that have ended */
	uint64_t counter_at;
};

/* Rows of K and V for every token of its sequence. */
static void writer_init(struct hand *h, struct writer *w)
{
	uint32_t n = h->a.pages * PAGE_TOKENS, total = h->n_pages * h->a.repeat;
	int64_t *positions = calloc(n, sizeof(*positions));
	uint64_t slots_at, positions_at, kv_at;

	for (uint32_t i = h->n_pages; i < total; i++)
		h->list[i] = h->list[i - h->n_pages];
	for (uint32_t i = 0; positions && i < n; i++)
		positions[i] = i;
	w->counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!positions || w->counter == MAP_FAILED)
		fail("memory", "none left");
	w->counter->armed = UINT64_MAX;
	device_ok(h, driver_host_register(h->driver, w->counter, 4096, &w->counter_at), "register");
	device_ok(h, driver_alloc(h->driver, n * 4ull, &slots_at), "memory");
	device_ok(h, driver_alloc(h->driver, n * 8ull, &positions_at), "memory");
	device_ok(h, driver_alloc(h->driver, (uint64_t)n * TOKEN_BYTES, &kv_at), "memory");
	device_ok(h, driver_fill32(h->driver, h->stream, slots_at, 0, n), "slots");
	device_ok(h, driver_fill16(h->driver, h->stream, kv_at, PATTERN_B, (uint64_t)n * TOKEN_BYTES / 2), "kv");
	device_ok(h, driver_copy_to_device(h->driver, h->stream, positions_at, positions, n * 8ull), "positions");
	device_ok(h, driver_copy_to_device(h->driver, h->stream, h->list_at, h->list, total * 4ull), "page list");
	device_ok(h, driver_stream_synchronize(h->driver, h->stream), "inputs");
	free(positions);
	w->fill = (struct kernel_fill){
		.pages = h->pages, .page_list = h->list_at, .n_pages = (int32_t)total, .pattern = PATTERN_A
	};
	w->kv = (struct kernel_kv_write){ .pages = h->pages,
					  .slots = slots_at,
					  .positions = positions_at,
					  .k = kv_at,
					  .v = kv_at,
					  .n_tokens = (int32_t)n };
}

/* The first answer comes when the device is at work. */
static void tell_once(const struct writer *w, bool *told)
{
	if (!*told && w->counter->word > 0) {
		answer("writing");
		*told = true;
	}
}

/*
 * By page id and through the table in turn. A GPU takes about a thousand launches
 * ahead, then they block by themselves.
 */
static _Noreturn void on_write(struct hand *h)
{
	const struct timespec pause = { .tv_nsec = 20000 };
	struct writer w = { 0 };
	bool told = false;

	writer_init(h, &w);
	for (uint64_t i = 1;; i++) {
		device_ok(h, driver_run_fill(h->driver, h->stream, &w.fill), "fill");
		w.kv.layer = (int32_t)(i % h->a.layers);
		device_ok(h, driver_run_kv_write(h->driver, h->stream, &w.kv), "kv write");
		device_ok(h, driver_stream_write64(h->driver, h->stream, w.counter_at, i), "count");
		tell_once(&w, &told);
		while (i - w.counter->word >= h->a.depth) {
			tell_once(&w, &told);
			nanosleep(&pause, NULL);
		}
	}
}

/* The connection is its only socket of this type with a path at the other end. */
static void on_drop(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_un peer = { 0 };
		int type = 0;
		socklen_t size = sizeof(type), length = sizeof(peer);

		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
		    getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.sun_path[0]) {
			shutdown(fd, SHUT_RDWR);
			answer("dropped");
			return;
		}
	}
	fail("drop", "no socket is open");
}

static void on_scribble(struct hand *h, int32_t page)
{
	uint64_t at = h->pages.half[h->a.joined ? 0 : 1] + (uint64_t)page * h->pages.page_stride;

	device_ok(h, driver_fill16(h->driver, h->stream, at + h->pages.page_stride - 2, PATTERN_A, 1), "scribble");
	device_ok(h, driver_stream_synchronize(h->driver, h->stream), "scribble");
	answer("scribbled");
}

static void on_memory(struct hand *h)
{
	uint64_t free_bytes = 0, total = 0;

	device_ok(h, driver_memory_info(h->driver, &free_bytes, &total), "memory");
	printf("used %" PRIu64 "\n", total - free_bytes);
	fflush(stdout);
}

static _Noreturn void on_crash(struct hand *h)
{
	struct kernel_fill f = { .pages = h->pages, .page_list = h->list_at, .n_pages = 1, .pattern = PATTERN_A };
	int code;

	f.pages.half[0] = f.pages.half[1] = 1ull << 45; /* nothing is there */
	code = driver_run_fill(h->driver, h->stream, &f);
	code = code ? code : driver_stream_synchronize(h->driver, h->stream);
	if (code == 0)
		fail("crash", "an illegal address went unnoticed");
	printf("crashed %s\n", driver_why(h->driver));
	fflush(stdout);
	swakv_session_close(h->session);
	answer("closed");
	exit(0);
}

/* ---- commands ----------------------------------------------------------------------- */

static void obey(struct hand *h, const char *command, const char *argument)
{
	if (strcmp(command, "take") == 0)
		on_take(h, argument);
	else if (strcmp(command, "fill") == 0)
		on_fill(h, (uint16_t)strtoul(argument, NULL, 0));
	else if (strcmp(command, "watch") == 0)
		on_watch(h, strtod(argument, NULL));
	else if (strcmp(command, "give") == 0)
		on_give(h);
	else if (strcmp(command, "write") == 0)
		on_write(h);
	else if (strcmp(command, "scribble") == 0)
		on_scribble(h, (int32_t)strtol(argument, NULL, 10));
	else if (strcmp(command, "drop") == 0)
		on_drop();
	else if (strcmp(command, "memory") == 0)
		on_memory(h);
	else if (strcmp(command, "crash") == 0)
		on_crash(h);
	else
		fail(command, "no such command");
}

int main(int argc, char **argv)
{
	static struct hand h;
	char line[64], command[16], argument[32];

	parse(&h.a, argc, argv);
	attach(&h);
	prepare(&h);
	answer("ready");
	while (fgets(line, sizeof(line), stdin)) {
		argument[0] = '\0';
		if (sscanf(line, "%15s %31s", command, argument) >= 1)
			obey(&h, command, argument);
	}
	swakv_session_close(h.session);
	driver_close(h.driver);
	return 0;
}
