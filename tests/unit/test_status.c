/* SPDX-License-Identifier: Apache-2.0 */
/* What the ring thread shows of itself: where each number comes from, and where the arrays end. */
#include "engine_fixture.h"
#include "extent_view.h"
#include "internal.h"
#include "status/status.h"

enum { PAGE_TOKENS = 16, GROUPS = 3, BATCH = 8, STREAMS = 2 };

static struct worker w;
static struct ring_thread ring;
static struct channel channel;
static struct status_snapshot *s;
static uint64_t begun[BATCH];

/* Three windows and two page sizes, so that no group can pass for another. */
static struct model three_groups(void)
{
	return (struct model){
		.n_groups = GROUPS,
		.n_streams = STREAMS,
		.max_batch = BATCH,
		.max_seq = 512,
		.groups = { make_group(2 * PAGE_TOKENS + 1, PAGE_TOKENS, 16), make_group(0, PAGE_TOKENS, 32),
			    make_group(4 * PAGE_TOKENS + 1, PAGE_TOKENS, 16) },
	};
}

static void setup(void)
{
	const uint64_t half = 4 << 20;
	struct engine *e = engine_new(&(struct engine_config){ .half_bytes = half, .extent_bytes = 256 << 10 });

	cr_assert_not_null(e);
	worker_open(&w, e, three_groups(), half, 1);
	ring = (struct ring_thread){ .engine = e, .options = { .table_area_bytes = 4711 } };
	ring.map = extent_map_new(engine_extents(e));
	cr_assert_not_null(ring.map);
	TAILQ_INIT(&ring.channels);
	channel = (struct channel){
		.id = 3,
		.generation = 5,
		.pid = 77,
		.uid = 88,
		.state = CHANNEL_ATTACHED,
		.session = w.s,
		.model = w.m,
		.model_name = "three",
		.memory = { .layout = { .n_streams = STREAMS, .max_batch = BATCH } },
		.begun_ns = begun,
	};
	memcpy(channel.geometry, w.geometry, sizeof(w.geometry));
	for (uint64_t i = 0; i < BATCH; i++)
		begun[i] = 1000 - 100 * i;
	TAILQ_INSERT_TAIL(&ring.channels, &channel, link);
	s = calloc(1, sizeof(*s));
	cr_assert_not_null(s);
}

static void teardown(void)
{
	free(s);
	ring.map = extent_map_free(ring.map);
	worker_close(&w);
	engine_free(ring.engine);
}

TestSuite(status, .init = setup, .fini = teardown);

static uint64_t begin_two(int32_t one, int32_t other)
{
	const int32_t slots[] = { one, other };
	uint64_t h;

	cr_assert_eq(begin_on(&w, 0, &h, 2, slots), 0);
	return h;
}

/* ---- where each number comes from ---------------------------------------------------------- */

Test(status, counters_are_each_their_own)
{
	uint64_t *c = &ring.counters.attaches;

	for (uint64_t i = 0; i < sizeof(ring.counters) / sizeof(*c); i++)
		c[i] = 100 + i;
	ring.refused_attaches = 13;
	ring.table_area_used = 12;
	for (uint64_t i = 0; i < FAULT_REASON_COUNT; i++)
		ring.refused_attaches_by[i] = 10000 * (i + 1);
	status_fill(s, &ring);
	cr_expect_eq(s->attaches, ring.counters.attaches);
	cr_expect_eq(s->detaches, ring.counters.detaches);
	cr_expect_eq(s->deaths, ring.counters.deaths);
	cr_expect_eq(s->kicked, ring.counters.kicked);
	cr_expect_eq(s->reclaimed_pages, ring.counters.reclaimed_pages);
	cr_expect_eq(s->commands, ring.counters.commands);
	cr_expect_eq(s->refusals, ring.counters.refusals);
	cr_expect_eq(s->rounds, ring.counters.rounds);
	cr_expect_eq(s->sleeps, ring.counters.sleeps);
	cr_expect_eq(s->wakeups, ring.counters.wakeups);
	cr_expect_eq(s->late, ring.counters.late);
	cr_expect_eq(s->rescues, ring.counters.rescues);
	cr_expect_eq(s->timer_polls, ring.counters.timer_polls);
	cr_expect_eq(s->refused_attaches, 13);
	cr_expect_eq(s->table_area_used, 12);
	cr_expect_eq(s->table_area_bytes, 4711);
	for (uint64_t i = 0; i < FAULT_REASON_COUNT; i++)
		cr_expect_eq(s->refusals_by[i], ring.counters.refusals_by[i] + 10000 * (i + 1), "reason %llu",
			     (unsigned long long)i);
}

