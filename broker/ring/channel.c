/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.c - see channel.h
 *
 * Waking a worker takes a flag and a word. need_wakeup in the reply ring
 * (need_space in the command ring) says that it may sleep; the wait word is the
 * futex it sleeps on, and changes with every wake-up. The flag is cleared as the
 * worker is woken, so one that is already on its way costs no second system
 * call; it sets the flag again, and looks again, before each sleep.
 */
#include "channel.h"

#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "operation.h"

const char *violation_name(int violation)
{
	NAMES(names, VIOLATION_COUNT, VIOLATION_NAMES);

	return NAME_OF(names, violation);
}

bool channel_make(struct channel *c)
{
	const struct session_layout *l = &c->memory.layout;
	struct session_tables tables[WIRE_MAX_GROUPS];
	unsigned char *base = c->memory.session;

	ring_consumer_init_spsc(&c->commands, (struct ring_control *)(base + l->commands_control),
				base + l->commands_slots, l->ring_slots);
	ring_producer_init_spsc(&c->replies, (struct ring_control *)(base + l->replies_control),
				base + l->replies_slots, l->ring_slots);
	c->lines = (struct wire_line *)(base + l->lines);
	c->wait = (struct wire_wait *)(base + l->wait);
	c->boards = (struct wire_board *)(base + l->boards);
	c->ranges = (struct wire_ranges *)(base + l->ranges);
	for (uint32_t i = 0; i < l->n_groups; i++)
		tables[i] = (struct session_tables){
			.cells = (int32_t *)(c->memory.tables + l->cells[i]),
			.rows = (struct wire_row_head *)(c->memory.tables + l->rows[i]),
		};
	c->begun_ns = calloc(l->max_batch, sizeof(*c->begun_ns));
	c->session = c->begun_ns ? session_make(&c->model, c->geometry, tables, c->tag) : NULL;
	return c->session != NULL;
}

bool channel_start(struct channel *c, struct engine *e)
{
	if (!c->session && !channel_make(c))
		return false;
	c->declared_otherwise = engine_declared_otherwise(e, c->model_name, &c->model, c->geometry);
	return session_enlist(c->session, e) && session_join(c->session, c->model_name) == 0;
}

void channel_leave(struct channel *c)
{
	if (c->session && session_enlisted(c->session))
		session_leave(c->session);
}

void channel_stop(struct channel *c)
{
	channel_leave(c);
	c->session = session_discard(c->session);
	free(c->begun_ns);
	c->begun_ns = NULL;
}

enum violation channel_refresh(struct channel *c, bool *progress)
{
	for (uint32_t i = 0; i < c->memory.layout.n_streams; i++) {
		uint64_t word = load_acquire(&c->lines[i].word);
		uint64_t armed = load_acquire(&c->lines[i].armed);

		if (armed < c->armed[i])
			return VIOLATION_ARMED_BACKWARDS;
		if (word > armed)
			return VIOLATION_WORD_ABOVE_ARMED;
		c->armed[i] = armed;
		if (word <= c->words[i])
			continue;
		c->words[i] = word;
		session_reach(c->session, i, word);
		*progress = true;
	}
	/* Zeroes in the place of words never pass for reached ones, but for lines that were never armed. */
	return load_relaxed(&c->memory.lost) ? VIOLATION_MEMORY_LOST : VIOLATION_NONE;
}

bool channel_all_taken(struct channel *c)
{
	return ring_producer_space_spsc(&c->replies, c->memory.layout.ring_slots) > 0;
}

bool channel_idle(const struct channel *c)
{
	for (uint32_t i = 0; i < c->memory.layout.n_streams; i++)
		if (c->words[i] < c->armed[i])
			return false;
	return true;
}

/* 1 when the reply to @head fits now, 0 when not (noted in blocked_slots), or a violation. */
static int channel_reserve(struct channel *c, const struct wire_command *head)
{
	const struct operation *o = operation_of(head->op);
	uint32_t most = o ? operation_most(o, c->memory.layout.max_batch, c->memory.layout.n_streams) : 0;
	uint32_t n = head->n < most ? head->n : most;
	uint32_t need = reply_slots(head->op, n, c->memory.layout.n_rows) + c->waiting_slots;
	int space = ring_producer_space_spsc(&c->replies, need);

	if (space == 0) {
		c->blocked_slots = need;
		space = ring_producer_want_space_spsc(&c->replies, need);
	}
	if (space > 0 && c->blocked_slots) {
		if (!c->silent_since)
			ring_producer_clear_want_spsc(&c->replies);
		c->blocked_slots = 0;
	}
	return space < 0 ? -VIOLATION_REPLY_HEAD : space;
}

