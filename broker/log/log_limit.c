/* SPDX-License-Identifier: Apache-2.0 */
#include "log_limit.h"

#include <stddef.h>

#include "clock.h"
#include "log.h"

#define LINE_COSTS (NS_PER_S / LOG_LIMIT_A_SECOND)

static void refill(struct log_source *s, uint64_t now)
{
	uint64_t passed = now > s->last ? now - s->last : 0;

	s->spent = s->spent > passed ? s->spent - passed : 0;
	s->last = now;
}

static bool spend(struct log_source *s, uint64_t now)
{
	refill(s, now);
	if (s->spent + LINE_COSTS > LOG_LIMIT_BURST * LINE_COSTS)
		return false;
	s->spent += LINE_COSTS;
	return true;
}

/*
 * The place of @uid: its own, or the one with the most room. What was spent of a
 * place stays spent, whose ever it was: as many users as there may be, no more
 * lines pass than all places have.
 */
static struct log_source *find(struct log_limit *l, uint32_t uid, uint64_t now)
{
	struct log_source *place = NULL;

	for (int i = 0; i < LOG_LIMIT_SOURCES; i++) {
		struct log_source *s = &l->sources[i];

		if (s->used && s->uid == uid)
			return s;
		refill(s, now);
		if (!place || s->spent < place->spent || (s->spent == place->spent && !s->used && place->used))
			place = s;
	}
	l->displaced += place->silent;
	place->silent = 0;
	place->uid = uid;
	place->used = true;
	return place;
}

bool log_limit_pass(struct log_limit *l, uint32_t uid, uint64_t now)
{
	struct log_source *s = find(l, uid, now);

	if (spend(s, now))
		return true;
	s->silent++;
	return false;
}

bool log_limit_due(struct log_limit *l, uint64_t now, bool at_once, uint32_t *uid, uint32_t *n)
{
	for (int i = 0; i < LOG_LIMIT_SOURCES; i++) {
		struct log_source *s = &l->sources[i];

		if (!s->silent || (!spend(s, now) && !at_once))
			continue;
		*uid = s->uid;
		*n = s->silent;
		s->silent = 0;
		return true;
	}
	if (!l->displaced || (!at_once && now - l->told < NS_PER_S))
		return false;
	*uid = LOG_NOBODY;
	*n = l->displaced;
	l->displaced = 0;
	l->told = now;
	return true;
}

void log_limit_untold(struct log_limit *l, uint32_t uid, uint32_t n)
{
	for (int i = 0; i < LOG_LIMIT_SOURCES; i++)
		if (l->sources[i].used && l->sources[i].uid == uid) {
			l->sources[i].silent += n;
			return;
		}
	l->displaced += n;
}
