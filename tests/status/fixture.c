/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.c - a broker as far as its status page goes
 *
 * status-fixture NAME MODE: makes the page of NAME, publishes what MODE says,
 * prints "ready", and lives until its stdin ends. test_status.py asks the tool
 * about it. But for the modes that end in "-beating", heartbeats and snapshots
 * are dated ahead, so that a busy machine does not make them look late.
 *
 *   known      the snapshot of known_snapshot(), again and again
 *   unbalanced the same, but that the pages of class 1 do not add up
 *   empty      a snapshot without classes and sessions
 *   flip       as fast as it can, numbers that change from one to the next but always add up
 *   known-beating, flip-beating
 *              the same with the times as they are
 *   stale      a snapshot that was published 2.5 s ago
 *   quiet-ring, quiet-control, quiet-device
 *              that thread's heartbeat is 1.7 s old
 *   unready    a page that is never finished
 *   version    a page of another version
 *   silent     a finished page with no snapshot
 *   damaged    a snapshot with an impossible count
 *   hostile    texts full of quotes, escapes and broken UTF-8
 *   large      64 sessions, 8,192 extents, a million pages
 *   truncated  a snapshot that had no room for its bindings
 *   rates      a snapshot a second, as its times say, with counters that rise evenly
 *   frozen     the known one, once
 *   many       64 sessions
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lifecycle.h"
#include "status_page.h"

static const uint64_t ms = 1000000;
static uint64_t ahead; /* ns that heartbeats and snapshots are dated ahead */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* When this program first asked: ages that are told from it are never less than was meant, however late a reader is. */
static uint64_t start_ns(void)
{
	static uint64_t start;

	if (!start)
		start = now_ns();
	return start;
}

static void fill_head(struct status_head *head)
{
	strcpy(head->pool, "main");
	strcpy(head->backend, "host");
	strcpy(head->device, "host memory");
	strcpy(head->export_kind, "memfd");
	strcpy(head->socket_path, "/run/swakv/fixture.sock");
	strcpy(head->ring_cpus, "4-7");
	strcpy(head->machine, "16 CPUs, last-level caches of 0-7 and 8-15");
}

static void fill_pool(struct status_snapshot *s)
{
	s->pool_total = 1000000;
	s->pool_held = 600000;
	s->pool_free = 300000;
	s->pool_unusable = 100000;
	s->extent_bytes = 100000;
	s->table_area_bytes = 65536;
	s->table_area_used = 4096;
}

static struct status_session known_session(uint32_t id, const char *model, uint32_t state)
{
	struct status_session x = {
		.id = id,
		.generation = 1,
		.pid = 1000 + (int32_t)id,
		.uid = 500,
		.state = state,
		.n_streams = 2,
		.max_batch = 64,
		.n_groups = 1,
		.groups = { { .kind = WIRE_GROUP_SLIDING, .window = 1024, .page_tokens = 128, .private_pages = 19 } },
		.attached_ns = start_ns() - 90000 * ms,
		.last_op = WIRE_OP_STEP_COMPLETE,
		.last_ns = start_ns() - 40 * ms,
		.commands = 100 * id,
		.refused = id,
	};

	strcpy(x.model, model);
	return x;
}

