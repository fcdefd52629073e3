/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"

#define MAX_CACHES 8 /* of a CPU: instructions and data of each level */

/* A number at *@at, which is then behind it; -1: there is none, or no CPU has it. */
static int read_cpu(const char **at)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)**at))
		return -1;
	n = strtol(*at, &end, 10);
	*at = end;
	return n < CPU_SETSIZE ? (int)n : -1;
}

bool cpu_list_read(const char *text, cpu_set_t *out)
{
	const char *at = text;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (;; at++) {
		int first = read_cpu(&at), last = first;

		if (first >= 0 && *at == '-') {
			at++;
			last = read_cpu(&at);
		}
		if (first < 0 || last < first)
			return false;
		for (int i = first; i <= last; i++)
			CPU_SET(i, &set);
		if (*at != ',')
			break;
	}
	if (*at)
		return false;
	*out = set;
	return true;
}

const char *cpu_list_write(const cpu_set_t *set, char text[CPU_LIST_TEXT])
{
	size_t len = 0;

	text[0] = '\0';
	for (int i = 0, last; i < CPU_SETSIZE; i = last + 1) {
		char run[32];

		last = i;
		if (!CPU_ISSET(i, set))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
			last++;
		snprintf(run, sizeof(run), last > i ? "%s%d-%d" : "%s%d", len ? "," : "", i, last);
		if (len + strlen(run) + sizeof("...") > CPU_LIST_TEXT) {
			strcpy(text + len, "...");
			break;
		}
		strcpy(text + len, run);
		len += strlen(run);
	}
	return text;
}

/* The first line of a file of cache @index of @cpu. */
static bool read_line(const char *sys, int cpu, int index, const char *name, char *line, size_t size)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/cpu%d/cache/index%d/%s", sys, cpu, index, name);
	AUTO_FCLOSE FILE *f = fopen(path, "re");

	if (!f || !fgets(line, (int)size, f))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return true;
}

bool cpu_list_beside(const char *sys, int cpu, cpu_set_t *out)
{
	char line[1024];
	long highest = 0;

	for (int i = 0; i < MAX_CACHES && read_line(sys, cpu, i, "level", line, sizeof(line)); i++) {
		long level = strtol(line, NULL, 10);

		if (level > highest && read_line(sys, cpu, i, "shared_cpu_list", line, sizeof(line)) &&
		    cpu_list_read(line, out))
			highest = level;
	}
	return highest > 0;
}
