/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c - what a session knows of itself, and its end
 *
 * The end has an order: the streams' lines are marked, so that the broker sees
 * when their work has ended; the broker is told; and only when the streams are
 * idle is memory unmapped that they write. A stream that cannot be waited for
 * keeps its memory mapped for the life of the process: a leak is harmless, a
 * kernel that writes to unmapped memory is not.
 */
#include "session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "call_answer.h"
#include "call_collect.h"
#include "call_send.h"
#include "cleanup.h"
#include "driver.h"
#include "incarnation.h"
#include "pool_import.h"
#include "request.h"
#include "sized.h"

#define CLOSE_WAIT_NS 1000000000ull

/* ---- errors -------------------------------------------------------------------- */

int session_error(struct swakv_session *s, int code, const char *format, ...)
{
	char sentence[SESSION_ERROR]; /* an argument may lie in s->error */
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	memcpy(s->error, sentence, sizeof(sentence));
	return code;
}

int session_break(struct swakv_session *s, const char *format, ...)
{
	va_list args;

	if (s->gone)
		return SWAKV_EGONE;
	va_start(args, format);
	vsnprintf(s->gone_why, sizeof(s->gone_why), format, args);
	va_end(args);
	s->gone = true;
	shutdown(s->sock, SHUT_RDWR); /* so that a broker that lives notices too */
	calls_fail(s, s->gone_why);
	return session_error(s, SWAKV_EGONE, "%s", s->gone_why);
}

int session_list(struct swakv_session *s, const char *what, const void *list, uint32_t n, size_t size, size_t head)
{
	if (!list)
		return session_error(s, SWAKV_EINVALID,
				     "%s is NULL, and a count of %" PRIu32 " was given: one per sequence is needed",
				     what, n);
	if (call_fits(s, head, n, size))
		return 0;
	return session_error(
		s, SWAKV_EINVALID,
		"%" PRIu32
		" %s were given, and no more than %zu fit a command: one per sequence is needed, of at most %" PRIu32,
		n, what, (call_max_payload(s) - head) / size, s->max_batch);
}

int session_group(struct swakv_session *s, uint32_t group)
{
	if (group < s->welcome.n_groups)
		return 0;
	return session_error(s, SWAKV_EINVALID, "layer group %" PRIu32 " is outside 0 to %" PRIu32, group,
			     s->welcome.n_groups - 1);
}

int session_refuse(struct swakv_session *s)
{
	if (!s)
		return SWAKV_EINVALID;
	if (!incarnation_is_current(s->incarnation))
		return session_error(s, SWAKV_EFORKED,
				     "this session was attached by the parent process: a child must attach its own");
	return session_error(s, SWAKV_EGONE, "%s", s->gone_why);
}

const char *swakv_session_error(const swakv_session *s)
{
	return s ? s->error : "no session was given";
}

/* ---- the end --------------------------------------------------------------------- */

/* True when every stream is idle. */
static bool streams_stop(struct swakv_session *s)
{
	bool idle = true;

	for (uint32_t i = 0; i < s->welcome.n_streams && i < WIRE_MAX_STREAMS; i++) {
		if (stream_synchronize(&s->streams[i]) < 0)
			idle = false;
		stream_deinit(&s->streams[i]);
	}
	return idle;
}

static void session_unmap(struct swakv_session *s)
{
	if (s->registered)
		(void)driver_host_unregister(s->pool->driver, s->memory.p);
	if (s->memory.p)
		munmap(s->memory.p, s->memory.bytes);
	if (s->tables_memory.p)
		munmap(s->tables_memory.p, s->tables_memory.bytes);
	s->pool = pool_import_put(s->pool);
}

/* What is the child's own copy after a fork: heap memory and descriptors. */
static void session_free_private(struct swakv_session *s)
{
	struct swakv_request *r;

	calls_deinit(s);
	while ((r = LIST_FIRST(&s->requests))) {
		LIST_REMOVE(r, link);
		free(r->map);
		free(r);
	}
	events_deinit(&s->events);
	close_fd(&s->sock);
	close_fd(&s->doorbell);
	for (uint32_t i = 0; i < WIRE_MAX_GROUPS; i++)
		table_free(&s->tables[i]);
	free(s->slots);
	free(s->reply);
	free(s);
}

