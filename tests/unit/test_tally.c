/* SPDX-License-Identifier: Apache-2.0 */
/* test_tally.c - what a model's sessions have done, and where times fall in a histogram */
#include <string.h>

#include "ring/operation.h"
#include "ring/tally.h"
#include "wire_turn.h"

#include "engine_worker.h" /* behind the others, whose arguments have the names of what it defines */

static struct tallies tallies;
static struct channel channel;
static struct workspace *work;
static unsigned char message[1024] __attribute__((aligned(CACHELINE)));

static void setup(void)
{
	cr_assert(tallies_init(&tallies));
	open_with(64, 64, 16, 4, 256);
	channel = (struct channel){ .session = w.s, .model_name = "m" };
	work = calloc(1, sizeof(*work));
	work->message = message;
	tally_join(&tallies, &channel);
}

static void end(void)
{
	tallies_deinit(&tallies);
	free(work);
	teardown();
}

TestSuite(tally, .init = setup, .fini = end);

/* ---- steps of a histogram ------------------------------------------------------------- */

Test(times, what_is_at_a_bound_is_in_its_step_and_what_is_above_is_not)
{
	for (uint32_t i = 0; i < TIMES_LAST; i++) {
		cr_expect_eq(times_step(times_bound(i)), i, "the bound of %u", i);
		cr_expect_eq(times_step(times_bound(i) + 1), i + 1, "above the bound of %u", i);
		cr_expect(i == 0 || times_bound(i) > times_bound(i - 1));
		cr_expect(i < 8 || times_bound(i) * 4 <= times_bound(i - 1) * 5, "step %u is a quarter at most", i);
	}
	cr_expect_eq(times_step(0), 0);
	cr_expect_eq(times_bound(0), 2048);
	cr_expect_eq(times_bound(3), UINT64_C(1) << 13);
	cr_expect_eq(times_bound(TIMES_LAST - 1), UINT64_C(1) << 36);
	cr_expect_eq(times_step(UINT64_MAX), (uint32_t)TIMES_LAST);
}

Test(times, every_fourth_bound_is_a_power_of_two)
{
	for (uint32_t i = 3; i < TIMES_LAST; i += 4)
		cr_expect_eq(times_bound(i) & (times_bound(i) - 1), 0);
}

Test(times, sum_count_and_quantiles_are_those_of_what_was_added)
{
	struct times t = { 0 };

	cr_expect_eq(times_quantile(&t, 0.5), 0, "of nothing");
	for (int i = 0; i < 99; i++)
		times_add(&t, 5000);
	times_add(&t, 1000000);
	cr_expect_eq(t.sum_ns, 99 * 5000 + 1000000);
	cr_expect_eq(times_count(&t), 100);
	cr_expect_eq(times_up_to(&t, 1), 0);
	cr_expect_eq(times_up_to(&t, 2), 99);
	cr_expect_eq(times_quantile(&t, 0.5), 6144);
	cr_expect_eq(times_quantile(&t, 0.99), 6144);
	cr_expect_eq(times_quantile(&t, 1), UINT64_C(1) << 20);
}

/* ---- commands ---------------------------------------------------------------------------- */

/* The broker has the command at @at_ns, and answers at @now_ns. */
static void command(uint16_t op, uint32_t n, uint64_t at_ns, uint64_t now_ns)
{
	*(struct wire_command *)(void *)message = (struct wire_command){ .op = op, .n = n };
	work->operation = operation_of(op);
	channel.last_ns = at_ns;
	tally_command(&channel, work, now_ns);
}

static void step_of_one(uint16_t op, uint64_t handle, uint64_t now_ns)
{
	const struct wire_step_entry entry = { .request = handle };

	memcpy(message + sizeof(struct wire_command), &entry, sizeof(entry));
	command(op, 1, now_ns, now_ns);
}

static void turn_of(uint32_t n, const uint64_t *entries, uint64_t now_ns)
{
	unsigned char *at = message + sizeof(struct wire_command) + sizeof(struct wire_fence);

	memcpy(at, entries, n * sizeof(*entries));
	command(WIRE_OP_STEP_TURN, n, now_ns, now_ns);
}

