/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_channel.c - what a worker writes into its session's memory, and what the broker makes of it
 *
 * The test is the worker: it holds the other end of both rings, and the lines.
 */
#include <criterion/criterion.h>

#include "hello.h"
#include "ring/channel.h"
#include "session/handshake.h"

enum { STREAMS = 2 };

static const struct backend_pool pool = { .name = "main",
					  .backend = WIRE_BACKEND_HOST,
					  .fd = -1,
					  .bytes = 9 << 20,
					  .table_area_bytes = 1 << 20,
					  .half_bytes = 4 << 20,
					  .extent_bytes = 1 << 20 };
static struct engine *engine;
static struct channel channel;
static struct wire_line *lines;
static struct ring_producer_spsc commands; /* the worker's end */
static unsigned char *message;
static bool progress;

static void setup(void)
{
	struct wire_hello hello = good_hello();
	struct session_layout l;
	struct handshake h;
	struct refusal r;

	hello.n_streams = STREAMS;
	cr_assert_eq(handshake_check(&h, &hello, sizeof(hello), &pool, &r), 0, "%s", r.text);
	session_layout_init(&l, &h.model, h.geometry);
	channel = (struct channel){ .id = 1, .generation = 1, .tag = 1, .model = h.model, .doorbell = -1 };
	memcpy(channel.geometry, h.geometry, sizeof(channel.geometry));
	cr_assert_eq(session_memory_init(&channel.memory, &l), 0);
	engine =
		engine_new(&(struct engine_config){ .half_bytes = pool.half_bytes, .extent_bytes = pool.extent_bytes });
	cr_assert_not_null(engine);
	cr_assert(channel_start(&channel, engine));
	channel.state = CHANNEL_ATTACHED;
	lines = channel.lines;
	ring_producer_init_spsc(&commands, channel.commands.control, channel.memory.session + l.commands_slots,
				l.ring_slots);
	message = malloc((size_t)l.max_command_slots * RING_SLOT);
	cr_assert_not_null(message);
}

static void teardown(void)
{
	free(message);
	session_end(channel.session);
	session_reclaim(channel.session);
	channel_stop(&channel);
	session_memory_deinit(&channel.memory);
	engine = engine_free(engine);
}

TestSuite(channel, .init = setup, .fini = teardown);

static void line_set(uint32_t line, uint64_t armed, uint64_t word)
{
	store_relaxed(&lines[line].armed, armed);
	store_release(&lines[line].word, word);
}

static enum violation refresh(void)
{
	progress = false;
	return channel_refresh(&channel, &progress);
}

/* ---- timeline lines ------------------------------------------------------------------- */

Test(channel, a_word_above_its_armed_value_is_a_violation)
{
	line_set(1, 3, 3);
	cr_assert_eq(refresh(), VIOLATION_NONE);
	cr_assert(progress);
	line_set(1, 3, 4);
	cr_assert_eq(refresh(), VIOLATION_WORD_ABOVE_ARMED);
	line_set(1, 4, 4);
	cr_assert_eq(refresh(), VIOLATION_NONE, "armed first, it would have been right");
}

/* Each line has its own: another one's armed value is no excuse. */
Test(channel, a_word_is_held_against_its_own_line)
{
	line_set(0, 9, 0);
	line_set(1, 2, 5);
	cr_assert_eq(refresh(), VIOLATION_WORD_ABOVE_ARMED);
}

Test(channel, an_armed_value_never_falls)
{
	line_set(0, 5, 1);
	cr_assert_eq(refresh(), VIOLATION_NONE);
	line_set(0, 4, 1);
	cr_assert_eq(refresh(), VIOLATION_ARMED_BACKWARDS);
}

Test(channel, a_word_that_falls_changes_nothing)
{
	line_set(0, 5, 3);
	cr_assert_eq(refresh(), VIOLATION_NONE);
	line_set(0, 5, 2);
	cr_assert_eq(refresh(), VIOLATION_NONE);
	cr_assert_not(progress);
	cr_assert_eq(channel.words[0], 3);
}

Test(channel, idle_is_when_every_armed_word_is_reached)
{
	cr_assert(channel_idle(&channel));
	line_set(0, 2, 2);
	line_set(1, 7, 6);
	cr_assert_eq(refresh(), VIOLATION_NONE);
	cr_assert_not(channel_idle(&channel));
	line_set(1, 7, 7);
	cr_assert_not(channel_idle(&channel), "it was not looked at since");
	cr_assert_eq(refresh(), VIOLATION_NONE);
	cr_assert(channel_idle(&channel));
}

