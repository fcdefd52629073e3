/* SPDX-License-Identifier: Apache-2.0 */
/* broker.c - what a worker waits for: completion, attach, and a step of many sequences */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <swakv/swakv.h>

#include "figures.h"

#define TRIALS   50 /* of a reading that is too short to be told by one */
#define CHILD_MS 60000

static int session_fail(struct figures *f, const char *group, const char *what, swakv_session *s)
{
	return report_fail(&f->report, group, what, s ? swakv_session_error(s) : "no session");
}

/* As TRY, with the session's sentence. */
#define CALL(f, group, s, call)                                                                                        \
	do {                                                                                                           \
		if (call)                                                                                              \
			return session_fail(f, group, #call, s);                                                       \
	} while (0)

static int start(struct figures *f, const char *group, struct private_broker *b, const char *size)
{
	char argument[64], why[512];
	const char *const arguments[] = { argument, NULL };

	snprintf(argument, sizeof(argument), "--size=%s", size);
	if (private_broker_start(b, arguments, why, sizeof(why)))
		return 0;
	return report_fail(&f->report, group, "starting a broker", why);
}

static int attach(const char *broker, const struct swakv_group *g, uint32_t batch, int64_t max_seq, swakv_session **s,
		  char *why, size_t why_size)
{
	const struct swakv_model model = { .size = sizeof(model),
					   .name = "figures",
					   .groups = g,
					   .n_groups = 1,
					   .max_batch = batch,
					   .max_seq = max_seq };
	const struct swakv_attach_options options = { .size = sizeof(options), .broker = broker };

	return swakv_session_attach(&options, &model, s, why, why_size);
}

static const struct swakv_group small_group = { .size = sizeof(small_group),
						.kind = SWAKV_SLIDING,
						.window = 1024,
						.page_tokens = 128,
						.layers = 1,
						.kv_heads = 1,
						.head_dim = 64,
						.dtype = SWAKV_F16 };

/* A session on stream f->stream with one request of @n sequences, prefilled to @length tokens. */
static int open_session(struct figures *f, const char *group, const struct private_broker *b, enum swakv_writer writer,
			uint32_t n, int32_t length, swakv_session **s, swakv_request **r)
{
	const struct swakv_cuda_options options = { .size = sizeof(options), .cu_stream = f->stream, .writer = writer };
	int32_t slots[256], lengths[256];
	const struct swakv_begin_options begin = { .size = sizeof(begin), .slots = slots, .n_slots = n };
	struct swakv_fence fence;
	char why[256];

	for (uint32_t i = 0; i < n; i++) {
		slots[i] = (int32_t)i;
		lengths[i] = length;
	}
	if (attach(b->name, &small_group, n, 128 * 1024, s, why, sizeof(why)))
		return report_fail(&f->report, group, "attach", why);
	CALL(f, group, *s, swakv_stream_bind_cuda2(*s, 0, &options));
	CALL(f, group, *s, swakv_request_begin(*s, &begin, r, NULL));
	CALL(f, group, *s, swakv_prefill_prepare(*r, lengths, n, NULL));
	CALL(f, group, *s, swakv_stream_mark(*s, 0, &fence));
	CALL(f, group, *s, swakv_prefill_complete(*r, fence, NULL));
	CALL(f, group, *s, swakv_stream_synchronize(*s, 0));
	return 0;
}

static void close_session(struct private_broker *b, swakv_session *s, swakv_request *r)
{
	swakv_request_free(r);
	swakv_session_close(s);
	private_broker_stop(b);
}

/* ---- completion ------------------------------------------------------------------------ */

/* Microseconds from a mark until the broker has closed its point. */
static int completion_trial(struct figures *f, swakv_session *s, swakv_request *r, double *us)
{
	struct swakv_request_state state = { .size = sizeof(state) };
	struct swakv_fence fence;
	double from;

	CALL(f, "completion", s, swakv_decode_prepare(r, NULL));
	CALL(f, "completion", s, swakv_stream_synchronize(s, 0));
	from = now_us();
	CALL(f, "completion", s, swakv_stream_mark(s, 0, &fence));
	CALL(f, "completion", s, swakv_decode_complete(r, fence, NULL));
	do
		CALL(f, "completion", s, swakv_request_get_state(r, &state));
	while (state.open_points > 0);
	*us = now_us() - from;
	return 0;
}

/* Two words, since a checking driver wants to find the second one armed. */
static int write_trial(struct figures *f, volatile uint64_t *word, uint64_t device, uint64_t value, double *us)
{
	double from = now_us();

	TRY(f, "completion", driver_stream_write64(f->driver, f->stream, device, value));
	while (*word != value)
		continue;
	*us = now_us() - from;
	return 0;
}

static int read_writes(struct figures *f, struct series *s)
{
	uint64_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), device, value = 0;
	double us = 0, sum;

	if (word == MAP_FAILED)
		return report_fail(&f->report, "completion", "mmap", "out of memory");
	word[1] = UINT64_MAX;
	TRY(f, "completion", driver_host_register(f->driver, word, 4096, &device));
	for (int i = 0; i < SAMPLES; i++) {
		sum = 0;
		for (int k = 0; k < TRIALS; k++, sum += us) {
			if (write_trial(f, word, device, ++value, &us))
				return -1;
		}
		series_add(s, sum / TRIALS);
	}
	TRY(f, "completion", driver_host_unregister(f->driver, word));
	munmap(word, 4096);
	return 0;
}

