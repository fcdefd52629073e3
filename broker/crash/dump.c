/* SPDX-License-Identifier: Apache-2.0 */
#include "dump.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 200 };

void dump_text(struct dump *d, const char *text)
{
	for (; *text && d->n < sizeof(d->line) - 1; text++)
		d->line[d->n++] = *text >= ' ' && *text <= '~' ? *text : '?'; /* names come from clients */
}

static void put_digits(struct dump *d, uint64_t n, unsigned int base)
{
	char text[24];
	size_t i = sizeof(text);

	text[--i] = '\0';
	do
		text[--i] = "0123456789abcdef"[n % base];
	while (n /= base);
	dump_text(d, text + i);
}

static void dump_unsigned(struct dump *d, uint64_t n)
{
	put_digits(d, n, 10);
}

void dump_signed(struct dump *d, int64_t n)
{
	if (n < 0)
		dump_text(d, "-");
	put_digits(d, n < 0 ? -(uint64_t)n : (uint64_t)n, 10);
}

void dump_hex(struct dump *d, uint64_t n)
{
	dump_text(d, "0x");
	put_digits(d, n, 16);
}

void dump_count(struct dump *d, const char *before, uint64_t n, const char *behind)
{
	dump_text(d, before);
	dump_unsigned(d, n);
	dump_text(d, behind);
}

/* A pipe that is said to be writable takes a line as short as this whole. */
static bool write_out(int fd, const char *text, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, PATIENCE_MS) == 1 && write(fd, text, n) == (ssize_t)n;
}

void dump_line(struct dump *d)
{
	char text[sizeof(d->line) + 32];

	for (int i = 0; i < 2; i++) {
		size_t n = d->prefix[i] ? strlen(d->prefix[i]) : 0;

		if (d->fds[i] < 0)
			continue;
		memcpy(text, d->prefix[i] ? d->prefix[i] : "", n);
		memcpy(text + n, d->line, d->n);
		text[n + d->n] = '\n';
		if (!write_out(d->fds[i], text, n + d->n + 1))
			d->fds[i] = -1;
	}
	d->n = 0;
}
