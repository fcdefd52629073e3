/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define WARM_TRIPS 500

static void futex_wait(shm_u32 *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void futex_wake(shm_u32 *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- the peer's side ---- */

static void do_spin(struct peer *p)
{
	for (uint32_t i = 1; i <= p->n; i++) {
		while (load_acquire(&p->ping) != i)
			cpu_relax();
		store_release(&p->pong, i);
	}
}

static void do_ring(struct peer *p, struct ring_consumer_spsc *c)
{
	unsigned char message[32 * RING_SLOT];
	uint32_t size = (uint32_t)p->size;

	for (uint32_t i = 1; i <= p->n; i++) {
		while (ring_consumer_fill_spsc(c) < (int64_t)size)
			cpu_relax();
		ring_consumer_read_spsc(c, 0, message, (size_t)size * RING_SLOT);
		ring_consumer_release_spsc(c, size);
		store_release(&p->taken, i);
	}
}

static void do_ck(struct peer *p)
{
	struct peer_message m;

	for (uint32_t i = 1; i <= p->n; i++) {
		while (!ck_ring_dequeue_spsc_peer_message(&p->ck, p->ck_slots, &m))
			cpu_relax();
		store_release(&p->taken, i);
	}
}

static void do_bell(struct peer *p)
{
	struct epoll_event ev;

	for (uint32_t i = 1; i <= p->n; i++) {
		while (epoll_wait(p->epoll, &ev, 1, -1) != 1)
			;
		store_release(&p->pong, i);
	}
}

static void do_futex(struct peer *p)
{
	for (uint32_t i = 1; i <= p->n; i++) {
		uint64_t until;

		while (load_acquire(&p->ping) != i)
			cpu_relax();
		until = clock_ns() + p->size;
		while (clock_ns() < until)
			cpu_relax();
		store_release(&p->pong, i);
		futex_wake(&p->pong);
	}
}

_Noreturn static void peer_main(struct peer *p, int cpu)
{
	struct ring_consumer_spsc c;
	cpu_set_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	if (cpu >= 0) {
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	for (uint32_t order = 0;; order++) {
		while (load_acquire(&p->order) == order)
			futex_wait(&p->order, order);
		ring_consumer_init_spsc(&c, &p->control, p->slots, PEER_SLOTS);
		store_release(&p->ready, order + 1);
		switch (p->job) {
		case PEER_SPIN:
			do_spin(p);
			break;
		case PEER_RING:
			do_ring(p, &c);
			break;
		case PEER_CK:
			do_ck(p);
			break;
		case PEER_BELL:
			do_bell(p);
			break;
		case PEER_FUTEX:
			do_futex(p);
			break;
		default:
			_exit(0);
		}
	}
}

/* ---- this side ---- */

struct peer *peer_new(int cpu)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	pid_t pid;
	struct peer *p =
		mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	p->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->bell < 0 || p->epoll < 0 || epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->bell, &ev) < 0)
		return NULL;
	pid = fork();
	if (pid == 0)
		peer_main(p, cpu);
	p->pid = pid; /* not by the child: the memory is shared */
	return pid < 0 ? NULL : p;
}

struct peer *peer_free(struct peer *p)
{
	if (!p)
		return NULL;
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->bell);
	close(p->epoll);
	munmap(p, sizeof(*p));
	return NULL;
}

void peer_start(struct peer *p, enum peer_job job, uint64_t n, uint64_t size)
{
	uint32_t order = load_relaxed(&p->order) + 1;

	p->job = job;
	p->n = n;
	p->size = size;
	store_relaxed(&p->taken, 0);
	store_relaxed(&p->ping, 0);
	store_relaxed(&p->pong, 0);
	p->control = (struct ring_control){ 0 };
	ck_ring_init(&p->ck, PEER_SLOTS);
	store_release(&p->order, order);
	futex_wake(&p->order);
	while (load_acquire(&p->ready) != order)
		sched_yield();
}

double peer_spin(struct peer *p, uint64_t n)
{
	uint64_t start = 0;

	peer_start(p, PEER_SPIN, n + WARM_TRIPS, 0);
	for (uint32_t i = 1; i <= n + WARM_TRIPS; i++) {
		if (i == WARM_TRIPS + 1)
			start = clock_ns();
		store_release(&p->ping, i);
		while (load_acquire(&p->pong) != i)
			cpu_relax();
	}
	return (double)(clock_ns() - start) / (double)n;
}
