/* SPDX-License-Identifier: Apache-2.0 */
#include "size.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool size_read(const char *text, uint64_t *out)
{
	static const char suffixes[] = "KMGTPE";
	unsigned long long n;
	unsigned int shift = 0;
	char *end;

	if (!isdigit((unsigned char)text[0])) /* strtoull would take signs and blanks */
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return false;
	if (*end) {
		const char *at = strchr(suffixes, toupper((unsigned char)*end));

		if (!at || end[1])
			return false;
		shift = 10 * (unsigned int)(at - suffixes + 1);
	}
	if (n > (unsigned long long)INT64_MAX >> shift)
		return false;
	*out = n << shift;
	return true;
}
