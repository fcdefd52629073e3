/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_thread.c - see ring_thread.h
 *
 * A round visits every session, each for at most `budget` commands, so one that
 * floods cannot starve the others. A session whose reply ring is full is left
 * where it is, with need_space set. With nothing to do the thread spins for a
 * short time, by the clock, then announces sleep in every ring, looks once
 * more, and waits in epoll: doorbells and mailbox are edge-triggered and never
 * read. While both sides are awake no system call is made. The clock is read
 * every few turns only, so the times of commands are those of the last look.
 *
 * Completion points are closed by timeline words, which nobody announces. They
 * are read before each command of their session, and by timer while any is
 * open: every 50 us, backing off to 1 ms, while somebody waits for pages or was
 * refused for want of them a moment ago; every 10 ms otherwise; not at all when
 * none is open.
 */
#include "ring_thread.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "admin_job.h"
#include "cleanup.h"
#include "clock.h"
#include "status.h"

#define POLL_SHORTEST  (50 * NS_PER_US)
#define POLL_LONGEST   (1 * NS_PER_MS)
#define POLL_RELAXED   (10 * NS_PER_MS)
#define STARVED_FOR    (100 * NS_PER_MS) /* how long a refusal counts as somebody waiting */
#define SNAPSHOT_EVERY (10 * NS_PER_MS)
#define SNAPSHOT_SHARE 100 /* of its cost: not more than 1 % of the time */
#define HEARTBEAT      (500 * NS_PER_MS)
#define WATCH_EVERY    (250 * NS_PER_MS)
#define RESCUE_LOOK    (200 * NS_PER_US)
#define TRIM_AFTER     (100 * NS_PER_MS)
#define TRIM_AT_ONCE   64 /* extents */

/* Turns between two looks at the clock: idle ones, a command counting for COMMAND_COST of them. */
#define CREDIT       512
#define COMMAND_COST 8
/* A worker that is awake answers sooner: from here on the CPU is offered to others at every look at the clock. */
#define YIELD_AFTER (10 * NS_PER_US)

static void beat(struct ring_thread *t)
{
	store_relaxed(&t->status->head->threads[STATUS_THREAD_RING].heartbeat_ns, t->now);
}

/* ---- the end of sessions -------------------------------------------------- */

static void reclaim(struct ring_thread *t, struct channel *c)
{
	int64_t pages = session_reclaim(c->session);

	channel_stop(c);
	c->state = CHANNEL_RECLAIMED;
	t->counters.reclaimed_pages += (uint64_t)pages;
	t->changed = true;
	mailbox_post_spsc(t->outbox, MAIL_RECLAIMED, c, pages);
}

/* No more commands; all that the session holds waits for proof that nothing of it runs. */
static void end_session(struct ring_thread *t, struct channel *c, enum channel_state state)
{
	if (c->state == CHANNEL_ATTACHED) {
		session_end(c->session);
		c->n_waiting = 0;
		c->ended_ns = t->now;
		t->changed = true;
	}
	c->state = state;
}

static void kick(struct ring_thread *t, struct channel *c, int violation)
{
	end_session(t, c, CHANNEL_KICKED);
	t->counters.kicked++;
	mailbox_post_spsc(t->outbox, MAIL_KICKED, c, violation);
}

/*
 * Reads the session's lines; an ended one whose armed words are all reached is
 * reclaimed. False: nothing is left of it.
 */
static bool refresh(struct ring_thread *t, struct channel *c, bool *progress)
{
	enum violation v = channel_refresh(c, progress);

	if (v != VIOLATION_NONE) {
		kick(t, c, v);
		return false;
	}
	if ((c->state == CHANNEL_CLOSING || c->state == CHANNEL_DEAD) && channel_idle(c)) {
		reclaim(t, c);
		*progress = true;
		return false;
	}
	return true;
}

/* ---- completion points ------------------------------------------------------ */

static bool needs_polling(const struct channel *c)
{
	switch (c->state) {
	case CHANNEL_ATTACHED:
		return session_has_open(c->session, -1);
	case CHANNEL_CLOSING:
	case CHANNEL_DEAD:
		return true;
	default:
		return false;
	}
}

/* Reads the lines of every session with open points. True when a word moved. */
static bool poll_lines(struct ring_thread *t)
{
	struct channel *c;
	bool progress = false;

	TAILQ_FOREACH (c, &t->channels, link)
		if (needs_polling(c))
			refresh(t, c, &progress);
	t->changed |= progress;
	return progress;
}

