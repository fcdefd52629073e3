/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ring_round.c - the ring thread turn by turn, under a clock that the test plays
 *
 * No thread runs: the test takes the turns, is the world at the ring thread's
 * edges, and is all the workers.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "engine/internal.h"
#include "hello.h"
#include "ring/ring_publish.h"
#include "ring/ring_round.h"
#include "ring/ring_wake.h"
#include "session/handshake.h"
#include "wire_turn.h"

enum { MOST = 48, PAGES = 64, RESERVED = 11 /* pages of a sequence: window 64, pages of 16 tokens */ };

/* Both halves hold PAGES pages of 16 tokens, each of 64 values of 2 bytes. */
static struct backend_pool pool = { .name = "main",
				    .backend = WIRE_BACKEND_HOST,
				    .fd = -1,
				    .bytes = 1 << 20,
				    .table_area_bytes = 1 << 20,
				    .half_bytes = (uint64_t)PAGES * 16 * 64 * 2,
				    .extent_bytes = (uint64_t)PAGES * 16 * 64 * 2 };

struct worker {
	struct channel channel;
	struct ring_producer_spsc commands;
	struct ring_consumer_spsc replies;
	uint64_t handle; /* in the last answer */
	int32_t code;
	int32_t n; /* what it is at, in the random test: sequences of its request, */
	int doing; /* and the operation that it waits for */
	bool executing;
	uint64_t request;
};

static struct ring_thread ring;
static struct status_writer status;
static struct worker workers[MOST];
static uint32_t n_workers;

/* ---- the world ------------------------------------------------------------------------ */

static struct {
	uint64_t now;
	uint64_t slept[64]; /* what each sleep asked for */
	uint32_t n_sleeps;
	uint32_t n_looks; /* sleeps of 0 */
	void *rings;      /* at the next sleep or look */
	void (*at_sleep)(void);
	void (*at_now)(void);
	void (*at_computed)(void);
	shm_u32 *woken[64];
	uint32_t n_woken;
	void (*at_wake)(void);
	int notified; /* the last */
	uint32_t n_notified;
} world;

static uint64_t world_now(void *arg)
{
	if (world.at_now && ring.in_pause)
		world.at_now();
	return world.now++; /* it never stands still */
}

static uint64_t world_computed(void *arg)
{
	if (world.at_computed)
		world.at_computed();
	return 0;
}

static bool world_watch(void *arg, int fd, void *who)
{
	return true;
}

static void world_unwatch(void *arg, int fd)
{
}

static int world_sleep(void *arg, uint64_t ns, void *rung[RING_EDGE_EVENTS])
{
	if (ns == 0)
		world.n_looks++;
	else
		world.slept[world.n_sleeps++ % 64] = ns;
	if (ns && world.at_sleep)
		world.at_sleep();
	if (world.rings) {
		rung[0] = world.rings;
		world.rings = NULL;
		return 1;
	}
	world.now += ns;
	return 0;
}

static void world_wake(void *arg, shm_u32 *word)
{
	if (world.at_wake)
		world.at_wake();
	world.woken[world.n_woken++ % 64] = word;
}

static void world_notify(void *arg, int socket)
{
	world.notified = socket;
	world.n_notified++;
}

static void world_yield(void *arg)
{
}

static const struct ring_edge edge = {
	.now = world_now,
	.computed = world_computed,
	.watch = world_watch,
	.unwatch = world_unwatch,
	.sleep = world_sleep,
	.wake = world_wake,
	.notify = world_notify,
	.yield = world_yield,
};

/* ---- workers -------------------------------------------------------------------------- */

static void turns(int n)
{
	while (n-- > 0)
		ring_turn(&ring);
}

/* Of a model with @max_batch slots; with full attention a sequence reserves 256 pages. */
static struct worker *attach_model(uint32_t kind, int32_t max_batch)
{
	struct worker *w = &workers[n_workers++];
	struct wire_hello hello = good_hello();
	struct session_layout l;
	struct handshake h;
	struct refusal r;
	struct mail m;

	hello.max_batch = max_batch;
	hello.groups[0].kind = kind;
	if (kind == WIRE_GROUP_FULL)
		hello.groups[0].window = 0;
	cr_assert_eq(handshake_check(&h, &hello, sizeof(hello), &pool, &r), 0, "%s", r.text);
	session_layout_init(&l, &h.model, h.geometry);
	w->channel = (struct channel){ .id = n_workers, .generation = 1, .tag = n_workers, .model = h.model };
	memcpy(w->channel.geometry, h.geometry, sizeof(w->channel.geometry));
	memcpy(w->channel.model_name, "m", 2);
	cr_assert_eq(session_memory_init(&w->channel.memory, &l), 0);
	ring_producer_init_spsc(&w->commands, (struct ring_control *)(w->channel.memory.session + l.commands_control),
				w->channel.memory.session + l.commands_slots, l.ring_slots);
	ring_consumer_init_spsc(&w->replies, (struct ring_control *)(w->channel.memory.session + l.replies_control),
				w->channel.memory.session + l.replies_slots, l.ring_slots);
	mailbox_post_spsc(ring.inbox, MAIL_ATTACH, &w->channel, 0);
	turns(1);
	cr_assert(mailbox_take_spsc(ring.outbox, &m) && m.kind == MAIL_ATTACHED && m.value == 0);
	return w;
}

static struct worker *attach(void)
{
	return attach_model(WIRE_GROUP_SLIDING, 16);
}

static void setup(void)
{
	const struct ring_options options = {
		.engine = { .half_bytes = pool.half_bytes,
			    .extent_bytes = pool.extent_bytes,
			    .stamps_a_ms = NS_PER_MS,
			    .wait_claim = NS_PER_S },
		.budget = 64,
		.max_sessions = MOST,
	};
	struct fault f;
	char name[32];

	snprintf(name, sizeof(name), "ring-round-%d", (int)getpid());
	cr_assert_eq(status_writer_open(&status, name), 0);
	world.now = NS_PER_S;
	cr_assert_eq(ring_thread_make(&ring, &options, &status, &edge, &f), 0);
}

static void teardown(void)
{
	ring_thread_deinit(&ring);
	for (uint32_t i = 0; i < n_workers; i++)
		session_memory_deinit(&workers[i].channel.memory);
	status_writer_close(&status);
}

TestSuite(ring_round, .init = setup, .fini = teardown);

static void send(struct worker *w, uint16_t op, uint64_t request, uint32_t n, const void *payload, size_t bytes)
{
	struct wire_command head = {
		.op = op, .n_slots = (uint16_t)message_slots(bytes), .n = n, .user_data = 1, .request = request
	};

	ring_producer_write_spsc(&w->commands, 0, &head, sizeof(head));
	ring_producer_write_spsc(&w->commands, sizeof(head), payload, bytes);
	ring_producer_publish_spsc(&w->commands, head.n_slots);
}

static void send_nop(struct worker *w)
{
	send(w, WIRE_OP_NOP, 0, 0, NULL, 0);
}

