/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_step.c - what a step that takes milliseconds costs the host: the time that it spends in calls of swakv
 *
 * As with a real model: the broker sleeps between two steps. One message a step, which is
 * collected when the next step is due, beside a complete and a prepare that are waited
 * for, and beside the write to an eventfd whose reader sleeps: what the doorbell costs.
 * And how many doorbells a turn rings: all but the first few find the broker about to look.
 */
#include <unistd.h>

#include "bench.h"
#include "peer.h"

#define TURNS   20
#define STEP_US 5000
#define FROM    4000

struct steps {
	swakv_session *s;
	swakv_request *r;
	uint64_t n, rung; /* turns, and doorbells that they rang */
};

static uint64_t bells(swakv_session *s)
{
	struct swakv_session_counters c = { .size = sizeof(c) };

	bench_ok(s, swakv_session_get_counters(s, &c), "counters");
	return c.wakeups_sent;
}

static void begin(struct steps *t)
{
	const int32_t length = FROM;

	t->r = bench_begin(t->s, 0, 1);
	bench_ok(t->s, swakv_prefill_prepare(t->r, &length, 1, NULL), "prefill");
	bench_ok(t->s, swakv_prefill_complete(t->r, SWAKV_DONE, NULL), "prefill");
	bench_ok(t->s, swakv_decode_prepare(t->r, NULL), "prepare");
}

static void end(struct steps *t)
{
	bench_ok(t->s, swakv_request_abandon(t->r, NULL), "abandon");
	swakv_request_free(t->r);
}

static double sample_turn(struct bench *b, void *arg)
{
	struct steps *t = arg;
	struct swakv_turn turn = { .size = sizeof(turn), .what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE };
	uint64_t sum = 0;

	begin(t);
	turn.request = t->r;
	t->rung -= bells(t->s);
	t->n += TURNS;
	for (int i = 0; i < TURNS; i++) {
		uint64_t start = ticks();
		swakv_ticket ticket;

		bench_ok(t->s, swakv_stream_mark(t->s, 0, &turn.fence), "mark");
		bench_ok(t->s, swakv_step_turn(t->s, &turn, 1, &ticket), "turn");
		sum += ticks() - start;
		usleep(STEP_US);
		start = ticks();
		bench_ok(t->s, swakv_wait(t->s, ticket), "turn");
		sum += ticks() - start;
	}
	t->rung += bells(t->s);
	end(t);
	return (double)sum * b->ns_per_tick / TURNS;
}

static double sample_calls(struct bench *b, void *arg)
{
	struct steps *t = arg;
	uint64_t sum = 0;

	begin(t);
	for (int i = 0; i < TURNS; i++) {
		struct swakv_fence fence;
		uint64_t start;

		usleep(STEP_US);
		start = ticks();
		bench_ok(t->s, swakv_stream_mark(t->s, 0, &fence), "mark");
		bench_ok(t->s, swakv_decode_complete(t->r, fence, NULL), "complete");
		bench_ok(t->s, swakv_decode_prepare(t->r, NULL), "prepare");
		sum += ticks() - start;
	}
	end(t);
	return (double)sum * b->ns_per_tick / TURNS;
}

static double sample_bell(struct bench *b, void *arg)
{
	struct peer *p = b->peer;
	uint64_t sum = 0, one = 1;

	(void)arg;
	peer_start(p, PEER_BELL, TURNS, 0);
	for (uint32_t i = 1; i <= TURNS; i++) {
		uint64_t start;

		usleep(STEP_US);
		start = ticks();
		if (write(p->bell, &one, sizeof(one)) != sizeof(one))
			bench_die("the eventfd refused a ring");
		sum += ticks() - start;
		while (load_acquire(&p->pong) != i)
			cpu_relax();
	}
	return (double)sum * b->ns_per_tick / TURNS;
}

void figure_step(struct bench *b)
{
	struct steps t = { .s = bench_attach(b, 1024, 1, 0) };
	static struct series turn, calls, bell;
	uint64_t started = clock_ns();

	turn = calls = bell = (struct series){ 0 };
	while (bench_more(b, &turn, started)) {
		bench_sample(b, &turn, sample_turn, &t);
		bench_sample(b, &calls, sample_calls, &t);
		bench_sample(b, &bell, sample_bell, &t);
	}
	results_series(b->results, "step_5ms_turn", &turn);
	results_series(b->results, "step_5ms_calls", &calls);
	results_series(b->results, "step_5ms_bell", &bell);
	results_value(b->results, "step_5ms_turn_rings", UNIT_COUNT, (double)t.rung / (double)t.n);
	swakv_session_close(t.s);
}
