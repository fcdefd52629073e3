/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - spin, sleep, and notice that the broker has died
 *
 * While broker and client are both awake a call costs no system call: the
 * waiter spins for a time (counted by the clock, never by turns) and usually
 * has its answer. Then it sleeps on the wait word, at most 250 ms at a time,
 * and looks at the socket in between: a broker that died can wake nobody.
 *
 * The sleep is the two-flag pattern of ring.c, with the wait word read before
 * the flags are set: a broker that sees a flag changes the word, so a futex
 * call that comes too late does not sleep.
 */
#include "wait.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "call_answer.h"
#include "clock.h"
#include "process_state.h"
#include "session.h"

#define LOOK_NS         250000000ull
#define RESCUE_GRACE_NS 100000000ull

void session_wake_broker(struct swakv_session *s)
{
	uint64_t one = 1;
	ssize_t n = write(s->doorbell, &one, sizeof(one));

	(void)n; /* full: it is ringing already */
	s->counters.wakeups_sent++;
}

/* Something to do: an answer, the space that is wanted, or a broken ring (which the caller will notice). */
static bool wait_is_over(struct swakv_session *s, uint32_t want)
{
	return ring_consumer_fill_spsc(&s->replies) != 0 ||
	       (want > 0 && ring_producer_space_spsc(&s->commands, want) != 0);
}

/* True when the wait is over. */
static bool wait_spin(struct swakv_session *s, uint32_t want, uint64_t until)
{
	do {
		/* The first polls are behind us (call.c): whoever keeps the answer back may need this CPU. */
		sched_yield();
		for (int i = 0; i < 64; i++) {
			if (wait_is_over(s, want))
				return true;
			cpu_relax();
		}
	} while (clock_ns() < until);
	return false;
}

/* Sleeps while *@word is @value, for at most @ns. True when the time has passed. */
static bool futex_sleep(shm_u32 *word, uint32_t value, uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	return syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0) < 0 && errno == ETIMEDOUT;
}

static void wait_sleep(struct swakv_session *s, uint32_t want, uint64_t ns)
{
	uint32_t value = load_acquire(&s->wait->word);
	bool late = false;

	if (ring_consumer_sleep_spsc(&s->replies) == 0 &&
	    (want == 0 || ring_producer_want_space_spsc(&s->commands, want) == 0)) {
		s->counters.sleeps++;
		late = futex_sleep(&s->wait->word, value, ns);
		/* An answer without a wake-up: the broker may be between the two, so it gets a little more time. */
		if (late && wait_is_over(s, want) && futex_sleep(&s->wait->word, value, RESCUE_GRACE_NS))
			s->counters.rescues++;
	}
	ring_consumer_awake_spsc(&s->replies);
	if (want > 0)
		ring_producer_clear_want_spsc(&s->commands);
}

void session_look(struct swakv_session *s, uint64_t now, bool at_once)
{
	char byte;
	ssize_t n;

	if (s->gone || (!at_once && now - s->looked_ns < LOOK_NS))
		return;
	s->looked_ns = now;
	do
		n = recv(s->sock, &byte, sizeof(byte), MSG_DONTWAIT);
	while (n > 0 || (n < 0 && errno == EINTR)); /* nothing that comes here means anything */
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		events_rest(s);
		return;
	}
	calls_drain(s); /* what it answered before its end still counts */
	session_break(s,
		      "the broker '%s' has closed the connection: it has ended, or has ended this session; its log "
		      "says why",
		      s->broker);
}

int session_late(struct swakv_session *s, const char *what, uint64_t ns)
{
	char silence[PROCESS_SILENCE];

	return session_error(s, SWAKV_ETIMEDOUT, "the broker has %s for %" PRIu64 " ms; %s", what, ns / 1000000,
			     process_silence(silence, s->broker_pid, s->look));
}

void session_wait(struct swakv_session *s, uint32_t want, uint64_t deadline)
{
	uint64_t now = clock_ns();
	uint64_t ns;

	if (wait_spin(s, want, now + s->spin_ns))
		return;
	now = clock_ns();
	session_look(s, now, false);
	if (s->gone || now >= deadline)
		return;
	ns = deadline - now < LOOK_NS ? deadline - now : LOOK_NS;
	wait_sleep(s, want, ns);
	session_look(s, clock_ns(), false);
}
