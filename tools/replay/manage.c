/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manage.c - operations on pages that the worker manages itself
 *
 * What a take gets stands under a name; more takes of one name add to it. A give
 * names pages in the order in which they were taken; once all have been given it
 * names all of them again, which the broker must refuse.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "json_put.h"
#include "operations.h"

/* How long what the broker writes beside commands may take to become what is expected. */
enum { PATIENCE_MS = 20000 };

static const char *name_of(const json_t *command)
{
	return json_string_value(json_object_get(command, "name"));
}

static uint32_t group_of(const json_t *command)
{
	return (uint32_t)command_integer(command, "group");
}

static struct worker_pages *find(const struct worker *w, const char *name)
{
	struct worker_pages *p = w->pages;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	return p;
}

static void free_pages(struct worker_pages *p)
{
	if (!p)
		return;
	free(p->name);
	free(p->ids);
	free(p);
}

void forget_pages(struct worker *w)
{
	struct worker_pages *p;

	while ((p = w->pages) || (p = w->taking)) {
		*(p == w->pages ? &w->pages : &w->taking) = p->next;
		free_pages(p);
	}
}

/* Room for what the take of @command may get; NULL: out of memory. */
static struct worker_pages *new_pages(const json_t *command)
{
	size_t room = (size_t)command_integer(command, "pages");
	struct worker_pages *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->name = strdup(name_of(command));
	p->group = group_of(command);
	p->ids = calloc(room < SWAKV_MAX_PAGES ? room + 1 : SWAKV_MAX_PAGES, sizeof(*p->ids));
	if (p->name && p->ids)
		return p;
	free_pages(p);
	return NULL;
}

/* The pages of @p, which is taken over, stand under their name from now on. */
static int keep(struct worker *w, struct worker_pages *p)
{
	struct worker_pages *known = find(w, p->name);
	int32_t *ids;

	if (!known) {
		p->next = w->pages;
		w->pages = p;
		return 0;
	}
	ids = reallocarray(known->ids, known->n + p->n + 1, sizeof(*ids));
	if (ids) {
		memcpy(ids + known->n, p->ids, p->n * sizeof(*ids));
		known->ids = ids;
		known->n += p->n;
	}
	free_pages(p);
	return ids ? 0 : SWAKV_ENOMEM;
}

static int take(struct worker *w, const json_t *command, struct worker_pages *p, swakv_ticket *ticket)
{
	uint32_t max = (uint32_t)command_integer(command, "pages");
	const json_t *min = json_object_get(command, "min");

	return swakv_pages_take(w->session, p->group, 0,
				command_integer(command, "overwrites") ? SWAKV_TAKE_OVERWRITES : 0,
				min ? (uint32_t)json_integer_value(min) : max, max,
				(uint32_t)command_integer(command, "wait"), p->ids, &p->n, ticket);
}

int do_take(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_pages *p = new_pages(command);
	int code = p ? take(w, command, p, NULL) : SWAKV_ENOMEM;

	(void)answer;
	if (code == 0)
		return keep(w, p);
	free_pages(p);
	/* That it waits no longer is no command: behind one more, status is newer than that. */
	return command_integer(command, "wait") && swakv_session_ping(w->session, NULL) ? SWAKV_EGONE : code;
}

/* The take at @at has been answered with @code. */
static int collect(struct worker *w, struct worker_pages **at, int code)
{
	struct worker_pages *p = *at;

	*at = p->next;
	if (code == 0)
		return keep(w, p);
	free_pages(p);
	return code;
}

/* A take that is not waited for; "at_once" when it has been answered all the same. */
int do_queue_take(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_pages *p = new_pages(command);
	int code = p ? take(w, command, p, &p->call.ticket) : SWAKV_ENOMEM;

	if (code) {
		free_pages(p);
		return code;
	}
	p->next = w->taking;
	w->taking = p;
	return decided_at_once(w, &p->call, answer, &code) ? collect(w, &w->taking, code) : code;
}

int do_taken(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_pages **at = &w->taking;
	int code;

	(void)answer;
	while (*at && strcmp((*at)->name, name_of(command)) != 0)
		at = &(*at)->next;
	if (!*at)
		return SWAKV_EINVALID;
	code = call_result(w, &(*at)->call);
	return code == SWAKV_ETIMEDOUT ? code : collect(w, at, code);
}

/* ---- give ------------------------------------------------------------------------ */

static int give(struct worker *w, const struct worker_pages *p, uint32_t from, uint32_t n, int64_t how)
{
	struct swakv_fence fence = { .kind = SWAKV_FENCE_FAILED };
	bool held = w->device.held;
	int code = 0;

	if (how == FENCE_PENDING) {
		w->device.held = true;
		code = swakv_stream_mark(w->session, 0, &fence);
	}
	if (code == 0)
		code = swakv_pages_give(w->session, p->group, p->ids + from, n, how == FENCE_DONE ? NULL : &fence,
					how != FENCE_DONE, NULL);
	if (code && how == FENCE_PENDING && !held)
		device_signal(&w->device);
	return code;
}

int do_give(struct worker *w, const json_t *command, json_t *answer)
{
	struct worker_pages *p = find(w, name_of(command));
	int64_t how = command_integer(command, "fence");
	const json_t *pages = json_object_get(command, "pages");
	uint32_t from, n;
	int code;

	if (!p)
		return SWAKV_EINVALID;
	from = p->n_given < p->n ? p->n_given : 0;
	n = p->n - from;
	if (pages && json_integer_value(pages) < n)
		n = (uint32_t)json_integer_value(pages);
	code = give(w, p, from, n, how);
	if (code && !(code == SWAKV_EPOISONED && how == FENCE_FAIL))
		return code;
	json_put_bool(answer, "lost", how == FENCE_FAIL);
	p->n_given = from + n;
	return code;
}

/* ---- what others lack ------------------------------------------------------------- */

int do_offer(struct worker *w, const json_t *command, json_t *answer)
{
	(void)answer;
	return swakv_pages_offer(w->session, group_of(command), command_integer(command, "pages"));
}

/* What @read says of the group, once it says what is expected, or when that takes too long. */
static int await(struct worker *w, const json_t *command, json_t *answer,
		 int64_t (*read)(swakv_session *s, uint32_t group))
{
	int64_t want = command_integer(command, "pages"), got = read(w->session, group_of(command));
	const struct timespec tick = { 0, 1000000 };

	for (int i = 0; i < PATIENCE_MS && got != want; i++) {
		nanosleep(&tick, NULL);
		got = read(w->session, group_of(command));
	}
	json_put(answer, "pages", got);
	return 0;
}

static int64_t read_wanted(swakv_session *s, uint32_t group)
{
	return swakv_pages_wanted(s, group, NULL);
}

int do_wanted(struct worker *w, const json_t *command, json_t *answer)
{
	return await(w, command, answer, read_wanted);
}

static int64_t read_takeable(swakv_session *s, uint32_t group)
{
	return swakv_pages_takeable(s, group);
}

int do_takeable(struct worker *w, const json_t *command, json_t *answer)
{
	return await(w, command, answer, read_takeable);
}

/* How many pages stand under the name and have not been given. */
int do_has(struct worker *w, const json_t *command, json_t *answer)
{
	const struct worker_pages *p = find(w, name_of(command));

	json_put(answer, "pages", p ? p->n - p->n_given : 0);
	return 0;
}