static int read_writer(struct figures *f, const struct private_broker *b, enum swakv_writer writer, struct series *got)
{
	swakv_session *s = NULL;
	swakv_request *r = NULL;
	double us = 0, sum;

	if (open_session(f, "completion", b, writer, 1, 100, &s, &r))
		return -1;
	for (int i = -1; i < SAMPLES; i++) {
		sum = 0;
		for (int k = 0; k < TRIALS; k++, sum += us) {
			if (completion_trial(f, s, r, &us))
				return -1;
		}
		if (i >= 0)
			series_add(got, sum / TRIALS);
	}
	swakv_request_free(r);
	swakv_session_close(s);
	return 0;
}

int figure_completion(struct figures *f)
{
	static const struct {
		enum swakv_writer writer;
		const char *name;
	} writers[] = { { SWAKV_WRITER_STREAM_WRITE, "stream write" },
			{ SWAKV_WRITER_COUNTER, "counter kernel" },
			{ SWAKV_WRITER_HOST_FUNCTION, "host function" } };
	struct series floor = { 0 };
	struct private_broker b;

	if (start(f, "completion", &b, "64M") || read_writes(f, &floor))
		return -1;
	for (int i = 0; i < 3; i++) {
		struct figure *figure =
			report_add(&f->report, "completion", "us",
				   "mark to the broker having closed the point, written by a %s", writers[i].name);

		if (read_writer(f, &b, writers[i].writer, &figure->got))
			return -1;
		figure_floor(figure, &floor, "bare stream write to registered memory, seen by the host");
	}
	private_broker_stop(&b);
	return 0;
}

/* ---- a step of many sequences ------------------------------------------------------------ */

#define SEQUENCES 256
#define COPIES    1024

/* The device's table must be the host's. */
static int check_table(struct figures *f, swakv_session *s)
{
	struct swakv_layout l = { .size = sizeof(l) };
	size_t bytes;
	int32_t *got;
	int rc;

	CALL(f, "step", s, swakv_session_get_layout(s, 0, &l));
	bytes = (size_t)SEQUENCES * 2 * (size_t)l.width * sizeof(*got);
	got = malloc(bytes);
	if (!got)
		return report_fail(&f->report, "step", "table", "out of memory");
	rc = driver_copy_to_host(f->driver, f->stream, got, l.table, bytes);
	rc = rc ? rc : driver_stream_synchronize(f->driver, f->stream);
	if (rc == 0 && memcmp(got, l.host_table, bytes) != 0)
		rc = report_fail(&f->report, "step", "table", "the device's differs from the host's");
	free(got);
	return rc;
}

