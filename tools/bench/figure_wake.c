/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_wake.c - what a sleeping side costs, beside the primitive it sleeps on
 *
 * The broker sleeps in epoll on an eventfd: a command to a sleeping broker,
 * answered to a spinning worker, beside a bare eventfd, epoll and an answer
 * through a word. The worker sleeps on a futex: begin and finish of a large
 * batch, which last longer than the worker spins, less the same by a worker that
 * never sleeps; beside a process that works equally long and then wakes a futex.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

#define TURNS     50
#define REST_US   300 /* until the broker sleeps */
#define LONG_SPIN 1000000

struct wake {
	swakv_session *awake, *sleeper;
	uint64_t work_ns; /* of one command, there and back */
};

static double sample_wake_broker(struct bench *b, void *arg)
{
	struct wake *w = arg;
	uint64_t sum = 0;

	for (int i = 0; i < TURNS; i++) {
		uint64_t start;

		usleep(REST_US);
		start = ticks();
		bench_ok(w->awake, swakv_session_ping(w->awake, NULL), "ping");
		sum += ticks() - start;
	}
	return (double)sum * b->ns_per_tick / TURNS;
}

static double sample_eventfd(struct bench *b, void *arg)
{
	struct peer *p = b->peer;
	uint64_t sum = 0, one = 1;

	peer_start(p, PEER_BELL, TURNS, 0);
	for (uint32_t i = 1; i <= TURNS; i++) {
		uint64_t start;

		usleep(REST_US);
		start = ticks();
		if (write(p->bell, &one, sizeof(one)) != sizeof(one))
			bench_die("the eventfd refused a ring");
		while (load_acquire(&p->pong) != i)
			cpu_relax();
		sum += ticks() - start;
	}
	return (double)sum * b->ns_per_tick / TURNS;
}

/* One of the two commands of begin and finish. */
static double work(struct bench *b, swakv_session *s)
{
	uint64_t start = ticks();

	for (int i = 0; i < TURNS; i++) {
		swakv_request *r = bench_begin(s, 0, 256);

		bench_ok(s, swakv_request_finish(r, NULL), "finish");
		swakv_request_free(r);
	}
	return (double)(ticks() - start) * b->ns_per_tick / (2 * TURNS);
}

static double sample_wake_worker(struct bench *b, void *arg)
{
	struct wake *w = arg;
	double spinning = work(b, w->awake), sleeping = work(b, w->sleeper);

	w->work_ns = (uint64_t)spinning;
	return sleeping - spinning;
}

static double futex_turns(struct bench *b, uint64_t work_ns, bool sleep)
{
	struct peer *p = b->peer;
	uint64_t start;

	peer_start(p, PEER_FUTEX, TURNS, work_ns);
	start = ticks();
	for (uint32_t i = 1; i <= TURNS; i++) {
		store_release(&p->ping, i);
		while (load_acquire(&p->pong) != i) {
			if (sleep)
				syscall(SYS_futex, &p->pong, FUTEX_WAIT, i - 1, NULL, NULL, 0);
			else
				cpu_relax();
		}
	}
	return (double)(ticks() - start) * b->ns_per_tick / TURNS;
}

static double sample_futex(struct bench *b, void *arg)
{
	struct wake *w = arg;
	double spinning = futex_turns(b, w->work_ns, false);

	return futex_turns(b, w->work_ns, true) - spinning;
}

static void pair(struct bench *b, struct wake *w, const char *name, sample_fn *fn, const char *bare_name,
		 sample_fn *bare_fn)
{
	static struct series ours, bare;
	uint64_t started = clock_ns();
	char over[64];
	double a, c;

	ours = bare = (struct series){ 0 };
	while (bench_more(b, &ours, started)) {
		bench_sample(b, &ours, fn, w);
		bench_sample(b, &bare, bare_fn, w);
	}
	a = results_series(b->results, name, &ours)->median;
	c = results_series(b->results, bare_name, &bare)->median;
	snprintf(over, sizeof(over), "%s_over_bare", name);
	results_value(b->results, over, UNIT_RATIO, a / c);
}

void figure_wake(struct bench *b)
{
	struct wake w = { .awake = bench_attach(b, 1024, 256, LONG_SPIN), .sleeper = bench_attach(b, 1024, 256, 1) };

	pair(b, &w, "wake_broker", sample_wake_broker, "eventfd", sample_eventfd);
	pair(b, &w, "wake_worker", sample_wake_worker, "futex", sample_futex);
	swakv_session_close(w.awake);
	swakv_session_close(w.sleeper);
}
