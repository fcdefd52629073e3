/* SPDX-License-Identifier: Apache-2.0 */
/* What the broker knows of a sequence comes in chunks. */
#include <string.h>

#include "client_fixture.h"

TestSuite(client_state, .init = client_setup, .fini = client_teardown);

static const struct wire_sequence_state sequence = {
	.slot = 2,
	.generation = 4,
	.endpoint = 40,
	.pending_endpoint = 41,
	.window = 32,
	.page_tokens = 16,
	.retained_begin = 0,
	.retained_end = 3,
	.n_bound = 3,
	.n_reserved = 2,
	.n_new = 1,
	.n_retiring = 1,
	.n_staged = 1,
	.length = 40,
	.pending_map = -2,
	.change = 1,
};
static const struct wire_binding sequence_pages[] = { { 1, 10 }, { 2, 11 }, { 3, 12 }, { -1, 3 },
						      { -1, 4 }, { 3, 12 }, { 0, 9 },  { -1, 8 } };
static int state_queries, state_changes;

/* Gives three bindings at a time, and lets the sequence change after the first chunk `state_changes` times. */
static void serve_state(struct fake *f, const struct fake_command *c)
{
	struct {
		struct wire_sequence_state state;
		struct wire_binding pages[3];
	} chunk = { .state = sequence };
	struct wire_query_state q;
	uint32_t n;

	if (c->head.op != WIRE_OP_QUERY_STATE) {
		fake_answer(f, c, 0, 0, NULL, 0);
		return;
	}
	memcpy(&q, c->payload, sizeof(q));
	state_queries++;
	chunk.state.change = 1 + (uint64_t)(state_queries < 2 * state_changes ? state_queries : 2 * state_changes);
	n = (uint32_t)N(sequence_pages) - q.first;
	n = n < 3 ? n : 3;
	memcpy(chunk.pages, &sequence_pages[q.first], n * sizeof(chunk.pages[0]));
	fake_answer(f, c, 0, n, &chunk, sizeof(chunk));
}

Test(client_state, state_comes_in_chunks_and_starts_anew_when_it_changed)
{
	swakv_request *r = begin(0, 2);
	struct swakv_sequence_state state = { .size = sizeof(state) };

	state_changes = 2;
	fake.serve = serve_state;
	fake_serve(&fake);
	cr_assert_eq(swakv_sequence_get_state(r, 0, &state), 0, "%s", swakv_session_error(session));
	cr_expect_eq(state_queries, 2 * 2 + 3, "%d queries", state_queries);
	cr_expect_eq(state.slot, 2);
	cr_expect_eq(state.generation, 4);
	cr_expect_eq(state.endpoint, 40);
	cr_expect_eq(state.pending_endpoint, 41);
	cr_expect_eq(state.pending_map, -2);
	cr_expect_eq(state.input_length, 40);
	cr_assert_eq(state.n_bindings, 3);
	cr_expect_eq(state.bindings[2].logical_page, 3);
	cr_expect_eq(state.bindings[2].page, 12);
	cr_assert_eq(state.n_reserved, 2);
	cr_expect_eq(state.reserved[1], 4);
	cr_expect_eq(state.new_bindings[0].page, 12);
	cr_expect_eq(state.retiring[0].logical_page, 0);
	cr_expect_eq(state.retiring[0].page, 9);
	cr_expect_eq(state.staged[0], 8);
	swakv_sequence_state_clear(&state);
	cr_expect_null(state.bindings);
	fake.serve = NULL;
}

static uint32_t lied; /* pages that an answer says it holds */

/* Of a sequence with more pages than any answer holds. */
static void serve_lies(struct fake *f, const struct fake_command *c)
{
	struct wire_sequence_state state = sequence;

	state_queries += c->head.op == WIRE_OP_QUERY_STATE;
	state.n_bound = 4 * WIRE_STATE_CHUNK;
	fake_answer(f, c, 0, c->head.op == WIRE_OP_QUERY_STATE ? lied : 0, &state, sizeof(state));
}

static void expect_refused(uint32_t n)
{
	swakv_request *r = begin(0, 2);
	struct swakv_sequence_state state = { .size = sizeof(state) };

	lied = n;
	fake.serve = serve_lies;
	fake_serve(&fake);
	cr_expect_eq(swakv_sequence_get_state(r, 0, &state), SWAKV_EGONE);
	cr_expect_not_null(strstr(swakv_session_error(session), "pages of a sequence"), "%s",
			   swakv_session_error(session));
	cr_expect_eq(state_queries, 1, "the first such answer is refused, not the %dth", state_queries);
	fake.serve = NULL;
}

Test(client_state, more_pages_than_an_answer_holds_are_not_read)
{
	expect_refused(WIRE_STATE_CHUNK + 1);
}

Test(client_state, no_pages_where_some_are_left_end_the_session)
{
	expect_refused(0);
}