static bool any_open(const struct ring_thread *t)
{
	const struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		if (needs_polling(c))
			return true;
	return false;
}

static void poll_by_timer(struct ring_thread *t)
{
	bool starved = t->now < t->starved_until || engine_waiting(t->engine) > 0;

	if (t->now < t->next_poll)
		return;
	t->counters.timer_polls += any_open(t);
	if (poll_lines(t))
		t->poll_interval = POLL_SHORTEST;
	else if (t->poll_interval < POLL_LONGEST)
		t->poll_interval *= 2;
	if (t->poll_interval > POLL_LONGEST)
		t->poll_interval = POLL_LONGEST;
	t->next_poll = t->now + (starved ? t->poll_interval : POLL_RELAXED);
}

/* A point that stays open may be a kernel that never ends, or one that takes its time: it is told, never closed. */
static void watch_points(struct ring_thread *t)
{
	struct channel *c;
	uint64_t since;
	uint32_t line;

	if (t->now < t->next_watch || !t->options.watchdog_ns)
		return;
	t->next_watch = t->now + WATCH_EVERY;
	TAILQ_FOREACH (c, &t->channels, link) {
		bool late = c->state == CHANNEL_ATTACHED && session_oldest_point(c->session, &since, &line) &&
			    t->now - since > t->options.watchdog_ns;

		store_relaxed(&c->overdue, late ? 1 + line : 0);
	}
}

static void note_starved(struct ring_thread *t)
{
	if (t->now >= t->starved_until || t->next_poll > t->now + t->poll_interval) {
		t->poll_interval = POLL_SHORTEST;
		t->next_poll = t->now + POLL_SHORTEST;
	}
	t->starved_until = t->now + STARVED_FOR;
}

/* ---- begins that wait ------------------------------------------------------------ */

static struct channel *channel_of(const struct ring_thread *t, const struct session *s)
{
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		if (c->session == s)
			return c;
	return NULL; /* not of a session whose begin waits: it would have ended */
}

/* Answers those that are decided now. */
static void admit_waiting(struct ring_thread *t)
{
	struct admission a;

	while (engine_admit(t->engine, &a)) {
		struct channel *c = channel_of(t, a.session);

		c->n_waiting--;
		commands_answer(c, &a, t->now);
		c->n_refused += a.code != 0;
		if (a.code) {
			t->counters.refusals++;
			t->counters.refusals_by[a.fault.reason]++;
		}
		t->counters.wakeups += channel_wake(c);
		t->changed = true;
	}
}

/* ---- commands ----------------------------------------------------------------- */

/* True for operations with a fence that looks at a line: it must be fresh even when no point is open yet. */
static bool reads_lines(const struct workspace *w)
{
	const struct wire_command *head = (const struct wire_command *)w->message;

	switch (head->op) {
	case WIRE_OP_PREFILL_COMPLETE:
	case WIRE_OP_STEP_COMPLETE:
	case WIRE_OP_COMPACT_COMPLETE:
		return commands_have_fences(w);
	case WIRE_OP_FINISH:
	case WIRE_OP_ABANDON:
	case WIRE_OP_SHUTDOWN:
		return true;
	default:
		return false;
	}
}

