/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.c - pages that the caller manages itself (swakv_pages.3)
 *
 * The broker says which pages are dirty, and the library scrubs them on the
 * stream of the take. It counts that as a use of its own: pages that are given
 * while a scrub may still run carry a fence for it, whatever the caller knows of
 * that stream.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "call_collect.h"
#include "call_send.h"
#include "fence.h"
#include "scrub.h"
#include "session.h"
#include "stream/session_stream.h"

_Static_assert(SWAKV_MAX_RANGES == WIRE_RANGES, "as on the wire");
_Static_assert(SWAKV_MAX_PAGES == WIRE_MAX_PAGES && (int)SWAKV_TAKE_OVERWRITES == (int)WIRE_TAKE_OVERWRITES,
	       "as on the wire");

/* ---- take ---------------------------------------------------------------------- */

/* What a take keeps until it is answered: in `flags`, below the pages that it asked for at most. */
enum { GROUP_BITS = 8, STREAM_BITS = 8 };

static uint32_t take_note(uint32_t group, uint32_t stream, uint32_t max)
{
	return group | stream << GROUP_BITS | max << (GROUP_BITS + STREAM_BITS);
}

/*
 * Of @n ids in @payload, a private copy, all to @ids; *@largest of their pages.
 * True: some are dirty, and stand there as their complements.
 */
static bool ids_take(const unsigned char *payload, uint32_t n, int32_t *ids, int32_t *largest)
{
	int32_t any = 0, most = 0;

	for (uint32_t i = 0; i < n; i++) {
		int32_t id, page;

		memcpy(&id, payload + i * sizeof(id), sizeof(id));
		page = id < 0 ? ~id : id;
		any |= id;
		most = page > most ? page : most;
		ids[i] = id;
	}
	*largest = most;
	return any < 0;
}

/* Fills the dirty ones among @ids with zeroes, and writes them as they are. */
static int ids_scrub(struct swakv_session *s, uint32_t stream, uint32_t group, int32_t *ids, uint32_t n)
{
	int32_t dirty[WIRE_MAX_PAGES];
	size_t n_dirty = 0;

	for (uint32_t i = 0; i < n; i++)
		if (ids[i] < 0)
			dirty[n_dirty++] = ids[i] = ~ids[i];
	return scrub_pages_of(s, stream, group, dirty, n_dirty);
}

static int give_send(struct swakv_session *s, uint32_t group, const int32_t *ids, uint32_t n,
		     const struct swakv_fence *fences, uint32_t n_fences, struct call **out);

/* Nobody waits for them any more. */
static void give_quietly(struct swakv_session *s, uint32_t group, const int32_t *ids, uint32_t n)
{
	struct call *c;

	if (give_send(s, group, ids, n, NULL, 0, &c) == 0)
		c->orphan = true;
}

static int take_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
		       const unsigned char *payload, size_t len)
{
	uint32_t group = c->flags & ((1 << GROUP_BITS) - 1), n = reply->n;
	uint32_t stream = c->flags >> GROUP_BITS & ((1 << STREAM_BITS) - 1),
		 max = c->flags >> (GROUP_BITS + STREAM_BITS);
	int32_t lost[WIRE_MAX_PAGES], largest, *ids = c->orphan || !c->answer ? lost : c->answer;
	bool dirty;
	int r;

	if (c->result != 0)
		return c->result;
	if (n == 0 || n > max || n * sizeof(lost[0]) > len)
		return session_break(s, "the broker answered a take of up to %" PRIu32 " pages with %" PRIu32, max, n);
	dirty = ids_take(payload, n, ids, &largest);
	if (largest >= s->tables[group].target->num_pages)
		return session_break(s, "the broker gave page %" PRId32 " to a take; the pool has pages 0 to %" PRId32,
				     largest, s->tables[group].target->num_pages - 1);
	r = dirty ? ids_scrub(s, stream, group, ids, n) : 0;
	if (r < 0)
		return r;
	if (ids == lost)
		give_quietly(s, group, ids, n);
	else
		*c->answer_count = n;
	return 0;
}

