/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak.c - many sleeps, and no wake-up lost
 *
 * Broker and worker spin for a microsecond only, so both sleep at nearly every
 * command. The worker waits a random time before each, so that the command comes
 * in every moment of the broker's falling asleep; the broker's answer comes in
 * any moment of the worker's, since waking takes now longer, now shorter. Once in
 * a while more commands are sent than the ring holds: then the worker sleeps for
 * room, too. Each side counts a rescue when its sleep ended by time although
 * there was work and nobody had woken it.
 */
#include "soak.h"

#include <inttypes.h>
#include <stdlib.h>

#include "bench.h"

#define LONGEST_PAUSE 4000 /* ns: the broker spins for 1,000, and looks a last time some hundred later */
#define FLOOD         600  /* commands; the ring of this small session has 256 slots */
#define FLOOD_EVERY   2000
#define LOOK_EVERY    20000 /* commands */

struct soak {
	swakv_session *s;
	uint64_t random;
	uint64_t commands;
	uint64_t worker_sleeps, worker_rescues;
	uint64_t broker_sleeps, broker_rescues;
};

static void pause_randomly(struct bench *b, struct soak *k)
{
	uint64_t until;

	k->random ^= k->random << 13;
	k->random ^= k->random >> 7;
	k->random ^= k->random << 17;
	until = ticks() + (uint64_t)((double)(k->random % LONGEST_PAUSE) / b->ns_per_tick);
	while (ticks() < until)
		;
}

static void flood(struct soak *k)
{
	swakv_ticket tickets[FLOOD];

	for (int i = 0; i < FLOOD; i++)
		bench_ok(k->s, swakv_session_ping(k->s, &tickets[i]), "ping");
	for (int i = 0; i < FLOOD; i++)
		bench_ok(k->s, swakv_wait(k->s, tickets[i]), "ping");
	k->commands += FLOOD;
}

static void look(struct bench *b, struct soak *k)
{
	struct swakv_session_counters c = { .size = sizeof(c) };

	swakv_session_get_counters(k->s, &c);
	bench_read_status(b);
	k->worker_sleeps = c.sleeps;
	k->worker_rescues = c.rescues;
	k->broker_sleeps = b->snapshot->sleeps;
	k->broker_rescues = b->snapshot->rescues;
}

bool soak_run(struct bench *b, uint64_t sleeps)
{
	struct soak k = { .s = bench_attach(b, 1024, 1, 1), .random = 0x9e3779b97f4a7c15u };
	uint64_t started = clock_ns(), shown = started;

	do {
		for (int i = 1; i <= LOOK_EVERY && k.worker_sleeps + (uint64_t)i <= sleeps; i++, k.commands++) {
			pause_randomly(b, &k);
			bench_ok(k.s, swakv_session_ping(k.s, NULL), "ping");
			if (i % FLOOD_EVERY == 0)
				flood(&k);
		}
		look(b, &k);
		if (b->results->live && clock_ns() - shown > 10000000000u) {
			shown = clock_ns();
			printf("%" PRIu64 " sleeps after %" PRIu64 " s\n", k.worker_sleeps + k.broker_sleeps,
			       (shown - started) / 1000000000u);
			fflush(stdout);
		}
	} while (k.worker_sleeps + k.broker_sleeps < sleeps);
	results_value(b->results, "soak_commands", UNIT_COUNT, (double)k.commands);
	results_value(b->results, "soak_broker_sleeps", UNIT_COUNT, (double)k.broker_sleeps);
	results_value(b->results, "soak_worker_sleeps", UNIT_COUNT, (double)k.worker_sleeps);
	results_value(b->results, "soak_rescues", UNIT_COUNT, (double)(k.worker_rescues + k.broker_rescues));
	swakv_session_close(k.s);
	return k.worker_rescues + k.broker_rescues == 0;
}
