/* SPDX-License-Identifier: Apache-2.0 */
/* ring_edge.c - see ring_edge.h; doorbells are edge-triggered and never read */
#include "ring_edge.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

static uint64_t real_now(void *arg)
{
	return clock_ns();
}

static uint64_t real_computed(void *arg)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static bool real_watch(void *arg, int fd, void *who)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.ptr = who };

	return epoll_ctl(*(const int *)arg, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void real_unwatch(void *arg, int fd)
{
	epoll_ctl(*(const int *)arg, EPOLL_CTL_DEL, fd, NULL);
}

static int real_sleep(void *arg, uint64_t ns, void *rung[RING_EDGE_EVENTS])
{
	struct timespec timeout = { .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
	struct epoll_event events[RING_EDGE_EVENTS];
	int epoll = *(const int *)arg, n = epoll_pwait2(epoll, events, RING_EDGE_EVENTS, &timeout, NULL);

	if (n < 0 && errno == ENOSYS) /* before Linux 5.11: whole milliseconds */
		n = epoll_wait(epoll, events, RING_EDGE_EVENTS, (int)((ns + NS_PER_MS - 1) / NS_PER_MS));
	for (int i = 0; i < n; i++)
		rung[i] = events[i].data.ptr;
	return n;
}

static void real_wake(void *arg, shm_u32 *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void real_notify(void *arg, int socket)
{
	(void)send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); /* no room: then it is readable */
}

static void real_yield(void *arg)
{
	sched_yield();
}

struct ring_edge ring_edge_real(int *epoll)
{
	return (struct ring_edge){
		.arg = epoll,
		.now = real_now,
		.computed = real_computed,
		.watch = real_watch,
		.unwatch = real_unwatch,
		.sleep = real_sleep,
		.wake = real_wake,
		.notify = real_notify,
		.yield = real_yield,
	};
}