/* One sequence in @slot, RESERVED pages. */
static void send_begin(struct worker *w, int32_t slot, uint64_t wait_ms)
{
	struct {
		struct wire_begin begin;
		int32_t slot;
	} __attribute__((packed)) b = { .begin = { .wait_ms = wait_ms }, .slot = slot };

	send(w, WIRE_OP_BEGIN, 0, 1, &b, sizeof(b));
}

/* True when an answer was there: it is taken. */
static bool answered(struct worker *w)
{
	unsigned char reply[RING_SLOT] __attribute__((aligned(CACHELINE)));
	const struct wire_reply *head = (const struct wire_reply *)(const void *)reply;
	int64_t fill = ring_consumer_fill_spsc(&w->replies);

	if (fill <= 0)
		return false;
	ring_consumer_first_spsc(&w->replies, fill, reply);
	ring_consumer_release_spsc(&w->replies, head->n_slots);
	w->handle = head->value;
	w->code = head->code;
	return true;
}

/* Begins in slots from @first on until the pool has no room; how many requests there are then. */
static int32_t fill_pool(struct worker *w, uint64_t handles[])
{
	for (int32_t n = 0;; n++) {
		send_begin(w, n, 0);
		turns(1);
		cr_assert(answered(w));
		if (w->code == SWAKV_ENOPAGES)
			return n;
		cr_assert_eq(w->code, 0);
		handles[n] = w->handle;
	}
}

static void send_finish(struct worker *w, uint64_t handle, uint64_t value)
{
	const struct wire_fence fence = { .kind = value ? WIRE_FENCE_LINE : WIRE_FENCE_DONE, .value = value };

	send(w, WIRE_OP_FINISH, handle, 0, &fence, sizeof(fence));
}

/* The worker says that it sleeps: need_wakeup of its replies. */
static void sleeps(struct worker *w)
{
	store_relaxed(&w->replies.control->need_wakeup, 1);
}

static uint32_t times_woken(const struct worker *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < world.n_woken; i++)
		n += world.woken[i] == &w->channel.wait->word;
	return n;
}

/* ---- tallies -------------------------------------------------------------------------- */

Test(ring_round, what_becomes_of_begins_is_counted_for_their_model_whichever_way_they_are_answered)
{
	struct worker *holder = attach(), *waiter = attach();
	struct tally *y = ring.tallies.all;
	uint64_t handles[PAGES];
	int32_t n = fill_pool(holder, handles);

	cr_assert_eq(ring.tallies.n, 1);
	cr_expect_eq(y->n_sessions, 2);
	cr_expect_eq(y->admitted[TALLY_BEGIN], (uint64_t)n);
	cr_expect_eq(y->refused[TALLY_BEGIN], 1);
	cr_expect_eq(y->refused_by[TALLY_BEGIN][FAULT_NO_PAGES], 1);
	send_begin(waiter, 0, 1000);
	turns(1);
	cr_expect_eq(y->waited[TALLY_BEGIN], 1);
	world.now += 5 * NS_PER_MS;
	ring.credit = 0;
	turns(1);
	send_finish(holder, handles[0], 0);
	turns(2);
	cr_assert(answered(waiter) && waiter->code == 0);
	cr_expect_eq(y->admitted[TALLY_BEGIN], (uint64_t)n + 1);
	cr_expect_eq(times_count(&y->wait), 1);
	cr_expect_geq(y->wait.sum_ns, 5 * NS_PER_MS);
}

Test(ring_round, what_a_session_has_done_is_its_models_when_it_is_gone)
{
	struct worker *w = attach();
	struct tally *y = ring.tallies.all;

	send_begin(w, 0, 0);
	turns(1);
	cr_assert(answered(w));
	mailbox_post_spsc(ring.inbox, MAIL_PROCESS_GONE, &w->channel, 0);
	turns(2);
	cr_expect_eq(w->channel.state, CHANNEL_RECLAIMED);
	cr_expect_eq(y->n_sessions, 0);
	cr_expect_eq(y->ended.pages_taken, (uint64_t)RESERVED);
	cr_expect_eq(y->ended.pages_returned, (uint64_t)RESERVED);
}

/* ---- wake-ups ------------------------------------------------------------------------- */

static void all_are_answered(void)
{
	for (uint32_t i = 0; i < n_workers; i++)
		cr_expect_gt(ring_consumer_fill_spsc(&workers[i].replies), 0, "woken before %u was answered", i);
}

Test(ring_round, answers_of_a_round_come_first_and_then_eight_wake_ups_at_a_time)
{
	for (uint32_t i = 0; i < MOST; i++)
		attach();
	for (uint32_t i = 0; i < MOST; i++) {
		sleeps(&workers[i]);
		send_nop(&workers[i]);
	}
	world.at_wake = all_are_answered;
	for (uint32_t most = RING_WAKES_A_ROUND; most < MOST; most += RING_WAKES_A_ROUND) {
		uint32_t n_sleeps = world.n_sleeps;

		turns(1);
		cr_expect_eq(world.n_woken, most);
		cr_expect_eq(world.n_sleeps, n_sleeps, "it slept with wake-ups left to make");
	}
	turns(1);
	cr_expect_eq(world.n_woken, MOST);
	cr_expect_eq(ring.counters.wakeups, MOST);
	for (uint32_t i = 0; i < MOST; i++)
		cr_expect_eq(times_woken(&workers[i]), 1);
}

Test(ring_round, one_sleeper_is_woken_in_its_round_and_once_for_all_its_answers)
{
	struct worker *w = attach();

	sleeps(w);
	for (int i = 0; i < 5; i++)
		send_nop(w);
	turns(1);
	cr_expect_eq(world.n_woken, 1);
	turns(3);
	cr_expect_eq(world.n_woken, 1);
	cr_expect_eq(load_relaxed(&w->replies.control->need_wakeup), 0);
}

Test(ring_round, nobody_who_is_awake_is_woken)
{
	struct worker *w = attach();

	send_nop(w);
	turns(2);
	cr_expect(answered(w));
	cr_expect_eq(world.n_woken, 0);
}

Test(ring_round, a_producer_that_waits_for_room_is_woken)
{
	struct worker *w = attach();

	store_relaxed(&w->commands.control->need_space, 1);
	send_nop(w);
	turns(1);
	cr_expect_eq(times_woken(w), 1);
}

Test(ring_round, an_admission_wakes_its_worker)
{
	struct worker *holder = attach(), *waiter = attach();
	uint64_t handles[PAGES];

	fill_pool(holder, handles);
	send_begin(waiter, 0, 1000);
	turns(1);
	cr_assert_not(answered(waiter));
	sleeps(waiter);
	send_finish(holder, handles[0], 0);
	turns(1);
	cr_expect_eq(times_woken(waiter), 1);
	cr_expect(answered(waiter));
	cr_expect_eq(waiter->code, 0);
}

