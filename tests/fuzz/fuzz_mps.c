/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_mps.c - the broker against anything that nvidia-cuda-mps-control prints
 *
 * What is taken for a list has nothing in it but its numbers, all of them: a
 * process that is missing in it is believed to have ended.
 */
#include "device/mps_list.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MOST = 16 };
	uint32_t *pids = calloc(MOST, sizeof(*pids)); /* no place more */
	char *text = calloc(size + 1, 1), *end;
	int n, found = 0;

	FUZZ_CHECK(pids && text);
	memcpy(text, data, size);
	n = mps_list_parse(text, pids, MOST);
	FUZZ_CHECK(n >= -1 && n <= MOST);
	for (char *at = text; n >= 0 && *at; at = end) {
		unsigned long long pid = strtoull(at, &end, 10);

		if (end == at) {
			FUZZ_CHECK(at[strspn(at, " \t\r\n")] == '\0');
			break;
		}
		FUZZ_CHECK(found < n && pids[found] == pid);
		found++;
	}
	FUZZ_CHECK(n < 0 || found == n);
	free(text);
	free(pids);
	return 0;
}
