/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

bool live_is_cuda(void)
{
	const char *backend = getenv("LIVE_BACKEND");

	return backend && strcmp(backend, "cuda") == 0;
}

static void live_exec(const struct live *l, const char *size, const char *argument, int ready)
{
	char fd[16], name[64], bytes[64];

	snprintf(fd, sizeof(fd), "%d", ready);
	snprintf(name, sizeof(name), "--name=%s", l->name);
	snprintf(bytes, sizeof(bytes), "--size=%s", size);
	execl(SWAKVD, "swakvd", "-n", fd, name, live_is_cuda() ? "--backend=cuda" : "--backend=host",
	      "--min-page-bytes=16", bytes, argument, (char *)NULL);
	_exit(127);
}

void live_start(struct live *l, const char *size)
{
	live_start_with(l, size, NULL);
}

void live_start_with(struct live *l, const char *size, const char *argument)
{
	int ready[2];
	char line[64];

	const char *library = getenv("SWAKV_TEST_CUDA_LIBRARY");

	if (library)
		setenv("SWAKV_CUDA_LIBRARY", library, 1);
	snprintf(l->name, sizeof(l->name), "live-%d", (int)getpid());
	snprintf(l->dir, sizeof(l->dir), "/tmp/swakv-live-XXXXXX");
	cr_assert_not_null(mkdtemp(l->dir));
	setenv("XDG_RUNTIME_DIR", l->dir, 1);
	setenv("SWAKV_BROKER", l->name, 1);
	cr_assert_eq(pipe(ready), 0);
	l->pid = fork();
	cr_assert_geq(l->pid, 0);
	if (l->pid == 0) {
		close(ready[0]);
		live_exec(l, size, argument, ready[1]);
	}
	close(ready[1]);
	cr_assert_gt(read(ready[0], line, sizeof(line)), 0, "swakvd did not get ready");
	close(ready[0]);
}

static void live_clean(struct live *l)
{
	char path[128];

	snprintf(path, sizeof(path), "rm -rf '%s'", l->dir);
	cr_expect_eq(system(path), 0);
	snprintf(path, sizeof(path), "/swakv-%s", l->name);
	shm_unlink(path);
	l->pid = 0;
}

void live_stop(struct live *l)
{
	int status;

	if (l->pid == 0)
		return;
	kill(l->pid, SIGTERM);
	cr_expect_eq(waitpid(l->pid, &status, 0), l->pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "swakvd ended with status %x", (unsigned)status);
	live_clean(l);
}

void live_kill(struct live *l)
{
	int status;

	kill(l->pid, SIGKILL);
	waitpid(l->pid, &status, 0);
	live_clean(l);
}

enum swakv_form live_form = SWAKV_SPLIT;

int32_t live_halves(const struct swakv_layout *l)
{
	return l->form == SWAKV_JOINED ? 1 : 2;
}

swakv_session *live_attach(const struct swakv_attach_options *o, int64_t window, uint32_t page_tokens, uint32_t layers,
			   uint32_t max_batch, int64_t max_seq)
{
	const struct swakv_group g = {
		.size = sizeof(g),
		.kind = SWAKV_SLIDING,
		.window = window,
		.page_tokens = page_tokens,
		.layers = layers,
		.kv_heads = 1,
		.head_dim = 8,
		.dtype = SWAKV_F16,
		.form = live_form,
	};
	const struct swakv_model m = { .size = sizeof(m),
				       .name = "live",
				       .groups = &g,
				       .n_groups = 1,
				       .max_batch = max_batch,
				       .max_seq = max_seq };
	swakv_session *s;
	char why[512] = "";
	int r = swakv_session_attach(o, &m, &s, why, sizeof(why));

	cr_assert_eq(r, 0, "%s", why);
	for (uint32_t i = 0; live_is_cuda() && i < (o && o->n_streams ? o->n_streams : 1); i++)
		LIVE_OK(s, swakv_stream_bind_cuda(s, i, NULL));
	return s;
}

/* ---- the device ---------------------------------------------------------------------------- */

/* The test's own look at the device, kept open: a test is a process. */
static struct driver *device_open(swakv_session *s)
{
	static struct driver *d;
	struct swakv_session_info info = { .size = sizeof(info) };
	char why[DRIVER_WHY];

	swakv_session_get_info(s, &info);
	if (!d)
		cr_assert_eq(driver_open(&d, NULL, info.device_uuid, 0, why), 0, "%s", why);
	return d;
}

void live_launch(swakv_session *s, uint32_t stream, void (*fn)(void *), void *arg)
{
	struct driver *d;

	if (!live_is_cuda()) {
		LIVE_OK(s, swakv_stream_launch_host(s, stream, fn, arg));
		return;
	}
	d = device_open(s);
	cr_assert_eq(driver_stream_host_func(d, swakv_stream_cuda(s, stream), fn, arg), 0, "%s", driver_why(d));
}