/* Two classes; sessions 1 attached, 2 poisoned, 3 dead, 4 ended, 5 closing; requests of session 1. */
static void known_sessions(struct status_snapshot *s)
{
	s->n_classes = 2;
	s->classes[0] = (struct status_class){
		.page_bytes = 65536,
		.pages = 100,
		.free = 51,
		.leased = 38,
		.quarantined = 11,
		.available = 81,
		.num_pages = 400,
		.extents = 4,
		.sessions = 3,
	};
	s->classes[1] = (struct status_class){
		.page_bytes = 16384,
		.joined = 1,
		.pages = 50,
		.free = 43,
		.leased = 0,
		.quarantined = 7,
		.available = 60,
		.num_pages = 1600,
		.extents = 2,
		.sessions = 2,
	};
	s->n_sessions = 5;
	s->sessions[0] = known_session(1, "gemma", STATUS_ATTACHED);
	s->sessions[0].n_requests = 2;
	s->sessions[0].n_sequences = 3;
	s->sessions[0].leased = 38;
	s->sessions[0].behind_points = 2;
	s->sessions[0].open_points = 1;
	s->sessions[0].oldest_point_ns = start_ns() - 3000 * ms;
	s->sessions[0].oldest_lease_ns = start_ns() - 5000 * ms;
	s->sessions[1] = known_session(2, "gemma", STATUS_ATTACHED);
	s->sessions[1].poisoned = 1;
	s->sessions[1].quarantined = 4;
	s->sessions[1].last_code = SWAKV_EPOISONED;
	s->sessions[2] = known_session(3, "gemma", STATUS_DEAD);
	s->sessions[2].quarantined = 7;
	s->sessions[2].n_groups = 2;
	s->sessions[2].groups[1] = (struct status_group){ .kind = WIRE_GROUP_FULL,
							  .class_index = 1,
							  .page_tokens = 32,
							  .private_pages = 256,
							  .tag = "mla, 512 + 64" };
	s->sessions[3] = known_session(4, "mistral", STATUS_ENDED);
	s->sessions[3].groups[0].class_index = 1;
	s->sessions[3].quarantined = 7;
	s->sessions[4] = known_session(5, "mistral", STATUS_CLOSING);
	s->sessions[4].groups[0].class_index = 1;
	s->sessions[4].last_op = 0;
	s->sessions[4].last_ns = 0;
	for (int i = 2; i < 5; i++)
		s->sessions[i].ended_ns = start_ns() - 1000 * ms;
	for (int i = 0; i < 5; i++)
		s->sessions[i].groups[0].held = s->sessions[i].leased + s->sessions[i].quarantined;
}

static void known_models(struct status_snapshot *s)
{
	s->n_models = 2;
	s->models[0] = (struct status_model){
		.name = "gemma",
		.floor = 300000,
		.used = 200000,
		.oldest_wait_ns = start_ns() - 4000 * ms,
		.sessions = 3,
		.waiting = 2,
		.claims = 1,
		.drained = 1,
	};
	s->models[1] = (struct status_model){ .name = "mistral", .ceiling = 400000, .used = 100000, .sessions = 2 };
	s->refusals_by[FAULT_NO_PAGES] = 3;
	s->refusals_by[STATUS_MAX_REASONS - 1] = 1; /* of a later version */
}

/* Session 1: a request of two sequences in the middle of a decode, and one admitted with one sequence. */
static void known_requests(struct status_snapshot *s)
{
	s->n_requests = 2;
	s->requests[0] = (struct status_request){
		.phase = PHASE_EXECUTING,
		.transition = TRANSITION_STEP,
		.stream = 1,
		.handle = 0xabc00000001,
		.n_sequences = 2,
		.open_points = 1,
		.begun_ns = start_ns() - 5000 * ms,
	};
	s->requests[1] = (struct status_request){
		.phase = PHASE_ADMITTED,
		.handle = UINT64_MAX - 1,
		.first_sequence = 2,
		.n_sequences = 1,
		.begun_ns = start_ns() - 10 * ms,
	};
	s->n_sequences = 3;
	s->sequences[0] = (struct status_sequence){
		.slot = 5,
		.generation = 9,
		.endpoint = 4096,
		.pending_endpoint = 4097,
		.retained_begin = 24,
		.retained_end = 33,
		.n_bound = 9,
		.n_reserved = 9,
		.n_retiring = 1,
		.first_binding = 0,
	};
	s->sequences[1] = (struct status_sequence){
		.slot = 0,
		.generation = 1,
		.endpoint = 100,
		.pending_endpoint = 101,
		.retained_end = 1,
		.n_bound = 1,
		.n_reserved = 17,
		.n_staged = 1,
		.first_binding = 10,
	};
	s->sequences[2] = (struct status_sequence){
		.slot = 7,
		.generation = 2,
		.pending_endpoint = -1,
		.first_binding = 11,
	};
	s->n_bindings = 11;
	for (int i = 0; i < 10; i++)
		s->bindings[i] = (struct wire_binding){ .logical = 23 + i, .page = 200 + i };
	s->bindings[10] = (struct wire_binding){ .logical = 0, .page = 399 };
}

