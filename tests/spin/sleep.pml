/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep.pml - no wake-up is lost between two processes that may both sleep
 *
 * One direction of the ring pair, with the two flags of shared/ring.c:
 * need_wakeup (the consumer sleeps) and need_space (the producer starves).
 * Stores wait in a buffer of the process that made them and reach memory later,
 * in order (what x86 does, and the weakest that a release store promises here);
 * a fence waits until the buffer is empty. A sleeper only goes on when it was
 * woken: there is no time-out in the model, so a lost wake-up is a deadlock,
 * which spin reports as an invalid end state.
 *
 *   -DFUTEX      the sleeper is the client: a wait word that the waker counts
 *                up, read before the flags are set (else: a doorbell that is
 *                never read, as the broker sleeps on)
 *   -DANSWERS    the consumer is the client, which knows how many commands it has
 *                sent: once all are answered it does not look at need_space
 *   -DNO_FENCE   leaves out the fences: the model must then find a deadlock
 *   -DNO_LOOK    does not look again after setting the flag: likewise
 *   -DTWO_WRITERS lets the consumer clear need_space when it wakes the producer:
 *                its store may reach memory after the producer has set the flag
 *                for the next sleep, and the model must find that deadlock too
 *   -DQUEUED     (with FUTEX) the producer takes the flag away and wakes later, after
 *                other answers, as the broker does (ring_wake.c)
 *   -DFORGOTTEN  (with QUEUED) it goes to sleep itself, or ends, with a wake-up
 *                left to make: the model must then find a deadlock
 *   -DQUIET      the consumer, as the broker does, may promise to look by itself before it
 *                sleeps, and then wakes at some time; the producer need not ring for it
 *   -DFORGETS    (with QUIET) it does not keep to that: the model must then find a deadlock
 *   -DSTALE      (with QUIET) it does not take the promise back when it wakes: likewise
 *   -DLATE_READ  (with FUTEX) reads the wait word after the last look: likewise
 */
#define CAPACITY 1
#define MESSAGES 3

/* Words in shared memory. */
#define TAIL        0
#define HEAD        1
#define NEED_WAKEUP 2
#define NEED_SPACE  3
#define LOOK        4
#define WORDS       5

#define PRODUCER 0
#define CONSUMER 1

byte memory[WORDS];
/* What the two sides sleep on: a count that only grows (modulo 256, never reached). */
byte rung[2];

/* Store buffers: at most three stores wait. */
typedef buffer {
	byte word[4];
	byte value[4];
	byte n
}
buffer pending[2];

inline commit_oldest(me)
{
	memory[pending[me].word[0]] = pending[me].value[0];
	pending[me].word[0] = pending[me].word[1];
	pending[me].value[0] = pending[me].value[1];
	pending[me].word[1] = pending[me].word[2];
	pending[me].value[1] = pending[me].value[2];
	pending[me].n--
}

inline store(me, w, v)
{
	atomic {
		pending[me].n < 3 -> pending[me].word[pending[me].n] = w;
		pending[me].value[pending[me].n] = v;
		pending[me].n++
	}
}

/* A process sees its own latest store. */
inline load(me, w, into)
{
	atomic {
		if
		:: pending[me].n > 2 && pending[me].word[2] == w -> into = pending[me].value[2]
		:: pending[me].n > 1 && pending[me].word[1] == w &&
		   !(pending[me].n > 2 && pending[me].word[2] == w) -> into = pending[me].value[1]
		:: pending[me].n > 0 && pending[me].word[0] == w &&
		   !(pending[me].n > 1 && pending[me].word[1] == w) &&
		   !(pending[me].n > 2 && pending[me].word[2] == w) -> into = pending[me].value[0]
		:: else -> into = memory[w]
		fi
	}
}

inline fence(me)
{
#ifndef NO_FENCE
	pending[me].n == 0
#else
	skip
#endif
}

/* Sleep and wake, each in one step of the kernel. */
#ifdef FUTEX
#define SLEEP(me) rung[me] != expected
#define BEFORE_FLAG(me) expected = rung[me]
#else
/* The doorbell is edge-triggered: what rang since the last look wakes. */
#define SLEEP(me) atomic { rung[me] != expected -> expected = rung[me] }
#define BEFORE_FLAG(me) skip
#endif
#define WAKE(other) rung[other]++