/* ---- commands -------------------------------------------------------------------------- */

/* A command that claims @claims slots, of which @published are there. */
static void publish(uint16_t claims, uint32_t published)
{
	const struct wire_command head = { .op = WIRE_OP_NOP, .n_slots = claims, .user_data = 77 };

	ring_producer_write_spsc(&commands, 0, &head, sizeof(head));
	ring_producer_publish_spsc(&commands, published);
}

Test(channel, a_command_is_taken_when_it_is_there)
{
	cr_assert_eq(channel_take(&channel, message), 0);
	publish(2, 2);
	cr_assert_eq(channel_take(&channel, message), 2);
	cr_assert_eq(((const struct wire_command *)(const void *)message)->user_data, 77);
	channel_release(&channel, 2);
	cr_assert_eq(channel_take(&channel, message), 0);
}

Test(channel, a_command_of_an_impossible_size_is_a_violation)
{
	publish(0, 1);
	cr_assert_eq(channel_take(&channel, message), -VIOLATION_MESSAGE_SLOTS);
	ring_producer_init_spsc(&commands, channel.commands.control, commands.slots, commands.n_slots);
	publish((uint16_t)(channel.memory.layout.max_command_slots + 1), channel.memory.layout.max_command_slots + 1);
	cr_assert_eq(channel_take(&channel, message), -VIOLATION_MESSAGE_SLOTS);
}

Test(channel, slots_that_were_not_published_are_no_part_of_a_command)
{
	publish(2, 1);
	cr_assert_eq(channel_take(&channel, message), -VIOLATION_MESSAGE_TRUNCATED);
}

Test(channel, positions_outside_a_ring_are_violations)
{
	publish(1, channel.memory.layout.ring_slots + 1);
	cr_assert_eq(channel_take(&channel, message), -VIOLATION_COMMAND_TAIL);
	cr_assert_eq(channel_prepare_sleep(&channel), -VIOLATION_COMMAND_TAIL);
}

/* More replies were collected than there ever were. */
Test(channel, a_head_before_the_replies_is_a_violation)
{
	uint32_t slots = channel.memory.layout.ring_slots;

	ring_producer_publish_spsc(&channel.replies, slots); /* the head is looked at when there seems to be no room */
	store_release(&channel.replies.control->head, slots + 1);
	publish(1, 1);
	cr_assert_eq(channel_take(&channel, message), -VIOLATION_REPLY_HEAD);
}

Test(channel, a_command_waits_for_room_for_its_reply)
{
	uint32_t slots = channel.memory.layout.ring_slots;

	publish(1, 1);
	ring_producer_publish_spsc(&channel.replies, slots); /* nobody has read one of them */
	cr_assert_eq(channel_take(&channel, message), 0);
	cr_assert_gt(channel.blocked_slots, 0);
	cr_assert_eq(channel_prepare_sleep(&channel), 0, "the command that waits must not keep the broker awake");
	store_release(&channel.replies.control->head, slots);
	cr_assert_eq(channel_take(&channel, message), 1);
	cr_assert_eq(channel.blocked_slots, 0);
}

/* What they are told must not need room that a command's answer has taken. */
Test(channel, begins_that_wait_keep_room_for_their_answers)
{
	uint32_t slots = channel.memory.layout.ring_slots;

	publish(1, 1);
	channel.waiting_slots = slots;
	cr_assert_eq(channel_take(&channel, message), 0);
	cr_assert_eq(channel.blocked_slots, slots + 1);
	channel.waiting_slots = slots - 1;
	cr_assert_eq(channel_take(&channel, message), 1, "one slot is left, and one is enough");
	channel.waiting_slots = slots - 2;
	ring_producer_publish_spsc(&channel.replies, 2);
	channel_release(&channel, 1);
	publish(1, 1);
	cr_assert_eq(channel_take(&channel, message), 0);
	store_release(&channel.replies.control->head, 1);
	cr_assert_eq(channel_take(&channel, message), 1);
}

/* ---- waking -------------------------------------------------------------------------------- */

Test(channel, a_worker_that_waits_for_answers_is_told_once)
{
	cr_assert_not(channel_sleeps(&channel), "it is awake");
	store_relaxed(&channel.replies.control->need_wakeup, 1);
	cr_assert(channel_sleeps(&channel));
	cr_assert_not(channel_sleeps(&channel), "it is on its way");
}

