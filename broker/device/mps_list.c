/* SPDX-License-Identifier: Apache-2.0 */
#include "mps_list.h"

#include <string.h>

static const char blanks[] = " \t\r\n";

int mps_list_parse(const char *answer, uint32_t *pids, int most)
{
	const char *at = answer + strspn(answer, blanks);
	int n = 0;

	while (*at) {
		size_t digits = strspn(at, "0123456789");
		uint64_t pid = 0;

		if (n == most || digits == 0 || digits > 10 || !strchr(blanks, at[digits])) /* or the end */
			return -1;
		for (size_t i = 0; i < digits; i++)
			pid = pid * 10 + (uint64_t)(at[i] - '0');
		if (pid == 0 || pid > INT32_MAX)
			return -1;
		pids[n++] = (uint32_t)pid;
		at += digits + strspn(at + digits, blanks);
	}
	return n;
}
