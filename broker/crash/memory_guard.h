/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_guard.h - shared memory that may lose its pages while the broker uses it
 *
 * A file that is cut short, or memory that fails, shows as SIGBUS at the next
 * touch. In a guarded region private memory takes the place of the page, zeroed,
 * and a flag tells the region's owner; whoever touched it goes on. Only for
 * memory that is believed no more than its writer, or that is only written:
 * what the broker's own state lies in is not guarded.
 */
#ifndef SWAKV_BROKER_MEMORY_GUARD_H
#define SWAKV_BROKER_MEMORY_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "atomics.h"

/* From now on; *@lost becomes 1. One thread adds and removes. False: all places are taken, and it is not guarded. */
bool memory_guard_add(void *region, size_t bytes, shm_u32 *lost);
/* Before @region is unmapped. One that is not guarded is none. */
void memory_guard_remove(const void *region);
/* For the handler of SIGBUS. True: @address can be touched again. Async-signal-safe. */
bool memory_guard_catch(const void *address);

#endif
