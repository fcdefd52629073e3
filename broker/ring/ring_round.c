/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_round.c - see ring_round.h
 *
 * A round visits every session, each for at most `budget` commands, and for a few
 * while others give some, too: so one that floods can neither starve the others nor
 * hold them up for long. A session whose reply ring is full is left
 * where it is, with need_space set. With nothing to do the thread spins for a
 * short time, by the clock, then sleeps (ring_sleep.c). While both sides are
 * awake no system call is made. The clock is read every few turns only, so the
 * times of commands are those of the last look.
 *
 * In the middle of a command, every few hundred operations, a glance serves what
 * lies in the rings of some others: without a look at the clock, and without the
 * fence that finds who is about to sleep, which would wait for all that the
 * command has just written. What a glance leaves undone waits for the next round,
 * which comes within ENGINE_LONG operations, in the middle of the command, too.
 */
#include "ring_round.h"

#include "clock.h"
#include "command_weight.h"
#include "operation.h"
#include "operation_turn.h"
#include "ring_bell.h"
#include "ring_boards.h"
#include "ring_end.h"
#include "ring_mail.h"
#include "ring_poll.h"
#include "ring_publish.h"
#include "ring_sleep.h"
#include "ring_wake.h"

#define HEARTBEAT (500 * NS_PER_MS)

/* Turns between two looks at the clock: idle ones, a command counting for COMMAND_COST of them. */
#define CREDIT       512
#define COMMAND_COST 8
/* Several sessions give commands while not all that were executed in the last so many rounds were of one. */
#define SHARED_ROUNDS 4096
/* Begins that have waited, and are answered in a round. */
#define ANSWERS 64
/* Rings that a glance looks at, and commands that it takes from one. */
#define GLANCE        16
#define GLANCE_BUDGET 4
/* A worker that is awake answers sooner: from here on the CPU is offered to others at every look at the clock. */
#define YIELD_AFTER (10 * NS_PER_US)

/* ---- begins and takes that wait ------------------------------------------------------------ */

static struct channel *channel_of(const struct ring_thread *t, const struct session *s)
{
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		if (c->session == s)
			return c;
	return NULL; /* not of a session whose begin waits: it would have ended */
}

/* Answers those that are decided now: so many at a time, with a look at all rings before there are more. */
static void admit_waiting(struct ring_thread *t)
{
	struct admission a;
	uint32_t n = 0;

	for (; n < ANSWERS && engine_spent(t->engine) < ENGINE_LONG / 2 && engine_admit(t->engine, &a); n++) {
		struct channel *c = channel_of(t, a.session);

		c->n_waiting--;
		c->waiting_slots -= waited_slots(a.took, a.most);
		commands_answer(c, &a, t->now);
		tally_answered(c, &a);
		c->n_refused += a.code != 0;
		if (a.code) {
			t->counters.refusals++;
			t->counters.refusals_by[a.fault.reason]++;
		}
		ring_wake_note(t, c);
		ring_changed(t);
	}
	t->worked |= n > 0; /* nobody sleeps: there may be more */
	ring_look_for_shifts(t);
}

/* ---- commands ----------------------------------------------------------------- */

/* The command of @n_slots slots waits, and is answered another time. False: the session has ended. */
static bool defer(struct ring_thread *t, struct channel *c, uint32_t n_slots)
{
	c->n_waiting++;
	c->waiting_slots += t->workspace->room;
	c->n_commands++;
	tally_waits(c, t->workspace);
	channel_release(c, n_slots);
	t->counters.commands++;
	ring_changed(t);
	if (t->in_pause)
		t->next_poll = t->now;
	else
		ring_poll(t); /* words may have moved that nobody has looked at since */
	return c->state == CHANNEL_ATTACHED;
}

static void count_refusals(struct ring_thread *t, const struct workspace *w)
{
	if (w->code != 0) {
		t->counters.refusals++;
		t->counters.refusals_by[w->fault.reason]++;
		return;
	}
	for (uint32_t i = 0; i < w->n_faults; i++)
		t->counters.refusals_by[w->faults[i].fault.reason]++;
}

enum outcome {
	EXECUTED,
	LEFT,  /* it stays in the ring: there is no time for it now */
	ENDED, /* the session has */
};

/* What may be done of ENGINE_LONG before a round is due: the next glance may be so far away. */
static uint32_t until_round(const struct ring_thread *t)
{
	return (ENGINE_LONG / ENGINE_SLICE - 2) * t->options.slice;
}

/* In the middle of somebody's long work. */
static bool must_wait(const struct ring_thread *t, const struct channel *c)
{
	return (t->had_long || t->in_pause) &&
	       engine_spent(t->engine) + command_weight(t->workspace, c) > ENGINE_LONG - 2 * ENGINE_SLICE;
}

/* Refused for want of pages: words may have moved that nobody has looked at since. */
static enum outcome try_again(struct ring_thread *t, struct channel *c)
{
	bool progress;