Test(channel, a_worker_that_waits_for_room_for_a_command_is_told)
{
	uint32_t slots = channel.memory.layout.ring_slots;

	ring_producer_publish_spsc(&commands, slots);
	cr_assert_eq(ring_producer_want_space_spsc(&commands, 1), 0);
	cr_assert(channel_sleeps(&channel));
	ring_producer_clear_want_spsc(&commands);
	cr_assert_not(channel_sleeps(&channel));
}

Test(channel, a_worker_that_is_about_to_sleep_finds_its_word_changed)
{
	uint32_t before = load_relaxed(&channel.wait->word);

	cr_assert_eq(channel_wake_word(&channel), &channel.wait->word);
	cr_assert_neq(load_relaxed(&channel.wait->word), before);
}

Test(channel, a_workers_event_loop_is_told_once_and_only_if_it_asked)
{
	store_relaxed(&channel.wait->event, 1);
	cr_assert_not(channel_wants_event(&channel), "it said at its attach that it would not");
	channel.events = true;
	cr_assert(channel_wants_event(&channel));
	cr_assert_not(channel_wants_event(&channel), "it is on its way");
	cr_assert_eq(load_relaxed(&channel.wait->event), 0);
}

/* Zeroes in the place of words look like lines that are idle: a session with them is not believed idle. */
Test(channel, lines_of_lost_memory_are_not_believed)
{
	line_set(0, 0, 0);
	cr_assert_eq(refresh(), VIOLATION_NONE);
	store_relaxed(&channel.memory.lost, 1);
	cr_assert_eq(refresh(), VIOLATION_MEMORY_LOST);
}

/* ---- several layer groups ------------------------------------------------------------------------- */

/* Each has cells and row heads of its own, and a step writes them all. */
Test(channel_groups, every_group_has_its_own_rows)
{
	struct wire_hello hello = good_hello();
	const int32_t slot = 1, length = 40;
	struct session_layout l;
	struct handshake h;
	struct refusal r;
	struct delivery d = { 0 };
	uint64_t handle;

	hello.n_groups = 3;
	hello.groups[1] = hello.groups[2] = hello.groups[0];
	hello.groups[1].window = 0;
	hello.groups[1].kind = WIRE_GROUP_FULL;
	hello.groups[2].layers++;
	cr_assert_eq(handshake_check(&h, &hello, sizeof(hello), &pool, &r), 0, "%s", r.text);
	session_layout_init(&l, &h.model, h.geometry);
	channel = (struct channel){ .id = 1, .generation = 1, .tag = 1, .model = h.model, .doorbell = -1 };
	memcpy(channel.geometry, h.geometry, sizeof(channel.geometry));
	cr_assert_eq(session_memory_init(&channel.memory, &l), 0);
	engine =
		engine_new(&(struct engine_config){ .half_bytes = pool.half_bytes, .extent_bytes = pool.extent_bytes });
	cr_assert(engine && channel_start(&channel, engine));
	d.updates = calloc(WIRE_MAX_INLINE_UPDATES, sizeof(*d.updates));
	d.rows = calloc(l.n_rows, sizeof(*d.rows));
	d.scrubs = calloc(l.n_rows, sizeof(*d.scrubs));
	cr_assert_eq(request_begin(channel.session, 0, 0, &slot, 1, &handle, NULL), 0);
	cr_assert_eq(request_prefill_prepare(channel.session, handle, &length, 1, &d, NULL), 0);
	for (uint32_t g = 0; g < 3; g++) {
		const struct wire_row_head *rows = (const void *)(channel.memory.tables + l.rows[g]);
		const int32_t *cells = (const int32_t *)(const void *)(channel.memory.tables + l.cells[g]);
		int32_t width = h.geometry[g].width;

		for (uint32_t i = 0; i < l.max_batch; i++)
			cr_expect_eq(load_relaxed(&rows[i].version), i == 1, "group %u, row %u", g, i);
		cr_expect_geq(cells[2 * width + (length - 1) / (int32_t)hello.groups[g].page_tokens], 0, "group %u", g);
		cr_expect_eq(cells[0], -1, "group %u", g);
	}
	free(d.updates);
	free(d.rows);
	free(d.scrubs);
	session_end(channel.session);
	session_reclaim(channel.session);
	channel_stop(&channel);
	session_memory_deinit(&channel.memory);
	engine = engine_free(engine);
}
