/* SPDX-License-Identifier: Apache-2.0 */
/* page_hands.c - see page_hands.h */
#include "page_hands.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

enum { MOST = SWAKV_MAX_PAGES, ALONE_S = 300 };

struct hands {
	swakv_session *session;
	struct swakv_layout layout;
	struct driver *driver; /* NULL: host backend */
	uint32_t *contents;    /* [num_pages], of those it was told to write; 0: none */
	uint32_t *copy;        /* a run of a page */
	struct hands_page pages[MOST];
};

bool pipe_read(int fd, void *p, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = read(fd, (char *)p + done, size - done);

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

bool pipe_write(int fd, const void *p, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, (const char *)p + done, size - done);

		if (n < 0 && errno != EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static _Noreturn void fail(const char *what, const char *why)
{
	fprintf(stderr, "block_engine: hands: %s: %s\n", what, why);
	_exit(1);
}

static void must(struct hands *h, int code, const char *what)
{
	if (code)
		fail(what, swakv_session_error(h->session));
}

static void device_must(struct hands *h, int code, const char *what)
{
	if (code)
		fail(what, driver_why(h->driver));
}

static void join(struct hands *h, const struct engine_setup *setup, const struct swakv_token *token)
{
	const struct swakv_attach_options o = {
		.size = sizeof(o), .broker = setup->broker, .n_streams = N_STREAMS, .join = token
	};
	struct swakv_session_info info = { .size = sizeof(info) };
	char why[512] = "";

	if (swakv_session_attach(&o, &setup->model, &h->session, why, sizeof(why)))
		fail("join", why);
	h->layout.size = sizeof(h->layout);
	must(h, swakv_session_get_layout(h->session, 0, &h->layout), "layout");
	must(h, swakv_session_get_info(h->session, &info), "info");
	if (info.cuda) {
		must(h, swakv_stream_bind_cuda(h->session, HANDS_STREAM, NULL), "stream");
		if (driver_open(&h->driver, NULL, info.device_uuid, 0, why))
			fail("driver", why);
	} else {
		must(h, swakv_stream_bind_host(h->session, HANDS_STREAM, true), "stream");
	}
	h->contents = calloc((size_t)h->layout.num_pages, sizeof(*h->contents));
	h->copy = malloc(h->layout.page_stride);
	if (!h->contents || !h->copy)
		fail("memory", "none left");
}

/* ---- pages ------------------------------------------------------------------------ */

/* The runs of bytes that a page has. */
static int n_runs(const struct hands *h)
{
	return h->layout.form == SWAKV_JOINED ? 1 : 2;
}

static uint64_t run_at(const struct hands *h, int32_t page, int run)
{
	const struct swakv_layout *l = &h->layout;

	return run == 0 ? l->first_page + (uint64_t)page * l->page_stride
			: l->v_base + (uint64_t)(page + l->num_pages) * l->page_stride;
}

/* Work for a stream of the host. */
struct fill {
	uint32_t *at, content;
	size_t n;
};

static void fill_run(void *arg)
{
	struct fill *f = arg;

	for (size_t i = 0; i < f->n; i++)
		f->at[i] = f->content;
	free(f);
}

static void write_page(struct hands *h, const struct hands_page *p)
{
	size_t n = h->layout.page_stride / sizeof(uint32_t);

	for (int run = 0; run < n_runs(h); run++) {
		uint64_t at = run_at(h, p->page, run);
		struct fill *f;

		if (h->driver) {
			device_must(h,
				    driver_fill32(h->driver, swakv_stream_cuda(h->session, HANDS_STREAM), at,
						  p->content, n),
				    "write");
			continue;
		}
		f = malloc(sizeof(*f));
		if (!f)
			fail("memory", "none left");
		*f = (struct fill){ (uint32_t *)(uintptr_t)at, p->content, n };
		must(h, swakv_stream_launch_host(h->session, HANDS_STREAM, fill_run, f), "write");
	}
	h->contents[p->page] = p->content;
}

/* All that its stream was given has ended. */
static bool page_is(struct hands *h, const struct hands_page *p)
{
	bool same = true;

	for (int run = 0; run < n_runs(h); run++) {
		uint64_t at = run_at(h, p->page, run);
		const uint32_t *words = (const uint32_t *)(uintptr_t)at;

		if (h->driver) {
			void *stream = swakv_stream_cuda(h->session, HANDS_STREAM);

			device_must(h, driver_copy_to_host(h->driver, stream, h->copy, at, h->layout.page_stride),
				    "read");
			device_must(h, driver_stream_synchronize(h->driver, stream), "read");
			words = h->copy;
		}
		for (size_t i = 0; i < h->layout.page_stride / sizeof(*words); i++)
			same &= words[i] == p->content;
	}
	return same;
}

static void check_page(struct hands *h, const struct hands_page *p, struct hands_answer *a)
{
	if (page_is(h, p))
		return;
	a->n_wrong++;
	a->wrong = p->page;
}

/* ---- orders ----------------------------------------------------------------------- */

static void obey(struct hands *h, const struct hands_head *head, struct hands_answer *a)
{
	if (head->order == HANDS_CHECK)
		must(h, swakv_stream_synchronize(h->session, HANDS_STREAM), "synchronize");
	for (uint32_t i = 0; i < head->n; i++) {
		const struct hands_page *p = &h->pages[i];

		if (head->order == HANDS_WRITE)
			write_page(h, p);
		else if (head->order == HANDS_CHECK)
			check_page(h, p, a);
		else
			h->contents[p->page] = 0;
	}
	must(h, swakv_stream_mark(h->session, HANDS_STREAM, &a->fence), "mark");
}

/* Compares all pages that it knows of, and writes them again. */
static uint32_t sweep(struct hands *h)
{
	struct hands_answer a = { 0 };

	if (swakv_stream_synchronize(h->session, HANDS_STREAM))
		fail("synchronize", swakv_session_error(h->session));
	for (int32_t i = 0; i < h->layout.num_pages; i++) {
		const struct hands_page p = { i, h->contents[i] };

		if (!p.content)
			continue;
		check_page(h, &p, &a);
		write_page(h, &p);
	}
	return a.n_wrong;
}

/* The one who planned has died. */
static _Noreturn void live_on(struct hands *h)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	time_t start = time(NULL);

	while (time(NULL) < start + ALONE_S) {
		printf("alone %u\n", sweep(h));
		fflush(stdout);
		nanosleep(&pause, NULL);
	}
	_exit(1);
}

/* False: the one who planned has died, and may never reach it. */
static bool other_stream_ends(struct hands *h, int orders, struct swakv_fence after)
{
	struct pollfd p = { .fd = orders };
	int r;

	while ((r = swakv_fence_wait(h->session, after, 100)) == SWAKV_ETIMEDOUT)
		if (poll(&p, 1, 0) > 0)
			return false;
	must(h, r, "the other's stream");
	return true;
}

void hands_live(const struct engine_setup *setup, int orders, int answers)
{
	static struct hands h;
	struct swakv_token token;
	struct hands_head head;

	if (!pipe_read(orders, &token, sizeof(token)))
		_exit(1);
	join(&h, setup, &token);
	for (;;) {
		struct hands_answer a = { 0 };

		if (!pipe_read(orders, &head, sizeof(head)) || head.n > MOST ||
		    !pipe_read(orders, h.pages, head.n * sizeof(h.pages[0])))
			live_on(&h);
		if (head.order == HANDS_LEAVE)
			break;
		if (!other_stream_ends(&h, orders, head.after))
			live_on(&h);
		obey(&h, &head, &a);
		if (!pipe_write(answers, &a, sizeof(a)))
			live_on(&h);
	}
	swakv_session_close(h.session);
	driver_close(h.driver);
	exit(0);
}
