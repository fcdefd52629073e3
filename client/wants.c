/* SPDX-License-Identifier: Apache-2.0 */
/* wants.c - see wants.h */
#include "wants.h"

#include "session.h"

/* More is wanted of @group than the caller knows. */
static bool grew(const struct swakv_session *s, uint32_t group)
{
	const struct wire_board *b = &s->boards[group];

	return s->wants.heeded & 1u << group && load_acquire(&b->rises) != s->wants.told[group] &&
	       load_relaxed(&b->wanted) > 0;
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