Test(status, bytes_and_pages_are_the_engines)
{
	struct engine_counts e;
	struct class_counts k;

	begin_two(4, 2);
	status_fill(s, &ring);
	engine_count(ring.engine, &e);
	cr_expect_eq(s->pool_total, e.total);
	cr_expect_eq(s->pool_held, e.held);
	cr_expect_eq(s->pool_free, e.free);
	cr_expect_eq(s->pool_unusable, e.unusable);
	cr_expect_eq(s->extent_bytes, e.extent_bytes);
	cr_assert_eq(s->n_classes, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct status_class *c = &s->classes[i];

		cr_assert(engine_class_count(ring.engine, i, &k));
		cr_expect_eq(c->page_bytes, k.page_bytes);
		cr_expect_eq(c->joined, k.joined);
		cr_expect(c->pages == k.pages && c->pages > 0);
		cr_expect(c->free == k.free && c->leased == k.leased && c->leased > 0 && c->free != c->leased);
		cr_expect_eq(c->quarantined, k.quarantined);
		cr_expect(c->available == k.available && c->num_pages == k.num_pages);
		cr_expect(c->extents == k.extents && c->empty == k.empty && c->sessions == k.sessions);
	}
}

Test(status, a_session_shows_what_its_channel_knows)
{
	const struct status_session *out = s->sessions;
	struct session_counts n;

	begin_two(4, 2);
	strcpy(channel.model.groups[1].tag, "tag of 1");
	channel.n_waiting = 21;
	channel.last_op = 22;
	channel.last_code = -23;
	channel.last_ns = 24;
	channel.attached_ns = 25;
	channel.ended_ns = 26;
	channel.n_commands = 27;
	channel.n_refused = 28;
	channel.n_rounds_blocked = 29;
	channel.longest_wait = 30;
	channel.members = 2;
	channel.member_pids[0] = 31;
	channel.member_pids[1] = 32;
	status_fill(s, &ring);
	session_count(w.s, &n);
	cr_assert_eq(s->n_sessions, 1);
	cr_expect(out->id == 3 && out->generation == 5 && out->pid == 77 && out->uid == 88);
	cr_expect(out->state == STATUS_ATTACHED && out->poisoned == 0);
	cr_expect_str_eq(out->model, "three");
	cr_expect(out->n_requests == 1 && out->n_sequences == 2);
	cr_expect(out->n_streams == STREAMS && out->max_batch == BATCH);
	cr_expect(out->leased == n.leased && out->unbound == n.unbound && n.leased == n.unbound);
	cr_expect(out->quarantined == 0 && out->behind_points == 0 && out->open_points == 0);
	cr_expect_eq(out->waiting, 21);
	cr_expect(out->last_op == 22 && out->last_code == -23 && out->last_ns == 24);
	cr_expect(out->attached_ns == 25 && out->ended_ns == 26);
	cr_expect(out->commands == 27 && out->refused == 28);
	cr_expect(out->rounds_blocked == 29 && out->longest_wait == 30);
	cr_expect(out->n_members == 2 && out->members[0] == 31 && out->members[1] == 32);
	cr_expect_eq(out->oldest_point_ns, 0);
	cr_expect_eq(out->oldest_lease_ns, begun[4], "of the slot of its first sequence");
	cr_assert_eq(out->n_groups, GROUPS);
	for (uint32_t g = 0; g < GROUPS; g++) {
		cr_expect_eq(out->groups[g].kind, w.m.groups[g].kind);
		cr_expect_eq(out->groups[g].class_index, session_class(w.s, g));
		cr_expect_eq(out->groups[g].window, w.m.groups[g].window);
		cr_expect_eq(out->groups[g].page_tokens, PAGE_TOKENS);
		cr_expect_eq(out->groups[g].private_pages, w.geometry[g].private_pages);
		cr_expect_eq(out->groups[g].held, session_held_pages(w.s, g));
		cr_expect_str_eq(out->groups[g].tag, g == 1 ? "tag of 1" : "");
	}
}