static void synchronize_all(swakv_session *s)
{
	struct swakv_session_info info = { .size = sizeof(info) };

	swakv_session_get_info(s, &info);
	for (uint32_t i = 0; i < info.n_streams; i++)
		LIVE_OK(s, swakv_stream_synchronize(s, i));
}

struct driver *live_driver(swakv_session *s)
{
	return live_is_cuda() ? device_open(s) : NULL;
}

/* A copy of a group's device table when all streams have run dry; to be freed. */
static int32_t *device_table(swakv_session *s, uint32_t group, uint32_t n_rows, struct swakv_layout *l)
{
	struct swakv_session_info info = { .size = sizeof(info) };
	size_t bytes;
	int32_t *copy;

	swakv_session_get_info(s, &info);
	synchronize_all(s);
	l->size = sizeof(*l);
	LIVE_OK(s, swakv_session_get_layout(s, group, l));
	bytes = (size_t)live_halves(l) * (size_t)n_rows * (size_t)l->width * sizeof(*copy);
	copy = malloc(bytes);
	cr_assert_not_null(copy);
	if (info.cuda) {
		struct driver *d = device_open(s);

		cr_assert_eq(driver_copy_to_host(d, NULL, copy, l->table, bytes), 0, "%s", driver_why(d));
		cr_assert_eq(driver_stream_synchronize(d, NULL), 0, "%s", driver_why(d));
	} else {
		memcpy(copy, (const void *)(uintptr_t)l->table, bytes);
	}
	return copy;
}

/* Addresses of the halves of @page, or of all of it. */
static void page_addresses(swakv_session *s, int32_t page, struct swakv_layout *l, uint64_t at[2])
{
	l->size = sizeof(*l);
	LIVE_OK(s, swakv_session_get_layout(s, 0, l));
	at[0] = l->first_page + (uint64_t)page * l->page_stride;
	at[1] = l->v_base + (uint64_t)(page + l->num_pages) * l->page_stride;
}

void live_fill_page(swakv_session *s, int32_t page, uint16_t pattern)
{
	struct driver *d = live_is_cuda() ? device_open(s) : NULL;
	struct swakv_layout l = { .size = sizeof(l) };
	uint64_t at[2];

	synchronize_all(s);
	page_addresses(s, page, &l, at);
	for (int half = 0; half < live_halves(&l); half++) {
		if (d)
			cr_assert_eq(driver_fill16(d, NULL, at[half], pattern, l.page_stride / 2), 0, "%s",
				     driver_why(d));
		for (uint64_t i = 0; !d && i < l.page_stride / 2; i++)
			((uint16_t *)(uintptr_t)at[half])[i] = pattern;
	}
	if (d)
		cr_assert_eq(driver_stream_synchronize(d, NULL), 0, "%s", driver_why(d));
}

bool live_page_is(swakv_session *s, int32_t page, uint16_t pattern)
{
	struct driver *d = live_is_cuda() ? device_open(s) : NULL;
	struct swakv_layout l = { .size = sizeof(l) };
	uint16_t *copy;
	uint64_t at[2];
	bool same = true;

	synchronize_all(s);
	page_addresses(s, page, &l, at);
	copy = malloc(l.page_stride);
	for (int half = 0; half < live_halves(&l); half++) {
		if (d)
			cr_assert(driver_copy_to_host(d, NULL, copy, at[half], l.page_stride) == 0 &&
					  driver_stream_synchronize(d, NULL) == 0,
				  "%s", driver_why(d));
		else
			memcpy(copy, (const void *)(uintptr_t)at[half], l.page_stride);
		for (uint64_t i = 0; i < l.page_stride / 2; i++)
			same &= copy[i] == pattern;
	}
	free(copy);
	return same;
}

int32_t live_device_page(swakv_session *s, int slot, int column)
{
	struct swakv_layout l = { .size = sizeof(l) };
	int32_t *table = device_table(s, 0, (uint32_t)slot + 1, &l);
	int32_t page = table[slot * live_halves(&l) * l.width + column];

	free(table);
	return page;
}

void live_expect_free(swakv_session *s, int64_t pages)
{
	int64_t now = -1;

	synchronize_all(s);
	for (int i = 0; i < LIVE_PATIENCE && now != pages; i++) {
		LIVE_OK(s, swakv_session_free_pages(s, &now));
		if (now != pages)
			usleep(1000);
	}
	cr_expect_eq(now, pages, "%lld pages are free, expected %lld", (long long)now, (long long)pages);
}

