/* SPDX-License-Identifier: Apache-2.0 */
#include "status.h"

#include <string.h>

#include "tallies.h"

_Static_assert((int)FAULT_REASON_COUNT <= (int)STATUS_MAX_REASONS, "refusals by reason");

static void fill_pool(struct status_snapshot *s, const struct ring_thread *t)
{
	struct engine_counts e;
	struct emptying_counts m;
	struct class_counts k;

	engine_count(t->engine, &e);
	s->pool_total = e.total;
	s->pool_held = e.held;
	s->pool_free = e.free;
	s->pool_unusable = e.unusable;
	s->extent_bytes = e.extent_bytes;
	s->table_area_bytes = t->options.table_area_bytes;
	s->table_area_used = load_relaxed(&t->table_area_used);
	engine_count_emptying(t->engine, &m);
	s->moved_pages = m.moved;
	s->moved_bytes = m.moved_bytes;
	s->unplaced = m.unplaced;
	while (s->n_classes < STATUS_MAX_CLASSES && engine_class_count(t->engine, s->n_classes, &k)) {
		struct status_class *c = &s->classes[s->n_classes];

		engine_count_class_emptying(t->engine, s->n_classes++, &m);
		*c = (struct status_class){
			.page_bytes = k.page_bytes,
			.joined = k.joined,
			.pages = k.pages,
			.free = k.free,
			.leased = k.leased,
			.quarantined = k.quarantined,
			.available = k.available,
			.num_pages = k.num_pages,
			.extents = k.extents,
			.sessions = k.sessions,
			.empty = k.empty,
			.moved = m.moved,
			.emptying = m.extents,
		};
		memcpy(c->stays, m.stays, sizeof(c->stays));
	}
}

/* Models that are drained and have neither a session nor a limit: nothing else would show that. */
static void fill_drained(struct status_snapshot *s, const struct ring_thread *t)
{
	struct quota_counts q;

	s->drained = t->drained.all;
	for (uint32_t i = 0; i < t->drained.n; i++) {
		if (engine_quota_of(t->engine, t->drained.models[i], &q))
			continue;
		if (s->n_models == STATUS_MAX_MODELS) {
			s->truncated = 1;
			return;
		}
		s->models[s->n_models] = (struct status_model){ .drained = 1 };
		memcpy(s->models[s->n_models++].name, t->drained.models[i], WIRE_MODEL_NAME);
	}
}

static void fill_models(struct status_snapshot *s, const struct ring_thread *t)
{
	struct quota_counts q;

	while (engine_quota_count(t->engine, s->n_models, &q)) {
		struct status_model *m = &s->models[s->n_models];

		if (s->n_models == STATUS_MAX_MODELS) {
			s->truncated = 1;
			break;
		}
		s->n_models++;
		*m = (struct status_model){
			.floor = q.floor,
			.ceiling = q.ceiling,
			.used = q.used,
			.oldest_wait_ns = q.oldest, /* stamps are times here */
			.sessions = q.sessions,
			.waiting = q.waiting,
			.claims = q.claims,
			.drained = drained_lists(&t->drained, q.name),
		};
		memcpy(m->name, q.name, sizeof(m->name));
	}
}

static void fill_counters(struct status_snapshot *s, const struct ring_thread *t)
{
	const struct ring_counters *c = &t->counters;

	s->attaches = c->attaches;
	s->detaches = c->detaches;
	s->deaths = c->deaths;
	s->kicked = c->kicked;
	s->refused_attaches = load_relaxed(&t->refused_attaches);
	s->reclaimed_pages = c->reclaimed_pages;
	s->commands = c->commands;
	s->refusals = c->refusals;
	s->rounds = c->rounds;
	s->sleeps = c->sleeps;
	s->wakeups = c->wakeups;
	s->late = c->late;
	s->rescues = c->rescues;
	s->timer_polls = c->timer_polls;
	for (uint32_t i = 0; i < FAULT_REASON_COUNT; i++)
		s->refusals_by[i] = c->refusals_by[i] + load_relaxed(&t->refused_attaches_by[i]);
}

/* The draft holds those of the picture before: all but the new ones. */
static void fill_events(struct status_snapshot *s, struct ring_thread *t)
{
	events_copy(&t->events, s->events, t->events_shown);
	s->events_ever = t->events_shown = t->events.ever;
}

uint32_t status_session_state(const struct channel *c)
{
	switch (c->state) {
	case CHANNEL_CLOSING:
		return STATUS_CLOSING;
	case CHANNEL_DEAD:
		return STATUS_DEAD;
	case CHANNEL_KICKED:
		return STATUS_ENDED;
	default:
		return STATUS_ATTACHED;
	}
}

