/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linger.c - a worker that loses its broker's connection and lives on
 *
 * usage: linger --broker NAME open|reached|ask
 *
 * Leaves one decode step behind on a stream of its own. With "open" the step's
 * timeline word is never written, as if a kernel were still running; with
 * "reached" it is. Then it shuts the socket, prints one line and waits to be
 * killed. With "ask" it does none of that: it waits for a line, begins a request,
 * and says what came of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <swakv/swakv.h>

static int apply(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	return 0;
}

static int write_word(void *arg, uint64_t *word, uint64_t value)
{
	const bool *reached = arg;

	if (*reached)
		__atomic_store_n(word, value, __ATOMIC_RELEASE);
	return 0;
}

static int synchronize(void *arg)
{
	return 0;
}

static _Noreturn void fail(const char *call, const char *why)
{
	fprintf(stderr, "linger: %s: %s\n", call, why);
	exit(1);
}

static void must(swakv_session *s, int result, const char *call)
{
	if (result)
		fail(call, swakv_session_error(s));
}

/* Begins, prefills and decodes one token; the last completion point stays open unless words are written. */
static void leave_work(swakv_session *s)
{
	const int32_t slot = 0, length = 300;
	const struct swakv_begin_options begin = { .size = sizeof(begin), .slots = &slot, .n_slots = 1 };
	struct swakv_fence fence;
	swakv_request *r;

	must(s, swakv_request_begin(s, &begin, &r, NULL), "begin");
	must(s, swakv_prefill_prepare(r, &length, 1, NULL), "prefill_prepare");
	must(s, swakv_stream_mark(s, 0, &fence), "mark");
	must(s, swakv_prefill_complete(r, fence, NULL), "prefill_complete");
	must(s, swakv_decode_prepare(r, NULL), "decode_prepare");
	must(s, swakv_stream_mark(s, 0, &fence), "mark");
	must(s, swakv_decode_complete(r, fence, NULL), "decode_complete");
}

/* Ends the connection, which is this process's only seqpacket socket. */
static void shut_socket(void)
{
	for (int fd = 3; fd < 1024; fd++) {
		int type = 0;
		socklen_t size = sizeof(type);

		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET) {
			shutdown(fd, SHUT_RDWR);
			return;
		}
	}
	fail("shut", "no socket is open");
}

/* Waits for no more than half a second for each answer. */
static int ask(swakv_session *s)
{
	const int32_t slot = 0;
	const struct swakv_begin_options begin = { .size = sizeof(begin), .slots = &slot, .n_slots = 1 };
	swakv_request *r;
	int code;

	puts("attached");
	fflush(stdout);
	getchar();
	code = swakv_request_begin(s, &begin, &r, NULL);
	printf("%s: %s\n", swakv_error_name(code), swakv_session_error(s));
	fflush(stdout);
	return code != 0;
}

int main(int argc, char **argv)
{
	static const struct swakv_stream_ops ops = {
		.size = sizeof(ops), .apply = apply, .write_word = write_word, .synchronize = synchronize
	};
	static const struct swakv_group group = { .size = sizeof(group),
						  .kind = SWAKV_SLIDING,
						  .window = 128,
						  .page_tokens = 32,
						  .layers = 2,
						  .kv_heads = 1,
						  .head_dim = 32,
						  .dtype = SWAKV_F16 };
	const struct swakv_model model = { .size = sizeof(model),
					   .name = "linger",
					   .groups = &group,
					   .n_groups = 1,
					   .max_batch = 2,
					   .max_seq = 1024 };
	struct swakv_attach_options options = { .size = sizeof(options) };
	swakv_session *s;
	bool reached;
	char why[256];

	if (argc != 4 || strcmp(argv[1], "--broker"))
		fail("usage", "linger --broker NAME open|reached|ask");
	options.broker = argv[2];
	reached = !strcmp(argv[3], "reached");
	if (!strcmp(argv[3], "ask"))
		options.timeout_ms = 500;
	if (swakv_session_attach(&options, &model, &s, why, sizeof(why)))
		fail("attach", why);
	if (options.timeout_ms)
		return ask(s);
	must(s, swakv_stream_bind_custom(s, 0, &ops, &reached), "bind");
	leave_work(s);
	shut_socket();
	puts("lingering");
	fflush(stdout);
	for (;;)
		pause();
}