void session_release(struct swakv_session *s)
{
	if (streams_stop(s)) {
		session_unmap(s);
		if (s->joined) /* nothing of this process is left: the session need not wait for its end */
			(void)send(s->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	session_free_private(s);
}

/* Tells the broker, and gives it a moment to answer: then pages that are idle are free when close returns. */
static void session_say_close(struct swakv_session *s)
{
	uint64_t timeout_ns = s->timeout_ns;
	struct call *c;

	if (timeout_ns > CLOSE_WAIT_NS)
		s->timeout_ns = CLOSE_WAIT_NS;
	c = call_new(s, WIRE_OP_CLOSE, 0, NULL);
	if (c && call_send(s, c, 0, 0, NULL, 0) == 0)
		(void)call_return(s, c, NULL);
	s->timeout_ns = timeout_ns;
}

void swakv_session_close(swakv_session *s)
{
	if (!s)
		return;
	if (!incarnation_is_current(s->incarnation)) {
		session_free_private(s);
		return;
	}
	for (uint32_t i = 0; i < s->welcome.n_streams; i++)
		(void)stream_mark_if_armed(&s->streams[i]);
	if (!s->gone && !s->joined)
		session_say_close(s);
	if (!s->joined)
		shutdown(s->sock, SHUT_RDWR);
	session_release(s);
}

/* ---- shutdown ---------------------------------------------------------------------- */

int swakv_session_shutdown(swakv_session *s)
{
	struct wire_fence fences[WIRE_MAX_STREAMS];
	struct part part;
	struct call *c;
	int r = session_enter(s);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->welcome.n_streams; i++) {
		struct stream *st = &s->streams[i];
		bool done = stream_synchronize(st) == 0 && stream_mark_if_armed(st) == 0;

		fences[i] = (struct wire_fence){ .kind = done ? WIRE_FENCE_DONE : WIRE_FENCE_FAILED, .line = i };
		if (s->joinable && !st->backend) /* it may be another process's: the broker looks at its line */
			fences[i] = (struct wire_fence){ .kind = WIRE_FENCE_LINE,
							 .line = i,
							 .value = load_acquire(&st->line->armed) };
	}
	c = call_new(s, WIRE_OP_SHUTDOWN, 0, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	part = (struct part){ fences, s->welcome.n_streams * sizeof(fences[0]) };
	r = call_send(s, c, 0, s->welcome.n_streams, &part, 1);
	return r < 0 ? r : call_return(s, c, NULL);
}

int swakv_session_ping(swakv_session *s, swakv_ticket *ticket)
{
	struct call *c;
	int r = session_enter(s);

	if (r < 0)
		return r;
	c = call_new(s, WIRE_OP_NOP, 0, NULL);
	if (!c)
		return SWAKV_ENOMEM;
	r = call_send(s, c, 0, 0, NULL, 0);
	return r < 0 ? r : call_return(s, c, ticket);
}

/* ---- what it is ----------------------------------------------------------------------- */

/* Fills the caller's @out from @own, NULL: with zeroes. */
static int session_give(const swakv_session *s, const struct sized *kind, void *out, const void *own)
{
	static const unsigned char zeroes[SIZED_MOST];
	char why[SESSION_ERROR] = "";

	if (out && sized_check(kind, out, why, sizeof(why))) {
		sized_give(kind, out, own ? own : zeroes);
		return s ? 0 : SWAKV_EINVALID;
	}
	if (!out)
		snprintf(why, sizeof(why), "the pointer for struct %s is NULL", kind->name);
	/* the sentence is no part of what the caller sees as constant */
	return s ? session_error((swakv_session *)(uintptr_t)s, SWAKV_EINVALID, "%s", why) : SWAKV_EINVALID;
}

int swakv_session_get_info(const swakv_session *s, struct swakv_session_info *out)
{
	const struct sized kind = SIZED(swakv_session_info, device_uuid);
	const struct wire_pool *pool;
	struct swakv_session_info info;

	if (!s)
		return session_give(s, &kind, out, NULL);
	pool = &s->welcome.pools[s->welcome.tables[0].pool];
	info = (struct swakv_session_info){
		.session_id = s->welcome.session_id,
		.generation = s->welcome.session_generation,
		.n_groups = s->welcome.n_groups,
		.n_streams = s->welcome.n_streams,
		.cuda = pool->backend == WIRE_BACKEND_CUDA,
		.device = pool->device,
		.pool = s->pool->host,
		.pool_device = s->pool->address,
		.pool_bytes = s->pool->bytes,
		.near_cpus = s->near_cpus,
	};
	memcpy(info.boot_id, s->welcome.boot_id, sizeof(info.boot_id));
	memcpy(info.device_uuid, pool->device_uuid, sizeof(info.device_uuid));
	return session_give(s, &kind, out, &info);
}

int swakv_session_get_layout(const swakv_session *s, uint32_t group, struct swakv_layout *out)
{
	const struct sized kind = SIZED(swakv_layout, tag);

	if (!s)
		return SWAKV_EINVALID;
	if (group >= s->welcome.n_groups) /* as above */
		return session_group((swakv_session *)(uintptr_t)s, group);
	return session_give(s, &kind, out, &s->layouts[group]);
}

int64_t swakv_session_private_pages(const swakv_session *s)
{
	int64_t n = 0;

	for (uint32_t i = 0; s && i < s->welcome.n_groups; i++)
		n += s->layouts[i].private_pages;
	return n;
}

int swakv_session_get_counters(const swakv_session *s, struct swakv_session_counters *out)
{
	const struct sized kind = SIZED(swakv_session_counters, rescues);

	return session_give(s, &kind, out, s ? &s->counters : NULL);
}
