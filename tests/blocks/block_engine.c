/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_engine.c - an engine with a block pool of its own, of two processes
 *
 * It knows nothing of requests. This process plans: it takes pages and gives them
 * back, finds contents again that it has cached, and offers what nothing refers
 * to; when others lack pages it gives those. Another one, which has joined its
 * session, writes and reads the pages (page_hands.h). It does what it is told on
 * stdin, a command a line, and sleeps in between until it is asked for pages:
 *
 *   run          sequences that share beginnings, until the next line -> running, then stopped STEPS FOUND WRITTEN
 *   cache N      takes all that it can get, and refers to N of each 1,000 pages -> cached PAGES REFERRED
 *   burst N      takes N more, and waits for them                     -> served N MS
 *   check        compares every page that has content                 -> checked PAGES
 *   thin N       of the pages to which nothing refers, gives all but each Nth -> thinned PAGES
 *   state                                                             -> state PAGES IDLE GIVEN
 *   first                                        -> first GIVEN, of those that helped most
 *
 * First it says: ready PID-OF-THE-OTHER PAGES-OF-THE-POOL. When the other process
 * is gone it says: hands gone PAGES, and keeps all it has. The end of stdin ends it.
 * Exit code 0; 1 wrong arguments or a failed call; 5 a page did not hold its content.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"

static void say_running(void)
{
	puts("running");
	fflush(stdout);
}

static void on_run(struct plan *e)
{
	sequences_run(e, say_running);
	printf("stopped %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", e->n_steps, e->n_found, e->n_written);
}

/* ---- cache and burst: two that keep all they can ---------------------------------------------- */

/* Writes new content to @n blocks; every one is referred to then. */
static void write_new(struct plan *e, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct block *b = block_get(&e->pool, plan_new_content(e));

		if (!b)
			plan_fail("write", "every page is referred to");
		e->batch[i] = (struct hands_page){ b->page, b->hash };
	}
	plan_order(e, HANDS_WRITE, n);
	e->n_written += n;
}

static void on_cache(struct plan *e, uint32_t permille)
{
	uint32_t before = e->pool.n, n;

	while (plan_take_free(e, SWAKV_MAX_PAGES / 4))
		;
	n = e->pool.n - before;
	for (uint32_t done = 0; done < n; done += SWAKV_MAX_PAGES / 4) {
		uint32_t some = n - done < SWAKV_MAX_PAGES / 4 ? n - done : SWAKV_MAX_PAGES / 4;

		write_new(e, some);
		for (uint32_t i = 0; i < some; i++)
			if ((done + i) % 1000 >= permille)
				block_unref(&e->pool, block_find(&e->pool, e->batch[i].content));
	}
	plan_offer(e);
	printf("cached %u %u\n", e->pool.n, e->pool.n - e->pool.n_idle);
}