int swakv_pages_take(swakv_session *s, uint32_t group, uint32_t stream, uint32_t flags, uint32_t min, uint32_t max,
		     uint32_t wait_ms, int32_t *ids, uint32_t *n, swakv_ticket *ticket)
{
	const struct wire_take body = {
		.group = group, .stream = stream, .flags = flags, .min = min, .wait_ms = wait_ms
	};
	const struct part part = { &body, sizeof(body) };
	struct call *c;
	int r = session_enter(s);

	if (r < 0)
		return r;
	if (!ids || !n)
		return session_error(s, SWAKV_EINVALID, "%s NULL",
				     ids ? "the pointer for the count is" : "the place for the ids is");
	*n = 0;
	if ((r = session_group(s, group)) < 0)
		return r;
	if (max > WIRE_MAX_PAGES)
		return session_error(s, SWAKV_EINVALID, "%" PRIu32 " pages were asked for: one call takes up to %d",
				     max, WIRE_MAX_PAGES);
	if (!session_stream(s, stream, &r))
		return r;
	c = call_new(s, WIRE_OP_TAKE, 0, take_effect);
	if (!c)
		return SWAKV_ENOMEM;
	c->answer = ids;
	c->answer_count = n;
	c->flags = take_note(group, stream, max);
	c->wait_ms = wait_ms;
	c->wait_until = 0;
	r = call_send(s, c, 0, max, &part, 1);
	return r < 0 ? r : call_return(s, c, ticket);
}

/* ---- give ---------------------------------------------------------------------- */

/* The fences of a give, one a stream. */
struct fences {
	struct wire_fence of[WIRE_MAX_STREAMS];
	bool given[WIRE_MAX_STREAMS];
};

static void fence_add(struct fences *f, struct wire_fence fence)
{
	struct wire_fence *of = &f->of[fence.line];

	if (f->given[fence.line] &&
	    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): what was given is set */
	    (of->kind == WIRE_FENCE_FAILED || (fence.kind == WIRE_FENCE_LINE && fence.value <= of->value)))
		return;
	f->given[fence.line] = true;
	*of = fence;
}

/* The caller's fences, and those of scrubs that may still run. */
static int fences_make(struct swakv_session *s, const struct swakv_fence *fences, uint32_t n, struct fences *f)
{
	struct wire_fence fence;

	memset(f->given, 0, sizeof(f->given));
	for (uint32_t i = 0; i < n; i++) {
		if (!fence_map(fences[i], &fence))
			return session_error(s, SWAKV_EINVALID, "fence %" PRIu32 ": kind %d is unknown", i,
					     (int)fences[i].kind);
		if (fence.kind == WIRE_FENCE_DONE)
			continue;
		if (fence.line >= s->welcome.n_streams)
			return session_error(s, SWAKV_EINVALID,
					     "fence %" PRIu32 ": stream %" PRIu32 " is outside 0 to %" PRIu32, i,
					     fence.line, s->welcome.n_streams - 1);
		fence_add(f, fence);
	}
	for (uint32_t i = 0; i < s->welcome.n_streams; i++)
		if (s->scrubbed[i] > load_acquire(&s->streams[i].line->word))
			fence_add(f, (struct wire_fence){ WIRE_FENCE_LINE, i, s->scrubbed[i] });
	return 0;
}

static int give_effect(struct swakv_session *s, struct call *c, const struct wire_reply *reply,
		       const unsigned char *payload, size_t len)
{
	/* Where a fence says that work failed, the pages are gone, too. */
	if (c->result != 0 && c->result != SWAKV_EPOISONED)
		wants_given(s, c->flags & ((1 << GROUP_BITS) - 1), -(int64_t)(c->flags >> GROUP_BITS));
	return c->result;
}

/* Sends a give, whose call is *@out then. */
static int give_send(struct swakv_session *s, uint32_t group, const int32_t *ids, uint32_t n,
		     const struct swakv_fence *fences, uint32_t n_fences, struct call **out)
{
	const struct wire_give body = { .group = group };
	struct wire_fence wire[WIRE_MAX_STREAMS];
	struct fences f;
	uint32_t n_wire = 0;
	int r = fences_make(s, fences, n_fences, &f);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->welcome.n_streams; i++)
		if (f.given[i])
			wire[n_wire++] = f.of[i];
	*out = call_new(s, WIRE_OP_GIVE, 0, give_effect);
	if (!*out)
		return SWAKV_ENOMEM;
	(*out)->flags = group | n << GROUP_BITS;
	wants_given(s, group, n);
	r = call_send(s, *out, n_wire, n,
		      (const struct part[]){
			      { &body, sizeof(body) }, { wire, n_wire * sizeof(wire[0]) }, { ids, n * sizeof(*ids) } },
		      3);
	if (r < 0)
		wants_given(s, group, -(int64_t)n);
	return r;
}

