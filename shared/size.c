/* SPDX-License-Identifier: Apache-2.0 */
#include "size.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FRACTION = 1000000000 };

/* ".5" at *@at: *@part of *@of. False: a point without digits, or more digits than anybody means. */
static bool read_fraction(const char **at, uint64_t *part, uint64_t *of)
{
	const char *p = *at;

	*part = 0;
	*of = 1;
	if (*p != '.')
		return true;
	for (p++; isdigit((unsigned char)*p); p++) {
		if (*of == MAX_FRACTION)
			return false;
		*part = 10 * *part + (uint64_t)(*p - '0');
		*of *= 10;
	}
	*at = p;
	return *of > 1;
}

/* A blank perhaps, then "G" or "GiB": by how many bits it shifts; -1: something else. */
static int read_suffix(const char *text)
{
	static const char suffixes[] = "KMGTPE";
	const char *at;

	if (!*text)
		return 0;
	text += *text == ' ';
	at = *text ? strchr(suffixes, toupper((unsigned char)*text)) : NULL;
	if (!at || (text[1] && strcmp(text + 1, "iB") != 0))
		return -1;
	return 10 * (int)(at - suffixes + 1);
}

bool size_read(const char *text, uint64_t *out)
{
	uint64_t n, part, of;
	const char *at;
	int shift;
	char *end;

	if (!isdigit((unsigned char)text[0])) /* strtoull would take signs and blanks */
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	at = end;
	if (errno || !read_fraction(&at, &part, &of))
		return false;
	shift = read_suffix(at);
	if (shift < 0 || (shift == 0 && of > 1) || n > (uint64_t)INT64_MAX >> shift)
		return false;
	n = (n << shift) + (uint64_t)(((unsigned __int128)part << shift) / of);
	if (n > INT64_MAX)
		return false;
	*out = n;
	return true;
}

const char *size_text(uint64_t bytes, char buf[SIZE_TEXT])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	for (; value >= 1024; unit++)
		value /= 1024;
	snprintf(buf, SIZE_TEXT, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return buf;
}