/* So many of @t, @sum_ns together. */
static void expect_times(const struct times *t, uint64_t n, uint64_t sum_ns)
{
	cr_expect_eq(times_count(t), n, "%llu, and not %llu", (unsigned long long)times_count(t),
		     (unsigned long long)n);
	cr_expect_eq(t->sum_ns, sum_ns, "%llu ns, and not %llu", (unsigned long long)t->sum_ns,
		     (unsigned long long)sum_ns);
}

#define HANDLE(place, generation) ((uint64_t)(place) << 32 | (generation))

Test(tally, a_step_lasts_from_its_prepare_to_its_complete)
{
	step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(1, 1), 1000);
	step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(2, 1), 3000);
	step_of_one(WIRE_OP_STEP_COMPLETE, HANDLE(1, 1), 11000);
	expect_times(&channel.tally->step, 1, 10000);
	step_of_one(WIRE_OP_STEP_COMPLETE, HANDLE(2, 1), 33000);
	expect_times(&channel.tally->step, 2, 40000);
	expect_times(&channel.tally->prepare, 2, 0);
	step_of_one(WIRE_OP_STEP_COMPLETE, HANDLE(2, 1), 99000);
	expect_times(&channel.tally->step, 2, 40000);
}

/* A worker that names its requests in another order: a time that is not known is not told. */
Test(tally, a_step_whose_prepare_named_another_request_first_is_left_out)
{
	step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(1, 1), 1000);
	step_of_one(WIRE_OP_STEP_COMPLETE, HANDLE(2, 1), 2000);
	step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(2, 1), 3000);
	step_of_one(WIRE_OP_STEP_COMPLETE, HANDLE(1, 1), 9000);
	expect_times(&channel.tally->step, 0, 0);
}

Test(tally, a_turn_ends_one_step_and_begins_the_next)
{
	uint64_t entries[] = { wire_turn_entry(HANDLE(1, 1), WIRE_TURN_PREPARE) };

	turn_of(1, entries, 1000);
	entries[0] = wire_turn_entry(HANDLE(1, 1), WIRE_TURN_COMPLETE | WIRE_TURN_PREPARE);
	turn_of(1, entries, 6000);
	turn_of(1, entries, 8000);
	entries[0] = wire_turn_entry(HANDLE(1, 1), WIRE_TURN_COMPLETE);
	turn_of(1, entries, 18000);
	expect_times(&channel.tally->step, 3, 17000);
	cr_expect_eq(times_count(&channel.tally->prepare), 4);
}

Test(tally, a_step_that_is_refused_takes_no_time)
{
	step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(1, 1), 1000);
	work->n_faults = 1;
	work->faults[0] = (struct wire_entry_fault){ .entry = 0, .fault = { .reason = FAULT_NOT_EXECUTING } };
	step_of_one(WIRE_OP_STEP_COMPLETE, HANDLE(1, 1), 5000);
	expect_times(&channel.tally->step, 0, 0);
	work->n_faults = 0;
	work->code = SWAKV_EGONE;
	step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(1, 1), 6000);
	cr_expect_eq(times_count(&channel.tally->prepare), 1);
}

/* A prepare that was left in its ring when a round was over has waited since then, and what came later has not. */
Test(tally, a_prepare_waits_from_the_round_that_left_it)
{
	channel.commands.peer = 3;
	tally_left(&channel, 1000);
	tally_left(&channel, 2000);
	cr_expect_eq(channel.left_ns, 1000);
	for (int i = 0; i < 3; i++) {
		channel.commands.mine++;
		step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(1, 1), 51000);
	}
	channel.commands.mine++;
	step_of_one(WIRE_OP_STEP_PREPARE, HANDLE(1, 1), 51000);
	expect_times(&channel.tally->prepare, 4, 3 * 50000);
}

Test(tally, a_long_prepare_lasts_as_long_as_the_clock_says)
{
	command(WIRE_OP_PREFILL_PREPARE, 1, 1000, 71000);
	expect_times(&channel.tally->prepare, 1, 70000);
}

