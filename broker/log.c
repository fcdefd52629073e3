/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"

#define REFUSALS_A_SECOND 10

static void log_write(enum log_level level, const char *format, va_list args)
{
	char line[1024];
	size_t len = 0;
	int n;

	if (!isatty(STDERR_FILENO))
		len = (size_t)snprintf(line, sizeof(line), "<%d>", (int)level);
	len += (size_t)snprintf(line + len, sizeof(line) - len, "swakvd: ");
	n = vsnprintf(line + len, sizeof(line) - len - 1, format, args);
	if (n > 0)
		len += (size_t)n < sizeof(line) - len - 1 ? (size_t)n : sizeof(line) - len - 2;
	for (size_t i = 0; i < len; i++) /* names come from clients */
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, len) < 0)
		return; /* nobody is left to be told */
}

void log_line(enum log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_write(level, format, args);
	va_end(args);
}

void log_refusal(const char *format, ...)
{
	static uint64_t second;
	static unsigned int n, n_left_out;
	uint64_t now = clock_ns() / 1000000000;
	va_list args;

	if (now != second) {
		second = now;
		n = 0;
		if (n_left_out)
			log_warning("%u more refusals were not logged", n_left_out);
		n_left_out = 0;
	}
	if (++n > REFUSALS_A_SECOND) {
		n_left_out++;
		return;
	}
	va_start(args, format);
	log_write(LOG_LEVEL_WARNING, format, args);
	va_end(args);
}