/* Its answer may come while it sleeps nowhere that a futex would reach: in an event loop. */
Test(ring_round, an_answer_makes_the_socket_of_an_event_loop_readable_once)
{
	struct worker *w = attach();

	w->channel.events = true;
	w->channel.socket = 77;
	store_relaxed(&w->channel.wait->event, 1);
	for (int i = 0; i < 3; i++) {
		send_nop(w);
		turns(1);
		cr_expect(answered(w));
	}
	turns(1);
	cr_expect_eq(world.n_notified, 1, "it has not come back since");
	cr_expect_eq(world.notified, 77);
	store_relaxed(&w->channel.wait->event, 1);
	turns(1);
	cr_expect_eq(world.n_notified, 1, "there is nothing new");
	send_nop(w);
	turns(2);
	cr_expect_eq(world.n_notified, 2);
}

/* Takes @n pages that @w manages itself. */
static void take_pages(struct worker *w, uint32_t n)
{
	const struct wire_take take = { .min = n };

	send(w, WIRE_OP_TAKE, 0, n, &take, sizeof(take));
	turns(1);
	cr_assert(answered(w));
	cr_assert_eq(w->code, 0);
}

/* @w waits for its socket, and all that was sent to it so far has been read away. */
static void waits_for_socket(struct worker *w)
{
	w->channel.events = true;
	w->channel.socket = 77;
	store_relaxed(&w->channel.wait->event, 1);
	world.n_notified = 0;
}

static int64_t wanted(const struct worker *w)
{
	return (int64_t)load_relaxed(&w->channel.boards[0].wanted);
}

/* Boards are written every 2 ms of the clock that the test plays: here 20. */
static void boards_are_written(void)
{
	for (int i = 0; i < 20; i++) {
		world.now += NS_PER_MS;
		turns(1);
	}
}

Test(ring_round, pages_that_are_wanted_make_the_socket_of_an_event_loop_readable_whenever_it_is_more)
{
	struct worker *w = attach(), *other = attach();

	take_pages(w, PAGES);
	waits_for_socket(w);
	boards_are_written();
	cr_expect_eq(world.n_notified, 0, "nobody wants any");
	send_begin(other, 0, 60000);
	boards_are_written();
	cr_expect_eq(wanted(w), RESERVED);
	cr_expect_eq(world.n_notified, 1);
	cr_expect_eq(world.notified, 77);
	store_relaxed(&w->channel.wait->event, 1);
	boards_are_written();
	cr_expect_eq(world.n_notified, 1, "it knows that it is asked");
	send_begin(other, 1, 60000);
	boards_are_written();
	cr_expect_eq(wanted(w), 2 * RESERVED);
	cr_expect_eq(world.n_notified, 2, "it is asked for more");
	send_begin(other, 2, 60000);
	boards_are_written();
	cr_expect_eq(world.n_notified, 2, "it has not come back since");
}

/* What readers see while the broker sleeps for long: the heartbeat alone is no reason to write it. */
static struct {
	uint32_t n;
	int64_t leased, takeable, wanted;
	uint32_t claims;
} shown;

static void note_what_is_shown(void)
{
	if (world.slept[(world.n_sleeps - 1) % 64] < 100 * NS_PER_MS)
		return;
	world.at_sleep = NULL;
	shown.n++;
	shown.leased = status.draft->classes[0].leased;
	shown.takeable = (int64_t)load_relaxed(&workers[0].channel.boards[0].takeable);
	shown.wanted = status.draft->sessions[0].groups[0].wanted;
	shown.claims = status.draft->models[0].claims;
}

static void turns_until_a_long_sleep(void)
{
	world.at_sleep = note_what_is_shown;
	for (int i = 0; i < 100 && world.at_sleep; i++)
		turns(1);
	cr_assert_eq(shown.n, 1);
}

/* All is written, and the status page is due before the boards are. */
static void page_is_due_first(struct worker *w)
{
	world.now += NS_PER_S;
	send_nop(w);
	turns(1); /* whoever has worked does not sleep at once */
	world.now = ring.next_snapshot - NS_PER_MS;
	send_nop(w);
	turns(2);
	cr_assert_geq(world.now, ring.next_snapshot);
	cr_assert_lt(world.now, ring.next_boards);
}

Test(ring_round, pages_that_are_wanted_are_soon_on_the_status_page)
{
	struct worker *w = attach(), *other = attach();

	take_pages(w, PAGES);
	page_is_due_first(w);
	send_begin(other, 0, 60000);
	turns_until_a_long_sleep();
	cr_expect_eq(wanted(w), RESERVED);
	cr_expect_eq(shown.wanted, RESERVED, "%" PRId64, shown.wanted);
}

/* Time alone does that. */
Test(ring_round, a_claim_that_begins_is_soon_on_the_status_page)
{
	struct worker *holder = attach(), *waiter = attach();
	uint64_t handles[PAGES];

	fill_pool(holder, handles);
	send_begin(waiter, 0, 60000);
	turns_until_a_long_sleep();
	cr_assert_eq(shown.claims, 0);
	while (status.draft->models[0].oldest_wait_ns + NS_PER_S > world.now)
		turns(1);
	shown.n = 0;
	turns_until_a_long_sleep();
	cr_expect_eq(shown.claims, 1);
}

/* Whatever it writes where the broker counts. */
Test(ring_round, a_worker_that_spoils_its_boards_is_told_once_a_look_at_most)
{
	struct worker *w = attach(), *other = attach();

	take_pages(w, PAGES);
	waits_for_socket(w);
	send_begin(other, 0, 60000);
	for (uint32_t i = 1; i <= 20; i++) {
		store_relaxed(&w->channel.wait->event, 1);
		store_relaxed(&w->channel.boards[0].rises, UINT64_MAX - i);
		world.now += 2 * NS_PER_MS + 1;
		turns(3);
		cr_expect_leq(world.n_notified, i);
	}
	cr_expect_eq(wanted(w), RESERVED);
}

Test(ring_round, a_worker_that_waits_for_no_socket_is_sent_nothing)
{
	struct worker *w = attach(), *other = attach();

	take_pages(w, PAGES);
	sleeps(w);
	send_begin(other, 0, 60000);
	boards_are_written();
	cr_expect_eq(wanted(w), RESERVED);
	cr_expect_eq(world.n_notified, 0);
	cr_expect_eq(times_woken(w), 0, "it sleeps for an answer, and has none");
}

/* ---- when it wakes by itself ---------------------------------------------------------- */

static uint64_t woken_at;

static void note_time(void)
{
	woken_at = world.now;
}

Test(ring_round, the_sleep_ends_at_a_waiting_begins_deadline)
{
	struct worker *holder = attach(), *waiter = attach();
	uint64_t handles[PAGES], asked;

	fill_pool(holder, handles);
	turns(2); /* the status page is up to date */
	asked = world.now;
	send_begin(waiter, 0, 30);
	turns(1);
	sleeps(waiter);
	world.at_wake = note_time;
	while (world.n_woken == 0)
		turns(1);
	cr_expect(answered(waiter));
	cr_expect_eq(waiter->code, SWAKV_ENOPAGES);
	cr_expect_eq((woken_at - asked) / NS_PER_MS, 30);
	cr_expect_lt((woken_at - asked) % NS_PER_MS, NS_PER_US);
}