/*
 * Decodes up to the end of a page, then the step that maps one for every sequence:
 * from the call to the device's end.
 */
static int boundary(struct figures *f, swakv_session *s, swakv_request *r, int64_t *tokens, double *us)
{
	struct swakv_fence fence;
	bool last;

	do {
		double from = now_us();

		CALL(f, "step", s, swakv_decode_prepare(r, NULL));
		CALL(f, "step", s, swakv_stream_synchronize(s, 0));
		*us = now_us() - from;
		last = (*tokens)++ % small_group.page_tokens == 0;
		if (last && check_table(f, s))
			return -1;
		CALL(f, "step", s, swakv_stream_mark(s, 0, &fence));
		CALL(f, "step", s, swakv_decode_complete(r, fence, NULL));
		CALL(f, "step", s, swakv_stream_synchronize(s, 0));
	} while (!last);
	return 0;
}

/* A copy a mapping, as it would be without batches: 8 bytes from pinned memory, a row each. */
static int read_copies(struct figures *f, struct series *s)
{
	uint64_t *entries = mmap(NULL, 8 * COPIES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), unused,
		 at;

	if (entries == MAP_FAILED)
		return report_fail(&f->report, "step", "mmap", "out of memory");
	TRY(f, "step", driver_host_register(f->driver, entries, 8 * COPIES, &unused));
	TRY(f, "step", driver_alloc(f->driver, 4096ull * COPIES, &at));
	for (int i = -1; i < SAMPLES; i++) {
		double from = now_us();

		for (uint64_t k = 0; k < COPIES; k++)
			TRY(f, "step", driver_copy_to_device(f->driver, f->stream, at + k * 4096, entries + k, 8));
		TRY(f, "step", driver_stream_synchronize(f->driver, f->stream));
		if (i >= 0)
			series_add(s, now_us() - from);
	}
	TRY(f, "step", driver_free(f->driver, at));
	TRY(f, "step", driver_host_unregister(f->driver, entries));
	munmap(entries, 8 * COPIES);
	return 0;
}

int figure_step(struct figures *f)
{
	struct private_broker b;
	struct figure *figure;
	swakv_session *s = NULL;
	swakv_request *r = NULL;
	struct series copies = { 0 };
	int64_t tokens = 2000;
	double us = 0;

	if (start(f, "step", &b, "512M") ||
	    open_session(f, "step", &b, SWAKV_WRITER_AUTO, SEQUENCES, (int32_t)tokens, &s, &r) ||
	    read_copies(f, &copies))
		return -1;
	figure = report_add(&f->report, "step", "us",
			    "decode step of 256 sequences that all map a page, call to device table right");
	for (int i = -1; i < SAMPLES; i++) {
		if (boundary(f, s, r, &tokens, &us))
			return -1;
		if (i >= 0)
			series_add(&figure->got, us);
	}
	figure_floor(figure, &copies, "1,024 copies of 8 bytes");
	close_session(&b, s, r);
	return 0;
}

/* ---- attach -------------------------------------------------------------------------------- */

int role_exporter(uint64_t bytes)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	char why[DRIVER_WHY], line[8];
	struct driver *d;
	uint64_t at;

	if (driver_open(&d, NULL, NULL, 0, why) || driver_alloc(d, bytes, &at) || driver_ipc_export(d, at, handle))
		return 1;
	for (size_t i = 0; i < sizeof(handle); i++)
		printf("%02x", handle[i]);
	puts("");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin))
		return 1;
	driver_free(d, at);
	driver_close(d);
	return 0;
}

/* Says how long its context took, and holds it. */
int role_context(void)
{
	char why[DRIVER_WHY], line[8];
	double from = now_us();
	struct driver *d;

	if (driver_open(&d, NULL, NULL, 0, why))
		return 1;
	printf("%.1f\n", now_us() - from);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin))
		return 1;
	driver_close(d);
	return 0;
}

int role_attach(const char *broker)
{
	char why[256], line[8];
	swakv_session *s;
	double from = now_us();

	if (attach(broker, &small_group, 8, 4096, &s, why, sizeof(why))) {
		fprintf(stderr, "figures: attach: %s\n", why);
		return 1;
	}
	printf("%.1f\n", now_us() - from);
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin))
		return 1;
	swakv_session_close(s);
	return 0;
}

