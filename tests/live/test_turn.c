/* SPDX-License-Identifier: Apache-2.0 */
/* One call a step on a real broker: completes, finishes, begins and prepares together (spec section 12). */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live.h"

enum { BATCH = 16, WINDOW = 40, PAGE_TOKENS = 16, MAX_SEQ = 512 };

static struct live live;
static swakv_session *s;

static void setup(void)
{
	live_start(&live, "16M");
	s = live_attach(NULL, WINDOW, PAGE_TOKENS, 1, BATCH, MAX_SEQ);
}

static void teardown(void)
{
	swakv_session_close(s);
	live_stop(&live);
}

TestSuite(live_turn, .init = setup, .fini = teardown, .timeout = 100);

static swakv_request *begin(const int32_t *slots, uint32_t n, int64_t max_tokens)
{
	const struct swakv_begin_options o = {
		.size = sizeof(o), .slots = slots, .n_slots = n, .max_tokens = max_tokens
	};
	swakv_request *r;

	LIVE_OK(s, swakv_request_begin(s, &o, &r, NULL));
	return r;
}

static swakv_request *begin_at(int32_t slot, int32_t length, int64_t max_tokens)
{
	swakv_request *r = begin(&slot, 1, max_tokens);

	live_prefill(s, r, &length, 1);
	return r;
}

static struct swakv_turn turn(swakv_request *r, uint32_t what)
{
	return (struct swakv_turn){
		.size = sizeof(struct swakv_turn), .what = what, .request = r, .completed = 77, .result = 77
	};
}

static bool is_pending(swakv_request *r)
{
	struct swakv_request_state st = { .size = sizeof(st) };

	LIVE_OK(s, swakv_request_get_state(r, &st));
	return st.transition != 0;
}