Test(ring_round, a_starved_session_is_polled_soon_and_then_more_seldom)
{
	struct worker *holder = attach(), *starved = attach();
	uint64_t handles[PAGES];
	uint32_t n;

	fill_pool(holder, handles);
	store_release(&holder->channel.lines[0].armed, 7);
	send_finish(holder, handles[0], 7); /* its pages wait for word 7 */
	world.now += NS_PER_S;              /* the refusal that filled the pool is long past */
	turns(20);
	send_begin(starved, 0, 0);
	turns(1);
	cr_assert(answered(starved) && starved->code == SWAKV_ENOPAGES);
	n = world.n_sleeps;
	turns(20);
	for (uint32_t i = 0; i < 8; i++)
		cr_expect_eq((world.slept[(n + i) % 64] + 5) / (10 * NS_PER_US), i < 5 ? 5u << i : 100,
			     "sleep %u was %lu ns", i, (unsigned long)world.slept[(n + i) % 64]);
	n = (uint32_t)ring.counters.timer_polls;
	store_release(&holder->channel.lines[0].word, 7);
	while (ring.counters.timer_polls == n)
		turns(1);
	send_begin(starved, 0, 0);
	turns(1);
	cr_expect(answered(starved) && starved->code == 0);
}

Test(ring_round, a_command_that_waits_for_room_is_served_when_there_is_some)
{
	struct worker *w = attach();
	uint32_t n = 0;

	while (!w->channel.blocked_slots) { /* nobody takes its answers */
		send_nop(w);
		turns(1);
		cr_assert_lt(n++, w->channel.memory.layout.ring_slots + 1);
	}
	cr_expect_eq(load_relaxed(&w->replies.control->need_space), 1, "it asks to be rung for");
	while (answered(w))
		n--;
	cr_expect_eq(n, 1);
	world.rings = &w->channel;
	turns(2);
	cr_expect(answered(w));
	cr_expect_eq(ring.counters.rescues + ring.counters.late, 0);
}

/* ---- bells that are silent ------------------------------------------------------------ */

static void send_without_ringing(void)
{
	world.at_sleep = NULL;
	send_nop(&workers[0]);
}

/* A command comes at the end of a sleep, and its worker does not ring yet. */
static struct worker *put_aside(void)
{
	struct worker *w = attach();

	world.at_sleep = send_without_ringing;
	while (world.at_sleep)
		turns(1);
	return w;
}

Test(ring_round, a_worker_put_aside_before_it_rang_is_late_and_no_rescue)
{
	struct worker *w = put_aside();

	turns(1);
	cr_expect(answered(w), "it is served all the same");
	cr_expect_eq(load_relaxed(&w->commands.control->need_wakeup), 1, "and still has to ring");
	world.now += 90 * NS_PER_MS;
	world.rings = &w->channel;
	turns(1);
	world.now += NS_PER_S;
	turns(4);
	cr_expect_eq(ring.counters.late, 1);
	cr_expect_eq(ring.counters.rescues, 0);
	send_nop(w);
	turns(1);
	cr_expect_eq(load_relaxed(&w->commands.control->need_wakeup), 0, "it is awake: nobody need ring");
}

Test(ring_round, a_bell_that_rings_as_the_sleep_ends_is_not_even_late)
{
	struct worker *w = put_aside();

	world.now += 10 * NS_PER_US;
	world.rings = &w->channel;
	turns(2);
	cr_expect_eq(ring.counters.late + ring.counters.rescues, 0);
}

Test(ring_round, a_bell_silent_for_100_ms_is_a_rescue)
{
	struct worker *w = put_aside();

	turns(1);
	cr_expect(answered(w));
	world.now += 99 * NS_PER_MS;
	turns(1);
	cr_expect_eq(ring.counters.rescues, 0);
	world.now += 1 * NS_PER_MS;
	turns(1);
	cr_expect_eq(ring.counters.rescues, 1);
	world.now += NS_PER_S;
	turns(4);
	cr_expect_eq(ring.counters.rescues, 1, "it is counted once");
	cr_expect_eq(ring.counters.late, 0);
}

/* ---- many commands at once ------------------------------------------------------------- */

/* Answers that are there; they are taken. */
static uint32_t take_answers(struct worker *w)
{
	uint32_t n = 0;

	while (answered(w))
		n++;
	return n;
}

/* A worker that sends many at a time, beside one that has given a command a moment ago. */
static struct worker *beside_a_flooder(uint32_t shared)
{
	struct worker *flooder = attach(), *victim = attach();

	ring.options.shared_budget = shared;
	send_nop(flooder);
	send_nop(victim);
	turns(1);
	cr_assert(answered(flooder) && answered(victim));
	for (int i = 0; i < 20; i++)
		send_nop(flooder);
	return victim;
}

Test(ring_round, while_several_give_commands_few_of_one_stand_before_those_of_another)
{
	struct worker *victim = beside_a_flooder(4);

	send_nop(victim);
	turns(1);
	cr_expect(answered(victim));
	cr_expect_eq(take_answers(&workers[0]), 4U);
	turns(4);
	cr_expect_eq(take_answers(&workers[0]), 16U, "the rest is executed in the rounds behind");
}

Test(ring_round, one_that_is_alone_has_the_whole_budget_again)
{
	(void)beside_a_flooder(4);
	turns(5);
	cr_expect_eq(take_answers(&workers[0]), 20U);
	turns(5000); /* the other one gives none any more */
	for (int i = 0; i < 20; i++)
		send_nop(&workers[0]);
	turns(1);
	cr_expect_eq(take_answers(&workers[0]), 20U);
}

Test(ring_round, a_shared_budget_of_none_is_the_whole)
{
	(void)beside_a_flooder(0);
	turns(1);
	cr_expect_eq(take_answers(&workers[0]), 20U);
}

/* ---- looks that a worker asks for --------------------------------------------------------- */

static void ask(struct worker *w, uint64_t at)
{
	store_relaxed(&w->channel.wait->ask, at);
}

/* Turns until the ring thread has slept once more; for how long. */
static uint64_t next_sleep(void)
{
	uint32_t n = world.n_sleeps;

	while (world.n_sleeps == n)
		turns(1);
	return world.slept[n % 64];
}

static uint64_t promised; /* at the last sleep */

static void note_promise(void)
{
	promised = load_relaxed(&workers[0].channel.wait->look);
}

/* What the ring thread promises when it is asked for a look @ns from now; 0: nothing. */
static uint64_t promise_for(uint64_t ns)
{
	world.at_sleep = note_promise;
	ask(&workers[0], world.now + ns);
	next_sleep();
	world.at_sleep = NULL;
	return promised;
}

static void send_unrung(void)
{
	note_promise();
	send_nop(&workers[0]);
	world.at_sleep = NULL;
}

Test(ring_round, a_sleep_ends_when_a_worker_has_asked_for_a_look)
{
	struct worker *w = attach();
	uint64_t at;

	next_sleep();
	at = world.now + 3 * NS_PER_MS;
	ask(w, at);
	world.at_sleep = send_unrung;
	cr_expect_leq(next_sleep(), 3 * NS_PER_MS);
	cr_expect_eq(promised, at);
	cr_expect_geq(world.now, at);
	turns(1);
	cr_expect(answered(w), "it did not ring, and is served");
	cr_expect_eq(load_relaxed(&w->channel.wait->look), 0, "it is awake: the promise is kept");
	cr_expect_eq(load_relaxed(&w->commands.control->need_wakeup), 0);
	world.now += NS_PER_S;
	turns(4);
	cr_expect_eq(ring.counters.rescues + ring.counters.late, 0, "nobody was to ring");
}