/* Sleeps until there is an answer or a want, or, with @lines, a line on stdin; and gives what is wanted. */
static void sleep_and_yield(struct plan *e, bool lines)
{
	struct pollfd p[] = { { .fd = swakv_session_fd(e->session), .events = POLLIN },
			      { .fd = e->answers, .events = 0 },
			      { .fd = lines ? STDIN_FILENO : -1, .events = POLLIN } };

	if (p[0].fd < 0)
		plan_fail("descriptor", swakv_session_error(e->session));
	plan_yield(e); /* and is told of what comes from now on */
	if (poll(p, 3, PATIENCE_MS * 10) < 0 && errno != EINTR)
		plan_fail("poll", strerror(errno));
	if (p[1].revents)
		plan_hands_gone(e);
	plan_must(e, swakv_session_take(e->session), "take");
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* While it waits, it still gives what others want. The result of the take. */
static int take_waiting(struct plan *e, uint32_t count, uint32_t *n)
{
	static int32_t got[SWAKV_MAX_PAGES]; /* e->ids is for what is given meanwhile */
	swakv_ticket ticket;
	int r = swakv_pages_take(e->session, 0, PLAN_STREAM, 0, count, count, PATIENCE_MS, got, n, &ticket);

	if (r < 0)
		return r;
	while ((r = swakv_poll(e->session, ticket)) == SWAKV_EAGAIN)
		sleep_and_yield(e, false);
	memcpy(e->ids, got, *n * sizeof(*got));
	return r;
}

static void on_burst(struct plan *e, uint32_t count)
{
	uint64_t start = now_ms();
	uint32_t n;
	int r;

	while ((r = take_waiting(e, count, &n)) == SWAKV_EPENDING) /* behind what it has given itself */
		plan_must(e, swakv_fence_wait(e->session, e->used, PATIENCE_MS), "the other's stream");
	plan_must(e, r, "burst");
	start = now_ms() - start;
	plan_add_pages(e, n); /* without content, so they are the next that are written */
	write_new(e, n);
	for (uint32_t i = 0; i < n; i++)
		block_unref(&e->pool, block_find(&e->pool, e->batch[i].content));
	plan_offer(e);
	printf("served %u %" PRIu64 "\n", n, start);
}

/* Gives what nothing refers to, but for the pages with ids that @n divides. */
static void on_thin(struct plan *e, uint32_t n)
{
	uint32_t k = 0;

	for (int32_t page = 0; page < e->num_pages; page += (int32_t)n)
		k += block_pool_yield_range(&e->pool, page + 1, page + (int32_t)n, SWAKV_MAX_PAGES - k, e->ids + k);
	plan_offer(e);
	plan_give(e, k);
	printf("thinned %u\n", e->pool.n);
}

static void on_check(struct plan *e)
{
	uint32_t n = 0, all = 0;

	for (uint32_t i = 0; i < e->pool.n_used; i++) {
		const struct block *b = &e->pool.blocks[i];

		if (b->page >= 0 && b->hash)
			e->batch[n++] = (struct hands_page){ b->page, b->hash };
		if (n == SWAKV_MAX_PAGES || (i + 1 == e->pool.n_used && n > 0)) {
			plan_order(e, HANDS_CHECK, n);
			all += n;
			n = 0;
		}
	}
	printf("checked %u\n", all);
}

/* ---- its life ---------------------------------------------------------------------------------- */

static void attach(struct plan *e)
{
	const struct swakv_attach_options o = { .size = sizeof(o),
						.broker = e->setup.broker,
						.n_streams = N_STREAMS,
						.flags = SWAKV_ATTACH_EVENTS | SWAKV_ATTACH_JOINABLE };
	struct swakv_session_info info = { .size = sizeof(info) };
	struct swakv_layout l = { .size = sizeof(l) };
	struct swakv_token token;
	char why[512] = "";

	if (swakv_session_attach(&o, &e->setup.model, &e->session, why, sizeof(why)))
		plan_fail("attach", why);
	plan_must(e, swakv_session_get_info(e->session, &info), "info");
	plan_must(e, swakv_session_get_layout(e->session, 0, &l), "layout");
	plan_must(e,
		  info.cuda ? swakv_stream_bind_cuda(e->session, PLAN_STREAM, NULL)
			    : swakv_stream_bind_host(e->session, PLAN_STREAM, true),
		  "stream");
	plan_must(e, swakv_session_get_token(e->session, &token), "token");
	e->num_pages = l.num_pages;
	if (!pipe_write(e->orders, &token, sizeof(token)))
		plan_hands_gone(e);
	plan_order(e, HANDS_CHECK, 0); /* it has joined when it answers */
}

static void parse(struct plan *e, int argc, char **argv)
{
	static const struct option options[] = {
		{ "broker", required_argument, NULL, 'b' },
		{ "name", required_argument, NULL, 'n' },
		{ "joined", no_argument, NULL, 'j' },
		{ "most", required_argument, NULL, 'm' },
		{ "seed", required_argument, NULL, 's' },
		{ "tokens", required_argument, NULL, 't' },
		{ 0 },
	};
	int c;

	e->setup.name = "blocks";
	e->seed = 1;
	e->most = BLOCKS_MOST;
	e->setup.group = (struct swakv_group){ .size = sizeof(e->setup.group),
					       .kind = SWAKV_FULL,
					       .page_tokens = 16,
					       .layers = 2,
					       .k_bytes = 256,
					       .v_bytes = 256 };
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'b')
			e->setup.broker = optarg;
		else if (c == 'n')
			e->setup.name = optarg;
		else if (c == 'j')
			e->setup.group.form = SWAKV_JOINED;
		else if (c == 'm')
			e->most = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 't')
			e->setup.group.page_tokens = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 's')
			e->seed = (uint32_t)strtoul(optarg, NULL, 10);
		else
			exit(1);
	}
	e->setup.model = (struct swakv_model){ .size = sizeof(e->setup.model),
					       .name = e->setup.name,
					       .groups = &e->setup.group,
					       .n_groups = 1,
					       .max_batch = 1,
					       .max_seq = e->setup.group.page_tokens };
}

static void obey(struct plan *e, const char *command, uint32_t argument)
{
	if (strcmp(command, "run") == 0)
		on_run(e);
	else if (strcmp(command, "cache") == 0)
		on_cache(e, argument);
	else if (strcmp(command, "burst") == 0)
		on_burst(e, argument);
	else if (strcmp(command, "check") == 0)
		on_check(e);
	else if (strcmp(command, "thin") == 0)
		on_thin(e, argument);
	else if (strcmp(command, "first") == 0)
		printf("first %" PRIu64 "\n", e->n_first);
	else if (strcmp(command, "state") == 0)
		printf("state %u %u %" PRIu64 "\n", e->pool.n, e->pool.n_idle, e->n_given);
	else if (strcmp(command, "stop") != 0)
		plan_fail(command, "no such command");
	fflush(stdout);
}

/* A line of stdin: read byte by byte, since poll() does not see what a buffer holds. False: its end. */
static bool read_line(char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && read(STDIN_FILENO, line + n, 1) == 1)
		if (line[n++] == '\n')
			break;
	line[n] = '\0';
	return n > 0;
}

int main(int argc, char **argv)
{
	static struct plan e;
	char line[64], command[16];

	signal(SIGPIPE, SIG_IGN);
	parse(&e, argc, argv);
	block_pool_init(&e.pool);
	plan_start_hands(&e);
	attach(&e);
	printf("ready %d %d\n", (int)e.hands, e.num_pages);
	fflush(stdout);
	for (;;) {
		uint32_t argument = 0;

		while (!plan_line_waits())
			sleep_and_yield(&e, true);
		if (!read_line(line, sizeof(line)))
			break;
		if (sscanf(line, "%15s %u", command, &argument) >= 1)
			obey(&e, command, argument);
	}
	plan_order(&e, HANDS_LEAVE, 0);
	swakv_session_close(e.session);
	return 0;
}