/* The same: whichever command it is, there is nearly always room for the largest reply of all. */
static inline int channel_room(struct channel *c, const struct wire_command *head)
{
	if (!c->blocked_slots &&
	    ring_producer_space_spsc(&c->replies, c->memory.layout.max_reply_slots + c->waiting_slots) > 0)
		return 1;
	return channel_reserve(c, head);
}

int channel_take(struct channel *c, unsigned char *message)
{
	const struct wire_command *head = (const struct wire_command *)message;
	int64_t fill = ring_consumer_fill_spsc(&c->commands);
	int r;

	if (fill <= 0)
		return fill < 0 ? -VIOLATION_COMMAND_TAIL : 0;
	ring_consumer_first_spsc(&c->commands, fill, message);
	ring_producer_soon_spsc(&c->replies);
	if (head->n_slots == 0 || head->n_slots > c->memory.layout.max_command_slots)
		return -VIOLATION_MESSAGE_SLOTS;
	if (head->n_slots > fill)
		return -VIOLATION_MESSAGE_TRUNCATED;
	r = channel_room(c, head);
	if (r <= 0)
		return r;
	if (head->n_slots > 1)
		ring_consumer_read_spsc(&c->commands, RING_SLOT, message + RING_SLOT,
					(size_t)(head->n_slots - 1) * RING_SLOT);
	return head->n_slots;
}

void channel_release(struct channel *c, uint32_t n_slots)
{
	ring_consumer_release_spsc(&c->commands, n_slots);
}

bool channel_sleeps(struct channel *c)
{
	bool sleeps = ring_consumer_sees_starved_spsc(&c->commands);

	if (ring_producer_sees_sleeper_spsc(&c->replies))
		sleeps |= exchange_acq_rel(&c->replies.control->need_wakeup, 0) != 0;
	return sleeps;
}

bool channel_wants_event(struct channel *c)
{
	return c->events && load_relaxed(&c->wait->event) && exchange_acq_rel(&c->wait->event, 0);
}

shm_u32 *channel_wake_word(struct channel *c)
{
	add_relaxed(&c->wait->word, 1); /* ordered by the system call before its look at the sleepers */
	return &c->wait->word;
}

int channel_prepare_sleep(struct channel *c)
{
	int r;

	if (c->state != CHANNEL_ATTACHED)
		return 0;
	if (c->blocked_slots) { /* its commands wait; what counts is room for a reply */
		r = ring_producer_want_space_spsc(&c->replies, c->blocked_slots);
		return r < 0 ? -VIOLATION_REPLY_HEAD : r;
	}
	r = ring_consumer_sleep_spsc(&c->commands);
	return r < 0 ? -VIOLATION_COMMAND_TAIL : r;
}

uint64_t channel_promise_look(struct channel *c, uint64_t now, uint64_t least, uint64_t most)
{
	uint64_t ask;

	if (c->state != CHANNEL_ATTACHED || c->blocked_slots)
		return UINT64_MAX;
	ask = load_relaxed(&c->wait->ask);
	if (ask <= now || ask - now > most)
		return UINT64_MAX;
	if (ask < now + least)
		ask = now + least;
	store_relaxed(&c->wait->look, ask);
	c->looks = true;
	return ask;
}

void channel_looks(struct channel *c)
{
	if (!c->looks)
		return;
	c->looks = false;
	store_relaxed(&c->wait->look, 0);
}

void channel_awake(struct channel *c)
{
	if (c->state == CHANNEL_ATTACHED)
		ring_consumer_awake_spsc(&c->commands);
}

void channel_rang(struct channel *c)
{
	c->silent_since = 0;
	channel_awake(c);
	if (c->state == CHANNEL_ATTACHED && !c->blocked_slots)
		ring_producer_clear_want_spsc(&c->replies);
}