/* Copies @n bindings from number q->first of the engine's order on to the end of the array. */
static void copy_bindings(struct status_snapshot *s, const struct channel *c, uint64_t handle,
			  const struct wire_query_state *q, uint32_t n)
{
	struct wire_sequence_state state;
	uint32_t copied;

	if (n > 0)
		sequence_query(c->session, handle, q, &state, s->bindings + s->n_bindings, n, &copied, NULL);
	s->n_bindings += n;
}

/*
 * Lists the bindings of a sequence's row at the end of the array: the bound
 * ones, then, from another place in the engine's order, the retiring. False:
 * they do not fit whole, and none is listed.
 */
static bool list_bindings(struct status_snapshot *s, const struct channel *c, uint64_t handle,
			  struct wire_query_state *q, struct wire_sequence_state *state)
{
	uint32_t room = STATUS_MAX_BINDINGS - s->n_bindings, n = 0;

	/* Only what is listed is copied: behind it come reserved and staged pages, perhaps millions. */
	if (sequence_query(c->session, handle, q, state, NULL, 0, &n, NULL) != 0 ||
	    (uint64_t)state->n_bound + state->n_retiring > room)
		return false;
	copy_bindings(s, c, handle, q, state->n_bound);
	q->first = state->n_bound + state->n_reserved + state->n_new;
	copy_bindings(s, c, handle, q, state->n_retiring);
	return true;
}

static void fill_sequence(struct status_snapshot *s, struct ring_thread *t, const struct channel *c, uint64_t handle,
			  int32_t seq, uint32_t group)
{
	struct wire_query_state q = { .seq = seq, .group = group };
	struct wire_sequence_state state = { .slot = -1 };
	uint32_t first = s->n_bindings;

	if (!list_bindings(s, c, handle, &q, &state)) {
		first = STATUS_NOT_LISTED;
		s->truncated = 1;
	}
	s->sequences[s->n_sequences++] = (struct status_sequence){
		.slot = state.slot,
		.generation = state.generation,
		.endpoint = state.endpoint,
		.pending_endpoint = state.pending_endpoint,
		.retained_begin = state.retained_begin,
		.retained_end = state.retained_end,
		.n_bound = state.n_bound,
		.n_reserved = state.n_reserved,
		.n_retiring = state.n_retiring,
		.n_staged = state.n_staged,
		.first_binding = first,
		.group = group,
	};
	engine_spend(t->engine, 1);
}

/* Begin of the request: that of the slot of its first sequence, 0 when it has none left. */
static uint64_t begun_ns(const struct channel *c, uint64_t handle)
{
	struct wire_query_state q = { .seq = 0 };
	struct wire_sequence_state state;
	uint32_t n;

	if (sequence_query(c->session, handle, &q, &state, NULL, 0, &n, NULL) != 0)
		return 0;
	return state.slot >= 0 && (uint32_t)state.slot < c->memory.layout.max_batch ? c->begun_ns[state.slot] : 0;
}

static void fill_request(struct status_snapshot *s, struct ring_thread *t, const struct channel *c, uint32_t session,
			 uint64_t handle, uint64_t begun)
{
	uint32_t n_groups = c->model.n_groups;
	struct wire_request_state state;
	struct status_request *r;

	if (s->n_requests == STATUS_MAX_REQUESTS || request_query(c->session, handle, &state, NULL) != 0) {
		s->truncated = 1;
		return;
	}
	r = &s->requests[s->n_requests++];
	*r = (struct status_request){
		.session = session,
		.phase = state.phase,
		.transition = state.transition,
		.stream = state.stream,
		.handle = handle,
		.first_sequence = s->n_sequences,
		.n_sequences = state.n_seqs,
		.open_points = state.open_points,
		.begun_ns = begun,
	};
	if ((uint64_t)state.n_seqs * n_groups > STATUS_MAX_SEQUENCES - s->n_sequences) {
		r->first_sequence = STATUS_NOT_LISTED;
		s->truncated = 1;
		return;
	}
	for (uint32_t i = 0; i < state.n_seqs * n_groups; i++)
		fill_sequence(s, t, c, handle, (int32_t)(i / n_groups), i % n_groups);
}

/* Of the pages that it manages itself in a group: which it is asked for, and how many it says that it could give. */
static void fill_managed(struct status_group *out, const struct channel *c, uint32_t group)
{
	uint64_t offered = c->state == CHANNEL_ATTACHED && c->boards ? load_relaxed(&c->boards[group].offered) : 0;

	out->managed = session_managed_pages(c->session, group);
	out->offered = offered < (uint64_t)out->managed ? (int64_t)offered : out->managed;
	out->wanted = session_wanted_pages(c->session, group, &out->wanted_ns);
	if (out->wanted > 0)
		out->n_ranges = session_give_ranges(c->session, group, out->ranges);
}

