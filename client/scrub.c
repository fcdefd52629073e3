/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scrub.c - zeroes over pages that held somebody else's KV, before their first use
 *
 * The broker has no context to do it with; it says which columns of which rows
 * have just been bound to such pages. They are in nobody's use: the broker has
 * seen the end of all work of their former owner, this session enqueues its own
 * only after the answer, and no page is among them that a step of the request
 * has had before. So a scrub needs no order but to come before that work, and it
 * takes the stream of the row's slot.
 *
 * The broker hears of no scrub that fails, and would hand those pages out to this
 * session again as its own. So such a session gets no more pages: to the broker
 * the next one that this process attaches is somebody else.
 */
#include "scrub.h"

#include <inttypes.h>
#include <stdlib.h>

#include "session.h"
#include "stream/session_stream.h"

int scrub_check(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n)
{
	uint32_t n_rows = s->max_batch * s->welcome.n_groups;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t width = scrubs[i].row < n_rows ? session_row_table(s, scrubs[i].row)->width : 0;

		if (scrubs[i].row >= n_rows || scrubs[i].first > width || scrubs[i].n > width - scrubs[i].first)
			return session_break(s,
					     "the broker calls columns %" PRIu32 " + %" PRIu32 " of row %" PRIu32
					     " dirty; the tables have %" PRIu32 " rows, this one is %" PRIu32 " wide",
					     scrubs[i].first, scrubs[i].n, scrubs[i].row, n_rows, width);
	}
	return 0;
}

/* True when @scrub is about table @t, and its slot belongs to stream @index. */
static bool scrub_is_of(const struct swakv_session *s, const struct table *t, uint32_t index,
			const struct wire_scrub *scrub)
{
	uint32_t slot = scrub->row - t->first_row;

	return slot < s->max_batch && s->slots[slot].stream == index;
}

/*
 * The pages of table @t that the scrubs name in rows of stream @index, from the
 * mirror; *@count of them. NULL: none, or no memory.
 */
static int32_t *scrub_pages(const struct swakv_session *s, const struct table *t, const struct wire_scrub *scrubs,
			    uint32_t n, uint32_t index, size_t *count)
{
	size_t most = 0;
	int32_t *pages;

	*count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (scrub_is_of(s, t, index, &scrubs[i]))
			most += scrubs[i].n;
	if (most == 0)
		return NULL;
	pages = malloc(most * sizeof(*pages));
	*count = pages ? 0 : most;
	for (uint32_t i = 0; pages && i < n; i++) {
		const int32_t *row;

		if (!scrub_is_of(s, t, index, &scrubs[i]))
			continue;
		row = t->mirror + (size_t)(scrubs[i].row - t->first_row) * t->width + scrubs[i].first;
		for (uint32_t c = 0; c < scrubs[i].n; c++)
			if (row[c] >= 0)
				pages[(*count)++] = row[c];
	}
	return pages;
}

static int scrub_on(struct swakv_session *s, uint32_t index, uint32_t group, const int32_t *pages, size_t count)
{
	int r;
	struct stream *st = session_stream(s, index, &r);
	bool alone;

	if (!st)
		return r;
	alone = stream_arm(st);
	r = stream_scrub(st, group, pages, count);
	if (r == 0 && alone)
		r = stream_mark(st);
	return r < 0 ? session_error(s, r, "stream %" PRIu32 ": %s", index, st->why) : 0;
}

int scrub_deliver(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n)
{
	int result = 0;

	for (uint32_t i = 0; n > 0 && i < s->welcome.n_streams * s->welcome.n_groups; i++) {
		uint32_t stream = i / s->welcome.n_groups, group = i % s->welcome.n_groups;
		size_t count;
		int32_t *pages = scrub_pages(s, &s->tables[group], scrubs, n, stream, &count);
		int r = pages ? scrub_on(s, stream, group, pages, count) : 0;

		if (!pages && count > 0)
			r = session_error(s, SWAKV_ENOMEM, "no memory for the list of dirty pages");
		free(pages);
		if (r < 0 && result == 0)
			result = r;
	}
	if (result < 0)
		s->unscrubbed = true;
	return result;
}

int scrub_pages_of(struct swakv_session *s, uint32_t stream, uint32_t group, const int32_t *pages, size_t count)
{
	int r = scrub_on(s, stream, group, pages, count);

	s->scrubbed[stream] = s->streams[stream].armed;
	s->unscrubbed |= r < 0;
	return r;
}

int scrub_refuse(struct swakv_session *s)
{
	return session_error(s, SWAKV_EDEVICE,
			     "a scrub has failed, and pages of this session may hold what another worker wrote: "
			     "close the session and attach again");
}