/* Whatever a worker writes there costs others little. */
Test(ring_round, looks_are_promised_neither_too_soon_nor_too_late)
{
	(void)attach();
	next_sleep();
	cr_expect_geq(promise_for(1), world.now - 1 * NS_PER_MS + 250 * NS_PER_US);
	cr_expect_gt(promise_for(NS_PER_MS), 0);
	cr_expect_eq(promise_for(2 * NS_PER_S), 0);
	cr_expect_eq(promise_for(UINT64_MAX - world.now), 0);
	cr_expect_eq(promise_for(-1 * NS_PER_S), 0, "that time is over");
}

/* Whoever is asked for less than that looks no more often than every 250 us. */
Test(ring_round, a_worker_that_asks_for_looks_all_the_time_gets_few)
{
	uint32_t n;
	uint64_t end;

	(void)attach();
	next_sleep();
	n = world.n_sleeps;
	end = world.now + 100 * NS_PER_MS;
	while (world.now < end) {
		ask(&workers[0], world.now + 10);
		turns(1);
	}
	cr_expect_leq(world.n_sleeps - n, 401U, "%u sleeps", world.n_sleeps - n);
}

/* One whose answers have no room is not looked at: it gets no promise. */
Test(ring_round, a_worker_that_takes_no_answers_is_promised_no_look)
{
	struct worker *w = attach();

	while (!w->channel.blocked_slots) {
		send_nop(w);
		turns(1);
	}
	cr_expect_eq(promise_for(3 * NS_PER_MS), 0);
}

static void send_prompt(struct worker *w)
{
	int32_t length = 16;

	send(w, WIRE_OP_PREFILL_PREPARE, w->handle, 1, &length, sizeof(length));
}

/* True when the session has been reclaimed after its connection ended, @cut by the broker or not. */
static bool reclaimed_after_end(struct worker *w, bool cut)
{
	struct mail m;

	mailbox_post_spsc(ring.inbox, MAIL_SOCKET_ENDED, &w->channel, cut);
	turns(3);
	world.now += NS_PER_S;
	turns(3);
	return mailbox_take_spsc(ring.outbox, &m) && m.kind == MAIL_RECLAIMED;
}

static bool reclaimed_after_death(struct worker *w)
{
	struct mail m;

	mailbox_post_spsc(ring.inbox, MAIL_PROCESS_GONE, &w->channel, 0);
	turns(3);
	return mailbox_take_spsc(ring.outbox, &m) && m.kind == MAIL_RECLAIMED;
}

/* It goes on when the answer is read, which it may be late. */
Test(ring_round, a_worker_cut_off_beside_an_answer_keeps_its_pages_until_it_is_dead)
{
	struct worker *w = attach();

	send_begin(w, 0, 0);
	turns(3);
	cr_assert_not(reclaimed_after_end(w, true));
	cr_assert(reclaimed_after_death(w));
}

/* It has taken the answer, and not armed its line yet. */
Test(ring_round, a_worker_cut_off_with_a_step_under_way_keeps_its_pages_until_it_is_dead)
{
	struct worker *w = attach();

	send_begin(w, 0, 0);
	turns(3);
	cr_assert(answered(w) && w->code == 0);
	send_prompt(w);
	turns(3);
	cr_assert(answered(w) && w->code == 0);
	cr_assert_not(reclaimed_after_end(w, true));
	cr_assert(reclaimed_after_death(w));
}

Test(ring_round, a_worker_cut_off_with_nothing_under_way_is_reclaimed)
{
	struct worker *w = attach();

	send_begin(w, 0, 0);
	turns(3);
	cr_assert(answered(w) && w->code == 0);
	cr_assert(reclaimed_after_end(w, true));
}

/* Another process of it may have work that no line is armed for. */
Test(ring_round, idle_lines_of_a_session_with_members_prove_nothing)
{
	struct worker *w = attach();
	struct mail m;

	w->channel.members = 1;
	cr_assert_not(reclaimed_after_end(w, false));
	cr_assert_eq(w->channel.ended, 1, "nobody joins it any more");
	store_release(&w->channel.members, 0);
	world.now += NS_PER_S;
	turns(3);
	cr_assert(mailbox_take_spsc(ring.outbox, &m) && m.kind == MAIL_RECLAIMED);
}

/* Whoever closes its connection, or ends, takes no answer any more. */
Test(ring_round, a_worker_that_left_beside_an_answer_is_reclaimed)
{
	struct worker *w = attach();

	send_begin(w, 0, 0);
	turns(3);
	cr_assert(reclaimed_after_end(w, false));
}

Test(ring_round, whoever_ends_need_not_ring)
{
	struct worker *w = put_aside();

	mailbox_post_spsc(ring.inbox, MAIL_SOCKET_ENDED, &w->channel, 0);
	turns(1);
	world.now += NS_PER_S;
	turns(4);
	cr_expect_eq(ring.counters.late + ring.counters.rescues, 0);
}

/* ---- long work ------------------------------------------------------------------------ */

enum { LARGE = 40000, LONG_BATCH = 64, LONG = 256 * LONG_BATCH /* pages of such a begin */ };

/* The same with a large pool of small extents. */
static void setup_long(void)
{
	pool.half_bytes = (uint64_t)LARGE * 16 * 64 * 2;
	pool.extent_bytes = 1000 * 16 * 64 * 2 + 128;
	setup();
}

static void teardown_long(void)
{
	world.at_now = NULL;
	cr_expect_leq(engine_longest(ring.engine), ENGINE_LONG, "%u operations between two looks at the rings",
		      engine_longest(ring.engine));
	teardown();
}

TestSuite(ring_long, .init = setup_long, .fini = teardown_long);

static void send_begin_of(struct worker *w, int32_t n)
{
	struct {
		struct wire_begin begin;
		int32_t slots[LONG_BATCH];
	} b = { .begin = { 0 } };

	for (int32_t i = 0; i < n; i++)
		b.slots[i] = i;
	send(w, WIRE_OP_BEGIN, 0, (uint32_t)n, &b, sizeof(b.begin) + (size_t)n * sizeof(int32_t));
}

static struct worker *at_length, *brief, *brief2;
static uint32_t n_served;

static void ping(void)
{
	cr_expect_not(ring_consumer_fill_spsc(&at_length->replies), "its long command is not answered yet");
	n_served += answered(brief);
	send_nop(brief);
}

Test(ring_long, others_are_served_in_the_middle_of_a_begin_and_of_a_finish)
{
	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief = attach();
	world.at_now = ping;
	send_begin_of(at_length, LONG_BATCH);
	turns(1);
	cr_assert(answered(at_length) && at_length->code == 0);
	cr_expect_geq(n_served, LONG / ENGINE_LONG - 1);
	n_served = 0;
	send_finish(at_length, at_length->handle, 0);
	turns(1);
	cr_assert(answered(at_length) && at_length->code == 0);
	cr_expect_geq(n_served, LONG / ENGINE_LONG - 1);
}