static void fill_groups(struct status_session *out, const struct channel *c)
{
	out->n_groups = c->model.n_groups;
	for (uint32_t i = 0; i < out->n_groups; i++) {
		out->groups[i] = (struct status_group){
			.kind = c->model.groups[i].kind,
			.class_index = session_class(c->session, i),
			.window = c->model.groups[i].window,
			.page_tokens = c->model.groups[i].page_tokens,
			.private_pages = c->geometry[i].private_pages,
			.held = session_held_pages(c->session, i),
			.moved = session_moved_pages(c->session, i),
			.movable = (c->model.groups[i].flags & WIRE_GROUP_MOVABLE) != 0,
			.quarantined = session_quarantined_pages(c->session, i),
			.unbound = session_unbound_pages(c->session, i),
		};
		fill_managed(&out->groups[i], c, i);
		memcpy(out->groups[i].tag, c->model.groups[i].tag, WIRE_TAG);
	}
}

static void fill_members(struct status_session *out, const struct channel *c)
{
	out->n_members = load_acquire(&c->members);
	for (uint32_t i = 0; i < out->n_members; i++)
		out->members[i] = (int32_t)load_relaxed(&c->member_pids[i]);
}

/* Poison comes of what a command says, and goes by a shutdown: it is noticed here. */
static void note_poison(struct ring_thread *t, struct channel *c)
{
	struct session_counts n;

	session_count(c->session, &n);
	if (n.poisoned && !c->poison_noted && c->state == CHANNEL_ATTACHED)
		event_note(&t->events, t->now, STATUS_EVENT_POISONED, c)->pages = n.quarantined;
	c->poison_noted = n.poisoned;
}

static void fill_session(struct status_snapshot *s, const struct channel *c)
{
	struct status_session *out = &s->sessions[s->n_sessions++];
	struct session_counts n;
	struct ask_counts asks;
	struct due_counts due;
	uint32_t line;

	session_count(c->session, &n);
	session_count_asks(c->session, &asks);
	session_count_due(c->session, &due);
	*out = (struct status_session){
		.id = c->id,
		.generation = c->generation,
		.pid = c->pid,
		.uid = c->uid,
		.state = status_session_state(c),
		.poisoned = n.poisoned,
		.n_requests = n.requests,
		.n_sequences = n.sequences,
		.n_streams = c->memory.layout.n_streams,
		.max_batch = c->memory.layout.max_batch,
		.open_points = n.open_points,
		.leased = n.leased,
		.quarantined = n.quarantined,
		.behind_points = n.behind_points,
		.unbound = n.unbound,
		.waiting = c->n_waiting,
		.last_op = c->last_op,
		.last_code = c->last_code,
		.last_ns = c->last_ns,
		.attached_ns = c->attached_ns,
		.ended_ns = c->ended_ns,
		.commands = c->n_commands,
		.refused = c->n_refused,
		.rounds_blocked = c->n_rounds_blocked,
		.asked = asks.asked,
		.unanswered = asks.unanswered,
		.longest_wait = c->longest_wait,
		.to_move = due.to_move,
	};
	memcpy(out->stays, due.stays, sizeof(out->stays));
	memcpy(out->model, c->model_name, sizeof(out->model));
	fill_groups(out, c);
	fill_members(out, c);
	if (!session_oldest_point(c->session, &out->oldest_point_ns, &line))
		out->oldest_point_ns = 0;
}

/* Its requests, one after the other, while it has no command executed: others may have theirs in between. */
static void fill_requests(struct status_snapshot *s, struct ring_thread *t, struct channel *c, uint32_t index)
{
	struct status_session *out = &s->sessions[index];
	uint64_t handle = 0, begun;

	c->at_work = true;
	if (session_enlisted(c->session)) /* it may have left while others were served */
		status_fill_totals(&out->totals, c->session);
	while (session_next_request(c->session, &handle)) {
		begun = begun_ns(c, handle);
		if (begun && (out->oldest_lease_ns == 0 || begun < out->oldest_lease_ns))
			out->oldest_lease_ns = begun;
		fill_request(s, t, c, index, handle, begun);
	}
	c->at_work = false;
}

void status_fill(struct status_snapshot *s, struct ring_thread *t)
{
	struct channel *c;

	fill_pool(s, t);
	fill_models(s, t);
	fill_drained(s, t);
	s->device_lost_ns = t->device_lost_ns;
	fill_counters(s, t);
	/* All accounts in one go, so that they agree; then, in slices, what there is to say of requests. */
	TAILQ_FOREACH (c, &t->channels, link) {
		c->shown = -1;
		if (c->state == CHANNEL_RECLAIMED)
			continue;
		if (s->n_sessions == STATUS_MAX_SESSIONS) {
			s->truncated = 1;
			continue;
		}
		note_poison(t, c);
		c->shown = (int32_t)s->n_sessions;
		fill_session(s, c);
	}
	fill_events(s, t);
	extent_map_name_sessions(t->map, t);
	TAILQ_FOREACH (c, &t->channels, link)
		if (c->shown >= 0)
			fill_requests(s, t, c, (uint32_t)c->shown);
	status_fill_tallies(s, t);
	extent_map_fill(t->map, s, t);
}
