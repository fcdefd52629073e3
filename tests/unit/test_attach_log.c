/* SPDX-License-Identifier: Apache-2.0 */
/* What the log says of a worker that has attached. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "session/attach_log.h"

static struct {
	uint32_t warnings;
	char text[512]; /* of the last */
} heard;

static void hear(void *arg, uint32_t uid, enum log_level level, const char *text)
{
	if (level != LOG_LEVEL_WARNING)
		return;
	heard.warnings++;
	snprintf(heard.text, sizeof(heard.text), "%s", text);
}

static const struct session_edge edge = { .say = hear };
static const struct backend_pool pool = { .half_bytes = 3 << 20, .extent_bytes = 1 << 20 };
static const struct peer peer = { .pid = 4711, .uid = 7 };

/* Two groups with pages of 32 and 64 KiB, of which a sequence takes so many. */
static struct channel *two_groups(int32_t small, int32_t large)
{
	static struct channel ch;

	ch = (struct channel){ .id = 3, .model = { .n_groups = 2, .max_seq = 4096, .max_batch = 1 } };
	ch.geometry[0] = (struct geometry){ .page_bytes = 32 << 10, .num_pages = 96, .private_pages = small };
	ch.geometry[1] = (struct geometry){ .page_bytes = 64 << 10, .num_pages = 48, .private_pages = large };
	heard.warnings = 0;
	return &ch;
}

Test(attach_log, a_sequence_that_fits_is_not_warned_of)
{
	attach_log(&edge, two_groups(64, 16), &peer, &pool);
	cr_expect_eq(heard.warnings, 0, "%s", heard.text);
}

Test(attach_log, a_sequence_of_more_bytes_than_the_pool_is_warned_of)
{
	attach_log(&edge, two_groups(96, 16), &peer, &pool);
	cr_expect_eq(heard.warnings, 1);
	cr_expect(strstr(heard.text, "8388608 bytes of K and V"), "%s", heard.text);
}

/* 1.5 MiB and 1.5 MiB: both would need a part of the same extent. A begin of it is refused as one that never fits. */
Test(attach_log, a_sequence_that_fits_in_bytes_and_not_in_extents_is_warned_of)
{
	attach_log(&edge, two_groups(48, 24), &peer, &pool);
	cr_expect_eq(heard.warnings, 1);
	cr_expect(strstr(heard.text, "in whole extents of 2097152"), "%s", heard.text);
}