static void begin_both(void)
{
	if (n_served++ > 0)
		return;
	send_begin_of(brief, 1);
	send_begin_of(brief2, LONG_BATCH);
	send_nop(at_length);
}

Test(ring_long, short_commands_are_executed_in_a_pause_and_long_ones_take_turns)
{
	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief = attach();
	brief2 = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	world.at_now = begin_both;
	send_begin_of(at_length, LONG_BATCH);
	turns(1);
	cr_expect(answered(at_length) && at_length->code == 0);
	cr_expect_not(answered(at_length), "its next command waits");
	cr_expect(answered(brief) && brief->code == 0);
	cr_expect_not(answered(brief2), "two long ones in a round");
	send_finish(at_length, at_length->handle, 0);
	turns(1);
	cr_expect(answered(brief2) && brief2->code == 0, "whoever waited comes first");
	turns(1);
	cr_expect(answered(at_length) && answered(at_length));
}

static void begin_six_and_seven(void)
{
	if (n_served++ > 0)
		return;
	send_begin_of(brief, 6);
	send_begin_of(brief2, 7);
}

/* 256 pages a sequence, each two operations to find: 3,078 and 3,591 with the rows. */
Test(ring_long, commands_of_up_to_3328_operations_are_executed_in_a_pause)
{
	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief2 = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	world.at_now = begin_six_and_seven;
	send_begin_of(at_length, LONG_BATCH);
	turns(1);
	cr_expect(answered(brief) && brief->code == 0);
	cr_expect_not(answered(brief2), "it waits for the end of the long one");
	turns(1);
	cr_expect(answered(brief2) && brief2->code == 0);
	cr_expect(answered(at_length) && at_length->code == 0);
}

static void lie_and_die(void)
{
	if (n_served++ > 0)
		return;
	send_begin_of(brief, 1);
	store_release(&brief->channel.lines[0].word, 5); /* never armed */
	send_finish(brief, 1, 5);
	mailbox_post_spsc(ring.inbox, MAIL_PROCESS_GONE, &brief2->channel, 0);
	mailbox_post_spsc(ring.inbox, MAIL_SOCKET_ENDED, &at_length->channel, 0);
	mailbox_post_spsc(ring.inbox, MAIL_PROCESS_GONE, &at_length->channel, 0);
}

/* Those whose end comes in the middle of a command: its own session's, too. */
Test(ring_long, ends_wait_for_the_end_of_a_long_command)
{
	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief = attach();
	brief2 = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	send_begin_of(brief2, 32);
	turns(2);
	cr_assert(answered(brief2) && brief2->code == 0);
	world.at_now = lie_and_die;
	send_begin_of(at_length, LONG_BATCH);
	turns(4);
	cr_expect_eq(brief->channel.state, CHANNEL_KICKED);
	cr_expect_eq(ring.counters.kicked, 1, "in the first round, and in no other");
	cr_expect_eq(brief2->channel.state, CHANNEL_RECLAIMED);
	cr_expect_eq(at_length->channel.state, CHANNEL_RECLAIMED);
	cr_expect_eq(ring.counters.reclaimed_pages, LONG + 32 * 256);
	cr_expect_geq(n_served, 8, "begin, death and reclaim are cut");
}

static uint32_t n_glances, most_glances;

static void begin_count(void)
{
	if (n_glances > most_glances)
		most_glances = n_glances;
	n_glances = 0;
	send_nop(brief);
}

static void ping_again(void)
{
	n_glances++;
	answered(brief);
	sleeps(brief);
	send_nop(brief);
}

/* Rounds in the middle of a command look at the clock, glances do not. */
Test(ring_long, others_are_served_many_times_between_two_rounds)
{
	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief = attach();
	sleeps(brief);
	world.at_now = begin_count;
	world.at_wake = ping_again;
	send_begin_of(at_length, LONG_BATCH);
	turns(1);
	world.at_wake = NULL;
	cr_assert(answered(at_length) && at_length->code == 0);
	cr_expect_geq(most_glances, 6, "%u", most_glances);
}

enum { MANY = 40, AT_A_GLANCE = 16 };
static uint32_t n_found, last_found_at, n_at_once, most_at_once, longest_to_find;

static void find(void)
{
	uint32_t spent = engine_spent(ring.engine);

	n_at_once = n_found++ > 0 && spent == last_found_at ? n_at_once + 1 : 1;
	most_at_once = n_at_once > most_at_once ? n_at_once : most_at_once;
	longest_to_find = spent > longest_to_find ? spent : longest_to_find;
	last_found_at = spent;
}

static void end_of_glances(void)
{
	world.at_wake = NULL;
}

Test(ring_long, a_glance_is_at_a_few_of_many_and_nobody_is_passed_over)
{
	struct worker *w[MANY];

	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	for (int i = 0; i < MANY; i++) {
		w[i] = attach();
		sleeps(w[i]);
	}
	send_begin_of(at_length, LONG_BATCH);
	for (int i = 0; i < MANY; i++)
		send_nop(w[i]);
	world.at_wake = find;
	world.at_now = end_of_glances;
	turns(1);
	cr_expect_eq(n_found, MANY, "%u before the first round", n_found);
	cr_expect_eq(most_at_once, AT_A_GLANCE, "%u", most_at_once);
	cr_expect_lt(longest_to_find, ENGINE_LONG / 2, "%u", longest_to_find);
	for (int i = 0; i < MANY; i++)
		cr_expect(answered(w[i]));
}

static uint32_t woken_by_round[2];

static void fall_asleep(void)
{
	world.at_wake = NULL;
	cr_expect(answered(brief));
	sleeps(brief);
}

static void count_woken(void)
{
	if (n_served < 2)
		woken_by_round[n_served] = times_woken(brief);
	n_served++;
}

/* It looked for its answer before that was there, as seen from its own CPU. */
Test(ring_long, whoever_falls_asleep_behind_a_glance_is_woken_by_the_next_round)
{
	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief = attach();
	brief2 = attach();
	sleeps(brief2);
	send_begin_of(at_length, LONG_BATCH);
	send_nop(brief);
	send_nop(brief2);
	world.at_wake = fall_asleep;
	world.at_now = count_woken;
	turns(1);
	cr_expect_gt(n_served, 1);
	cr_expect_eq(woken_by_round[0], 0);
	cr_expect_eq(woken_by_round[1], 1);
}

Test(ring_long, a_session_that_closes_with_much_is_reclaimed_once)
{
	brief = attach();
	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	send_begin_of(at_length, LONG_BATCH);
	turns(1);
	cr_assert(answered(at_length) && at_length->code == 0);
	send(at_length, WIRE_OP_CLOSE, 0, 0, NULL, 0);
	turns(1);
	cr_expect_eq(at_length->channel.state, CHANNEL_RECLAIMED);
	cr_expect_eq(ring.counters.reclaimed_pages, LONG);
}