/* The producer wakes whom it owes a wake-up. */
inline settle()
{
#ifdef QUEUED
	if
	:: owed -> owed = 0; WAKE(CONSUMER)
	:: else
	fi
#endif
	skip
}

active proctype memory_of_producer()
{
end:	do
	:: atomic { pending[PRODUCER].n > 0 -> commit_oldest(PRODUCER) }
	od
}

active proctype memory_of_consumer()
{
end:	do
	:: atomic { pending[CONSUMER].n > 0 -> commit_oldest(CONSUMER) }
	od
}

active proctype producer()
{
	byte tail = 0, head = 0, flag, expected = 0;
#ifdef QUEUED
	byte owed = 0;
#endif

	do
	:: tail == MESSAGES -> break
#ifdef QUEUED
	:: owed -> owed = 0; WAKE(CONSUMER)
#endif
	:: else ->
		load(PRODUCER, HEAD, head);
		if
		:: tail - head < CAPACITY ->
			tail++;
			store(PRODUCER, TAIL, tail);
			fence(PRODUCER);
			load(PRODUCER, NEED_WAKEUP, flag);
			if
#ifdef QUEUED
			/* An exchange: the fence has emptied the buffer, so it acts on memory. */
			:: flag -> atomic { owed = owed || memory[NEED_WAKEUP]; memory[NEED_WAKEUP] = 0 }
#else
#ifdef QUIET
			:: flag ->
				load(PRODUCER, LOOK, flag);
				if
				:: flag
				:: WAKE(CONSUMER)
				fi
#else
			:: flag -> WAKE(CONSUMER)
#endif
#endif
			:: else
			fi
		:: else ->
#ifndef FORGOTTEN
			settle();
#endif
#ifndef LATE_READ
			BEFORE_FLAG(PRODUCER);
#endif
			store(PRODUCER, NEED_SPACE, 1);
			fence(PRODUCER);
#ifndef NO_LOOK
			load(PRODUCER, HEAD, head);
#endif
#ifdef LATE_READ
			BEFORE_FLAG(PRODUCER);
#endif
			if
			:: tail - head < CAPACITY
			:: else -> SLEEP(PRODUCER)
			fi;
			store(PRODUCER, NEED_SPACE, 0)
		fi
	od;
#ifndef FORGOTTEN
	settle()
#endif
}

active proctype consumer()
{
	byte tail = 0, head = 0, flag, expected = 0;

	do
	:: head == MESSAGES -> break
	:: else ->
		load(CONSUMER, TAIL, tail);
		if
		:: tail > head ->
			head++;
			store(CONSUMER, HEAD, head);
#ifdef ANSWERS
			if
			:: head == MESSAGES -> flag = 0
			:: else ->
				fence(CONSUMER);
				load(CONSUMER, NEED_SPACE, flag)
			fi;
#else
			fence(CONSUMER);
			load(CONSUMER, NEED_SPACE, flag);
#endif
			if
			:: flag ->
#ifdef TWO_WRITERS
				store(CONSUMER, NEED_SPACE, 0);
#endif
				WAKE(PRODUCER)
			:: else
			fi
		:: else ->
#ifndef LATE_READ
			BEFORE_FLAG(CONSUMER);
#endif
			store(CONSUMER, NEED_WAKEUP, 1);
			fence(CONSUMER);
#ifndef NO_LOOK
			load(CONSUMER, TAIL, tail);
#endif
#ifdef LATE_READ
			BEFORE_FLAG(CONSUMER);
#endif
			if
			:: tail > head
			:: tail == head -> SLEEP(CONSUMER)
#ifdef QUIET
			:: tail == head ->
				store(CONSUMER, LOOK, 1);
				if
				:: SLEEP(CONSUMER)
#ifndef FORGETS
				:: skip
#endif
				fi;
#ifndef STALE
				store(CONSUMER, LOOK, 0)
#endif
#endif
			fi;
			store(CONSUMER, NEED_WAKEUP, 0)
		fi
	od
}