/* What the model did is what its sessions have done, those that have left included; each number is one of its own. */
Test(status, a_model_has_done_what_its_sessions_have)
{
	const int32_t lengths[] = { 20, 30 };
	struct status_tally *out = s->tallies;
	uint64_t h, *numbers;
	struct tally *y;

	cr_assert(tallies_init(&ring.tallies));
	tally_join(&ring.tallies, &channel);
	y = channel.tally;
	numbers = &y->ended.prefilled;
	for (uint64_t i = 0; i < sizeof(y->ended) / sizeof(*numbers); i++)
		numbers[i] = 1000 * (i + 1);
	for (uint64_t i = 0; i < TALLY_N_KINDS; i++) {
		y->admitted[i] = 11 + i;
		y->waited[i] = 21 + i;
		y->refused[i] = y->refused_by[i][FAULT_NO_PAGES] = 31 + i;
	}
	times_add(&y->prepare, 5000);
	times_add(&y->step, 6000);
	times_add(&y->wait, 7000);
	h = begin_two(1, 2);
	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	decode(&w, h, 3);
	status_fill(s, &ring);
	cr_assert_eq(s->n_tallies, 1);
	cr_expect_str_eq(out->model, "three");
	cr_expect_eq(s->sessions[0].totals.prefilled, 50);
	cr_expect_eq(s->sessions[0].totals.stepped, 6);
	cr_expect_eq(out->totals.prefilled, 1050);
	cr_expect_eq(out->totals.stepped, 2006);
	cr_expect_eq(out->totals.pages_taken, 3000 + s->sessions[0].totals.pages_taken);
	cr_expect(out->totals.pages_returned == 4000 && out->totals.pages_scrubbed == 5000);
	cr_expect(out->totals.pages_moved == 6000 && out->totals.pages_yielded == 7000);
	cr_expect(out->begins.admitted == 11 && out->begins.waited == 21 && out->begins.refused == 31);
	cr_expect(out->takes.admitted == 12 && out->takes.waited == 22 && out->takes.refused == 32);
	cr_expect(out->prepare.sum_ns == 5000 && out->step.sum_ns == 6000 && out->wait.sum_ns == 7000);
	cr_assert_eq(s->n_denials, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct status_denial *x = &s->denials[i];

		cr_expect(x->tally == 0 && x->takes == i && x->reason == FAULT_NO_PAGES && x->n == 31 + i);
	}
	tallies_deinit(&ring.tallies);
}

Test(status, pages_of_a_group_are_told_by_what_they_are)
{
	uint64_t h = begin_two(1, 2);
	const int32_t lengths[] = { 20, 30 };

	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	status_fill(s, &ring);
	for (uint32_t g = 0; g < GROUPS; g++) {
		cr_expect_eq(s->sessions[0].groups[g].unbound, s->sessions[0].groups[g].held - 4);
		cr_expect_eq(s->sessions[0].groups[g].quarantined, 0);
	}
	session_end(w.s);
	s->n_sessions = s->n_classes = s->n_models = 0;
	status_fill(s, &ring);
	for (uint32_t g = 0; g < GROUPS; g++) {
		cr_expect_eq(s->sessions[0].groups[g].unbound, 0);
		cr_expect_eq(s->sessions[0].groups[g].quarantined, s->sessions[0].groups[g].held);
	}
}