Test(live_turn, one_call_completes_a_step_and_prepares_the_next)
{
	swakv_request *r = begin_at(3, 30, 0);
	struct swakv_session_counters c = { .size = sizeof(c) };
	struct swakv_turn t = turn(r, SWAKV_TURN_PREPARE);
	uint64_t commands;

	LIVE_OK(s, swakv_step_turn(s, &t, 1, NULL));
	cr_expect_eq(t.completed, 0);
	cr_expect_eq(t.result, 0);
	swakv_session_get_counters(s, &c);
	commands = c.commands;
	for (int i = 0; i < 100; i++) {
		t = turn(r, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
		LIVE_OK(s, swakv_stream_mark(s, 0, &t.fence));
		LIVE_OK(s, swakv_step_turn(s, &t, 1, NULL));
		cr_assert_eq(t.completed, 0);
		cr_assert_eq(t.result, 0);
	}
	swakv_session_get_counters(s, &c);
	cr_expect_eq(c.commands, commands + 100, "%llu commands for 100 steps",
		     (unsigned long long)(c.commands - commands));
	cr_expect_eq(live_endpoint(s, r), 130);
	cr_expect(is_pending(r));
	live_expect_tables_equal(s, BATCH);
	t = turn(r, SWAKV_TURN_COMPLETE | SWAKV_TURN_FINISH);
	LIVE_OK(s, swakv_step_turn(s, &t, 1, NULL));
	cr_expect_not(swakv_request_valid(r));
	swakv_request_free(r);
}

Test(live_turn, is_collected_when_the_next_step_is_due)
{
	swakv_request *r = begin_at(0, 47, 0);
	struct swakv_turn t = turn(r, SWAKV_TURN_PREPARE);
	swakv_ticket ticket;

	LIVE_OK(s, swakv_step_turn(s, &t, 1, &ticket));
	for (int i = 0; i < 60; i++) {
		LIVE_OK(s, swakv_wait(s, ticket));
		cr_assert_eq(t.result, 0);
		/* the step's kernels go here */
		t = turn(r, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
		LIVE_OK(s, swakv_stream_mark(s, 0, &t.fence));
		LIVE_OK(s, swakv_step_turn(s, &t, 1, &ticket));
	}
	LIVE_OK(s, swakv_wait(s, ticket));
	cr_expect_eq(live_endpoint(s, r), 107);
	live_expect_tables_equal(s, BATCH);
	swakv_request_free(r);
}

Test(live_turn, slots_and_pages_of_those_that_finish_go_to_those_that_begin)
{
	swakv_request *r[BATCH];
	struct swakv_turn t[BATCH];
	int64_t before, after;

	for (int i = 0; i < BATCH; i++)
		r[i] = begin_at(i, 20 + i, 0);
	LIVE_OK(s, swakv_session_free_pages(s, &before));
	for (int i = 0; i < BATCH; i++)
		t[i] = turn(r[i], SWAKV_TURN_PREPARE);
	LIVE_OK(s, swakv_step_turn(s, t, BATCH, NULL));
	for (int round = 0; round < 8; round++) {
		/* every other one ends, and as many begin in the same slots, named before those that end */
		const int32_t slots[] = { 1, 3, 5, 7 };
		struct swakv_begin_options o[4];
		struct swakv_turn list[12] = { 0 };
		int32_t length = 33;

		for (int i = 0; i < 4; i++) {
			o[i] = (struct swakv_begin_options){ .size = sizeof(o[i]), .slots = &slots[i], .n_slots = 1 };
			list[i] = turn(NULL, SWAKV_TURN_BEGIN);
			list[i].begin = &o[i];
			list[4 + i] = turn(r[2 * i + 1], SWAKV_TURN_COMPLETE | SWAKV_TURN_FINISH);
			list[8 + i] = turn(r[2 * i], SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
		}
		LIVE_OK(s, swakv_step_turn(s, list, 12, NULL));
		for (int i = 0; i < 12; i++)
			cr_assert(list[i].completed == 0 && list[i].result == 0, "entry %d: %d %d", i,
				  list[i].completed, list[i].result);
		for (int i = 0; i < 4; i++) {
			cr_expect_not(swakv_request_valid(r[2 * i + 1]));
			swakv_request_free(r[2 * i + 1]);
			r[2 * i + 1] = list[i].request;
			cr_assert(swakv_request_valid(r[2 * i + 1]));
			cr_expect_eq(swakv_request_slot(r[2 * i + 1], 0), slots[i]);
			live_prefill(s, r[2 * i + 1], &length, 1);
			LIVE_OK(s, swakv_decode_prepare(r[2 * i + 1], NULL));
		}
		live_expect_tables_equal(s, BATCH);
	}
	LIVE_OK(s, swakv_session_free_pages(s, &after));
	cr_expect_eq(after, before);
	for (int i = 0; i < BATCH; i++)
		swakv_request_free(r[i]);
}

Test(live_turn, refused_complete_skips_its_prepare_and_nothing_else)
{
	swakv_request *a = begin_at(0, 20, 0), *b = begin_at(1, 20, 0), *c = begin_at(2, 20, 0);
	struct swakv_turn t[3];

	LIVE_OK(s, swakv_decode_prepare(a, NULL));
	LIVE_OK(s, swakv_decode_prepare(c, NULL));
	t[0] = turn(a, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[1] = turn(b, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE); /* no step of it is pending */
	t[2] = turn(c, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	cr_expect_eq(swakv_step_turn(s, t, 3, NULL), SWAKV_EPHASE);
	cr_expect(strstr(swakv_session_error(s), "entry 1: "), "%s", swakv_session_error(s));
	cr_expect_eq(t[1].completed, SWAKV_EPHASE);
	cr_expect_eq(t[1].result, SWAKV_EPHASE, "it was not tried");
	cr_expect_not(is_pending(b));
	for (int i = 0; i < 3; i += 2)
		cr_expect(t[i].completed == 0 && t[i].result == 0, "entry %d: %d %d", i, t[i].completed, t[i].result);
	cr_expect_eq(live_endpoint(s, a), 21);
	cr_expect(is_pending(a) && is_pending(c));
	swakv_request_free(a);
	swakv_request_free(b);
	swakv_request_free(c);
}

Test(live_turn, refused_prepare_leaves_the_complete_done)
{
	swakv_request *r = begin_at(0, 20, 21), *other = begin_at(1, 20, 0);
	struct swakv_turn t[2];

	LIVE_OK(s, swakv_decode_prepare(r, NULL));
	t[0] = turn(r, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[1] = turn(other, SWAKV_TURN_PREPARE);
	cr_expect_eq(swakv_step_turn(s, t, 2, NULL), SWAKV_ELIMIT);
	cr_expect_eq(t[0].completed, 0);
	cr_expect_eq(t[0].result, SWAKV_ELIMIT);
	cr_expect_eq(t[1].result, 0);
	cr_expect_eq(live_endpoint(s, r), 21);
	cr_expect_not(is_pending(r));
	swakv_request_free(r);
	swakv_request_free(other);
}

Test(live_turn, failed_fence_poisons_all_begins_and_prepares_of_the_turn)
{
	swakv_request *a = begin_at(0, 20, 0), *b = begin_at(1, 20, 0), *c = begin_at(2, 20, 0);
	const struct swakv_fence failed = { .kind = SWAKV_FENCE_FAILED };
	const int32_t slot = 5;
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = &slot, .n_slots = 1 };
	struct swakv_turn t[4];

	LIVE_OK(s, swakv_decode_prepare(a, NULL));
	LIVE_OK(s, swakv_decode_prepare(b, NULL));
	t[0] = turn(c, SWAKV_TURN_PREPARE); /* before the failure in the list, and behind it in the order */
	t[1] = turn(NULL, SWAKV_TURN_BEGIN);
	t[1].begin = &o;
	t[2] = turn(a, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[2].fence = failed;
	t[3] = turn(b, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	cr_expect_eq(swakv_step_turn(s, t, 4, NULL), SWAKV_EPOISONED);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(t[i].result, SWAKV_EPOISONED, "entry %d: %d", i, t[i].result);
	cr_expect_eq(t[2].completed, SWAKV_EPOISONED);
	cr_expect_eq(t[3].completed, 0, "what is done stays done");
	cr_expect_null(t[1].request);
	cr_expect_not(swakv_request_valid(a));
	cr_expect_eq(live_endpoint(s, b), 21);
	swakv_request_free(a);
	swakv_request_free(b);
	swakv_request_free(c);
}

Test(live_turn, request_that_is_named_twice_changes_nothing)
{
	swakv_request *a = begin_at(0, 20, 0), *b = begin_at(1, 20, 0);
	struct swakv_turn t[3];

	LIVE_OK(s, swakv_decode_prepare(a, NULL));
	t[0] = turn(a, SWAKV_TURN_COMPLETE);
	t[1] = turn(b, SWAKV_TURN_PREPARE);
	t[2] = turn(a, SWAKV_TURN_PREPARE);
	cr_expect_eq(swakv_step_turn(s, t, 3, NULL), SWAKV_EINVALID);
	cr_expect(strstr(swakv_session_error(s), "entries 0 and 2"), "%s", swakv_session_error(s));
	cr_expect(t[0].completed == SWAKV_EINVALID && t[0].result == 0);
	cr_expect(t[1].completed == 0 && t[1].result == SWAKV_EINVALID);
	cr_expect(is_pending(a));
	cr_expect_not(is_pending(b));
	swakv_request_free(a);
	swakv_request_free(b);
}

Test(live_turn, what_cannot_be_done_at_once_is_refused_before_anything)
{
	static const uint32_t wrong[] = { 0,
					  SWAKV_TURN_PREPARE | SWAKV_TURN_FINISH,
					  SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE | SWAKV_TURN_FINISH,
					  SWAKV_TURN_BEGIN | SWAKV_TURN_PREPARE,
					  SWAKV_TURN_BEGIN | SWAKV_TURN_COMPLETE,
					  16,
					  UINT32_MAX };
	const int32_t slot = 5;
	struct swakv_begin_options o = { .size = sizeof(o), .slots = &slot, .n_slots = 1, .wait_ms = 1 };
	swakv_request *a = begin_at(0, 20, 0);
	struct swakv_turn t[2];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		t[0] = turn(a, SWAKV_TURN_PREPARE);
		t[1] = turn(a, wrong[i]);
		cr_expect_eq(swakv_step_turn(s, t, 2, NULL), SWAKV_EINVALID, "%u", wrong[i]);
		cr_expect_not(is_pending(a));
	}
	t[0] = turn(NULL, SWAKV_TURN_BEGIN);
	cr_expect_eq(swakv_step_turn(s, t, 1, NULL), SWAKV_EINVALID, "without options");
	t[0].begin = &o;
	cr_expect_eq(swakv_step_turn(s, t, 1, NULL), SWAKV_EINVALID, "a begin that would wait");
	cr_expect(strstr(swakv_session_error(s), "does not wait"), "%s", swakv_session_error(s));
	t[0] = turn(NULL, SWAKV_TURN_PREPARE);
	cr_expect_eq(swakv_step_turn(s, t, 1, NULL), SWAKV_EINVALID, "without a request");
	cr_expect_eq(swakv_step_turn(s, t, 0, NULL), SWAKV_EINVALID);
	cr_expect_eq(swakv_step_turn(s, NULL, 1, NULL), SWAKV_EINVALID);
	t[0].size = 8;
	cr_expect_eq(swakv_step_turn(s, t, 1, NULL), SWAKV_EINVALID);
	swakv_request_free(a);
}

Test(live_turn, each_entry_may_list_its_own_counts)
{
	const int32_t slots[2][3] = { { 0, 1, 2 }, { 3, 4, 5 } }, lengths[] = { 10, 20, 30 };
	const int32_t some[] = { 3, 1, 2 }, all[] = { 5, 5, 5 };
	swakv_request *a = begin(slots[0], 3, 0), *b = begin(slots[1], 3, 0);
	struct swakv_turn t[2];

	live_prefill(s, a, lengths, 3);
	live_prefill(s, b, lengths, 3);
	t[0] = turn(a, SWAKV_TURN_PREPARE);
	t[0].tokens = some;
	t[1] = turn(b, SWAKV_TURN_PREPARE);
	t[1].tokens = all;
	LIVE_OK(s, swakv_step_turn(s, t, 2, NULL));
	t[0] = turn(a, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[0].accepted = some;
	t[0].tokens = all;
	t[1] = turn(b, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[1].accepted = all;
	t[1].tokens = some;
	LIVE_OK(s, swakv_stream_mark(s, 0, &t[0].fence));
	LIVE_OK(s, swakv_step_turn(s, t, 2, NULL)); /* the two have fences of two kinds */
	cr_expect_eq(live_endpoint(s, a), 13);
	cr_expect_eq(live_endpoint(s, b), 15);
	t[0] = turn(a, SWAKV_TURN_COMPLETE);
	t[1] = turn(b, SWAKV_TURN_COMPLETE);
	LIVE_OK(s, swakv_step_turn(s, t, 2, NULL));
	cr_expect_eq(live_endpoint(s, a), 18);
	cr_expect_eq(live_endpoint(s, b), 18);
	live_expect_tables_equal(s, BATCH);
	swakv_request_free(a);
	swakv_request_free(b);
}

/* Only the fence of the entry says when its work ends, whatever the others say. */
Test(live_turn, mark_from_before_the_prepare_is_no_proof)
{
	swakv_request *a = begin_at(0, 20, 0), *b = begin_at(1, 20, 0);
	struct swakv_fence old;
	struct swakv_turn t[2];

	LIVE_OK(s, swakv_stream_mark(s, 0, &old));
	LIVE_OK(s, swakv_decode_prepare(a, NULL));
	LIVE_OK(s, swakv_decode_prepare(b, NULL));
	t[0] = turn(a, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	LIVE_OK(s, swakv_stream_mark(s, 0, &t[0].fence));
	t[1] = turn(b, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[1].fence = old;
	cr_expect_eq(swakv_step_turn(s, t, 2, NULL), SWAKV_EINVALID);
	cr_expect(strstr(swakv_session_error(s), "entry 1: fence value"), "%s", swakv_session_error(s));
	cr_expect_eq(live_endpoint(s, a), 20, "nothing has been sent");
	swakv_request_free(a);
	swakv_request_free(b);
}

/* A mark that is all entries' proves the end of those only that were prepared before it. */
Test(live_turn, mark_between_two_prepares_is_proof_of_the_first_alone)
{
	swakv_request *a = begin_at(0, 20, 0), *b = begin_at(1, 20, 0);
	struct swakv_fence between;
	struct swakv_turn t[2];

	LIVE_OK(s, swakv_decode_prepare(a, NULL));
	LIVE_OK(s, swakv_stream_mark(s, 0, &between));
	LIVE_OK(s, swakv_decode_prepare(b, NULL));
	t[0] = turn(a, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[1] = turn(b, SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE);
	t[0].fence = t[1].fence = between;
	cr_expect_eq(swakv_step_turn(s, t, 2, NULL), SWAKV_EINVALID);
	cr_expect(strstr(swakv_session_error(s), "entry 1: fence value"), "%s", swakv_session_error(s));
	cr_expect_eq(live_endpoint(s, a), 20, "nothing has been sent");
	swakv_request_free(a);
	swakv_request_free(b);
}

/* What a turn prepares is so from a later mark on, also where all entries are alike. */
Test(live_turn, mark_that_the_last_turn_was_given_is_no_proof)
{
	swakv_request *a = begin_at(0, 20, 0);
	struct swakv_turn t = turn(a, SWAKV_TURN_PREPARE);

	LIVE_OK(s, swakv_step_turn(s, &t, 1, NULL));
	t.what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE;
	for (int i = 0; i < 3; i++) {
		LIVE_OK(s, swakv_stream_mark(s, 0, &t.fence));
		LIVE_OK(s, swakv_step_turn(s, &t, 1, NULL));
		cr_expect_eq(swakv_step_turn(s, &t, 1, NULL), SWAKV_EINVALID);
		cr_expect_eq(live_endpoint(s, a), 21 + i, "nothing has been sent");
	}
	swakv_request_free(a);
}

/* ---- sent when the step's work has been enqueued, collected when the next one is due ---- */

/* Behind an uncollected turn come others' commands, and its request's own: in the order in which they were given. */
Test(live_turn, what_comes_behind_a_turn_that_was_not_collected_comes_after_it)
{
	swakv_request *a = begin_at(0, 20, 0), *b = begin_at(1, 20, 0);
	struct swakv_turn t[2] = { turn(a, SWAKV_TURN_PREPARE), turn(b, SWAKV_TURN_PREPARE) };
	swakv_ticket first, second;

	LIVE_OK(s, swakv_step_turn(s, &t[0], 1, &first));
	LIVE_OK(s, swakv_step_turn(s, &t[1], 1, &second));
	cr_expect_eq(swakv_decode_prepare(a, NULL), SWAKV_EPHASE);
	cr_expect_eq(live_endpoint(s, a), 20);
	LIVE_OK(s, swakv_wait(s, second)); /* in any order */
	LIVE_OK(s, swakv_wait(s, first));
	cr_expect_eq(t[0].result, 0);
	cr_expect_eq(t[1].result, 0);
	LIVE_OK(s, swakv_decode_complete(a, SWAKV_DONE, NULL));
	cr_expect_eq(live_endpoint(s, a), 21);
	live_expect_tables_equal(s, BATCH);
	swakv_request_free(a);
	swakv_request_free(b);
}

/* What was refused is told when the turn is collected, entry by entry. */
Test(live_turn, results_are_told_when_it_is_collected)
{
	swakv_request *a = begin_at(0, 20, 0), *end = begin_at(1, 20, 20);
	struct swakv_turn t[2] = { turn(a, SWAKV_TURN_PREPARE), turn(end, SWAKV_TURN_PREPARE) };
	swakv_ticket ticket;

	LIVE_OK(s, swakv_step_turn(s, t, 2, &ticket));
	LIVE_OK(s, swakv_session_ping(s, NULL));
	cr_expect_eq(t[1].result, 77, "nobody has asked");
	cr_expect_eq(swakv_wait(s, ticket), SWAKV_ELIMIT);
	cr_expect_eq(t[0].result, 0);
	cr_expect_eq(t[1].result, SWAKV_ELIMIT);
	cr_expect_eq(swakv_wait(s, ticket), SWAKV_EINVALID, "a ticket is collected once");
	swakv_request_free(a);
	swakv_request_free(end);
}

/* Handles that are freed, and a ticket that nobody collects, keep nothing: not the request, not the session. */
Test(live_turn, a_ticket_that_nobody_collects_keeps_nothing)
{
	int64_t before;

	LIVE_OK(s, swakv_session_free_pages(s, &before));
	for (int i = 0; i < 40; i++) {
		swakv_request *a = begin_at(0, 20, 0);
		struct swakv_turn *t = malloc(sizeof(*t));
		swakv_ticket ticket;

		*t = turn(a, SWAKV_TURN_PREPARE);
		LIVE_OK(s, swakv_step_turn(s, t, 1, &ticket));
		swakv_request_free(a);
		LIVE_OK(s, swakv_session_ping(s, NULL)); /* answered; only a collected turn writes to the list */
		free(t);
	}
	live_expect_free(s, before);
}

Test(live_turn, a_broker_that_dies_before_the_answer_is_told_at_the_next_step)
{
	swakv_request *a = begin_at(0, 20, 0);
	struct swakv_turn t = turn(a, SWAKV_TURN_PREPARE);
	swakv_ticket ticket;

	LIVE_OK(s, swakv_step_turn(s, &t, 1, NULL));
	live_kill(&live);
	t.what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE;
	if (swakv_step_turn(s, &t, 1, &ticket) == 0)
		cr_expect_eq(swakv_wait(s, ticket), SWAKV_EGONE);
	cr_expect_eq(t.completed, SWAKV_EGONE);
	cr_expect_eq(t.result, SWAKV_EGONE);
	swakv_request_free(a);
}

/* ---- a worker that dies with a turn under way ---- */

static int word[2]; /* a pipe: the worker begins when it can be read */
static pid_t worker;

static void die_with_a_turn_under_way(void)
{
	const int32_t slot = 0, length = 20;
	const struct swakv_begin_options o = { .size = sizeof(o), .slots = &slot, .n_slots = 1 };
	struct swakv_turn t = { .size = sizeof(t), .what = SWAKV_TURN_PREPARE };
	swakv_session *own;
	swakv_ticket ticket;
	char go;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(word[0], &go, 1) != 1)
		_exit(1);
	own = live_attach(NULL, WINDOW, PAGE_TOKENS, 1, BATCH, MAX_SEQ);
	if (swakv_request_begin(own, &o, &t.request, NULL) || swakv_prefill_prepare(t.request, &length, 1, NULL) ||
	    swakv_prefill_complete(t.request, SWAKV_DONE, NULL) || swakv_step_turn(own, &t, 1, NULL))
		_exit(1);
	t.what = SWAKV_TURN_COMPLETE | SWAKV_TURN_PREPARE;
	if (swakv_step_turn(own, &t, 1, &ticket))
		_exit(1);
	kill(getpid(), SIGKILL);
}

/* It is forked before this process knows the driver. */
static void setup_with_a_worker(void)
{
	live_start_with(&live, "16M", "--reclaim-grace-ms=1");
	cr_assert_eq(pipe(word), 0);
	worker = fork();
	if (worker == 0)
		die_with_a_turn_under_way();
	cr_assert_gt(worker, 0);
	s = live_attach(NULL, WINDOW, PAGE_TOKENS, 1, BATCH, MAX_SEQ);
}

TestSuite(live_turn_death, .init = setup_with_a_worker, .fini = teardown, .timeout = 100);

Test(live_turn_death, a_worker_that_dies_before_it_collects_loses_its_pages_to_others)
{
	int64_t before;
	int status;

	LIVE_OK(s, swakv_session_free_pages(s, &before));
	cr_assert_eq(write(word[1], "", 1), 1);
	cr_assert_eq(waitpid(worker, &status, 0), worker);
	cr_assert(WIFSIGNALED(status), "status %d", status);
	live_expect_free(s, before);
}
