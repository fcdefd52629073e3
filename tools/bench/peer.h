/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - the second process of the bare mechanisms that the broker is compared with
 *
 * One process for the whole run, asleep while it has nothing to do. All is in
 * memory that both have from before the fork.
 */
#ifndef SWAKV_BENCH_PEER_H
#define SWAKV_BENCH_PEER_H

#include <ck_ring.h>
#include <stdint.h>

#include "ring.h"

#define PEER_SLOTS 1024u

struct peer_message {
	unsigned char bytes[RING_SLOT];
};

enum peer_job {
	PEER_SPIN,  /* n round trips over two words */
	PEER_RING,  /* takes n messages of `size` slots from ring.c */
	PEER_CK,    /* takes n slots from ck_ring */
	PEER_BELL,  /* n times: sleep in epoll for the eventfd, answer through a word */
	PEER_FUTEX, /* n times: see a word, work for `size` ns, wake the other side's futex */
};

struct peer {
	_Alignas(CACHELINE) shm_u32 order; /* counts jobs; futex of the idle peer */
	uint32_t job;
	uint64_t n;
	uint64_t size;
	_Alignas(CACHELINE) shm_u32 ready; /* = order: at it */
	_Alignas(CACHELINE) shm_u32 taken; /* of the flows: messages taken so far in this job */
	_Alignas(CACHELINE) shm_u32 ping;
	_Alignas(CACHELINE) shm_u32 pong;
	struct ring_control control;
	_Alignas(CACHELINE) unsigned char slots[PEER_SLOTS * RING_SLOT];
	_Alignas(CACHELINE) struct ck_ring ck;
	_Alignas(CACHELINE) struct peer_message ck_slots[PEER_SLOTS];
	int bell;  /* eventfd */
	int epoll; /* the peer's */
	int pid;
};

/* Forks the peer, on CPU @cpu when that is not negative. NULL on failure. */
struct peer *peer_new(int cpu);
struct peer *peer_free(struct peer *p);
/* Gives the peer a job and returns when it is at it. */
void peer_start(struct peer *p, enum peer_job job, uint64_t n, uint64_t size);
/* Mean nanoseconds of @n spin round trips. */
double peer_spin(struct peer *p, uint64_t n);

CK_RING_PROTOTYPE(peer_message, peer_message)

#endif
