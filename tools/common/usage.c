/* SPDX-License-Identifier: Apache-2.0 */
#include "usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "number.h"
#include "output.h"
#include "size.h"

static const char *name = "swakv";

void usage_begin(const char *tool, int output_lost)
{
	name = tool;
	output_check_at_exit(tool, output_lost);
}

void usage_help(const char *text)
{
	fputs(text, stdout);
	exit(EXIT_SUCCESS);
}

void usage_version(void)
{
	printf("%s %s\n", name, SWAKV_VERSION);
	exit(EXIT_SUCCESS);
}

bool usage_error(const char *what, const char *value)
{
	fprintf(stderr, "%s: %s '%s' (see --help)\n", name, what, value);
	return false;
}

bool usage_unknown(void)
{
	fprintf(stderr, "see %s --help\n", name);
	return false;
}

static bool not_in(const char *option, const char *what, uint64_t least, uint64_t most, const char *text)
{
	char sentence[160];

	snprintf(sentence, sizeof(sentence), "%s needs %s from %" PRIu64 " to %" PRIu64 ", not", option, what, least,
		 most);
	return usage_error(sentence, text);
}

bool usage_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	return number_read(text, least, most, out) || not_in(option, "a whole number", least, most, text);
}

bool usage_power_of_two(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	uint64_t n;

	if (!number_read(text, least, most, &n) || (n & (n - 1)))
		return not_in(option, "a power of two", least, most, text);
	*out = n;
	return true;
}

bool usage_bytes(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	char sentence[160];

	if (number_read_bytes(text, least, most, out))
		return true;
	snprintf(sentence, sizeof(sentence), "%s needs a size (" SIZE_RULE "), not", option);
	return usage_error(sentence, text);
}