static uint32_t staged(swakv_session *s, swakv_request *r)
{
	struct swakv_session_info info = { .size = sizeof(info) };
	uint32_t n = 0;

	swakv_session_get_info(s, &info);
	for (uint32_t g = 0; g < info.n_groups; g++)
		for (uint32_t i = 0; i < swakv_request_batch(r); i++) {
			struct swakv_sequence_state st = { .size = sizeof(st) };

			LIVE_OK(s, swakv_sequence_get_group_state(r, i, g, &st));
			n += st.n_staged;
			swakv_sequence_state_clear(&st);
		}
	return n;
}

int64_t live_endpoint(swakv_session *s, swakv_request *r)
{
	struct swakv_sequence_state st = { .size = sizeof(st) };
	int64_t e;

	LIVE_OK(s, swakv_sequence_get_state(r, 0, &st));
	e = st.endpoint;
	swakv_sequence_state_clear(&st);
	return e;
}

void live_settle(swakv_session *s, swakv_request *r)
{
	uint32_t n = 0;

	synchronize_all(s);
	for (int i = 0; i < LIVE_PATIENCE && (n = staged(s, r)) > 0; i++)
		usleep(1000);
	cr_assert_eq(n, 0, "%u pages never came back", n);
}

static void expect_row_equal(const struct swakv_layout *l, const int32_t *table, uint32_t row)
{
	size_t width = (size_t)l->width, cells = (size_t)live_halves(l) * width;
	const int32_t *device = table + row * cells;
	const int32_t *host = l->host_table + row * cells;

	for (size_t i = 0; i < cells; i++)
		cr_assert_eq(device[i], host[i], "slot %u, %s column %zu: device %d, host %d", row,
			     i < width ? "K" : "V", i % width, device[i], host[i]);
	for (size_t i = 0; i < width && cells > width; i++)
		cr_assert_eq(device[width + i], device[i] < 0 ? -1 : device[i] + l->num_pages);
}

void live_expect_tables_equal(swakv_session *s, uint32_t max_batch)
{
	struct swakv_session_info info = { .size = sizeof(info) };

	swakv_session_get_info(s, &info);
	for (uint32_t g = 0; g < info.n_groups; g++) {
		struct swakv_layout l = { .size = sizeof(l) };
		int32_t *table = device_table(s, g, max_batch, &l);

		for (uint32_t row = 0; row < max_batch; row++)
			expect_row_equal(&l, table, row);
		free(table);
	}
}

void live_expect_rows_equal(swakv_session *s, swakv_request *r)
{
	struct swakv_session_info info = { .size = sizeof(info) };
	uint32_t top = 0;

	swakv_session_get_info(s, &info);
	for (uint32_t i = 0; i < swakv_request_batch(r); i++)
		if ((uint32_t)swakv_request_slot(r, i) > top)
			top = (uint32_t)swakv_request_slot(r, i);
	for (uint32_t g = 0; g < info.n_groups; g++) {
		struct swakv_layout l = { .size = sizeof(l) };
		int32_t *table = device_table(s, g, top + 1, &l);

		for (uint32_t i = 0; i < swakv_request_batch(r); i++)
			expect_row_equal(&l, table, (uint32_t)swakv_request_slot(r, i));
		free(table);
	}
}

void live_prefill(swakv_session *s, swakv_request *r, const int32_t *lengths, uint32_t n)
{
	struct swakv_request_state state = { .size = sizeof(state) };
	struct swakv_fence fence;

	LIVE_OK(s, swakv_prefill_prepare(r, lengths, n, NULL));
	LIVE_OK(s, swakv_request_get_state(r, &state));
	LIVE_OK(s, swakv_stream_mark(s, state.stream, &fence));
	LIVE_OK(s, swakv_prefill_complete(r, fence, NULL));
}

void live_decode_prepare(swakv_session *s, swakv_request *r)
{
	struct swakv_request_state state = { .size = sizeof(state) };
	int code = swakv_decode_prepare(r, NULL);

	/* On a busy machine the stream may be as many steps behind as a session may have. */
	if (code == SWAKV_EPENDING) {
		LIVE_OK(s, swakv_request_get_state(r, &state));
		LIVE_OK(s, swakv_stream_synchronize(s, state.stream));
		code = swakv_decode_prepare(r, NULL);
	}
	LIVE_OK(s, code);
}

void live_decode(swakv_session *s, swakv_request *r)
{
	struct swakv_request_state state = { .size = sizeof(state) };
	struct swakv_fence fence;

	live_decode_prepare(s, r);
	LIVE_OK(s, swakv_request_get_state(r, &state));
	LIVE_OK(s, swakv_stream_mark(s, state.stream, &fence));
	LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
}

int live_forget_updates(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	return 0;
}

int live_write_word(void *arg, uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return 0;
}

int live_synchronize_nothing(void *arg)
{
	return 0;
}
