/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - takes one sample and judges it
 *
 * The clock is read first: whoever stops this tool in the middle makes the
 * broker look younger, never stuck. Whether the broker lives is asked of its
 * lock, never of its pid. A page is judged in this order: nobody holds the lock
 * (not running), a thread gives no sign of life (stuck), the picture is old
 * (stale).
 */
#include "sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cleanup.h"
#include "clock.h"
#include "instance.h"
#include "names.h"
#include "page.h"
#include "process_state.h"

enum { COPY_ROUNDS = 200, COPY_PAUSE_NS = 100000 };

NAMES(thread_names, STATUS_N_THREADS, STATUS_THREAD_NAMES);

const char *verdict_name(enum verdict v)
{
	NAMES(names, VERDICT_COUNT, VERDICT_NAMES);

	return NAME_OF(names, v);
}

int64_t sample_age_ms(const struct sample *s, uint64_t then_ns)
{
	return s->now_ns > then_ns ? (int64_t)((s->now_ns - then_ns) / 1000000) : 0;
}

__attribute__((format(printf, 2, 3))) static void say(char (*text)[256], const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(*text, sizeof(*text), format, ap);
	va_end(ap);
}

/* The broker was asked for its page, and did not pass it. */
static void judge_refused(struct sample *s, const struct page *p)
{
	say(&s->reason, "%s", p->why);
	switch (p->answer) {
	case CTL_NO_ANSWER:
		s->verdict = VERDICT_STUCK;
		say(&s->hint, "run swakv-status beside it (podman exec): there the page is read without asking");
		break;
	case CTL_NO_BROKER:
		s->verdict = VERDICT_NOT_RUNNING;
		say(&s->hint, "start one, or name another: --broker, --socket, $SWAKV_BROKER");
		break;
	case CTL_USAGE:
		s->verdict = VERDICT_BAD_NAME;
		say(&s->hint, "--socket is the path of the workers' socket");
		break;
	case CTL_DENIED:
		s->verdict = VERDICT_UNREADABLE;
		say(&s->hint, "beside the broker its group may read the page; over the socket its administrators may");
		break;
	default:
		s->verdict = VERDICT_UNREADABLE;
		say(&s->hint, "use the swakv-status that was installed with the running swakvd");
	}
}

static void judge_unopened(struct sample *s, const struct status_reader *r, int error)
{
	s->verdict = VERDICT_NOT_RUNNING;
	if (error == -ENOENT) {
		say(&s->reason, "no broker of the name '%s' has a status page", s->instance);
		say(&s->hint, "start one: swakvd --name %s (or name another: --name, $SWAKV_BROKER)", s->instance);
	} else if (error == -EPROTO && !status_reader_alive(r)) {
		say(&s->reason,
		    "what is left of the page of '%s' is unfinished, cut short or of another version, and no "
		    "broker holds it",
		    s->instance);
		say(&s->hint, "start one: swakvd --name %s takes the page over", s->instance);
	} else if (error == -EPROTO && r->version == 0) {
		s->verdict = VERDICT_STALE;
		say(&s->reason, "the broker '%s' has not finished its status page", s->instance);
		say(&s->hint, "it is starting: try again; if this stays, read its log");
	} else if (error == -EPROTO) {
		s->verdict = VERDICT_STALE;
		say(&s->reason,
		    "the page of '%s' has version %" PRIu32 " or another layout; this tool reads version %d",
		    s->instance, r->version, STATUS_VERSION);
		say(&s->hint, "use the swakv-status that was installed with the running swakvd");
	} else if (error == -EPERM) {
		s->verdict = VERDICT_UNREADABLE;
		say(&s->reason,
		    "the page of '%s' belongs to uid %" PRIu32
		    ", who is not the user of its broker: its contents are not trusted",
		    s->instance, r->owner);
		say(&s->hint, "see who has taken the name (ls -l /dev/shm/swakv-%s), remove it, restart the broker",
		    s->instance);
	} else if (error == -EINVAL) {
		s->verdict = VERDICT_BAD_NAME;
		say(&s->reason, "'%s' cannot be the name of a broker", s->instance);
		say(&s->hint, "a name has " INSTANCE_NAME_RULE);
	} else {
		s->verdict = VERDICT_UNREADABLE;
		say(&s->reason, "the page of '%s' cannot be read: %s", s->instance, strerror(-error));
		say(&s->hint, "look at /dev/shm/swakv-%s; its user and group may read it", s->instance);
	}
}

