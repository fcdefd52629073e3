/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_oneway.c - what the submitting side pays for a command that it does not wait for
 *
 * Bursts that fit the ring: the time from the first submission to the return of
 * the last, while the other side takes them. Singly: commands without payload.
 * In batches of 32: one submission of a step over 32 requests, an entry being
 * the unit. Beside it the same number of slots in the same bursts through
 * ring.c alone, and through ck_ring, which publishes every slot.
 */
#include <stdlib.h>

#include "bench.h"
#include "peer.h"

#define BURST         16
#define BATCH         32
#define SUBMIT_STORES 40 /* about 10 ns; a submission takes 15 */
#define BATCH_SLOTS   17 /* a header and 32 entries of 32 bytes */

struct oneway {
	swakv_session *s;
	struct swakv_step steps[BATCH];
	uint32_t rounds;
};

static double sample_submit_1(struct bench *b, void *arg)
{
	struct oneway *o = arg;
	swakv_ticket tickets[BURST];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < o->rounds; i++) {
		uint64_t start = ticks();

		for (int k = 0; k < BURST; k++)
			bench_ok(o->s, swakv_session_ping(o->s, &tickets[k]), "ping");
		sum += ticks() - start;
		for (int k = 0; k < BURST; k++)
			bench_ok(o->s, swakv_wait(o->s, tickets[k]), "ping");
	}
	return (double)sum * b->ns_per_tick / (o->rounds * BURST);
}

static double sample_submit_32(struct bench *b, void *arg)
{
	struct oneway *o = arg;
	swakv_ticket prepare, complete;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < o->rounds; i++) {
		uint64_t start = ticks();

		bench_ok(o->s, swakv_step_prepare(o->s, o->steps, BATCH, &prepare), "step");
		bench_ok(o->s, swakv_step_complete(o->s, o->steps, BATCH, &complete), "step");
		sum += ticks() - start;
		bench_ok(o->s, swakv_wait(o->s, prepare), "step");
		bench_ok(o->s, swakv_wait(o->s, complete), "step");
	}
	return (double)sum * b->ns_per_tick / (o->rounds * 2 * BATCH);
}

/* Some nanoseconds of private work, as a submission does it: stores and what leads to them. */
static void own_work(uint32_t stores)
{
	static shm_u32 memory[16];

	for (uint32_t i = 0; i < stores; i++)
		store_relaxed(&memory[i % 16], i);
}

/* Bursts of @burst messages of @slots slots through the bare ring, after @work each; nanoseconds a burst. */
static double bare_ring(struct bench *b, uint32_t rounds, uint32_t burst, uint32_t slots, uint32_t work)
{
	unsigned char message[BATCH_SLOTS * RING_SLOT] = { 0 };
	struct ring_producer_spsc p;
	uint64_t sum = 0, woken = 0;

	peer_start(b->peer, PEER_RING, (uint64_t)rounds * burst, slots);
	ring_producer_init_spsc(&p, &b->peer->control, b->peer->slots, PEER_SLOTS);
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t start = ticks();

		for (uint32_t k = 0; k < burst; k++) {
			own_work(work);
			while (ring_producer_space_spsc(&p, slots) == 0)
				cpu_relax();
			ring_producer_write_spsc(&p, 0, message, (size_t)slots * RING_SLOT);
			ring_producer_publish_spsc(&p, slots);
			woken += ring_producer_must_wake_spsc(&p);
		}
		sum += ticks() - start;
		while (load_acquire(&b->peer->taken) != (i + 1) * burst)
			cpu_relax();
	}
	if (woken)
		bench_die("the peer of the bare ring claims to sleep");
	return (double)sum * b->ns_per_tick / rounds;
}

static double bare_ck(struct bench *b, uint32_t rounds, uint32_t burst)
{
	struct peer_message m = { { 0 } };
	uint64_t sum = 0;

	peer_start(b->peer, PEER_CK, (uint64_t)rounds * burst, 1);
	for (uint32_t i = 0; i < rounds; i++) {
		uint64_t start = ticks();

		for (uint32_t k = 0; k < burst; k++)
			while (!ck_ring_enqueue_spsc_peer_message(&b->peer->ck, b->peer->ck_slots, &m))
				cpu_relax();
		sum += ticks() - start;
		while (load_acquire(&b->peer->taken) != (i + 1) * burst)
			cpu_relax();
	}
	return (double)sum * b->ns_per_tick / rounds;
}

