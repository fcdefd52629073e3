/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - what the broker gives up for good, once it has what it needs */
#ifndef SWAKV_BROKER_SANDBOX_H
#define SWAKV_BROKER_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

/* This thread, and those that it starts from now on, gain no privilege by whatever they execute. */
void sandbox_no_new_privileges(void);

/* What the device's library may do besides: kernel drivers, threads and code of its own. */
enum sandbox_device { SANDBOX_HOST, SANDBOX_CUDA };

/*
 * Leaves every thread of the process the system calls that a serving broker makes,
 * for good: it starts no program, reaches no network and no other process's
 * memory, and becomes no other user. Another call fails with ENOSYS or, if
 * @trap, is a SIGSYS. 0, or -1 with the sentence in @why: it cannot be had here.
 */
int sandbox_enter(enum sandbox_device device, bool trap, char *why, size_t size);

#endif
