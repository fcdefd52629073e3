/* SPDX-License-Identifier: Apache-2.0 */
/* teardown.c - what fails in a .fini fails the program: Criterion prints it, and counts it nowhere */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned int n_failed;

ReportHook(ASSERT)(struct criterion_assert_stats *stats)
{
	n_failed += !stats->passed;
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
	if (n_failed == 0 || stats->tests_failed > 0 || stats->tests_crashed > 0)
		return;
	fprintf(stderr, "%u assertions failed after the end of their tests\n", n_failed);
	exit(EXIT_FAILURE);
}