Test(status, who_is_asked_for_pages_and_did_not_give)
{
	const struct take all = { .group = 1, .min = 8, .max = 8 },
			  other = { .group = 0, .min = 1, .max = 4096, .wait = 9 };
	struct wire_board boards[GROUPS] = { 0 };
	const struct status_session *out = s->sessions;
	uint64_t ceiling = 4 << 20, none = 0;
	static int32_t ids[WIRE_MAX_PAGES];
	struct worker b;
	uint32_t n;
	int code;

	worker_open(&b, ring.engine, three_groups(), 4 << 20, 2);
	cr_assert_eq(session_join(w.s, "three"), 0);
	cr_assert_eq(session_join(b.s, "other"), 0);
	cr_assert_eq(engine_limit(ring.engine, "three", &none, &ceiling, NULL), 0);
	channel.boards = boards;
	cr_assert_eq(pages_take(w.s, &all, ids, &n, &w.f), 0);
	store_relaxed(&boards[1].offered, 3);
	store_relaxed(&boards[2].offered, 3);
	status_fill(s, &ring);
	cr_expect(out->groups[1].managed == 8 && out->groups[1].offered == 3 && out->groups[1].wanted == 0);
	cr_expect(out->groups[2].managed == 0 && out->groups[2].offered == 0, "it has none to offer");
	cr_expect(out->asked == 0 && out->unanswered == 0);
	engine_stamp(ring.engine, 31);
	while ((code = pages_take(b.s, &other, ids, &n, &b.f)) == 0)
		continue;
	cr_assert_eq(code, SWAKV_EAGAIN, "%d", code);
	engine_press(ring.engine);
	s->n_sessions = s->n_classes = s->n_models = 0;
	status_fill(s, &ring);
	cr_expect(out->groups[1].wanted > 0 && out->groups[1].wanted_ns == 31);
	cr_expect(out->asked == 1 && out->unanswered == 0);
	session_end(b.s);
	engine_press(ring.engine);
	s->n_sessions = s->n_classes = s->n_models = 0;
	status_fill(s, &ring);
	cr_expect(out->groups[1].wanted == 0 && out->groups[1].wanted_ns == 0);
	cr_expect(out->asked == 1 && out->unanswered == 1);
	worker_close(&b);
}

Test(status, moves_are_shown_with_who_keeps_an_extent_and_why)
{
	struct emptying_counts c;
	const struct status_session *out = s->sessions;

	status_fill(s, &ring);
	cr_expect(s->moved_pages == 0 && s->moved_bytes == 0 && s->unplaced == 0);
	ring.engine->emptying = (struct emptying){ .moved = 11, .moved_bytes = 12, .unplaced = 13 };
	ring.engine->pool.classes[1]->stays[STAY_IDLE] = 14;
	ring.engine->pool.classes[1]->n_moved = 15;
	ring.engine->pool.classes[1]->n_emptying = 16;
	w.s->stays[STAY_PINNED] = 17;
	w.s->n_due = 18;
	w.s->groups[2].n_moved = 19;
	w.s->groups[2].n_ranges = 1;
	w.s->groups[2].ranges[0] = (struct page_range){ 20, 21 };
	s->n_sessions = s->n_classes = s->n_models = 0;
	status_fill(s, &ring);
	cr_expect(s->moved_pages == 11 && s->moved_bytes == 12 && s->unplaced == 13);
	cr_expect(s->classes[1].stays[STAY_IDLE] == 14 && s->classes[1].moved == 15 && s->classes[1].emptying == 16);
	cr_expect(s->classes[0].stays[STAY_IDLE] == 0 && s->classes[0].moved == 0 && s->classes[0].emptying == 0);
	cr_expect(out->stays[STAY_PINNED] == 17 && out->to_move == 18);
	cr_expect(out->groups[2].moved == 19 && out->groups[1].moved == 0);
	cr_expect_eq(out->groups[2].n_ranges, 0U, "nothing is wanted of it");
	w.s->groups[2].wanted = 1;
	s->n_sessions = s->n_classes = s->n_models = 0;
	status_fill(s, &ring);
	cr_expect(out->groups[2].n_ranges == 1 && out->groups[2].ranges[0].first == 20 &&
		  out->groups[2].ranges[0].end == 21);
	engine_count_emptying(ring.engine, &c);
	cr_expect_eq(c.stays[STAY_IDLE], 14U);
	ring.engine->pool.classes[1]->n_emptying = 0;
}

