/* SPDX-License-Identifier: Apache-2.0 */
/* skipped.c - a Criterion test that skips itself says so in a line that tests/summary counts */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>

ReportHook(POST_TEST)(struct criterion_test_stats *stats)
{
	if (stats->test_status != CR_STATUS_SKIPPED || stats->test->data->disabled)
		return;
	printf("skipped: %s.%s: %s\n", stats->test->category, stats->test->name,
	       stats->message ? stats->message : "no reason given");
	fflush(stdout);
}