/* Texts came from elsewhere (a model's name and tags from its client): nothing in them may steer a terminal or break
 * JSON. */
static void make_printable(char *text, size_t size)
{
	text[size - 1] = '\0';
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static void make_session_printable(struct status_session *x)
{
	make_printable(x->model, sizeof(x->model));
	for (uint32_t i = 0; i < x->n_groups; i++)
		make_printable(x->groups[i].tag, sizeof(x->groups[i].tag));
}

static void make_events_printable(struct status_snapshot *s)
{
	for (uint64_t k = status_event_first(s->events_ever); k < s->events_ever; k++) {
		struct status_event *x = &s->events[status_event_place(k)];

		make_printable(x->model, sizeof(x->model));
		make_printable(x->text, sizeof(x->text));
	}
}

static void copy_head(struct sample *s, const struct status_head *head)
{
	char *const texts[] = { s->head.instance,    s->head.pool,        s->head.backend,     s->head.device,
				s->head.device_uuid, s->head.export_kind, s->head.socket_path, s->head.version_text,
				s->head.ring_cpus,   s->head.machine };
	const size_t sizes[] = { sizeof(head->instance),    sizeof(head->pool),         sizeof(head->backend),
				 sizeof(head->device),      sizeof(head->device_uuid),  sizeof(head->export_kind),
				 sizeof(head->socket_path), sizeof(head->version_text), sizeof(head->ring_cpus),
				 sizeof(head->machine) };

	memcpy(&s->head, head, offsetof(struct status_head, current));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		make_printable(texts[i], sizes[i]);
	for (int i = 0; i < STATUS_N_THREADS; i++) {
		struct sample_thread *t = &s->threads[i];

		t->name = thread_names[i];
		t->heartbeat_age_ms = sample_age_ms(s, load_relaxed(&head->threads[i].heartbeat_ns));
		t->stuck = t->heartbeat_age_ms > SAMPLE_STUCK_MS;
	}
	s->uptime_ms = sample_age_ms(s, s->head.started_ns);
	s->has_head = true;
}

/* A writer that flips without pause may tear every try of the reader: then others follow, a moment apart. */
static int copy_snapshot(struct sample *s, const struct status_reader *r)
{
	const struct timespec pause = { .tv_nsec = COPY_PAUSE_NS };
	int e = status_reader_copy(r, &s->snapshot);

	for (int i = 0; i < COPY_ROUNDS && e == -EAGAIN; i++) {
		nanosleep(&pause, NULL);
		e = status_reader_copy(r, &s->snapshot);
	}
	if (e == 0) {
		for (uint32_t i = 0; i < s->snapshot.n_sessions; i++)
			make_session_printable(&s->snapshot.sessions[i]);
		for (uint32_t i = 0; i < s->snapshot.n_tallies; i++)
			make_printable(s->snapshot.tallies[i].model, sizeof(s->snapshot.tallies[i].model));
		for (uint32_t i = 0; i < s->snapshot.n_models; i++)
			make_printable(s->snapshot.models[i].name, sizeof(s->snapshot.models[i].name));
		make_events_printable(&s->snapshot);
		s->age_ms = sample_age_ms(s, s->snapshot.published_ns);
		s->has_snapshot = true;
	}
	return e;
}

/* Some thread is stuck: names them all, and says what the process's state explains. */
static void judge_stuck(struct sample *s)
{
	char names[64] = "";
	int64_t longest = 0;
	int pid = s->head.pid;

	for (int i = 0; i < STATUS_N_THREADS; i++) {
		if (!s->threads[i].stuck)
			continue;
		strlcat(names, names[0] ? ", " : "", sizeof(names));
		strlcat(names, s->threads[i].name, sizeof(names));
		if (s->threads[i].heartbeat_age_ms > longest)
			longest = s->threads[i].heartbeat_age_ms;
	}
	s->verdict = VERDICT_STUCK;
	s->process_state = process_state(pid);
	if (s->process_state == 'T') {
		say(&s->reason, "the broker's process %d is stopped; no sign of life for %" PRId64 " ms (threads: %s)",
		    pid, longest, names);
		say(&s->hint, "resume it: kill -CONT %d", pid);
	} else if (s->process_state == 't') {
		say(&s->reason,
		    "the broker's process %d is held by a debugger; no sign of life for %" PRId64 " ms (threads: %s)",
		    pid, longest, names);
		say(&s->hint, "let the debugger continue it, or detach");
	} else {
		say(&s->reason, "no sign of life for %" PRId64 " ms from: %s (process %d, state %c)", longest, names,
		    pid, s->process_state ? s->process_state : '?');
		if (pid == 0)
			say(&s->hint, "look at it where it runs: its process is not seen from here");
		else
			say(&s->hint,
			    "see what it does (gdb -p %d -batch -ex 'thread apply all bt'), keep its log, then restart "
			    "it",
			    pid);
	}
}

static bool any_stuck(const struct sample *s)
{
	for (int i = 0; i < STATUS_N_THREADS; i++)
		if (s->threads[i].stuck)
			return true;
	return false;
}

static void judge_opened(struct sample *s, const struct status_reader *r, int copied)
{
	if (!status_reader_alive(r)) {
		s->verdict = VERDICT_NOT_RUNNING;
		s->has_snapshot = false; /* nobody's pages any more */
		say(&s->reason, "the broker '%s' (process %d) died without closing its status page", s->instance,
		    s->head.pid);
		say(&s->hint, "start a new one: swakvd --name %s takes over page and socket", s->instance);
	} else if (any_stuck(s)) {
		judge_stuck(s);
	} else if (copied == -EAGAIN) {
		s->verdict = VERDICT_STALE;
		say(&s->reason, "the broker '%s' has published no whole snapshot yet", s->instance);
		say(&s->hint, "it is starting: try again; if this stays, read its log");
	} else if (copied < 0) {
		s->verdict = VERDICT_STALE;
		say(&s->reason, "the page of '%s' was cut short, or its snapshot holds impossible counts", s->instance);
		say(&s->hint,
		    "its broker replaces a page that was cut short: try again; else keep a copy of "
		    "/dev/shm/swakv-%s and restart the broker",
		    s->instance);
	} else if (s->age_ms > SAMPLE_STALE_MS) {
		s->verdict = VERDICT_STALE;
		say(&s->reason, "the last snapshot of '%s' is %" PRId64 " ms old, though its threads live", s->instance,
		    s->age_ms);
		say(&s->hint, "its ring thread does not get round to publishing: read its log and its load");
	}
}

void sample_take(struct sample *s, const char *instance, const char *socket)
{
	struct page p;
	int e;

	memset(s, 0, offsetof(struct sample, snapshot));
	page_open(&p, instance, socket);
	s->now_ns = p.now_ns;
	strlcpy(s->instance, socket ? p.name : instance, sizeof(s->instance));
	if (p.asked && p.answer != CTL_DONE) {
		judge_refused(s, &p);
	} else if (p.error < 0) {
		judge_unopened(s, &p.reader, p.error);
	} else {
		if (p.asked)
			p.reader.head.pid = p.pid; /* its own may be another process here */
		copy_head(s, &p.reader.head);
		e = copy_snapshot(s, &p.reader);
		judge_opened(s, &p.reader, e);
	}
	page_close(&p);
}