Test(status, a_session_has_its_state)
{
	const struct {
		enum channel_state state;
		uint32_t shown;
	} states[] = { { CHANNEL_ATTACHED, STATUS_ATTACHED },
		       { CHANNEL_CLOSING, STATUS_CLOSING },
		       { CHANNEL_DEAD, STATUS_DEAD },
		       { CHANNEL_KICKED, STATUS_ENDED } };

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		channel.state = states[i].state;
		cr_expect_eq(status_session_state(&channel), states[i].shown);
	}
	channel.state = CHANNEL_RECLAIMED;
	status_fill(s, &ring);
	cr_expect_eq(s->n_sessions, 0, "of a session that is over nothing is shown");
}

Test(status, the_oldest_request_and_the_oldest_point_are_the_sessions)
{
	uint64_t young = begin_two(1, 0), old = begin_two(6, 7);
	const int32_t lengths[] = { 40, 50 };

	engine_stamp(ring.engine, 500);
	cr_assert_eq(prefill_prepare(&w, old, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, old, fence_line(&w, 0, 1)), 0);
	engine_stamp(ring.engine, 600);
	cr_assert_eq(prefill_prepare(&w, young, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, young, fence_line(&w, 0, 2)), 0);
	status_fill(s, &ring);
	cr_expect_eq(s->sessions[0].oldest_lease_ns, begun[6]);
	cr_expect_eq(s->sessions[0].oldest_point_ns, 500);
	cr_expect_eq(s->sessions[0].open_points, 2);
	reach(&w, 0, 1);
	status_fill(s, &ring);
	cr_expect_eq(s->sessions[1].oldest_point_ns, 600);
}

static void expect_request(const struct status_request *r, uint64_t handle, uint64_t begun_ns, uint32_t first)
{
	struct wire_request_state st = request_state(&w, handle);

	cr_expect_eq(r->session, 0);
	cr_expect_eq(r->handle, handle);
	cr_expect(r->phase == st.phase && r->transition == st.transition && r->stream == st.stream);
	cr_expect(r->n_sequences == st.n_seqs && r->open_points == st.open_points);
	cr_expect_eq(r->begun_ns, begun_ns);
	cr_expect_eq(r->first_sequence, first);
}

Test(status, a_request_shows_each_sequence_in_each_group)
{
	uint64_t h = begin_two(5, 3), other;
	const int32_t lengths[] = { 70, 200 }, slot = 1;

	cr_assert_eq(begin_on(&w, 1, &other, 1, &slot), 0);
	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_line(&w, 0, 1)), 0);
	status_fill(s, &ring);
	cr_assert_eq(s->n_requests, 2);
	for (uint32_t i = 0; i < 2; i++) {
		bool first = s->requests[i].handle == h;

		expect_request(&s->requests[i], first ? h : other, begun[first ? 5 : 1], s->requests[i].first_sequence);
	}
	cr_assert_eq(s->n_sequences, 3 * GROUPS);
	for (uint32_t i = 0; i < s->n_requests; i++)
		for (uint32_t k = 0; k < s->requests[i].n_sequences * GROUPS; k++) {
			const struct status_sequence *q = &s->sequences[s->requests[i].first_sequence + k];
			struct wire_sequence_state st =
				group_state(&w, s->requests[i].handle, (int32_t)(k / GROUPS), k % GROUPS);

			cr_expect_eq(q->group, k % GROUPS);
			cr_expect(q->slot == st.slot && q->generation == st.generation);
			cr_expect(q->endpoint == st.endpoint && q->pending_endpoint == st.pending_endpoint);
			cr_expect(q->retained_begin == st.retained_begin && q->retained_end == st.retained_end);
			cr_expect(q->n_bound == st.n_bound && q->n_reserved == st.n_reserved);
			cr_expect(q->n_retiring == st.n_retiring && q->n_staged == st.n_staged);
		}
}