static double sample_ring_1(struct bench *b, void *arg)
{
	return bare_ring(b, ((struct oneway *)arg)->rounds, BURST, 1, 0) / BURST;
}

/* The bare ring, but with as much to do between two messages as the library has. */
static double sample_ring_1_spaced(struct bench *b, void *arg)
{
	return bare_ring(b, ((struct oneway *)arg)->rounds, BURST, 1, SUBMIT_STORES) / BURST;
}

static double sample_ring_32(struct bench *b, void *arg)
{
	return bare_ring(b, ((struct oneway *)arg)->rounds, 2, BATCH_SLOTS, 0) / (2 * BATCH);
}

static double sample_ck_1(struct bench *b, void *arg)
{
	return bare_ck(b, ((struct oneway *)arg)->rounds, BURST) / BURST;
}

static double sample_ck_32(struct bench *b, void *arg)
{
	return bare_ck(b, ((struct oneway *)arg)->rounds, 2 * BATCH_SLOTS) / (2 * BATCH);
}

/* Sustained: 32 commands are in flight all the time; how long one takes on average. */
static double sample_flow(struct bench *b, void *arg)
{
	struct oneway *o = arg;
	swakv_ticket tickets[BATCH];
	uint32_t n = o->rounds * BURST;
	uint64_t start;

	for (uint32_t k = 0; k < BATCH; k++)
		bench_ok(o->s, swakv_session_ping(o->s, &tickets[k]), "ping");
	start = clock_ns();
	for (uint32_t i = 0; i < n; i++) {
		bench_ok(o->s, swakv_wait(o->s, tickets[i % BATCH]), "ping");
		bench_ok(o->s, swakv_session_ping(o->s, &tickets[i % BATCH]), "ping");
	}
	double ns = (double)(clock_ns() - start) / n;

	for (uint32_t k = 0; k < BATCH; k++)
		bench_ok(o->s, swakv_wait(o->s, tickets[(n + k) % BATCH]), "ping");
	return ns;
}

static void sustained(struct bench *b)
{
	swakv_session *s = bench_attach(b, 1024, 256, 0);
	struct oneway o = { .s = s, .rounds = b->options.quick ? 1000 : 5000 };

	bench_figure(b, "flow", sample_flow, &o);
	swakv_session_close(s);
}

/* Samples of the figures and of their peers in turn, so that they share the moment. */
static void in_turn(struct bench *b, struct oneway *o)
{
	static const struct {
		const char *name;
		sample_fn *fn;
	} kinds[] = {
		{ "submit_1", sample_submit_1 },          { "ring_1", sample_ring_1 },   { "ck_ring_1", sample_ck_1 },
		{ "submit_32", sample_submit_32 },        { "ring_32", sample_ring_32 }, { "ck_ring_32", sample_ck_32 },
		{ "ring_1_spaced", sample_ring_1_spaced }
	};
	enum { N = sizeof(kinds) / sizeof(kinds[0]) };
	struct series *s = calloc(N, sizeof(*s));
	uint64_t started = clock_ns();
	double median[N];

	if (!s)
		bench_die("out of memory");
	while (bench_more(b, &s[0], started) || bench_more(b, &s[3], started))
		for (int i = 0; i < N; i++)
			bench_sample(b, &s[i], kinds[i].fn, o);
	for (int i = 0; i < N; i++)
		median[i] = results_series(b->results, kinds[i].name, &s[i])->median;
	results_value(b->results, "submit_1_over_ring", UNIT_RATIO, median[0] / median[1]);
	results_value(b->results, "submit_32_over_ring", UNIT_RATIO, median[3] / median[4]);
	free(s);
}

void figure_oneway(struct bench *b)
{
	swakv_session *s = bench_attach(b, 1024, 256, 0);
	struct oneway o = { .s = s, .rounds = b->options.quick ? 300 : 1000 };
	int32_t length = 1000;

	for (uint32_t i = 0; i < BATCH; i++) {
		o.steps[i] = (struct swakv_step){ .size = sizeof(struct swakv_step), .request = bench_begin(s, i, 1) };
		bench_ok(s, swakv_prefill_prepare(o.steps[i].request, &length, 1, NULL), "prefill");
		bench_ok(s, swakv_prefill_complete(o.steps[i].request, SWAKV_DONE, NULL), "prefill");
	}
	in_turn(b, &o);
	for (uint32_t i = 0; i < BATCH; i++)
		swakv_request_free(o.steps[i].request);
	swakv_session_close(s);
	sustained(b);
}