/* Six extents of eight, and more events than the ring has room for: the last are of sessions 3 and 4. */
static void known_map(struct status_snapshot *s)
{
	s->pool_extents = 8;
	s->n_extents = 6;
	for (int i = 0; i < 6; i++)
		s->extents[i] = (struct status_extent){ .page_class = STATUS_NO_CLASS };
	s->extents[0] = (struct status_extent){ .live = 38, .quarantined = 11, .free = 2, .session = 3 };
	s->extents[1] = (struct status_extent){ .live = 11, .free = 14, .session = 1, .flags = STATUS_EXTENT_SHARED };
	s->extents[2] = (struct status_extent){ .free = 35, .flags = STATUS_EXTENT_CLAIMED };
	s->extents[4] =
		(struct status_extent){ .live = 7, .free = 43, .page_class = 1, .flags = STATUS_EXTENT_EMPTYING };
	for (uint64_t k = 0; k < 300; k++) {
		struct status_event *x = &s->events[status_event_place(s->events_ever++)];

		*x = (struct status_event){ .at_ns = start_ns() - (300 - k) * 1000 * ms,
					    .kind = STATUS_EVENT_ATTACHED,
					    .session = 1 + (uint32_t)k % 4,
					    .generation = (uint32_t)k,
					    .pid = 1003,
					    .uid = 500 };
		strcpy(x->model, "gemma");
	}
	s->events[status_event_place(298)].kind = STATUS_EVENT_DEATH;
	s->events[status_event_place(298)].pages = 7;
	s->events[status_event_place(299)].kind = STATUS_EVENT_ENDED;
	strcpy(s->events[status_event_place(299)].text, "word above armed");
}

static void known_snapshot(struct status_snapshot *s)
{
	known_map(s);
	fill_pool(s);
	known_sessions(s);
	known_models(s);
	known_requests(s);
	s->attaches = 9;
	s->detaches = 3;
	s->deaths = 2;
	s->kicked = 1;
	s->refused_attaches = 4;
	s->reclaimed_pages = 77;
	s->commands = 1500;
	s->refusals = 15;
	s->rounds = 2000;
	s->sleeps = 30;
	s->wakeups = 20;
	s->timer_polls = 10;
}

/* Snapshot @k: all numbers move, sums hold: over states, over sessions, over the pool. */
static void moving_snapshot(struct status_snapshot *s, uint64_t k)
{
	s->pool_total = 1u << 30;
	s->pool_unusable = 4096;
	s->pool_held = (k % 1000) << 20;
	s->pool_free = s->pool_total - s->pool_unusable - s->pool_held;
	s->rounds = k;
	s->n_classes = 1 + (uint32_t)(k % 8);
	s->n_sessions = (uint32_t)(k % 50);
	for (uint32_t c = 0; c < s->n_classes; c++)
		s->classes[c] = (struct status_class){ .page_bytes = 4096u << c };
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		struct status_session *x = &s->sessions[i];
		struct status_class *c = &s->classes[i % s->n_classes];

		*x = known_session(i + 1, "moving", i % 3 ? STATUS_ATTACHED : STATUS_DEAD);
		x->groups[0].class_index = i % s->n_classes;
		x->leased = i % 3 ? (int64_t)(k % 97) : 0;
		x->quarantined = i % 3 ? 0 : (int64_t)(k % 89);
		x->commands = k;
		x->groups[0].held = x->leased + x->quarantined;
		c->leased += x->leased;
		c->quarantined += x->quarantined;
	}
	for (uint32_t c = 0; c < s->n_classes; c++) {
		s->classes[c].free = (int64_t)(k % 83);
		s->classes[c].pages = s->classes[c].free + s->classes[c].leased + s->classes[c].quarantined;
	}
}

/* As large as a picture gets: 64 sessions of 8 models, 8,192 extents of 128 pages. */
static void large_snapshot(struct status_snapshot *s)
{
	s->n_classes = 1;
	s->classes[0] =
		(struct status_class){ .page_bytes = 65536, .extents = 8192, .sessions = 64, .num_pages = 1 << 20 };
	s->n_extents = s->pool_extents = 8192;
	s->extent_bytes = 128 * 65536;
	s->pool_total = s->pool_held = 2 * 8192 * s->extent_bytes;
	s->n_sessions = 64;
	s->n_models = 8;
	for (uint32_t i = 0; i < 8; i++) {
		s->models[i] = (struct status_model){ .floor = 8ull << 30, .ceiling = 64ull << 30, .sessions = 8 };
		snprintf(s->models[i].name, sizeof(s->models[i].name), "model-%u", i);
	}
	for (uint32_t i = 0; i < 64; i++)
		s->sessions[i] = known_session(i + 1, s->models[i % 8].name, i == 5 ? STATUS_DEAD : STATUS_ATTACHED);
	for (uint32_t x = 0; x < 8192; x++) {
		uint32_t i = x / 128, live = x % 129;
		struct status_session *of = &s->sessions[i];

		s->extents[x] =
			(struct status_extent){ .live = live, .free = 128 - live, .session = (uint16_t)(i + 1) };
		if (i == 5)
			s->extents[x].quarantined = live;
		*(i == 5 ? &of->quarantined : &of->leased) += live;
		*(i == 5 ? &s->classes[0].quarantined : &s->classes[0].leased) += live;
		s->classes[0].free += 128 - live;
		s->models[i % 8].used += live * 131072;
		of->groups[0].held = of->leased + of->quarantined;
	}
	s->classes[0].pages = 1 << 20;
}