/* What is listed of a row must be what the row holds, logical by logical. */
static void expect_row(const struct status_sequence *q)
{
	int32_t width = w.geometry[q->group].width, n = 0;
	const int32_t *row = w.tables[q->group].cells + (int64_t)q->slot * 2 * width;

	for (int32_t c = 0; c < width; c++)
		n += row[c] >= 0;
	cr_expect_eq(q->n_bound + q->n_retiring, (uint32_t)n, "group %u lists %u + %u of %d pages", q->group,
		     q->n_bound, q->n_retiring, n);
	for (uint32_t i = 0; i < q->n_bound + q->n_retiring; i++) {
		const struct wire_binding *b = &s->bindings[q->first_binding + i];

		cr_assert(b->logical >= 0 && b->logical < width);
		cr_expect_eq(b->page, row[b->logical], "group %u, logical %d", q->group, b->logical);
		cr_expect(i == 0 || s->bindings[q->first_binding + i - 1].logical != b->logical);
	}
}

/* A step that is prepared leaves a page behind in both windows. */
static uint64_t retiring(void)
{
	uint64_t h = begin_two(5, 3);
	const int32_t lengths[] = { 4 * PAGE_TOKENS + 2 * PAGE_TOKENS, 4 * PAGE_TOKENS + 2 * PAGE_TOKENS };

	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	cr_assert_eq(prefill_complete(&w, h, fence_done), 0);
	cr_assert_eq(decode_prepare(&w, h), 0);
	return h;
}

Test(status, retiring_pages_are_listed_behind_the_bound_ones)
{
	uint64_t h = retiring();
	uint32_t n_retiring = 0;

	status_fill(s, &ring);
	cr_assert_eq(s->n_sequences, 2 * GROUPS);
	for (uint32_t i = 0; i < s->n_sequences; i++) {
		struct wire_sequence_state st = group_state(&w, h, (int32_t)(i / GROUPS), i % GROUPS);

		expect_row(&s->sequences[i]);
		n_retiring += st.n_retiring;
		for (uint32_t k = st.n_bound; k < st.n_bound + st.n_retiring; k++)
			cr_expect_lt(s->bindings[s->sequences[i].first_binding + k].logical,
				     s->bindings[s->sequences[i].first_binding].logical,
				     "what leaves is behind the window");
	}
	cr_expect_gt(n_retiring, 0);
}

static void drain(const char *model)
{
	strcpy(ring.drained.models[ring.drained.n++], model);
}

/* A model with a session or a limit is shown once; one with neither is shown because it is drained. */
Test(status, drained_models_are_shown_whether_or_not_they_have_a_session)
{
	cr_assert_eq(session_join(w.s, "three"), 0);
	drain("other");
	drain("three");
	status_fill(s, &ring);
	cr_assert_eq(s->n_models, 2);
	cr_expect_str_eq(s->models[0].name, "three");
	cr_expect(s->models[0].drained && s->models[0].sessions == 1);
	cr_expect_str_eq(s->models[1].name, "other");
	cr_expect(s->models[1].drained && s->models[1].sessions == 0 && s->models[1].floor == 0);
	cr_expect_eq(s->drained, 0);
	ring.drained = (struct drained){ .all = true };
	memset(s, 0, sizeof(*s));
	status_fill(s, &ring);
	cr_assert_eq(s->n_models, 1);
	cr_expect(s->drained && !s->models[0].drained);
}

/* ---- where the arrays end -------------------------------------------------------------------- */

static uint32_t pages_of_all(void)
{
	uint32_t n = 0;

	status_fill(s, &ring);
	n = s->n_bindings;
	memset(s, 0, sizeof(*s));
	return n;
}

Test(status, bindings_end_with_the_array)
{
	uint32_t n;

	retiring();
	n = pages_of_all();
	s->n_bindings = STATUS_MAX_BINDINGS - n;
	status_fill(s, &ring);
	cr_expect_eq(s->n_bindings, STATUS_MAX_BINDINGS);
	cr_expect_eq(s->truncated, 0);
	for (uint32_t i = 0; i < s->n_sequences; i++)
		expect_row(&s->sequences[i]);
}

