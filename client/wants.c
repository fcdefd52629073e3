/* SPDX-License-Identifier: Apache-2.0 */
/* wants.c - see wants.h */
#include "wants.h"

#include "session.h"

int64_t wants_left(const struct swakv_session *s, uint32_t group)
{
	const struct wire_board *b = &s->boards[group];
	/* In this order: the other way round what was given could count for nothing. */
	uint64_t seen = load_acquire(&b->given), wanted = load_acquire(&b->wanted);
	uint64_t most = (uint64_t)s->tables[group].target->num_pages;
	int64_t given = (int64_t)(load_relaxed(&s->wants.given[group]) - seen), n;

	/* Whatever the other side may write there, it is no more than there are pages. */
	n = (int64_t)(wanted < most ? wanted : most);
	if (given > 0)
		n -= given < n ? given : n;
	return n;
}

uint32_t wants_ranges(const struct swakv_session *s, uint32_t group, struct swakv_page_range *out, uint32_t max)
{
	int32_t most = s->tables[group].target->num_pages;
	uint32_t n = 0;

	if (!s->ranges || wants_left(s, group) == 0)
		return 0;
	for (uint32_t i = 0; i < WIRE_RANGES && n < max; i++) {
		struct page_range r = wire_range_read(load_relaxed(&s->ranges[group].of[i]));

		if (r.end == 0)
			break;
		if (r.first >= 0 && r.first < r.end && r.end <= most)
			out[n++] = (struct swakv_page_range){ r.first, r.end };
	}
	return n;
}

void wants_given(struct swakv_session *s, uint32_t group, int64_t n)
{
	shm_u64 *given = &s->wants.given[group];

	store_relaxed(given, load_relaxed(given) + (uint64_t)n);
}

/* More is wanted of @group than the caller knows. */
static bool grew(const struct swakv_session *s, uint32_t group)
{
	const struct wire_board *b = &s->boards[group];

	return s->wants.heeded & 1u << group && load_acquire(&b->rises) != s->wants.told[group] &&
	       wants_left(s, group) > 0;
}

static bool any_grew(const struct swakv_session *s)
{
	for (uint32_t g = 0; g < s->welcome.n_groups; g++)
		if (grew(s, g))
			return true;
	return false;
}

bool wants_grew(struct swakv_session *s)
{
	if (s->wants.untold || !s->wants.heeded || !any_grew(s))
		return false;
	s->wants.untold = true;
	return true;
}

bool wants_told(struct swakv_session *s, uint32_t group)
{
	s->wants.heeded |= 1u << group;
	s->wants.told[group] = load_acquire(&s->boards[group].rises);
	if (!s->wants.untold || any_grew(s))
		return false;
	s->wants.untold = false;
	return true;
}