static void hostile_snapshot(struct status_writer *w, struct status_snapshot *s)
{
	known_snapshot(s);
	memcpy(s->sessions[0].model, "\"\\\n\033[2J\xff\xc3{}", 12);
	memcpy(s->models[0].name, s->sessions[0].model, WIRE_MODEL_NAME);
	memset(s->models[1].name, 'x', WIRE_MODEL_NAME);
	memset(s->sessions[1].model, 'x', WIRE_MODEL_NAME);
	memset(s->sessions[1].groups[0].tag, 'y', WIRE_TAG);
	memcpy(s->sessions[2].groups[0].tag, "\033[2J\xff", 6);
	memset(s->events[0].model, 'z', STATUS_EVENT_TEXT);
	memcpy(s->events[1].text, "\033[2J\xff</script>", 15);
	memset(w->head->device, 0xfe, sizeof(w->head->device));
	strcpy(w->head->pool, "a\"b\\c");
}

/* One of everything, and no number twice: test_fields.py knows whose each is. */
static void distinct_snapshot(struct status_snapshot *s)
{
	const uint64_t now = start_ns();

	s->pool_total = 1001;
	s->pool_held = 1002;
	s->pool_free = 1003;
	s->pool_unusable = 1004;
	s->extent_bytes = 1005;
	s->table_area_bytes = 1006;
	s->table_area_used = 1007;
	s->device_lost_ns = now - 67000 * ms;
	s->moved_pages = 1171;
	s->moved_bytes = 1172;
	s->unplaced = 1173;
	s->n_classes = s->n_models = s->n_sessions = s->n_requests = s->n_sequences = 1;
	s->n_bindings = 2;
	s->classes[0] = (struct status_class){
		.page_bytes = 1011,
		.pages = 1012,
		.free = 1013,
		.leased = 1014,
		.quarantined = 1015,
		.available = 1016,
		.num_pages = 1017,
		.extents = 1018,
		.sessions = 1019,
		.empty = 1020,
		.moved = 1161,
		.emptying = 1162,
		.stays = { [STAY_IDLE] = 1163, [STAY_NO_ROOM] = 1164 },
	};
	s->models[0] = (struct status_model){
		.name = "one",
		.floor = 1131,
		.ceiling = 1032,
		.used = 1033,
		.oldest_wait_ns = now - 34000 * ms,
		.sessions = 1035,
		.waiting = 1036,
		.claims = 1,
		.drained = 1,
	};
	s->sessions[0] = (struct status_session){
		.id = 1041,
		.generation = 1042,
		.pid = 1043,
		.uid = 1044,
		.state = STATUS_CLOSING,
		.model = "one",
		.n_groups = 1,
		.n_requests = 1045,
		.n_sequences = 1046,
		.n_streams = 1047,
		.max_batch = 1048,
		.open_points = 1049,
		.groups = { { .kind = WIRE_GROUP_SLIDING,
			      .window = 1051,
			      .page_tokens = 1052,
			      .private_pages = 1053,
			      .held = 1054,
			      .quarantined = -1301, /* what is bound is left over, in bytes: no other number */
			      .unbound = 1302,
			      .managed = 1141,
			      .offered = 1142,
			      .wanted = 1143,
			      .wanted_ns = now - 66000 * ms,
			      .tag = "a tag",
			      .moved = 1165,
			      .movable = 1,
			      .n_ranges = 1,
			      .ranges = { { 1166, 1167 } } } },
		.leased = 1055,
		.quarantined = 1056,
		.behind_points = 1057,
		.unbound = 1058,
		.waiting = 1059,
		.last_op = WIRE_OP_FINISH,
		.last_code = SWAKV_ELIMIT,
		.last_ns = now - 61000 * ms,
		.attached_ns = now - 62000 * ms,
		.oldest_lease_ns = now - 63000 * ms,
		.ended_ns = now - 64000 * ms,
		.oldest_point_ns = now - 65000 * ms,
		.commands = 1066,
		.refused = 1067,
		.rounds_blocked = 1068,
		.longest_wait = 1069,
		.totals = { .prefilled = 1201,
			    .stepped = 1202,
			    .pages_taken = 1203,
			    .pages_returned = 1204,
			    .pages_scrubbed = 1205,
			    .pages_moved = 1206,
			    .pages_yielded = 1207 },
		.asked = 1144,
		.unanswered = 1145,
		.to_move = 1168,
		.stays = { [STAY_PINNED] = 1169 },
		.n_members = 2,
		.members = { 1151, 1152 },
	};
	s->n_tallies = 1;
	s->tallies[0] = (struct status_tally){
		.model = "one",
		.totals = { .prefilled = 1211,
			    .stepped = 1212,
			    .pages_taken = 1213,
			    .pages_returned = 1214,
			    .pages_scrubbed = 1215,
			    .pages_moved = 1216,
			    .pages_yielded = 1217 },
		.begins = { .admitted = 1221, .waited = 1222, .refused = 1223 },
		.takes = { .admitted = 1224, .waited = 1225, .refused = 1226 },
		.prepare = { .sum_ns = 1231000, .counts = { [2] = 1, [3] = 2, [4] = 4, [TIMES_LAST] = 8 } },
		.step = { .sum_ns = 1232000, .counts = { [3] = 1233 } },
		.wait = { .sum_ns = 1234000, .counts = { [7] = 1235 } },
	};
	s->n_denials = 2;
	s->denials[0] = (struct status_denial){ .takes = 0, .reason = FAULT_NO_PAGES, .n = 1227 };
	s->denials[1] = (struct status_denial){ .takes = 1, .reason = FAULT_NO_PAGES, .n = 1228 };
	s->requests[0] = (struct status_request){
		.phase = PHASE_FINISHING,
		.transition = TRANSITION_COMPACT,
		.stream = 1071,
		.handle = 1072,
		.n_sequences = 1,
		.open_points = 1073,
		.begun_ns = now - 74000 * ms,
	};
	s->sequences[0] = (struct status_sequence){
		.slot = 1081,
		.generation = 1082,
		.endpoint = 1083,
		.pending_endpoint = 1084,
		.retained_begin = 1085,
		.retained_end = 1086,
		.n_bound = 1,
		.n_reserved = 1088,
		.n_retiring = 1,
		.n_staged = 1089,
	};
	s->bindings[0] = (struct wire_binding){ .logical = 1091, .page = 1092 };
	s->bindings[1] = (struct wire_binding){ .logical = 1093, .page = 1094 };
	s->pool_extents = 1161;
	s->n_extents = 1;
	s->extents[0] = (struct status_extent){ .live = 1162, .quarantined = 1163, .free = 1164, .session = 1165 };
	s->events_ever = 1;
	s->events[0] = (struct status_event){ .at_ns = now - 68000 * ms,
					      .kind = STATUS_EVENT_LIMITED,
					      .session = 1171,
					      .generation = 1172,
					      .pid = 1173,
					      .uid = 1174,
					      .pages = 1175 };
	s->attaches = 1101;
	s->detaches = 1102;
	s->deaths = 1103;
	s->kicked = 1104;
	s->refused_attaches = 1105;
	s->reclaimed_pages = 1106;
	s->commands = 1107;
	s->refusals = 1108;
	s->rounds = 1109;
	s->sleeps = 1110;
	s->wakeups = 1111;
	s->late = 1112;
	s->rescues = 1113;
	s->timer_polls = 1114;
	s->refusals_by[FAULT_NO_PAGES] = 1115;
}

