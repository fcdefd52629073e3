/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_admin.c - the broker against any request of an administrator
 *
 * A good request is overwritten in places and cut or extended to any length.
 * What is accepted names an operation that exists and a session and model that
 * can be looked up; what is refused has a code and a sentence.
 */
#include "admin/admin_request.h"
#include "input.h"

/* One change somewhere: a byte, or any number in a word. */
static void overwrite(unsigned char *at, size_t size, struct input *in)
{
	uint64_t v = input_u32(in);
	size_t bytes = (size_t)1 << (input_u8(in) & 3);
	size_t where = input_u8(in) % size & ~(bytes - 1);

	if (where + bytes <= size)
		memcpy(at + where, &v, bytes);
}

static void check_request(const void *message, size_t bytes)
{
	struct admin_request out;
	char why[192] = "";
	int code = admin_request_check(&out, message, bytes, why, sizeof(why));

	FUZZ_CHECK(code <= 0);
	FUZZ_CHECK(code == 0 || (why[0] && memchr(why, '\0', sizeof(why))));
	if (code)
		return;
	FUZZ_CHECK(bytes == sizeof(out) && out.op > 0 && strcmp(admin_op_name(out.op), "unknown") != 0);
	FUZZ_CHECK(memchr(out.model, '\0', sizeof(out.model)) && out.session <= ADMIN_MAX_SESSIONS);
	FUZZ_CHECK((out.session != 0) == (out.op == ADMIN_DISCONNECT || out.op == ADMIN_KILL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct admin_request good = { .magic = ADMIN_MAGIC, .size = sizeof(good), .version = ADMIN_VERSION };
	size_t bytes = sizeof(good);
	unsigned char *message;

	if (input_is_recorded(&in, ADMIN_MAGIC)) {
		check_request(data, size);
		return 0;
	}

	good.op = input_u8(&in) % (ADMIN_OP_COUNT + 1);
	if (input_u8(&in) & 1)
		good.session = input_u8(&in);
	if (input_u8(&in) & 1)
		input_bytes(&in, good.model, input_u8(&in) % sizeof(good.model));
	if (input_u8(&in) == 1)
		bytes = input_u8(&in);
	message = calloc(1, bytes ? bytes : 1); /* no byte more than came */
	FUZZ_CHECK(message);
	memcpy(message, &good, bytes < sizeof(good) ? bytes : sizeof(good));
	while (in.left > 0 && bytes > 0)
		overwrite(message, bytes, &in);
	check_request(message, bytes);
	free(message);
	return 0;
}