int swakv_pages_give(swakv_session *s, uint32_t group, const int32_t *ids, uint32_t n, const struct swakv_fence *fences,
		     uint32_t n_fences, swakv_ticket *ticket)
{
	struct call *c;
	int r = session_enter(s);

	if (r < 0)
		return r;
	if ((!ids && n > 0) || (!fences && n_fences > 0))
		return session_error(s, SWAKV_EINVALID, "the list of %s is NULL, and a count of %" PRIu32 " was given",
				     !ids && n > 0 ? "pages" : "fences", !ids && n > 0 ? n : n_fences);
	if ((r = session_group(s, group)) < 0)
		return r;
	/* More than any list has: none of it is touched. */
	if (n == 0 || n > WIRE_MAX_PAGES)
		return session_error(s, SWAKV_EINVALID, "%" PRIu32 " pages were given back: one call takes 1 to %d", n,
				     WIRE_MAX_PAGES);
	if (n_fences > WIRE_MAX_PAGES)
		return session_error(s, SWAKV_EINVALID,
				     "%" PRIu32
				     " fences were given: one per stream is enough, and one call takes up to %d",
				     n_fences, WIRE_MAX_PAGES);
	r = give_send(s, group, ids, n, fences, n_fences, &c);
	return r < 0 ? r : call_return(s, c, ticket);
}

/* ---- without a command -------------------------------------------------------------- */

/* The board of @group; NULL: there is none. */
static struct wire_board *board_of(const struct swakv_session *s, uint32_t group)
{
	if (!s || !incarnation_is_current(s->incarnation) || s->gone || group >= s->welcome.n_groups)
		return NULL;
	return &s->boards[group];
}

/* Whatever the other side may write there, it is no more than there are pages. */
static int64_t pages_read(const struct swakv_session *s, uint32_t group, shm_u64 *at)
{
	uint64_t n = load_relaxed(at), most = (uint64_t)s->tables[group].target->num_pages;

	return (int64_t)(n < most ? n : most);
}

int64_t swakv_pages_takeable(const swakv_session *s, uint32_t group)
{
	struct wire_board *b = board_of(s, group);

	return b ? pages_read(s, group, &b->takeable) : 0;
}

int64_t swakv_pages_wanted(swakv_session *s, uint32_t group, uint64_t *since_ns)
{
	struct wire_board *b = board_of(s, group);
	int64_t n;

	if (b && wants_told(s, group)) /* before it is read: what comes in between is told again */
		events_told(s);
	n = b ? wants_left(s, group) : 0;
	if (since_ns)
		*since_ns = n > 0 ? load_relaxed(&b->since) : 0;
	return n;
}

uint32_t swakv_pages_wanted_ranges(const swakv_session *s, uint32_t group, struct swakv_page_range *ranges,
				   uint32_t max)
{
	return board_of(s, group) && ranges ? wants_ranges(s, group, ranges, max) : 0;
}

int swakv_pages_get_limits(swakv_session *s, uint32_t group, int64_t *floor, int64_t *ceiling)
{
	uint64_t above, most;
	int r = session_enter(s);

	if (r < 0)
		return r;
	if ((r = session_group(s, group)) < 0)
		return r;
	if (!floor || !ceiling)
		return session_error(s, SWAKV_EINVALID, "where to put the %s is NULL", floor ? "ceiling" : "floor");
	most = (uint64_t)s->tables[group].target->num_pages;
	above = load_relaxed(&s->boards[group].ceiling);
	if (above == 0)
		return session_error(s, SWAKV_EAGAIN,
				     "the broker has not written the limits yet: ask again in a moment");
	*ceiling = (int64_t)(above - 1 < most ? above - 1 : most);
	*floor = pages_read(s, group, &s->boards[group].floor);
	return 0;
}

int swakv_pages_offer(swakv_session *s, uint32_t group, int64_t n)
{
	int r = session_enter(s);

	if (r < 0)
		return r;
	if ((r = session_group(s, group)) < 0)
		return r;
	if (n < 0)
		return session_error(s, SWAKV_EINVALID, "%" PRId64 " pages were offered: give 0 or more", n);
	store_relaxed(&s->boards[group].offered, (uint64_t)n);
	return 0;
}
