/* SPDX-License-Identifier: Apache-2.0 */
/* A round of a decode loop in one call, on a real broker: collect, mark, turn (swakv_step_cycle()). */
#include <criterion/criterion.h>
#include <string.h>

#include "live.h"

enum { BATCH = 8, WINDOW = 40, PAGE_TOKENS = 16, MAX_SEQ = 512, TURN = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE };

static struct live live;
static swakv_session *s;
static struct swakv_turn turns[BATCH];
static struct swakv_cycle cycle;

/* On two streams; requests of the first are in `turns`, and their first step is prepared. */
static void setup(void)
{
	const struct swakv_attach_options o = { .size = sizeof(o), .n_streams = 2 };

	live_start(&live, "16M");
	s = live_attach(&o, WINDOW, PAGE_TOKENS, 1, BATCH, MAX_SEQ);
	cycle = (struct swakv_cycle){ .size = sizeof(cycle), .turns = turns };
}

static void teardown(void)
{
	for (uint32_t i = 0; i < BATCH; i++)
		swakv_request_free(turns[i].request);
	swakv_session_close(s);
	live_stop(&live);
}

TestSuite(live_cycle, .init = setup, .fini = teardown, .timeout = 100);

static void add(uint32_t stream, int32_t length, int64_t max_tokens)
{
	const int32_t slot = (int32_t)cycle.n;
	const struct swakv_begin_options o = {
		.size = sizeof(o), .stream = stream, .slots = &slot, .n_slots = 1, .max_tokens = max_tokens
	};
	struct swakv_turn *t = &turns[cycle.n++];

	*t = (struct swakv_turn){ .size = sizeof(*t), .what = TURN, .completed = 77, .result = 77 };
	LIVE_OK(s, swakv_request_begin(s, &o, &t->request, NULL));
	LIVE_OK(s, swakv_prefill_prepare(t->request, &length, 1, NULL));
	LIVE_OK(s, swakv_prefill_complete(t->request, SWAKV_DONE, NULL));
	LIVE_OK(s, swakv_decode_prepare(t->request, NULL));
}

/* Rounds of a loop whose host waits for each step, as one that reads the tokens does. */
static void rounds(int n)
{
	for (int i = 0; i < n; i++) {
		/* the step's kernels go here */
		LIVE_OK(s, swakv_step_cycle(s, &cycle));
		cr_assert_neq(cycle.ticket, 0);
		for (uint32_t j = 0; j < cycle.n; j++)
			cr_assert(turns[j].fence.kind == SWAKV_FENCE_LINE && turns[j].fence.line == 0);
		LIVE_OK(s, swakv_stream_synchronize(s, 0));
	}
}

Test(live_cycle, one_call_a_step_of_many_requests)
{
	struct swakv_session_counters c = { .size = sizeof(c) };
	uint64_t commands;

	for (int i = 0; i < 5; i++)
		add(0, 20 + 7 * i, 0);
	swakv_session_get_counters(s, &c);
	commands = c.commands;
	rounds(60);
	swakv_session_get_counters(s, &c);
	cr_expect_eq(c.commands, commands + 60);
	LIVE_OK(s, swakv_wait(s, cycle.ticket));
	for (int i = 0; i < 5; i++) {
		cr_expect(turns[i].completed == 0 && turns[i].result == 0);
		cr_expect_eq(live_endpoint(s, turns[i].request), 80 + 7 * i);
	}
	live_expect_tables_equal(s, BATCH);
}

