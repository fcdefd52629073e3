/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ctl.c - swakv-ctl against anything that answers on the administrator's socket
 *
 * A thread is the broker: a good greeting and a good reply are overwritten in
 * places and cut or extended. Whatever comes, what is shown is printable text, and
 * JSON that parses.
 */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ask.h"
#include "input.h"
#include "show.h"
#include "shown.h"

enum { MOST_BYTES = sizeof(struct admin_reply) + 3 * sizeof(struct admin_session) + 2 * WIRE_MODEL_NAME };

static char path[64], socket_path[80];
static int listener;
static struct answer answer;
static struct message {
	unsigned char bytes[MOST_BYTES + 64];
	size_t size;
} greeting, reply; /* written before the question is asked */

static void *answer_all(void *arg)
{
	for (;;) {
		int s = accept(listener, NULL, NULL);

		FUZZ_CHECK(s >= 0);
		send(s, greeting.bytes, greeting.size, MSG_NOSIGNAL);
		send(s, reply.bytes, reply.size, MSG_NOSIGNAL);
		shutdown(s, SHUT_WR);
		recv(s, &(struct admin_request){ 0 }, sizeof(struct admin_request),
		     0); /* or closing loses what was sent */
		close(s);
	}
	return NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pthread_t thread;

	snprintf(path, sizeof(path), "/tmp/swakv-fuzz-ctl-%d", (int)getpid());
	FUZZ_CHECK(admin_socket_path(path, socket_path, sizeof(socket_path)));
	strcpy(address.sun_path, socket_path);
	unlink(socket_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	FUZZ_CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(listener, 8) == 0);
	FUZZ_CHECK(pthread_create(&thread, NULL, answer_all, NULL) == 0);
	return 0;
}

/* A few changes of @m, and of its length. */
static void damage(struct message *m, struct input *in)
{
	for (uint8_t n = input_u8(in) % 8; n > 0 && in->left > 0; n--) {
		size_t at = input_u16(in) % m->size;
		uint8_t bytes = 1 + input_u8(in) % 16;

		input_bytes(in, m->bytes + at, bytes < m->size - at ? bytes : m->size - at);
	}
	if (input_u8(in) == 1)
		m->size = input_u16(in) % (sizeof(m->bytes) + 1);
}

static void make(uint16_t op, struct input *in)
{
	struct admin_greeting *g = (void *)greeting.bytes;
	struct admin_reply *r = (void *)reply.bytes;

	memset(&greeting, 0, sizeof(greeting));
	memset(&reply, 0, sizeof(reply));
	*g = (struct admin_greeting){ .magic = ADMIN_MAGIC,
				      .size = sizeof(*g),
				      .version = ADMIN_VERSION,
				      .size_request = sizeof(struct admin_request),
				      .size_reply = sizeof(*r),
				      .size_session = sizeof(struct admin_session),
				      .name = "default" };
	*r = (struct admin_reply){ .magic = ADMIN_MAGIC, .size = sizeof(*r), .version = ADMIN_VERSION, .op = op };
	greeting.size = sizeof(*g);
	reply.size = sizeof(*r);
	if (op == ADMIN_LIST) {
		r->n_sessions = input_u8(in) % 4;
		r->n_names = input_u8(in) % 3;
		reply.size += r->n_sessions * sizeof(struct admin_session) + r->n_names * WIRE_MODEL_NAME;
		input_bytes(in, r + 1, reply.size - sizeof(*r));
	}
	damage(&reply, in);
	if (input_u8(in) < 32)
		damage(&greeting, in);
}

/* A greeting and a reply as they were received. Returns the operation that the reply is to. */
static uint16_t take_recorded(struct input *in)
{
	const struct admin_reply *r = (void *)reply.bytes;

	greeting.size = sizeof(struct admin_greeting);
	input_bytes(in, greeting.bytes, greeting.size);
	reply.size = in->left < sizeof(reply.bytes) ? in->left : sizeof(reply.bytes);
	memset(&reply.bytes, 0, sizeof(*r));
	input_bytes(in, reply.bytes, reply.size);
	return r->op;
}

static void check_shown(const struct question *q, enum ctl_exit e,
			void (*show)(const struct question *, const struct answer *, enum ctl_exit), bool json)
{
	FILE *out = stdout, *err = stderr;
	char *text = NULL;
	size_t size;

	stdout = stderr = open_memstream(&text, &size);
	FUZZ_CHECK(stdout);
	show(q, &answer, e);
	fclose(stdout);
	stdout = out;
	stderr = err;
	shown_check(text, size, json);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct question q = { .socket = path, .timeout_ms = 10000 };
	enum ctl_exit e;

	if (input_is_recorded(&in, ADMIN_MAGIC)) {
		q.request.op = 1 + (take_recorded(&in) - 1U) % (ADMIN_OP_COUNT - 1);
	} else {
		q.request.op = 1 + input_u8(&in) % (ADMIN_OP_COUNT - 1);
		make(q.request.op, &in);
	}
	e = ask(&q, &answer);
	FUZZ_CHECK(e != CTL_USAGE && e != CTL_NO_ANSWER);
	FUZZ_CHECK(answer.reply.n_sessions <= ADMIN_MAX_SESSIONS && answer.reply.n_names <= ADMIN_MAX_DRAINED);
	check_shown(&q, e, show_text, false);
	check_shown(&q, e, show_json, true);
	return 0;
}