/* By as many as the retiring ones, too: those are asked for apart. */
Test(status, bindings_that_do_not_fit_whole_are_not_listed)
{
	uint32_t n, last;

	retiring();
	n = pages_of_all();
	for (uint32_t lacking = 1; lacking <= 3; lacking++) {
		memset(s, 0, sizeof(*s));
		s->n_bindings = STATUS_MAX_BINDINGS - n + lacking;
		status_fill(s, &ring);
		last = s->n_sequences - 1;
		cr_expect_leq(s->n_bindings, STATUS_MAX_BINDINGS);
		cr_expect_eq(s->truncated, 1);
		cr_expect_eq(s->sequences[last].first_binding, STATUS_NOT_LISTED);
		cr_expect_gt(s->sequences[last].n_bound, 0, "its counts are true");
		cr_expect_neq(s->sequences[0].first_binding, STATUS_NOT_LISTED);
	}
}

Test(status, sequences_end_with_the_array)
{
	begin_two(1, 2);
	s->n_sequences = STATUS_MAX_SEQUENCES - 2 * GROUPS;
	status_fill(s, &ring);
	cr_expect_eq(s->n_sequences, STATUS_MAX_SEQUENCES);
	cr_expect_eq(s->requests[0].first_sequence, STATUS_MAX_SEQUENCES - 2 * GROUPS);
	cr_expect_eq(s->truncated, 0);
}

/* Each takes a place for each of its groups. */
Test(status, sequences_that_do_not_fit_whole_are_not_listed)
{
	begin_two(1, 2);
	s->n_sequences = STATUS_MAX_SEQUENCES - 2 * GROUPS + 1;
	status_fill(s, &ring);
	cr_expect_eq(s->n_sequences, STATUS_MAX_SEQUENCES - 2 * GROUPS + 1);
	cr_expect_eq(s->requests[0].first_sequence, STATUS_NOT_LISTED);
	cr_expect_eq(s->requests[0].n_sequences, 2, "its counts are true");
	cr_expect_eq(s->truncated, 1);
}

Test(status, requests_end_with_the_array)
{
	begin_two(1, 2);
	s->n_requests = STATUS_MAX_REQUESTS - 1;
	status_fill(s, &ring);
	cr_expect_eq(s->n_requests, STATUS_MAX_REQUESTS);
	cr_expect_eq(s->truncated, 0);
	begin_two(3, 4);
	memset(s, 0, sizeof(*s));
	s->n_requests = STATUS_MAX_REQUESTS - 1;
	status_fill(s, &ring);
	cr_expect_eq(s->n_requests, STATUS_MAX_REQUESTS);
	cr_expect_eq(s->truncated, 1);
	cr_expect_eq(s->sessions[0].n_requests, 2, "its counts are true");
}

Test(status, sessions_end_with_the_array)
{
	s->n_sessions = STATUS_MAX_SESSIONS - 1;
	status_fill(s, &ring);
	cr_expect(s->n_sessions == STATUS_MAX_SESSIONS && !s->truncated);
	memset(s, 0, sizeof(*s));
	s->n_sessions = STATUS_MAX_SESSIONS;
	status_fill(s, &ring);
	cr_expect(s->n_sessions == STATUS_MAX_SESSIONS && s->truncated);
}

Test(status, models_end_with_the_array)
{
	static struct session *sessions[STATUS_MAX_MODELS + 1];

	cr_assert_eq(session_join(w.s, "model-000"), 0);
	for (int i = 0; i < STATUS_MAX_MODELS + 1; i++) {
		char name[32];

		snprintf(name, sizeof(name), "model-%03d", i);
		if (i == STATUS_MAX_MODELS) {
			status_fill(s, &ring);
			cr_expect(s->n_models == STATUS_MAX_MODELS && !s->truncated);
			memset(s, 0, sizeof(*s));
		}
		sessions[i] = session_new(ring.engine, &w.m, w.tables, 10 + (uint32_t)i);
		cr_assert(sessions[i] && session_join(sessions[i], name) == 0);
	}
	status_fill(s, &ring);
	cr_expect(s->n_models == STATUS_MAX_MODELS && s->truncated);
	for (uint32_t i = 0; i < s->n_models; i++) {
		struct quota_counts q;

		cr_assert(engine_quota_count(ring.engine, i, &q));
		cr_expect_str_eq(s->models[i].name, q.name);
	}
	for (int i = 0; i < STATUS_MAX_MODELS + 1; i++) {
		session_end(sessions[i]);
		session_reclaim(sessions[i]);
		session_free(sessions[i]);
	}
}