Test(tally, begins_and_takes_count_by_what_becomes_of_them)
{
	struct tally *y = channel.tally;
	const struct admission admitted = { .waited = 7000 };
	const struct admission refused = {
		.waited = 9000, .took = true, .code = SWAKV_ENOPAGES, .fault = { .reason = FAULT_WAITED }
	};

	command(WIRE_OP_BEGIN, 1, 0, 0);
	command(WIRE_OP_TAKE, 1, 0, 0);
	command(WIRE_OP_TAKE, 1, 0, 0);
	tally_waits(&channel, work);
	tally_answered(&channel, &admitted);
	tally_answered(&channel, &refused);
	work->code = SWAKV_ENOPAGES;
	work->fault.reason = FAULT_NO_PAGES;
	command(WIRE_OP_BEGIN, 1, 0, 0);
	command(WIRE_OP_FINISH, 0, 0, 0);
	work->operation = NULL; /* nobody knows it */
	tally_command(&channel, work, 0);
	cr_expect_eq(y->admitted[TALLY_BEGIN], 2);
	cr_expect_eq(y->admitted[TALLY_TAKE], 2);
	cr_expect_eq(y->waited[TALLY_BEGIN], 0);
	cr_expect_eq(y->waited[TALLY_TAKE], 1);
	cr_expect_eq(y->refused[TALLY_BEGIN], 1);
	cr_expect_eq(y->refused[TALLY_TAKE], 1);
	cr_expect_eq(y->refused_by[TALLY_BEGIN][FAULT_NO_PAGES], 1);
	cr_expect_eq(y->refused_by[TALLY_TAKE][FAULT_WAITED], 1);
	expect_times(&y->wait, 2, 16000);
}

Test(tally, begins_of_a_turn_count_apart_from_its_steps)
{
	const uint64_t entries[] = { wire_turn_entry(HANDLE(1, 1), WIRE_TURN_PREPARE),
				     wire_turn_entry(1, WIRE_TURN_BEGIN), wire_turn_entry(1, WIRE_TURN_BEGIN) };

	work->n_begun = 1;
	work->n_faults = 2;
	work->faults[0] = (struct wire_entry_fault){ .entry = 2, .fault = { .reason = FAULT_NO_PAGES } };
	work->faults[1] = (struct wire_entry_fault){ .entry = 0, .fault = { .reason = FAULT_NOT_EXECUTING } };
	turn_of(3, entries, 1000);
	cr_expect_eq(channel.tally->admitted[TALLY_BEGIN], 1);
	cr_expect_eq(channel.tally->refused[TALLY_BEGIN], 1);
	cr_expect_eq(channel.tally->refused_by[TALLY_BEGIN][FAULT_NO_PAGES], 1);
}

/* ---- models ------------------------------------------------------------------------------- */

Test(tally, what_a_session_has_done_stays_with_its_model_when_it_leaves)
{
	struct tally *y = channel.tally;
	uint64_t h = begin(&w, 0);

	prefill(&w, h, 20);
	decode(&w, h, 3);
	cr_assert_eq(finish(&w, h, fence_point), 0);
	tally_leave(&tallies, &channel);
	tally_leave(&tallies, &channel);
	cr_expect_eq(y->n_sessions, 0);
	cr_expect_eq(y->ended.prefilled, 20);
	cr_expect_eq(y->ended.stepped, 3);
	cr_expect_eq(y->ended.pages_taken, y->ended.pages_returned);
	tally_join(&tallies, &channel);
	cr_expect_eq(channel.tally, y, "the next of that name goes on");
}

/* Names are a worker's choice: they do not use up memory. */
Test(tally, the_model_that_was_left_first_makes_room_for_a_new_one)
{
	static struct channel many[STATUS_MAX_TALLIES + 1];

	for (uint32_t i = 1; i < STATUS_MAX_TALLIES; i++) {
		many[i].session = w.s;
		snprintf(many[i].model_name, sizeof(many[i].model_name), "model-%u", i);
		tally_join(&tallies, &many[i]);
	}
	cr_expect_eq(tallies.n, (uint32_t)STATUS_MAX_TALLIES);
	tally_leave(&tallies, &many[7]);
	tally_leave(&tallies, &many[3]);
	strcpy(many[0].model_name, "new");
	tally_join(&tallies, &many[0]);
	cr_expect_str_eq(tallies.all[7].model, "new");
	cr_expect_eq(many[0].tally, &tallies.all[7]);
	cr_expect_eq(many[0].tally->n_sessions, 1);
	cr_expect_str_eq(tallies.all[3].model, "model-3");
}