static void close_and_ping(void)
{
	if (n_served++ == 0)
		send(brief2, WIRE_OP_CLOSE, 0, 0, NULL, 0);
	ping();
}

/* What a snapshot says of requests is copied in slices: who is shown later may be gone by then. */
/* The first time before it is decided who is asked, the second time when all boards are written. */
static void ping_before_and_after(void)
{
	switch (n_served++) {
	case 0:
		send_nop(brief);
		send(brief2, WIRE_OP_CLOSE, 0, 0, NULL, 0);
		break;
	case 1:
		cr_expect(answered(brief), "it has waited until all were asked");
		cr_expect_eq(brief2->channel.state, CHANNEL_RECLAIMED);
		world.at_computed = NULL;
	}
}

Test(ring_long, others_are_served_in_the_middle_of_asking_many_for_pages)
{
	struct worker *holder = attach(), *waiter = attach();
	uint64_t pauses;

	for (int i = 0; i < 42; i++)
		attach();
	brief = attach();
	brief2 = attach();
	for (int left = LARGE; left > 0; left -= WIRE_MAX_PAGES)
		take_pages(holder, left < WIRE_MAX_PAGES ? (uint32_t)left : WIRE_MAX_PAGES);
	send_begin(waiter, 0, 60000);
	turns(1);
	pauses = engine_pauses(ring.engine);
	n_served = 0;
	world.at_computed = ping_before_and_after;
	boards_are_written();
	cr_expect_null(world.at_computed);
	cr_expect_gt(engine_pauses(ring.engine), pauses);
	cr_expect_eq(wanted(holder), RESERVED);
}

static void withdraw_as_the_decision_begins(void)
{
	world.at_computed = NULL;
	send(brief, WIRE_OP_WITHDRAW, 1, 0, NULL, 0);
}

/* Others are served between the look at who lacks pages and the decision. */
Test(ring_long, a_lack_that_ends_while_many_are_asked_is_asked_for_no_longer)
{
	struct worker *holder = attach();

	brief = attach();
	for (int i = 2; i < MOST; i++)
		attach();
	for (int left = LARGE; left > 0; left -= WIRE_MAX_PAGES)
		take_pages(holder, left < WIRE_MAX_PAGES ? (uint32_t)left : WIRE_MAX_PAGES);
	send_begin(brief, 0, 60000);
	turns(1);
	world.at_computed = withdraw_as_the_decision_begins;
	world.now += NS_PER_S;
	turns_until_a_long_sleep();
	cr_expect(answered(brief), "the withdrawal, and the begin");
	cr_expect(answered(brief));
	cr_expect_eq(wanted(holder), 0);
}

/* A session whose pages a snapshot takes long to write, and two others. */
static void prefill_at_length(void)
{
	int32_t lengths[LONG_BATCH];

	at_length = attach_model(WIRE_GROUP_FULL, LONG_BATCH);
	brief2 = attach();
	brief = attach();
	send_begin_of(at_length, LONG_BATCH);
	turns(4);
	cr_assert(answered(at_length) && at_length->code == 0);
	for (int i = 0; i < LONG_BATCH; i++)
		lengths[i] = 4096;
	send(at_length, WIRE_OP_PREFILL_PREPARE, at_length->handle, LONG_BATCH, lengths, sizeof(lengths));
	turns(1);
	cr_assert(answered(at_length) && at_length->code == 0);
}

Test(ring_long, others_are_served_in_the_middle_of_a_snapshot)
{
	prefill_at_length();
	n_served = 0;
	world.at_now = close_and_ping;
	world.now += NS_PER_S;
	turns(1); /* the status page is due */
	cr_expect_geq(n_served, LONG / ENGINE_LONG, "%u", n_served);
	cr_expect_eq(brief2->channel.state, CHANNEL_RECLAIMED);
	world.at_now = NULL;
	turns(2);
}

static void take_in_between(void)
{
	const struct wire_take take = { .min = 100 };

	if (n_served++ == 0)
		send(brief, WIRE_OP_TAKE, 0, 100, &take, sizeof(take));
}

static void is_shown(int64_t leased)
{
	world.now += NS_PER_S; /* boards and status page are due */
	turns_until_a_long_sleep();
	world.at_now = NULL;
	cr_assert_gt(n_served, 0);
	cr_expect(answered(brief) && brief->code == 0);
	cr_expect_eq(shown.leased, leased, "%" PRId64, shown.leased);
	cr_expect_eq(shown.takeable, LARGE - leased, "%" PRId64, shown.takeable);
}

Test(ring_long, what_happens_in_the_middle_of_a_snapshot_is_shown_soon)
{
	prefill_at_length();
	world.at_now = take_in_between;
	is_shown(LONG + 100);
}

static void take_as_boards_begin(void)
{
	world.at_computed = NULL;
	take_in_between();
}

Test(ring_long, what_happens_in_the_middle_of_writing_boards_is_shown_soon)
{
	brief2 = attach();
	brief = attach();
	for (int i = 2; i < MOST; i++)
		attach();
	send_nop(brief2);
	world.at_computed = take_as_boards_begin;
	is_shown(100);
}

static uint64_t random_state = 88172645463325252ull;

static uint32_t draw(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % n;
}

static struct wire_fence random_fence(struct worker *w)
{
	uint64_t armed = load_relaxed(&w->channel.lines[0].armed);

	if (draw(3) == 0)
		return (struct wire_fence){ .kind = WIRE_FENCE_DONE };
	armed += draw(3) > 0;
	store_release(&w->channel.lines[0].armed, armed);
	return (struct wire_fence){ .kind = WIRE_FENCE_LINE, .value = armed };
}

static void send_prefill(struct worker *w)
{
	int32_t lengths[LONG_BATCH];

	for (int32_t i = 0; i < w->n; i++)
		lengths[i] = 1 + (int32_t)draw(3000);
	send(w, WIRE_OP_PREFILL_PREPARE, w->request, (uint32_t)w->n, lengths, (size_t)w->n * sizeof(lengths[0]));
}

static void send_step(struct worker *w, uint16_t op)
{
	const struct wire_step_entry entry = { .request = w->request,
					       .tokens = op == WIRE_OP_STEP_PREPARE ? 1 + (int32_t)draw(300) : 0,
					       .fence = random_fence(w) };

	send(w, op, 0, 1, &entry, sizeof(entry));
}

/* The next command of a life, whatever became of the last one. */
static void live_on(struct worker *w)
{
	const struct wire_fence fence = random_fence(w);
	static const int32_t batches[] = { 1, 2, 8, LONG_BATCH };

	if (w->doing == WIRE_OP_PREFILL_PREPARE && w->code == 0) {
		w->doing = WIRE_OP_PREFILL_COMPLETE;
		send(w, WIRE_OP_PREFILL_COMPLETE, w->request, 0, &fence, sizeof(fence));
	} else if (w->doing == WIRE_OP_STEP_PREPARE && w->code == 0 && draw(10)) {
		send_step(w, WIRE_OP_STEP_COMPLETE);
		w->doing = WIRE_OP_STEP_COMPLETE;
	} else if (w->n == 0) {
		w->n = batches[draw(4)];
		w->doing = WIRE_OP_BEGIN;
		send_begin_of(w, w->n);
	} else if (!w->executing && w->code == 0) {
		w->doing = WIRE_OP_PREFILL_PREPARE;
		w->executing = true;
		send_prefill(w);
	} else if (w->code == 0 && draw(6)) {
		w->doing = WIRE_OP_STEP_PREPARE;
		send_step(w, WIRE_OP_STEP_PREPARE);
	} else {
		w->doing = WIRE_OP_ABANDON;
		send(w, WIRE_OP_ABANDON, w->request, 0, &fence, sizeof(fence));
	}
}

