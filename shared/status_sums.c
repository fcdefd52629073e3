/* SPDX-License-Identifier: Apache-2.0 */
/* status_sums.c - see status_sums.h; sums wrap round, whatever the page says */
#include "status_sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool differ(char *why, size_t size, const char *what, uint32_t class, uint64_t left, uint64_t right)
{
	snprintf(why, size, "%s of class %" PRIu32 ": %" PRId64 ", and not %" PRId64, what, class, (int64_t)left,
		 (int64_t)right);
	return false;
}

int64_t status_model_pages(const struct status_snapshot *s, const struct status_model *m, uint32_t class)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->n_sessions; i++) {
		const struct status_session *x = &s->sessions[i];

		for (uint32_t g = 0; g < x->n_groups && !strcmp(x->model, m->name); g++)
			n += x->groups[g].class_index == class ? (uint64_t)x->groups[g].held : 0;
	}
	return (int64_t)n;
}

static void add_held(const struct status_snapshot *s, uint64_t held[STATUS_MAX_CLASSES])
{
	for (uint32_t i = 0; i < s->n_sessions; i++)
		for (uint32_t g = 0; g < s->sessions[i].n_groups; g++)
			held[s->sessions[i].groups[g].class_index] += (uint64_t)s->sessions[i].groups[g].held;
}

bool status_sums_hold(const struct status_snapshot *s, char *why, size_t size)
{
	uint64_t bytes = s->pool_held + s->pool_free + s->pool_unusable, held[STATUS_MAX_CLASSES] = { 0 };

	why[0] = '\0';
	if (bytes != s->pool_total) {
		snprintf(why, size, "bytes held, free and unusable are %" PRIu64 " together, and not %" PRIu64, bytes,
			 s->pool_total);
		return false;
	}
	add_held(s, held);
	for (uint32_t i = 0; i < s->n_classes; i++) {
		const struct status_class *c = &s->classes[i];
		uint64_t live = (uint64_t)c->leased + (uint64_t)c->quarantined;

		if (live + (uint64_t)c->free != (uint64_t)c->pages)
			return differ(why, size, "free, leased and quarantined pages", i, live + (uint64_t)c->free,
				      (uint64_t)c->pages);
		if (!s->truncated && held[i] != live)
			return differ(why, size, "pages that sessions hold", i, held[i], live);
	}
	return true;
}
