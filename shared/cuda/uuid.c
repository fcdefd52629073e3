/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "driver.h"

/* Bytes in each group of the text form. */
static const int groups[] = { 4, 2, 2, 2, 6 };

void driver_uuid_format(const uint8_t uuid[16], char buf[41])
{
	int at = sprintf(buf, "GPU");

	for (size_t g = 0, byte = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		buf[at++] = '-';
		for (int i = 0; i < groups[g]; i++)
			at += sprintf(buf + at, "%02x", uuid[byte++]);
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool driver_uuid_parse(const char *text, uint8_t uuid[16])
{
	uint8_t parsed[16];
	size_t byte = 0;

	if (strncasecmp(text, "GPU-", 4) == 0)
		text += 4;
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		if (g > 0 && *text++ != '-')
			return false;
		for (int i = 0; i < groups[g]; i++, text += 2) {
			int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);

			if (low < 0)
				return false;
			parsed[byte++] = (uint8_t)(high << 4 | low);
		}
	}
	if (*text)
		return false;
	memcpy(uuid, parsed, sizeof(parsed));
	return true;
}