Test(live_cycle, what_the_last_turn_was_refused_is_told_before_anything_is_enqueued)
{
	struct swakv_fence before, after;

	add(0, 20, 0);
	add(0, 20, 22); /* has room for two more */
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	LIVE_OK(s, swakv_stream_mark(s, 0, &before));
	cr_expect_eq(swakv_step_cycle(s, &cycle), SWAKV_ELIMIT);
	LIVE_OK(s, swakv_stream_mark(s, 0, &after));
	cr_expect_eq(after.value, before.value + 1, "it has marked the stream");
	cr_expect_eq(cycle.ticket, 0);
	cr_expect(turns[0].completed == 0 && turns[0].result == 0);
	cr_expect(turns[1].completed == 0 && turns[1].result == SWAKV_ELIMIT);
	cycle.n = 1; /* the other goes on */
	rounds(40);
	LIVE_OK(s, swakv_wait(s, cycle.ticket));
	cr_expect_eq(live_endpoint(s, turns[0].request), 62);
	cr_expect_eq(live_endpoint(s, turns[1].request), 22);
}

Test(live_cycle, requests_of_another_stream_are_refused_with_nothing_changed)
{
	swakv_ticket ticket;

	add(0, 20, 0);
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	ticket = cycle.ticket;
	add(1, 20, 0);
	cr_expect_eq(swakv_step_cycle(s, &cycle), SWAKV_EINVALID);
	cr_expect(strstr(swakv_session_error(s), "entry 1 is on stream 1, and the work on stream 0"), "%s",
		  swakv_session_error(s));
	cr_expect_eq(cycle.ticket, ticket);
	cycle.n = 1;
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	LIVE_OK(s, swakv_wait(s, cycle.ticket));
	cr_expect_eq(live_endpoint(s, turns[0].request), 22);
}

Test(live_cycle, a_graph_needs_a_stream_that_replays)
{
	add(0, 20, 0);
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	cycle.graph = &live;
	cr_expect_eq(swakv_step_cycle(s, &cycle), SWAKV_EPHASE);
	cr_expect_neq(cycle.ticket, 0);
	cycle.graph = NULL;
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	LIVE_OK(s, swakv_wait(s, cycle.ticket));
	cr_expect_eq(live_endpoint(s, turns[0].request), 22);
}

Test(live_cycle, a_turn_that_cannot_be_sent_leaves_the_fence_of_the_step)
{
	add(0, 20, 0);
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	turns[0].what = SWAKV_TURN_COMPLETE | SWAKV_TURN_BEGIN;
	cr_expect_eq(swakv_step_cycle(s, &cycle), SWAKV_EINVALID);
	cr_expect_eq(cycle.ticket, 0);
	cr_expect_eq(turns[0].completed, SWAKV_EINVALID);
	LIVE_OK(s, swakv_decode_complete(turns[0].request, turns[0].fence, NULL));
	cr_expect_eq(live_endpoint(s, turns[0].request), 22);
}

Test(live_cycle, requests_finish_and_begin_beside_the_steps)
{
	const int32_t slot = 1, length = 33;
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = &slot, .n_slots = 1 };

	add(0, 20, 0);
	add(0, 30, 0);
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	turns[1].what = SWAKV_TURN_COMPLETE | SWAKV_TURN_FINISH;
	turns[2] = (struct swakv_turn){ .size = sizeof(turns[2]), .what = SWAKV_TURN_BEGIN, .begin = &o };
	cycle.n = 3;
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	LIVE_OK(s, swakv_wait(s, cycle.ticket));
	cr_expect(turns[0].result == 0 && turns[1].result == 0 && turns[2].result == 0);
	cr_expect_not(swakv_request_valid(turns[1].request));
	live_prefill(s, turns[2].request, &length, 1);
	live_expect_tables_equal(s, BATCH);
}

Test(live_cycle, a_ticket_of_nobody_and_a_broker_that_has_gone)
{
	add(0, 20, 0);
	cycle.ticket = 12345;
	cr_expect_eq(swakv_step_cycle(s, &cycle), SWAKV_EINVALID);
	cycle.ticket = 0;
	LIVE_OK(s, swakv_step_cycle(s, &cycle));
	live_kill(&live);
	(void)swakv_wait(s, cycle.ticket); /* it may have been answered */
	cr_expect_eq(swakv_session_ping(s, NULL), SWAKV_EGONE);
	cr_expect_eq(swakv_step_cycle(s, &cycle), SWAKV_EGONE);
}