static uint32_t n_lived;

static void everybody_lives_on(void)
{
	for (uint32_t i = 0; i < n_workers; i++) {
		struct worker *w = &workers[i];

		if (draw(3) == 0)
			store_release(&w->channel.lines[0].word, load_relaxed(&w->channel.lines[0].armed));
		if (w->doing >= 0 && !answered(w))
			continue;
		if (w->doing == WIRE_OP_BEGIN && w->code == 0)
			w->request = w->handle;
		if (w->doing == WIRE_OP_ABANDON || (w->doing == WIRE_OP_BEGIN && w->code != 0)) {
			w->n = 0;
			w->executing = false;
		}
		n_lived++;
		live_on(w);
	}
}

/* teardown_long() looks at the longest. */
Test(ring_long, no_stretch_between_two_looks_is_longer_than_a_slice)
{
	char why[256];

	for (int i = 0; i < 6; i++)
		attach_model(i % 2 ? WIRE_GROUP_FULL : WIRE_GROUP_SLIDING, LONG_BATCH)->doing = -1;
	world.at_now = everybody_lives_on;
	for (int i = 0; i < 3000; i++) {
		everybody_lives_on();
		turns(1);
		cr_assert(i % 64 || engine_check(ring.engine, why, sizeof(why)), "%s", why);
	}
	cr_expect_gt(n_lived, 3000);
	cr_expect_gt(engine_pauses(ring.engine), 1000);
}

/* ---- the world itself ----------------------------------------------------------------- */

enum { SLEEPERS = 24 };
static shm_u32 word;
static _Atomic pid_t tids[SLEEPERS];

static void *sleep_on_the_word(void *arg)
{
	*(_Atomic pid_t *)arg = (pid_t)syscall(SYS_gettid);
	syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
	return NULL;
}

static bool thread_sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

/* Thousands of them would cost the ring thread milliseconds, were all woken. */
Test(ring_edge, of_many_threads_that_sleep_on_a_word_one_is_woken)
{
	int epoll = -1;
	struct ring_edge real = ring_edge_real(&epoll);
	pthread_t threads[SLEEPERS];

	for (int i = 0; i < SLEEPERS; i++)
		pthread_create(&threads[i], NULL, sleep_on_the_word, (void *)&tids[i]);
	for (int i = 0; i < SLEEPERS; i++)
		while (!tids[i] || !thread_sleeps(tids[i]))
			usleep(1000);
	real.wake(real.arg, &word);
	store_relaxed(&word, 1);
	cr_expect_eq(syscall(SYS_futex, &word, FUTEX_WAKE, SLEEPERS, NULL, NULL, 0), SLEEPERS - 1);
	for (int i = 0; i < SLEEPERS; i++)
		pthread_join(threads[i], NULL);
}

/* Its words are looked at before anything begins: that it lies is found there. */
Test(ring_round, a_liar_is_ended_once_by_the_turn_that_begins_a_request)
{
	struct {
		struct wire_fence fence;
		uint64_t entry;
		union wire_turn_detail detail;
		int32_t slot;
	} __attribute__((packed)) turn = { .entry = wire_turn_entry(1, WIRE_TURN_BEGIN) };
	struct {
		struct wire_give give;
		struct wire_fence fence;
		int32_t page;
	} give = { .fence = { .kind = WIRE_FENCE_LINE, .value = 5 } };
	struct worker *w = attach();

	take_pages(w, PAGES);
	store_release(&w->channel.lines[0].armed, 5);
	send(w, WIRE_OP_GIVE, 1, 1, &give, sizeof(give)); /* something is open */
	turns(1);
	cr_assert(answered(w) && w->code == 0);
	store_release(&w->channel.lines[0].armed, 4);
	send(w, WIRE_OP_STEP_TURN, 1 | UINT64_C(1) << 32, 1, &turn, sizeof(turn));
	turns(2);
	cr_expect_eq(w->channel.state, CHANNEL_KICKED);
	cr_expect_eq(ring.counters.kicked, 1);
}

/* ---- many answers at once ---------------------------------------------------------------- */

enum { WAITING = 200, AT_ONCE = 64 };

static int32_t all_answers(struct worker *w)
{
	int32_t n = 0;

	while (answered(w))
		n++;
	return n;
}

/* The pool is full; @many has as many begins that wait. */
static struct worker *attach_waiting(uint64_t wait_ms)
{
	struct worker *full = attach(), *many = attach_model(WIRE_GROUP_SLIDING, WAITING);
	uint64_t handles[PAGES];

	fill_pool(full, handles);
	for (int32_t i = 0; i < WAITING; i++) {
		send_begin(many, i, wait_ms);
		turns(1);
	}
	cr_assert_eq(many->channel.n_waiting, WAITING);
	return many;
}

/* Refused by an order, say. */
Test(ring_round, begins_that_have_waited_are_answered_a_few_a_round)
{
	struct worker *many = attach_waiting(1000000), *other = attach();
	uint32_t sleeps_before = world.n_sleeps;
	int32_t n, most = 0, total = 0;

	session_refuse_waiting(many->channel.session, FAULT_DRAINED);
	for (int i = 0; total < WAITING; i++) {
		cr_assert_lt(i, 8, "%d were answered", total);
		send_nop(other);
		turns(1);
		cr_expect(answered(other), "in every round");
		n = all_answers(many);
		most = n > most ? n : most;
		total += n;
	}
	cr_expect_leq(most, 2 * AT_ONCE, "%d in a round and a look at the clock", most);
	cr_expect_eq(world.n_sleeps, sleeps_before, "nobody sleeps while there are more");
	cr_expect_eq(many->code, SWAKV_EDENIED);
}

Test(ring_round, begins_whose_time_is_up_together_are_all_answered)
{
	struct worker *many = attach_waiting(1000);
	int32_t total = 0;

	world.now += 2 * NS_PER_S;
	for (int i = 0; total < WAITING && i < 40 * WAITING; i++) {
		turns(1);
		total += all_answers(many);
	}
	cr_expect_eq(total, WAITING, "%d", total);
}

/* ---- a state that is broken ------------------------------------------------------------- */

Test(ring_round, sums_that_do_not_hold_end_the_broker, .signal = SIGABRT)
{
	attach();
	ring_publish(&ring);
	shm_unlink(status.name); /* nobody else will */
	ring.engine->pool.classes[0]->n_leased++;
	ring_publish(&ring);
}