Test(status, a_model_shows_its_limits_and_who_waits)
{
	uint64_t floor = 1 << 20, ceiling = 3 << 20, handle;
	struct quota_counts q;
	int r;

	cr_assert_eq(session_join(w.s, "three"), 0);
	cr_assert_eq(engine_limit(ring.engine, "three", &floor, &ceiling, &w.f), 0);
	engine_stamp(ring.engine, 900);
	begin_two(0, 1);
	for (int32_t slot = 2; slot < BATCH; slot++) {
		const struct begin b = { .n_slots = 1, .slots = &slot, .wait = 100000 };

		r = request_begin_waiting(w.s, &b, &handle, &w.f);
		cr_assert(r >= 0 || w.f.code, "%d", r);
	}
	status_fill(s, &ring);
	cr_assert_eq(s->n_models, 1);
	cr_assert(engine_quota_count(ring.engine, 0, &q));
	cr_expect_str_eq(s->models[0].name, "three");
	cr_expect(s->models[0].floor == floor && s->models[0].ceiling == ceiling);
	cr_expect(s->models[0].used == q.used && q.used > 0);
	cr_expect(s->models[0].sessions == 1 && s->models[0].waiting == q.waiting);
	cr_expect(s->models[0].oldest_wait_ns == q.oldest && s->models[0].claims == q.claims);
}

/* ---- the pool extent by extent, and what happened -------------------------------------------- */

/* Sums over the extents of class @c, of which no page touches two. */
static void check_extents(uint32_t c)
{
	struct status_extent sum = { 0 };
	uint32_t n = 0;

	for (uint32_t x = 0; x < s->n_extents; x++) {
		const struct status_extent *e = &s->extents[x];

		if (e->page_class != c)
			continue;
		n++;
		sum.live += e->live;
		sum.quarantined += e->quarantined;
		sum.free += e->free;
	}
	cr_assert_eq(n, s->classes[c].extents);
	cr_assert_eq(sum.live, s->classes[c].leased + s->classes[c].quarantined);
	cr_assert_eq(sum.quarantined, s->classes[c].quarantined);
	cr_assert_eq(sum.free, s->classes[c].free);
}

Test(status, extents_add_up_to_their_class_from_lease_to_quarantine)
{
	int32_t lengths[] = { 100, 30 };
	uint64_t h = begin_two(0, 1);

	cr_assert_eq(prefill_prepare(&w, h, 2, lengths), 0);
	status_fill(s, &ring);
	cr_assert_eq(s->n_extents, 16U);
	cr_assert_eq(s->pool_extents, 16U);
	for (uint32_t c = 0; c < s->n_classes; c++)
		check_extents(c);
	cr_assert_gt(s->n_classes, 1U);
	session_end(w.s);
	channel.state = CHANNEL_DEAD;
	memset(s, 0, offsetof(struct status_snapshot, classes));
	status_fill(s, &ring);
	cr_assert_gt(s->classes[0].quarantined, 0);
	for (uint32_t c = 0; c < s->n_classes; c++)
		check_extents(c);
}

Test(status, events_stay_in_the_picture_that_is_made_next)
{
	event_note(&ring.events, 5, STATUS_EVENT_ATTACHED, &channel);
	status_fill(s, &ring);
	cr_assert_eq(s->events_ever, 1U);
	memset(s, 0, offsetof(struct status_snapshot, classes));
	event_note(&ring.events, 6, STATUS_EVENT_DEATH, &channel);
	status_fill(s, &ring);
	cr_assert_eq(s->events_ever, 2U);
	cr_assert_eq(s->events[0].kind, (uint32_t)STATUS_EVENT_ATTACHED);
	cr_assert_eq(s->events[1].kind, (uint32_t)STATUS_EVENT_DEATH);
	cr_assert_eq(s->events[1].session, 3U);
}
