/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incarnation.h - which process is this: the one that attached, or a child of it?
 *
 * An incarnation is a number that a fork makes invalid in the child, told
 * without a system call. The process lock guards what is shared by all
 * sessions of a process and survives a fork in a usable state.
 */
#ifndef SWAKV_CLIENT_INCARNATION_H
#define SWAKV_CLIENT_INCARNATION_H

#include <stdbool.h>
#include <stdint.h>

#include "atomics.h"

/* The incarnation of the calling process, never 0 on success; 0: out of memory. */
uint32_t incarnation_get(void);
extern shm_u32 *incarnation_current; /* incarnation.c's: see there */
/* True when the calling process is the one that got @incarnation. */
static inline bool incarnation_is_current(uint32_t incarnation)
{
	return incarnation_current && load_relaxed(incarnation_current) == incarnation;
}

void process_lock(void);
void process_unlock(void);

#endif
