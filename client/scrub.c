/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scrub.c - zeroes over pages that held somebody else's KV, before their first use
 *
 * The broker has no context to do it with; it says which columns of which rows
 * have just been bound to such pages. They are in nobody's use: the broker has
 * seen the end of all work of their former owner, and this session enqueues its
 * own only after the answer. So a scrub needs no order but to come before that
 * work, and it takes the stream of the row's slot.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "session.h"

int scrub_check(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n)
{
	uint32_t width = (uint32_t)s->table.target.width;

	for (uint32_t i = 0; i < n; i++)
		if (scrubs[i].row >= s->table.max_batch || scrubs[i].first > width ||
		    scrubs[i].n > width - scrubs[i].first)
			return session_break(s,
					     "the broker calls columns %" PRIu32 " + %" PRIu32 " of row %" PRIu32
					     " dirty; the table has %" PRIu32 " rows of %" PRIu32,
					     scrubs[i].first, scrubs[i].n, scrubs[i].row, s->table.max_batch, width);
	return 0;
}

/* The pages of the scrubs whose rows belong to stream @index, from the mirror; *@count of them. NULL: none, or no
 * memory. */
static int32_t *scrub_pages(const struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n, uint32_t index,
			    size_t *count)
{
	size_t most = 0, width = (size_t)s->table.target.width;
	int32_t *pages;

	*count = 0;
	for (uint32_t i = 0; i < n; i++)
		if (s->slots[scrubs[i].row].stream == index)
			most += scrubs[i].n;
	if (most == 0)
		return NULL;
	pages = malloc(most * sizeof(*pages));
	*count = pages ? 0 : most;
	for (uint32_t i = 0; pages && i < n; i++) {
		const int32_t *row = s->table.mirror + (size_t)scrubs[i].row * width + scrubs[i].first;

		if (s->slots[scrubs[i].row].stream != index)
			continue;
		for (uint32_t c = 0; c < scrubs[i].n; c++)
			if (row[c] >= 0)
				pages[(*count)++] = row[c];
	}
	return pages;
}

static int scrub_on(struct swakv_session *s, uint32_t index, const int32_t *pages, size_t count)
{
	int r;
	struct stream *st = session_stream(s, index, &r);
	bool alone;

	if (!st)
		return r;
	alone = stream_arm(st);
	r = stream_scrub(st, pages, count);
	if (r == 0 && alone)
		r = stream_mark(st);
	return r < 0 ? session_error(s, r, "stream %" PRIu32 ": %s", index, st->why) : 0;
}

int scrub_deliver(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n)
{
	int result = 0;

	for (uint32_t k = 0; n > 0 && k < s->welcome.n_streams; k++) {
		size_t count;
		int32_t *pages = scrub_pages(s, scrubs, n, k, &count);
		int r = pages ? scrub_on(s, k, pages, count) : 0;

		if (!pages && count > 0)
			r = session_error(s, SWAKV_ENOMEM, "no memory for the list of dirty pages");
		free(pages);
		if (r < 0 && result == 0)
			result = r;
	}
	return result;
}