/* Snapshot @k, a second after the one before: counters rise by the same each time. */
static void rates_snapshot(struct status_snapshot *s, uint64_t k)
{
	fill_pool(s);
	s->commands = 500 * k;
	s->refusals = 20 * k;
	s->n_classes = s->n_models = s->n_sessions = s->n_tallies = 1;
	s->classes[0] =
		(struct status_class){ .page_bytes = 4096, .pages = 100, .free = 20, .leased = 60, .quarantined = 20 };
	s->models[0] = (struct status_model){ .name = "one", .used = 4096, .sessions = 1 };
	s->sessions[0] = known_session(7, "one", STATUS_ATTACHED);
	s->sessions[0].commands = 250 * k;
	s->sessions[0].totals = (struct status_totals){ .prefilled = 1000 * k, .stepped = 500 * k };
	s->tallies[0] =
		(struct status_tally){ .model = "one", .totals = { .prefilled = 2000 * k, .stepped = 1000 * k } };
	times_add(&s->tallies[0].step, 8000);
}

/* More sessions than a screen has lines. */
static void many_snapshot(struct status_snapshot *s)
{
	known_snapshot(s);
	s->n_requests = 0;
	for (; s->n_sessions < 64; s->n_sessions++)
		s->sessions[s->n_sessions] = known_session(s->n_sessions + 1, "gemma", STATUS_ATTACHED);
}

