/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_test.h - can another process use the pool? Tried before any worker does
 *
 * What a device says of itself is not enough (WSL, MIG, containers): the pool is
 * imported by child processes, written by one, read by the next.
 */
#ifndef SWAKV_BROKER_SELF_TEST_H
#define SWAKV_BROKER_SELF_TEST_H

#include "backend.h"
#include "platform.h"

/* First argument of the hidden mode of swakvd that is the child. */
#define SELF_TEST_ARGUMENT "--self-test-import"

/*
 * Tests a pool that is allocated and that nobody uses yet; the bytes that it
 * wrote are 0 afterwards. Takes as long as two processes need to open the device.
 * 0, or EXIT_CODE_BACKEND with the sentence in @why.
 */
int self_test_run(const struct config *c, const struct backend_pool *pool, const struct platform *platform,
		  char why[BACKEND_WHY]);

/* The child: a test comes by a socket on standard input, its result goes back there. The exit code. */
int self_test_child(void);

#endif