/* The command of @n_slots slots waits, and is answered another time. False: the session has ended. */
static bool defer(struct ring_thread *t, struct channel *c, uint32_t n_slots)
{
	c->n_waiting++;
	c->n_commands++;
	channel_release(c, n_slots);
	t->counters.commands++;
	t->changed = true;
	poll_lines(t); /* words may have moved that nobody has looked at since */
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

/* Executes and answers the command of @n_slots slots in the workspace. False: the session has ended. */
static bool execute(struct ring_thread *t, struct channel *c, uint32_t n_slots)
{
	struct workspace *w = t->workspace;
	bool progress = false;

	if (session_has_open(c->session, -1) || reads_lines(w))
		if (!refresh(t, c, &progress))
			return false;
	commands_execute(w, c, t->now);
	/* Refused for want of pages: words may have moved that nobody has looked at since. */
	if (w->code != 0 && w->starved && poll_lines(t)) {
		if (c->state != CHANNEL_ATTACHED)
			return false;
		commands_execute(w, c, t->now);
	}
	if (w->starved || w->code == SWAKV_EAGAIN)
		note_starved(t);
	if (w->code == SWAKV_EAGAIN)
		return defer(t, c, n_slots);
	if (w->closed) { /* told before the worker can see the answer and end its connection */
		end_session(t, c, CHANNEL_CLOSING);
		t->counters.detaches++;
		mailbox_post_spsc(t->outbox, MAIL_CLOSED, c, 0);
	}
	commands_reply(w, c);
	channel_release(c, n_slots); /* after the answer: the worker waits for that */
	t->counters.commands++;
	if (w->code != 0 || w->n_faults)
		count_refusals(t, w);
	return !w->closed;
}

/* After its share of a round: what is left in the ring waits one round more. An upper bound for each command. */
static void note_wait(struct channel *c)
{
	if (c->rounds_waited + 1 > c->longest_wait)
		c->longest_wait = c->rounds_waited + 1;
	if (ring_consumer_seen_spsc(&c->commands) == 0)
		c->rounds_waited = 0;
	else
		c->rounds_waited++;
}

/*
 * One session's share of a round; returns how many commands: what the first
 * look found. A look takes the position's cache line from the worker, which may
 * be about to write to it.
 */
static uint32_t serve(struct ring_thread *t, struct channel *c)
{
	bool was_blocked = c->blocked_slots != 0;
	uint32_t n;
	int r = 0;

	for (n = 0; n < t->options.budget; n++) {
		r = channel_take(c, t->workspace->message);
		if (r <= 0)
			break;
		if (!execute(t, c, (uint32_t)r) || ring_consumer_seen_spsc(&c->commands) == 0) {
			n++;
			break;
		}
	}
	if (r < 0)
		kick(t, c, -r);
	if (c->blocked_slots && (n || !was_blocked))
		c->n_rounds_blocked++;
	if (n || c->rounds_waited)
		note_wait(c);
	if (n || r < 0)
		t->counters.wakeups += channel_wake(c);
	return n;
}

static uint32_t serve_all(struct ring_thread *t)
{
	struct channel *c;
	uint32_t n = 0;
	bool progress;

	TAILQ_FOREACH (c, &t->channels, link) {
		if (c->state == CHANNEL_ATTACHED)
			n += serve(t, c);
		if (c->state == CHANNEL_CLOSING && c->ended_ns == t->now) /* closed just now: most are idle already */
			refresh(t, c, &progress);
	}
	if (n)
		t->changed = true;
	if (engine_waiting(t->engine) > 0)
		admit_waiting(t);
	return n;
}

/* ---- mail --------------------------------------------------------------------- */

static void attach(struct ring_thread *t, struct channel *c)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = c };
	int code = 0;

	if (!channel_start(c, t->engine) || epoll_ctl(t->epoll, EPOLL_CTL_ADD, c->doorbell, &ev) < 0) {
		if (c->session) {
			session_end(c->session);
			session_reclaim(c->session);
		}
		channel_stop(c);
		code = fault_set(NULL, FAULT_BROKER_MEMORY, -1, 0, 0);
	} else {
		c->state = CHANNEL_ATTACHED;
		c->listed = true;
		TAILQ_INSERT_TAIL(&t->channels, c, link);
		t->counters.attaches++;
		t->changed = true;
	}
	mailbox_post_spsc(t->outbox, MAIL_ATTACHED, c, code);
}

static void socket_ended(struct ring_thread *t, struct channel *c)
{
	bool progress;

	if (c->state == CHANNEL_ATTACHED) {
		end_session(t, c, CHANNEL_DEAD);
		t->counters.deaths++;
		refresh(t, c, &progress);
	}
}

static void process_gone(struct ring_thread *t, struct channel *c)
{
	if (c->state == CHANNEL_RECLAIMED)
		return;
	if (c->state == CHANNEL_ATTACHED)
		t->counters.deaths++;
	end_session(t, c, c->state == CHANNEL_ATTACHED ? CHANNEL_DEAD : c->state);
	reclaim(t, c);
}

static void forget(struct ring_thread *t, struct channel *c)
{
	epoll_ctl(t->epoll, EPOLL_CTL_DEL, c->doorbell, NULL);
	TAILQ_REMOVE(&t->channels, c, link);
	c->listed = false;
	mailbox_post_spsc(t->outbox, MAIL_FORGOTTEN, c, 0);
}

