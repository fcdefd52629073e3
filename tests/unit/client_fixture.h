/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_fixture.h - a session at a fake broker, and streams that write down what they are given
 *
 * One a test program: a test is a process of its own.
 */
#ifndef SWAKV_CLIENT_FIXTURE_H
#define SWAKV_CLIENT_FIXTURE_H

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_broker.h"

extern struct fake fake;
extern swakv_session *session;

/* What the callbacks saw, in order. */
struct event {
	char what; /* 'u' on_updates, 'a' apply, 'w' write_word, 'c' copy, 's' synchronize */
	uint32_t stream;
	size_t n;
	uint64_t armed, word, value;
	struct swakv_update first;
};
extern struct event events[64];
extern int n_events;
extern int apply_result, write_result; /* what the streams answer */
extern const struct swakv_stream_ops ops;
extern uint32_t streams[FAKE_STREAMS]; /* their arguments: the index of each */

extern shm_u32 gate; /* set by the test, at its end at the latest */
/* Work for a host stream. */
void wait_for_gate(void *arg);

/* For TestSuite(). */
void client_setup(void);
void client_teardown(void);

/* Binds every stream to the recorder. */
void bind_custom(void);
uint64_t row_faults(void);

#define CELL(row, column) ((row)*FAKE_WIDTH + (column))
#define N(array)          (sizeof(array) / sizeof((array)[0]))
#define DELIVERY(u, r)    ((struct fake_delivery){ .updates = (u), .n_updates = N(u), .rows = (r), .n_rows = N(r) })

int32_t device(int row, int half, int column);
void assert_device_row(int row, const int32_t k[FAKE_WIDTH]);
/* A decode step of @r, answered with @d. */
int decode(swakv_request *r, const struct fake_delivery *d);
int complete(swakv_request *r, struct swakv_fence fence);
swakv_request *begin(uint32_t stream, int32_t slot);

extern const struct wire_row row0[1]; /* row 0, changed for the first time */
/* An answer with @d ends the session before a stream sees anything of it, also what was good in it. @words: why. */
void assert_refused(const struct fake_delivery *d, const char *words);

#endif
