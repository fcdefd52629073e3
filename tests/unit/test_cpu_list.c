/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of CPUs as text, and which CPUs share a cache, as the kernel's files say. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cpu_list.h"

static const char *again(const char *text, char out[CPU_LIST_TEXT])
{
	cpu_set_t set;

	return cpu_list_read(text, &set) ? cpu_list_write(&set, out) : "none";
}

Test(cpu_list, what_is_read_is_written)
{
	char t[CPU_LIST_TEXT];

	cr_expect_str_eq(again("0", t), "0");
	cr_expect_str_eq(again("0-3,8", t), "0-3,8");
	cr_expect_str_eq(again("8,3,1,0,2", t), "0-3,8");
	cr_expect_str_eq(again("1023", t), "1023");
}

Test(cpu_list, what_is_no_list_is_refused)
{
	const char *const bad[] = {
		"", ",", "0,", ",0", "3-1", "0-", "-1", "0--3", "a", "0 ", "0;1", "1024", "0-99999999999999999999"
	};
	char t[CPU_LIST_TEXT];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_str_eq(again(bad[i], t), "none", "\"%s\"", bad[i]);
}

Test(cpu_list, a_list_that_is_too_long_says_so)
{
	char t[CPU_LIST_TEXT];
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE; i += 2)
		CPU_SET(i, &set);
	cpu_list_write(&set, t);
	cr_expect_lt(strlen(t), (size_t)CPU_LIST_TEXT);
	cr_expect_str_eq(t + strlen(t) - 3, "...");
}

static char sys[] = "/tmp/swakv-cpus-XXXXXX";

static void put(int cpu, int index, const char *name, const char *text)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cpu%d", sys, cpu);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/cpu%d/cache", sys, cpu);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/cpu%d/cache/index%d", sys, cpu, index);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/cpu%d/cache/index%d/%s", sys, cpu, index, name);
	f = fopen(path, "w");
	cr_assert(f);
	fprintf(f, "%s\n", text);
	fclose(f);
}

Test(cpu_list, the_last_level_decides_who_is_beside_whom)
{
	char t[CPU_LIST_TEXT], command[64];
	cpu_set_t set;

	cr_assert(mkdtemp(sys));
	put(8, 0, "level", "1");
	put(8, 0, "shared_cpu_list", "8");
	put(8, 1, "level", "3");
	put(8, 1, "shared_cpu_list", "8-15");
	put(8, 2, "level", "2");
	put(8, 2, "shared_cpu_list", "8-9");
	cr_assert(cpu_list_beside(sys, 8, &set));
	cr_expect_str_eq(cpu_list_write(&set, t), "8-15");
	cr_expect_not(cpu_list_beside(sys, 7, &set), "nothing is told of it");
	cr_expect_str_eq(cpu_list_write(&set, t), "8-15", "unchanged");
	snprintf(command, sizeof(command), "rm -r %s", sys);
	cr_expect_eq(system(command), 0);
}
