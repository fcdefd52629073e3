/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's look at the mapping of a compaction: what the library has put on the device is played here. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

static struct worker w;
static int32_t damage;      /* is added to one entry of what "the device" holds */
static uint32_t damaged_at; /* which */
static int begins, completes;

/* ---- in the place of device and library ------------------------------------------------- */

int device_buffer_new(struct device *d, struct buffer *b, size_t bytes)
{
	*b = (struct buffer){ .host = calloc(1, bytes), .bytes = bytes };
	b->address = (uint64_t)(uintptr_t)b->host;
	return b->host ? 0 : SWAKV_ENOMEM;
}

void device_buffer_free(struct device *d, struct buffer *b)
{
	free(b->host);
}

int device_download(struct device *d, const struct buffer *b, size_t offset, size_t bytes)
{
	return 0;
}

int device_wait(struct device *d, struct swakv_fence fence)
{
	return 0;
}

const char *device_why(const struct device *d)
{
	return "";
}

int worker_fail(struct worker *worker, int code, const char *what)
{
	return code;
}

int worker_fail_detail(struct worker *worker, int code, const char *what, const char *detail)
{
	return code;
}

int swakv_compact_begin(swakv_request *r, const int32_t *old_to_new, uint32_t n, int32_t new_batch, uint32_t flags,
			uint64_t map_dst, swakv_ticket *ticket)
{
	int32_t *map = (int32_t *)(uintptr_t)map_dst;

	memcpy(map, old_to_new, n * sizeof(*map));
	map[damaged_at] += damage;
	begins++;
	return 0;
}

int swakv_stream_mark(swakv_session *s, uint32_t stream, struct swakv_fence *fence)
{
	*fence = SWAKV_DONE;
	return 0;
}

int swakv_compact_complete(swakv_request *r, struct swakv_fence fence, swakv_ticket *ticket)
{
	completes++;
	return 0;
}

/* ---- the check --------------------------------------------------------------------------- */

static void run_one(void)
{
	const int32_t map[] = { 0, -1, 1 };

	cr_assert_eq(compaction_run(&w.compaction, &w, NULL, map, 3, 2), 0);
}

static void setup(void)
{
	w = (struct worker){ .opt = { .name = "w" } };
	cr_assert_eq(compaction_init(&w.compaction, &w), 0);
}

static void teardown(void)
{
	compaction_deinit(&w.compaction, &w);
}

TestSuite(compaction, .init = setup, .fini = teardown);

Test(compaction, right_mappings_are_counted_and_nothing_else)
{
	for (int i = 0; i < 3 * COMPACTION_OPEN; i++)
		run_one();
	cr_assert_eq(compaction_check(&w.compaction, &w), 0);
	cr_expect_eq(w.stats.cells, 3 * 3 * COMPACTION_OPEN);
	cr_expect_eq(w.stats.cells_wrong, 0);
	cr_expect_eq(w.stats.compactions, 3 * COMPACTION_OPEN);
	cr_expect(begins == 3 * COMPACTION_OPEN && completes == begins);
}

Test(compaction, each_wrong_entry_counts)
{
	for (damaged_at = 0; damaged_at < 3; damaged_at++) {
		damage = 1;
		run_one();
		damage = 0;
		cr_assert_eq(compaction_check(&w.compaction, &w), 0);
		cr_expect_eq(w.stats.cells_wrong, damaged_at + 1, "entry %u", damaged_at);
	}
}

/* It is looked at when its place is needed again, at the latest. */
Test(compaction, a_wrong_entry_is_seen_before_its_place_is_taken)
{
	damage = 1;
	run_one();
	damage = 0;
	for (int i = 0; i < COMPACTION_OPEN; i++)
		run_one();
	cr_expect_eq(w.stats.cells_wrong, 1);
}