static uint32_t take_mail(struct ring_thread *t)
{
	struct mail m;
	uint32_t n;

	for (n = 0; mailbox_take_spsc(t->inbox, &m); n++) {
		switch (m.kind) {
		case MAIL_ATTACH:
			attach(t, m.channel);
			break;
		case MAIL_SOCKET_ENDED:
			socket_ended(t, m.channel);
			break;
		case MAIL_PROCESS_GONE:
			process_gone(t, m.channel);
			break;
		case MAIL_FORGET:
			forget(t, m.channel);
			break;
		case MAIL_ADMIN:
			admin_job_run(m.job, t);
			mailbox_post_job_spsc(t->outbox, MAIL_ADMIN_DONE, m.job);
			break;
		case MAIL_STOP:
			t->stop = true;
			break;
		default: /* the other direction's */
			break;
		}
	}
	return n;
}

/* ---- sleep ---------------------------------------------------------------------- */

/* What this thread has computed so far: being put aside in the middle of a snapshot is no cost of it. */
static uint64_t computed_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void publish(struct ring_thread *t)
{
	uint64_t before = computed_ns(), share;

	status_fill(status_writer_begin(t->status), t);
	status_writer_commit(t->status);
	t->changed = false;
	share = (computed_ns() - before) * SNAPSHOT_SHARE;
	t->next_snapshot = t->now + (share > SNAPSHOT_EVERY ? share : SNAPSHOT_EVERY);
}

/* Announces sleep in every ring. False: there is work after all. */
static bool prepare_sleep(struct ring_thread *t)
{
	struct channel *c;
	bool sleep = true;

	TAILQ_FOREACH (c, &t->channels, link) {
		int r = channel_prepare_sleep(c);

		if (r < 0)
			kick(t, c, -r);
		sleep &= r == 0;
	}
	return sleep;
}

static void awake(struct ring_thread *t)
{
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		channel_awake(c);
}

static uint64_t sleep_ns(const struct ring_thread *t)
{
	uint64_t until = t->now + HEARTBEAT, due = engine_due(t->engine);

	if (any_open(t) && t->next_poll < until)
		until = t->next_poll;
	if (t->changed && t->next_snapshot < until)
		until = t->next_snapshot;
	if (due && due < until)
		until = due;
	return until > t->now ? until - t->now : 0;
}

static int wait_events(struct ring_thread *t, uint64_t ns)
{
	struct timespec timeout = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
	struct epoll_event events[16];
	int n = epoll_pwait2(t->epoll, events, 16, &timeout, NULL);

	if (n < 0 && errno == ENOSYS) /* before Linux 5.11: whole milliseconds */
		n = epoll_wait(t->epoll, events, 16, (int)((ns + NS_PER_MS - 1) / NS_PER_MS));
	return n;
}

static bool any_command(struct ring_thread *t)
{
	struct channel *c;

	TAILQ_FOREACH (c, &t->channels, link)
		if (c->state == CHANNEL_ATTACHED && !c->blocked_slots && ring_consumer_fill_spsc(&c->commands) > 0)
			return true;
	return false;
}

/*
 * The sleep ended by time-out and yet a command is there. If its doorbell does
 * not follow within a moment, a wake-up was lost; that must never happen.
 */
static void look_for_rescue(struct ring_thread *t)
{
	if (any_command(t) && wait_events(t, RESCUE_LOOK) == 0)
		t->counters.rescues++;
}

/* Nothing has happened for a while: extents that nobody uses go back to the pool. */
static void tidy(struct ring_thread *t)
{
	if (engine_trim(t->engine, TRIM_AT_ONCE) > 0)
		t->changed = true;
}

static void sleep_round(struct ring_thread *t)
{
	uint64_t ns;
	int n;

	if (prepare_sleep(t)) {
		if (t->changed && t->now >= t->next_snapshot)
			publish(t);
		ns = sleep_ns(t);
		t->counters.sleeps++;
		n = ns ? wait_events(t, ns) : 1;
		t->now = clock_ns();
		if (n == 0)
			look_for_rescue(t);
		if (n == 0 && ns >= TRIM_AFTER)
			tidy(t);
	}
	awake(t);
	t->last_work = 0; /* a wake-up for nothing does not start another spin */
}