static void publish(struct status_writer *w, const char *mode, uint64_t k)
{
	struct status_snapshot *s = status_writer_begin(w);

	if (!strncmp(mode, "flip", 4))
		moving_snapshot(s, k);
	else if (!strcmp(mode, "hostile"))
		hostile_snapshot(w, s);
	else if (!strcmp(mode, "empty"))
		fill_pool(s);
	else if (!strcmp(mode, "large"))
		large_snapshot(s);
	else if (!strcmp(mode, "rates"))
		rates_snapshot(s, k);
	else if (!strcmp(mode, "many"))
		many_snapshot(s);
	else if (!strcmp(mode, "distinct"))
		distinct_snapshot(s);
	else
		known_snapshot(s);
	s->published_ns = !strcmp(mode, "stale") ? now_ns() - 2500 * ms : now_ns() + ahead;
	if (!strcmp(mode, "rates"))
		s->published_ns = start_ns() + ahead + k * 1000 * ms;
	if (!strcmp(mode, "damaged"))
		s->sessions[0].groups[0].class_index = 2;
	if (!strcmp(mode, "unbalanced"))
		s->classes[1].free++;
	if (!strcmp(mode, "unbalanced-bytes"))
		s->pool_unusable--;
	if (!strcmp(mode, "unbalanced-held"))
		s->sessions[2].groups[1].held++; /* of class 1 */
	if (!strcmp(mode, "unbalanced-quarantine"))
		s->classes[0].quarantined--, s->classes[0].free++;
	if (!strcmp(mode, "truncated")) {
		s->truncated = 1;
		s->n_bindings = 10;
		s->requests[1].first_sequence = STATUS_NOT_LISTED;
	}
	status_writer_commit(w);
}

static void beat(struct status_writer *w, const char *mode)
{
	static const char *const quiet[] = { "quiet-ring", "quiet-control", "quiet-device" };

	for (int i = 0; i < STATUS_N_THREADS; i++)
		store_relaxed(&w->head->threads[i].heartbeat_ns,
			      !strcmp(mode, quiet[i]) ? now_ns() - 1700 * ms : now_ns() + ahead);
}

static bool stdin_ended(int wait_ms)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char c;

	return poll(&p, 1, wait_ms) == 1 && read(STDIN_FILENO, &c, 1) == 0;
}

int main(int argc, char **argv)
{
	struct status_writer w;
	const char *mode;
	int e;

	if (argc != 3)
		return 2;
	mode = argv[2];
	ahead = strstr(mode, "-beating") ? 0 : 600000 * ms;
	e = status_writer_open(&w, argv[1]);
	if (e < 0) {
		fprintf(stderr, "status-fixture: %s: %s\n", argv[1], strerror(-e));
		return 1;
	}
	fill_head(w.head);
	if (!strcmp(mode, "version"))
		w.head->version = STATUS_VERSION + 1;
	for (uint64_t k = 1;; k++) {
		beat(&w, mode);
		if (strcmp(mode, "silent") != 0 && (k == 1 || strcmp(mode, "frozen") != 0))
			publish(&w, mode, k);
		if (k == 1) {
			if (strcmp(mode, "unready") != 0)
				status_writer_ready(&w);
			puts("ready");
			fflush(stdout);
		}
		/* at full speed: look at stdin only now and then */
		if (strncmp(mode, "flip", 4) != 0 ? stdin_ended(50) : k % 1000 == 0 && stdin_ended(0))
			break;
	}
	status_writer_close(&w);
	return 0;
}
