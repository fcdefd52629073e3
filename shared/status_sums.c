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

struct status_bytes status_model_bytes(const struct status_snapshot *s, const struct status_model *m)
{
	struct status_bytes b = { 0 };

	for (uint32_t i = 0; i < s->n_sessions; i++) {
		const struct status_session *x = &s->sessions[i];

		for (uint32_t k = 0; k < x->n_groups && !strcmp(x->model, m->name); k++) {
			const struct status_group *g = &x->groups[k];
			const struct status_class *c = &s->classes[g->class_index];
			uint64_t each = c->joined ? c->page_bytes : 2 * c->page_bytes;
			uint64_t managed = (uint64_t)g->managed, others = (uint64_t)(g->quarantined + g->unbound);

			b.bound += ((uint64_t)g->held - managed - others) * each;
			b.reserved += (uint64_t)g->unbound * each;
			b.managed += managed * each;
			b.quarantined += (uint64_t)g->quarantined * each;
		}
	}
	return b;
}

static void add_managed(struct status_managed *sum, int64_t managed, int64_t offered, int64_t wanted, uint64_t since_ns)
{
	sum->managed = (int64_t)((uint64_t)sum->managed + (uint64_t)managed);
	sum->offered = (int64_t)((uint64_t)sum->offered + (uint64_t)offered);
	sum->wanted = (int64_t)((uint64_t)sum->wanted + (uint64_t)wanted);
	if (since_ns && (sum->since_ns == 0 || since_ns < sum->since_ns))
		sum->since_ns = since_ns;
}

struct status_managed status_session_managed(const struct status_session *x)
{
	struct status_managed sum = { 0 };

	for (uint32_t i = 0; i < x->n_groups; i++) {
		const struct status_group *g = &x->groups[i];

		add_managed(&sum, g->managed, g->offered, g->wanted, g->wanted_ns);
	}
	return sum;
}

struct status_managed status_model_managed(const struct status_snapshot *s, const struct status_model *m)
{
	struct status_managed sum = { 0 };

	for (uint32_t i = 0; i < s->n_sessions; i++) {
		struct status_managed one = status_session_managed(&s->sessions[i]);

		if (!strcmp(s->sessions[i].model, m->name))
			add_managed(&sum, one.managed, one.offered, one.wanted, one.since_ns);
	}
	return sum;
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
