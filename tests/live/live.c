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

static void live_exec(const struct live *l, const char *size, int ready)
{
	char fd[16], name[64], bytes[64];

	snprintf(fd, sizeof(fd), "%d", ready);
	snprintf(name, sizeof(name), "--name=%s", l->name);
	snprintf(bytes, sizeof(bytes), "--size=%s", size);
	execl(SWAKVD, "swakvd", "-n", fd, name, "--backend=host", bytes, (char *)NULL);
	_exit(127);
}

void live_start(struct live *l, const char *size)
{
	int ready[2];
	char line[64];

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
		live_exec(l, size, ready[1]);
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

swakv_session *live_attach(const struct swakv_attach_options *o, int64_t window, uint32_t page_tokens, uint32_t layers,
			   uint32_t max_batch, int64_t max_seq)
{
	const struct swakv_group g = {
		.kind = SWAKV_SLIDING,
		.window = window,
		.page_tokens = page_tokens,
		.layers = layers,
		.kv_heads = 1,
		.head_dim = 8,
		.dtype = SWAKV_F16,
	};
	const struct swakv_model m = { "live", &g, 1, max_batch, max_seq };
	swakv_session *s;
	char why[512] = "";
	int r = swakv_session_attach(o, &m, &s, why, sizeof(why));

	cr_assert_eq(r, 0, "%s", why);
	return s;
}

void live_expect_free(swakv_session *s, int64_t pages)
{
	int64_t now = -1;

	for (int i = 0; i < 5000 && now != pages; i++) {
		LIVE_OK(s, swakv_session_free_pages(s, &now));
		if (now != pages)
			usleep(1000);
	}
	cr_expect_eq(now, pages, "%lld pages are free, expected %lld", (long long)now, (long long)pages);
}

static void expect_row_equal(const struct swakv_layout *l, uint32_t row)
{
	size_t width = (size_t)l->width;
	const int32_t *device = (const int32_t *)(uintptr_t)l->table + row * 2 * width;
	const int32_t *host = l->host_table + row * 2 * width;

	for (size_t i = 0; i < 2 * width; i++)
		cr_assert_eq(device[i], host[i], "slot %u, %s column %zu: device %d, host %d", row,
			     i < width ? "K" : "V", i % width, device[i], host[i]);
	for (size_t i = 0; i < width; i++)
		cr_assert_eq(device[width + i], device[i] < 0 ? -1 : device[i] + l->num_pages);
}

static void synchronize_all(swakv_session *s, struct swakv_layout *l)
{
	struct swakv_session_info info;

	swakv_session_get_info(s, &info);
	for (uint32_t i = 0; i < info.n_streams; i++)
		LIVE_OK(s, swakv_stream_synchronize(s, i));
	LIVE_OK(s, swakv_session_get_layout(s, 0, l));
}

void live_expect_tables_equal(swakv_session *s, uint32_t max_batch)
{
	struct swakv_layout l;

	synchronize_all(s, &l);
	for (uint32_t row = 0; row < max_batch; row++)
		expect_row_equal(&l, row);
}

void live_expect_rows_equal(swakv_session *s, swakv_request *r)
{
	struct swakv_layout l;

	synchronize_all(s, &l);
	for (uint32_t i = 0; i < swakv_request_batch(r); i++)
		expect_row_equal(&l, (uint32_t)swakv_request_slot(r, i));
}

void live_prefill(swakv_session *s, swakv_request *r, const int32_t *lengths, uint32_t n)
{
	struct swakv_request_state state;
	struct swakv_fence fence;

	LIVE_OK(s, swakv_prefill_prepare(r, lengths, n, NULL));
	LIVE_OK(s, swakv_request_get_state(r, &state));
	LIVE_OK(s, swakv_stream_mark(s, state.stream, &fence));
	LIVE_OK(s, swakv_prefill_complete(r, fence, NULL));
}

void live_decode(swakv_session *s, swakv_request *r)
{
	struct swakv_request_state state;
	struct swakv_fence fence;

	LIVE_OK(s, swakv_decode_prepare(r, NULL));
	LIVE_OK(s, swakv_request_get_state(r, &state));
	LIVE_OK(s, swakv_stream_mark(s, state.stream, &fence));
	LIVE_OK(s, swakv_decode_complete(r, fence, NULL));
}
