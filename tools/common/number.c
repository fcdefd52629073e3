/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "size.h"

bool number_read_prefix(const char *text, uint64_t least, uint64_t most, uint64_t *out, const char **end)
{
	unsigned long long n;
	char *stop;

	if (!isdigit((unsigned char)text[0])) /* strtoull would take signs and blanks */
		return false;
	errno = 0;
	n = strtoull(text, &stop, 10);
	if (errno || n < least || n > most)
		return false;
	*out = n;
	*end = stop;
	return true;
}

bool number_read(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	const char *end;
	uint64_t n;

	if (!number_read_prefix(text, least, most, &n, &end) || *end)
		return false;
	*out = n;
	return true;
}

bool number_read_handle(const char *text, uint64_t *out)
{
	unsigned long long n;
	char *end;

	if (text[0] != '0' || text[1] != 'x' || !isxdigit((unsigned char)text[2]))
		return number_read(text, 0, UINT64_MAX, out);
	errno = 0;
	n = strtoull(text + 2, &end, 16);
	if (errno || *end)
		return false;
	*out = n;
	return true;
}

bool number_read_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	uint64_t n;

	if (!size_read(text, &n) || n < least || n > most)
		return false;
	*out = n;
	return true;
}

bool number_read_seconds(const char *text, double least, double most, double *out)
{
	double n;
	char *end;

	/* strtod would take signs, blanks, names, exponents and hexadecimal digits, too */
	if (!isdigit((unsigned char)text[0]) || strspn(text, "0123456789.") != strlen(text))
		return false;
	n = strtod(text, &end);
	if (*end || !(n >= least && n <= most))
		return false;
	*out = n;
	return true;
}
