/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - takes values off the front of a fuzzer's input; zeros when it is used up */
#ifndef SWAKV_FUZZ_INPUT_H
#define SWAKV_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct input {
	const uint8_t *data;
	size_t left;
};

/* Copies up to @size bytes of input to @to; the rest becomes 0. */
static inline void input_bytes(struct input *in, void *to, size_t size)
{
	size_t n = size < in->left ? size : in->left;

	memset(to, 0, size);
	memcpy(to, in->data, n);
	in->data += n;
	in->left -= n;
}

static inline uint8_t input_u8(struct input *in)
{
	uint8_t v;

	input_bytes(in, &v, sizeof(v));
	return v;
}

static inline uint16_t input_u16(struct input *in)
{
	uint16_t v;

	input_bytes(in, &v, sizeof(v));
	return v;
}

static inline uint32_t input_u32(struct input *in)
{
	uint32_t v;

	input_bytes(in, &v, sizeof(v));
	return v;
}

/* An input that begins with the magic of what goes over the wire is that, byte for byte, as tests/fuzz/seed records it.
 */
static inline bool input_is_recorded(const struct input *in, uint64_t magic)
{
	return in->left >= sizeof(magic) && memcmp(in->data, &magic, sizeof(magic)) == 0;
}

/* What must hold whatever the input: says what did not, and ends the run as a crash. */
#define FUZZ_CHECK(condition)                                                                                          \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                 \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#endif
