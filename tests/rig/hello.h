/* SPDX-License-Identifier: Apache-2.0 */
/* hello.h - a hello that a broker takes, for tests to send or to damage */
#ifndef SWAKV_TEST_HELLO_H
#define SWAKV_TEST_HELLO_H

#include "wire.h"

/* Of a model "m" with one sliding group, for any pool. */
static inline struct wire_hello good_hello(void)
{
	struct wire_hello h = {
		.magic = WIRE_MAGIC,
		.size = sizeof(h),
		.version_min = WIRE_VERSION_MIN,
		.version_max = WIRE_VERSION_MAX,
		.size_welcome = sizeof(struct wire_welcome),
		.size_command = sizeof(struct wire_command),
		.size_reply = sizeof(struct wire_reply),
		.size_ring_control = sizeof(struct ring_control),
		.n_groups = 1,
		.n_streams = 1,
		.max_batch = 4,
		.max_seq = 4096,
		.model = "m",
	};

	h.groups[0] = (struct wire_group){ .kind = WIRE_GROUP_SLIDING,
					   .page_tokens = 16,
					   .window = 64,
					   .layers = 1,
					   .kv_heads = 1,
					   .k_head_dim = 64,
					   .v_head_dim = 64,
					   .dtype = WIRE_F16 };
	return h;
}

#endif
