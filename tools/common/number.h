/* SPDX-License-Identifier: Apache-2.0 */
/*
 * number.h - numbers on a command line, read alike by every tool
 *
 * Decimal digits and nothing else: no sign, no blank, no other base, nothing
 * behind. What does not fit is no number. False leaves *@out alone.
 */
#ifndef SWAKV_TOOLS_NUMBER_H
#define SWAKV_TOOLS_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A whole number from @least to @most. */
bool number_read(const char *text, uint64_t least, uint64_t most, uint64_t *out);
/* As above, with something behind it, at *@end: the first half of "ID.GENERATION", say. */
bool number_read_prefix(const char *text, uint64_t least, uint64_t most, uint64_t *out, const char **end);
/* A handle, as the tools show it: 0x and hexadecimal digits; or a whole number. */
bool number_read_handle(const char *text, uint64_t *out);
/* Bytes, with a suffix perhaps: "4096", "64M", "2G", each 1024 of the one before; from @least to @most. */
bool number_read_bytes(const char *text, uint64_t least, uint64_t most, uint64_t *out);
/* Seconds, "2" or "0.5", from @least to @most. */
bool number_read_seconds(const char *text, double least, double most, double *out);

#endif