	if (t->in_pause)
		return LEFT;
	progress = ring_poll(t);
	if (c->state != CHANNEL_ATTACHED)
		return ENDED;
	if (progress)
		operation_execute(t->workspace, c, t->now);
	return EXECUTED;
}

/* A turn is not tried again: before it begins requests all words are looked at. False: the session has ended. */
static bool look_before_turn(struct ring_thread *t, const struct channel *c)
{
	const struct workspace *w = t->workspace;

	if (t->in_pause || !w->formed || command_head(w)->op != WIRE_OP_STEP_TURN || !turn_begins(w))
		return true;
	ring_poll(t);
	return c->state == CHANNEL_ATTACHED; /* it may have been found lying, which is no progress */
}

/* Executes and answers the command of @n_slots slots in the workspace. */
static enum outcome execute(struct ring_thread *t, struct channel *c, uint32_t n_slots)
{
	struct workspace *w = t->workspace;
	enum outcome outcome = EXECUTED;
	bool progress = false;

	operation_decode(w, c);
	if (must_wait(t, c))
		return LEFT;
	if (!look_before_turn(t, c))
		return ENDED;
	if (session_has_open(c->session, -1) || operation_reads_lines(w))
		if (!ring_refresh(t, c, &progress) || c->violated)
			return ENDED;
	operation_execute(w, c, t->now);
	if (w->code != 0 && w->starved)
		outcome = try_again(t, c);
	if (outcome != EXECUTED)
		return outcome;
	if (w->starved || w->code == SWAKV_EAGAIN)
		ring_note_starved(t);
	if (w->code == SWAKV_EAGAIN)
		return defer(t, c, n_slots) ? EXECUTED : ENDED;
	if (w->closed) { /* told before the worker can see the answer and end its connection */
		ring_end_session(t, c, CHANNEL_CLOSING);
		t->counters.detaches++;
		mailbox_post_spsc(t->outbox, MAIL_CLOSED, c, 0);
	}
	commands_reply(w, c);
	channel_release(c, n_slots); /* after the answer: the worker waits for that */
	tally_command(c, w, t->now);
	t->counters.commands++;
	if (w->code != 0 || w->n_faults)
		count_refusals(t, w);
	return w->closed ? ENDED : EXECUTED;
}

/* After its share of a round: what is left in the ring waits one round more. An upper bound for each command. */
static void note_wait(struct channel *c, uint64_t now)
{
	if (c->rounds_waited + 1 > c->longest_wait)
		c->longest_wait = c->rounds_waited + 1;
	if (ring_consumer_seen_spsc(&c->commands) == 0) {
		c->rounds_waited = 0;
		return;
	}
	c->rounds_waited++;
	tally_left(c, now);
}

/*
 * Takes and executes what the first look found, up to @budget; how many. A look
 * takes the position's cache line from the worker, which may be about to write
 * to it. A command that was long ends the share, and the round has no other one.
 */
static uint32_t take_share(struct ring_thread *t, struct channel *c, uint32_t budget)
{
	uint64_t n_long = t->n_long;
	uint32_t n = 0;

	while (n < budget) {
		int r = channel_take(c, t->workspace->message);
		enum outcome outcome;

		if (r < 0)
			ring_kick(t, c, -r);
		if (r <= 0)
			break;
		outcome = execute(t, c, (uint32_t)r);
		c->left = outcome == LEFT;
		if (c->left) {
			tally_left(c, t->now);
			break;
		}
		n++;
		if (t->n_long != n_long) {
			t->had_long = true;
			t->long_channel = c;
			break;
		}
		if (outcome == ENDED || ring_consumer_seen_spsc(&c->commands) == 0)
			break;
	}
	return n;
}

/* One session's share of a round or of a glance: @budget commands at most; how many. */
static uint32_t serve(struct ring_thread *t, struct channel *c, uint32_t budget)
{
	bool was_blocked = c->blocked_slots != 0;
	uint32_t n;

	c->at_work = true;
	n = take_share(t, c, budget);
	c->at_work = false;
	if (c->blocked_slots && (n || !was_blocked)) {
		c->n_rounds_blocked++;
		tally_left(c, t->now);
	}
	if (n || c->rounds_waited)
		note_wait(c, t->now);
	return n;
}

/*
 * How many commands of one session are executed before a look at the others: few
 * while these give some, too, since each of theirs waits for that.
 */
static uint32_t budget(const struct ring_thread *t)
{
	bool shared = t->options.shared_budget && t->counters.rounds < t->shared_until;

	return shared && t->options.shared_budget < t->options.budget ? t->options.shared_budget : t->options.budget;
}

/* @c has had a command executed. */
static void note_served(struct ring_thread *t, const struct channel *c)
{
	if (t->served_last == c)
		return;
	if (t->served_last)
		t->shared_until = t->counters.rounds + SHARED_ROUNDS;
	t->served_last = c;
}