/* What is not done every turn: time, mail, completion points by timer, the status page, sleep. */
static void look_up(struct ring_thread *t)
{
	uint64_t idle;

	t->now = clock_ns();
	beat(t);
	if (take_mail(t))
		t->worked = true;
	engine_stamp(t->engine, t->now);
	poll_by_timer(t);
	if (engine_waiting(t->engine) > 0)
		admit_waiting(t);
	watch_points(t);
	if ((t->changed && t->now >= t->next_snapshot) || t->now >= t->idle_snapshot) {
		publish(t);
		t->idle_snapshot = t->now + HEARTBEAT;
	}
	if (t->worked)
		t->last_work = t->now;
	t->worked = false;
	idle = t->now - t->last_work;
	t->credit = t->options.spin_ns ? CREDIT : 1;
	if (idle >= t->options.spin_ns && idle > 0) {
		sleep_round(t);
		t->credit = 1; /* whatever woke it: mail, a timer, a command */
	} else if (idle > YIELD_AFTER) {
		sched_yield(); /* where there are fewer CPUs than spinners, somebody has work */
	}
}

static void *ring_main(void *arg)
{
	void *volatile first = malloc(1);
	struct ring_thread *t = arg;

	free(first); /* a thread's first allocation maps a heap: now, and not at somebody's attach */
	prctl(PR_SET_NAME, "swakvd-ring");
	prctl(PR_SET_TIMERSLACK, 1000ul); /* the 50 us timer would come 50 us late */
	while (!t->stop) {
		uint32_t n = serve_all(t);

		t->counters.rounds++;
		t->worked |= n > 0;
		t->credit -= 1 + (int32_t)n * COMMAND_COST;
		if (t->credit <= 0)
			look_up(t);
		else if (n == 0)
			cpu_relax();
	}
	return NULL;
}

/* 0, or -ERANGE with *@f. */
static int set_limits(struct engine *e, const struct ring_options *o, struct fault *f)
{
	int code = 0;

	for (uint32_t i = 0; i < o->n_limits && code == 0; i++) {
		const struct ring_limit *l = &o->limits[i];

		code = engine_limit(e, l->name, &l->floor, &l->ceiling, f);
		if (code == 0 && l->model)
			engine_introduce(e, l->name, l->model, NULL); /* one that does not fit will not attach either */
	}
	return code ? -ERANGE : 0;
}

static bool ring_thread_make(struct ring_thread *t)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = NULL };

	t->engine = engine_new(&t->options.engine);
	t->workspace = workspace_new();
	t->inbox = mailbox_new(t->options.max_sessions);
	t->outbox = mailbox_new(t->options.max_sessions);
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	return t->engine && t->workspace && t->inbox && t->outbox && t->epoll >= 0 &&
	       epoll_ctl(t->epoll, EPOLL_CTL_ADD, mailbox_fd(t->inbox), &ev) == 0;
}

int ring_thread_init(struct ring_thread *t, const struct ring_options *o, struct status_writer *status, struct fault *f)
{
	int r;

	*t = (struct ring_thread){ .options = *o, .status = status, .epoll = -1, .poll_interval = POLL_SHORTEST };
	TAILQ_INIT(&t->channels);
	r = ring_thread_make(t) ? set_limits(t->engine, o, f) : -ENOMEM;
	t->options.limits = NULL;
	if (r == 0) {
		t->now = clock_ns();
		engine_stamp(t->engine, t->now);
		publish(t); /* whoever finds the page finds a picture on it */
		r = -pthread_create(&t->thread, NULL, ring_main, t);
	}
	t->running = r == 0;
	if (r < 0)
		ring_thread_deinit(t);
	return r;
}

void ring_thread_deinit(struct ring_thread *t)
{
	struct channel *c;

	if (t->running) {
		mailbox_post_spsc(t->inbox, MAIL_STOP, NULL, 0);
		pthread_join(t->thread, NULL);
		t->running = false;
	}
	while ((c = t->channels.tqh_last ? TAILQ_FIRST(&t->channels) : NULL)) {
		if (c->session) { /* the whole pool goes: there is nobody left to get its pages */
			session_end(c->session);
			session_reclaim(c->session);
		}
		channel_stop(c);
		TAILQ_REMOVE(&t->channels, c, link);
		c->listed = false;
	}
	if (t->engine)
		t->engine = engine_free(t->engine);
	t->workspace = workspace_free(t->workspace);
	t->inbox = mailbox_free(t->inbox);
	t->outbox = mailbox_free(t->outbox);
	if (t->epoll > 0)
		close_fd(&t->epoll);
}