/* What a child in a role of this program says first, as a number. */
static int child_number(struct figures *f, const char *group, const char *const *argv, double *number)
{
	struct child c;
	char line[256] = "";
	bool ok = child_start(&c, argv, NULL) && child_hear(&c, line, sizeof(line), CHILD_MS);

	child_end(&c, false, CHILD_MS);
	*number = strtod(line, NULL);
	return ok ? 0 : report_fail(&f->report, group, argv[1], "the child said nothing");
}

/* Opens the handle of another process's allocation of @bytes. */
static int read_imports(struct figures *f, uint64_t bytes, struct series *s)
{
	uint8_t handle[DRIVER_IPC_HANDLE];
	char number[32], line[256];
	const char *const argv[] = { f->self, "--exporter", number, NULL };
	struct child c;
	uint64_t at;

	snprintf(number, sizeof(number), "%llu", (unsigned long long)bytes);
	if (!child_start(&c, argv, NULL) || !child_hear(&c, line, sizeof(line), CHILD_MS)) {
		child_end(&c, false, CHILD_MS);
		return report_fail(&f->report, "attach", "exporting process", "it could not allocate or export");
	}
	for (size_t i = 0; i < sizeof(handle); i++) {
		char two[3] = { line[2 * i], line[2 * i + 1], '\0' };

		handle[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	for (int i = 0; i < SAMPLES; i++) {
		double from = now_us();

		TRY(f, "attach", driver_ipc_import(f->driver, handle, &at));
		series_add(s, now_us() - from);
		TRY(f, "attach", driver_ipc_close(f->driver, at));
	}
	child_end(&c, false, CHILD_MS);
	return 0;
}

/* In a process that has a context already, as an engine has. */
static int read_attaches(struct figures *f, const struct private_broker *b, struct series *s)
{
	char why[256];

	for (int i = 0; i < SAMPLES; i++) {
		swakv_session *session;
		double from = now_us();

		if (attach(b->name, &small_group, 8, 4096, &session, why, sizeof(why)))
			return report_fail(&f->report, "attach", "attach", why);
		series_add(s, now_us() - from);
		swakv_session_close(session);
	}
	return 0;
}

static int read_first_attaches(struct figures *f, const struct private_broker *b)
{
	const char *const attaches[] = { f->self, "--attach", b->name, NULL };
	const char *const contexts[] = { f->self, "--context", NULL };
	struct figure *figure =
		report_add(&f->report, "attach", "ms", "attach of a fresh process, its context included");
	struct series floor = { 0 };
	double us = 0;

	for (int i = 0; i < SAMPLES; i++) {
		if (child_number(f, "attach", contexts, &us))
			return -1;
		series_add(&floor, us / 1e3);
		if (child_number(f, "attach", attaches, &us))
			return -1;
		series_add(&figure->got, us / 1e3);
	}
	figure_floor(figure, &floor, "a context");
	return 0;
}

int figure_attach(struct figures *f)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} large[] = { { "64G", 64ull << 30 }, { "8G", 8ull << 30 } },
	  small[] = { { "64M", 64 << 20 }, { "32M", 32 << 20 } };

	for (int i = 0; i < 2; i++) {
		const char *size = f->quick ? small[i].text : large[i].text;
		struct figure *figure;
		struct private_broker b;
		struct series imports = { 0 };

		if (start(f, "attach", &b, size))
			return -1;
		figure =
			report_add(&f->report, "attach", "us", "attach, pool of %s, in a process with a context", size);
		if (read_attaches(f, &b, &figure->got) || (i == 1 && read_first_attaches(f, &b)))
			return -1;
		private_broker_stop(&b);
		if (read_imports(f, f->quick ? small[i].bytes : large[i].bytes, &imports))
			return -1;
		figure_floor(figure, &imports, "cuIpcOpenMemHandle of as much");
	}
	return 0;
}