/* Closed just now: most are idle already. */
static void look_if_idle(struct ring_thread *t, struct channel *c)
{
	bool progress;

	if (c->state == CHANNEL_CLOSING && c->ended_ns == t->now)
		ring_refresh(t, c, &progress);
}

static uint32_t serve_all(struct ring_thread *t)
{
	struct channel *c;
	uint32_t n = 0;

	TAILQ_FOREACH (c, &t->channels, link) {
		if (c->at_work || (c->session && session_busy(c->session)))
			continue;
		if (c->violated && !t->in_pause)
			ring_kick(t, c, c->violated);
		if (c->state == CHANNEL_ATTACHED && !c->violated) {
			uint32_t served;

			engine_looked(t->engine);
			served = serve(t, c, budget(t));
			if (served || c->state == CHANNEL_KICKED)
				ring_wake_note(t, c);
			n += served;
			if (served)
				note_served(t, c);
		}
		look_if_idle(t, c);
	}
	if (n)
		ring_changed(t);
	if (engine_waiting(t->engine) > 0) {
		engine_looked(t->engine);
		admit_waiting(t);
	}
	ring_wake_round(t);
	return n;
}

static void beat(struct ring_thread *t)
{
	store_relaxed(&t->status->head->threads[STATUS_THREAD_RING].heartbeat_ns, t->now);
}

static bool worth_a_glance(struct channel *c)
{
	return c->state == CHANNEL_ATTACHED && !c->at_work && !c->left && !c->blocked_slots && !c->violated &&
	       ring_consumer_fill_spsc(&c->commands) != 0 && !session_busy(c->session);
}

static void glance(struct ring_thread *t)
{
	struct channel *first = t->next_glance ? t->next_glance : TAILQ_FIRST(&t->channels), *c = first;

	for (int i = 0; i < GLANCE && c; i++) {
		if (worth_a_glance(c) && serve(t, c, GLANCE_BUDGET)) {
			ring_changed(t);
			ring_wake_glance(t, c);
			look_if_idle(t, c);
		}
		c = TAILQ_NEXT(c, link);
		if (!c)
			c = TAILQ_FIRST(&t->channels);
		if (c == first)
			break;
	}
	t->next_glance = c;
}

static void round_in_between(struct ring_thread *t)
{
	bool had_long = t->had_long;

	engine_looked(t->engine);
	t->n_long++;
	t->had_long = true;
	t->now = t->edge.now(t->edge.arg);
	engine_stamp(t->engine, t->now);
	beat(t);
	serve_all(t);
	t->had_long = had_long;
}

void ring_pause(void *ring)
{
	struct ring_thread *t = ring;
	struct workspace *w = t->workspace;

	t->workspace = t->spare;
	t->in_pause = true;
	if (engine_spent(t->engine) > until_round(t))
		round_in_between(t);
	else
		glance(t);
	t->in_pause = false;
	t->workspace = w;
}

/* After a round with a long command: whoever had it comes last in the next one, so nobody else's waits twice. */
static void end_of_long(struct ring_thread *t)
{
	struct channel *c = t->long_channel;

	t->had_long = false;
	t->long_channel = NULL;
	TAILQ_REMOVE(&t->channels, c, link);
	TAILQ_INSERT_TAIL(&t->channels, c, link);
	t->credit = 0; /* mail and timers have waited, too */
}

/* ---- turns ---------------------------------------------------------------------- */

/* What is not done every turn: time, mail, completion points by timer, the status page, sleep. */
static void look_up(struct ring_thread *t)
{
	uint64_t idle;

	t->now = t->edge.now(t->edge.arg);
	beat(t);
	if (ring_take_mail(t))
		t->worked = true;
	ring_bell_look(t);
	engine_stamp(t->engine, t->now);
	ring_poll_by_timer(t);
	if (engine_waiting(t->engine) > 0)
		admit_waiting(t);
	ring_watch_points(t);
	ring_boards(t);
	if ((t->snapshot_due && t->now >= t->next_snapshot) || t->now >= t->idle_snapshot) {
		ring_publish(t);
		t->idle_snapshot = t->now + HEARTBEAT;
	}
	if (t->worked)
		t->last_work = t->now;
	t->worked = false;
	idle = t->now - t->last_work;
	t->credit = t->options.spin_ns ? CREDIT : 1;
	if (idle >= t->options.spin_ns && idle > 0 && !ring_wake_due(t)) {
		ring_sleep(t);
		t->credit = 1; /* whatever woke it: mail, a timer, a command */
	} else if (idle > YIELD_AFTER) {
		t->edge.yield(t->edge.arg); /* where there are fewer CPUs than spinners, somebody has work */
	}
}

void ring_turn(struct ring_thread *t)
{
	uint32_t n = serve_all(t);

	if (t->long_channel)
		end_of_long(t);
	t->counters.rounds++;
	t->worked |= n > 0;
	t->credit -= 1 + (int32_t)n * COMMAND_COST;
	if (t->credit <= 0)
		look_up(t);
	else if (n == 0)
		cpu_relax();
}
