/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c - the ring of events and its copy on the status page */
#include <criterion/criterion.h>
#include <string.h>

#include "ring/channel.h"
#include "status/events.h"

static struct event_ring ring;
static struct status_event copy[STATUS_MAX_EVENTS];

static void note(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		event_note(&ring, ring.ever, STATUS_EVENT_RECLAIMED, NULL)->pages = (int64_t)ring.ever;
}

/* Every event that is still there stands in its place of the copy. */
static void check_copy(void)
{
	for (uint64_t k = status_event_first(ring.ever); k < ring.ever; k++)
		cr_assert_eq(copy[status_event_place(k)].at_ns, k);
}

Test(events, the_last_256_are_kept_and_only_new_ones_are_copied)
{
	const uint64_t steps[] = { 1, 0, 2, 255, 256, 257, 1000, 3 };
	uint64_t shown = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		note(steps[i]);
		events_copy(&ring, copy, shown);
		shown = ring.ever;
		check_copy();
	}
	memset(copy, 0, sizeof(copy));
	events_copy(&ring, copy, shown);
	cr_assert_eq(copy[0].kind, 0, "what is there already is not copied again");
	cr_assert_eq(status_event_first(256), 0);
	cr_assert_eq(status_event_first(257), 1);
}

Test(events, an_event_says_whose_it_is_and_names_are_cut)
{
	struct channel c = { .id = 7, .generation = 8, .pid = 9, .uid = 10 };
	struct status_event *x;

	memset(c.model_name, 'm', sizeof(c.model_name) - 1);
	x = event_note(&ring, 5, STATUS_EVENT_DEATH, &c);
	cr_assert_eq(x->session, 7U);
	cr_assert_eq(x->generation, 8U);
	cr_assert_eq(x->pid, 9);
	cr_assert_eq(x->uid, 10U);
	cr_assert_eq(strlen(x->model), STATUS_EVENT_TEXT - 1U);
	x = event_note_model(&ring, 6, STATUS_EVENT_DRAINED, "one");
	cr_assert_str_eq(x->model, "one");
	cr_assert_eq(x->session, 0U);
}
