/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atomics.h - the named atomic operations; no other file mentions a memory order
 *
 * Each barrier's partner is named where it is used. All are lock-free on at
 * most 8 bytes, so they hold between processes.
 */
#ifndef SWAKV_ATOMICS_H
#define SWAKV_ATOMICS_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint32_t shm_u32;
typedef _Atomic uint64_t shm_u64;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "shared words must be lock-free");
_Static_assert(sizeof(shm_u32) == 4 && sizeof(shm_u64) == 8, "shared words have no hidden state");

#define CACHELINE 64

#define load_relaxed(p)        atomic_load_explicit((p), memory_order_relaxed)
#define load_acquire(p)        atomic_load_explicit((p), memory_order_acquire)
#define store_relaxed(p, v)    atomic_store_explicit((p), (v), memory_order_relaxed)
#define store_release(p, v)    atomic_store_explicit((p), (v), memory_order_release)
#define exchange_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define add_relaxed(p, v)      atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
/* True: *@p was *@expected and is @v now; false: *@expected is what it is. */
#define replace_relaxed(p, expected, v)                                                                                \
	atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_relaxed, memory_order_relaxed)

/* Orders this side's store before its next load: the sleeper's and the waker's half of need_wakeup and need_space. */
static inline void fence_store_load(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/* Between the data and the second sequence read of a sequence lock (reader), or after the odd store (writer). */
static inline void fence_acquire(void)
{
	atomic_thread_fence(memory_order_acquire);
}
static inline void fence_release(void)
{
	atomic_thread_fence(memory_order_release);
}

/* A hint: the line of @p will be written, and may lie in another CPU's cache now. */
static inline void prefetch_to_write(const void *p)
{
#if defined(__x86_64__)
	/* The compiler's own makes a prefetch for reading of it unless told that the CPU has this one: all know it. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
