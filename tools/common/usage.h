/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.h - what a tool says about itself, and about a command line that is wrong
 *
 * Complaints go to standard error, in the tool's name, with the value and what
 * to do; those that return a bool return false.
 */
#ifndef SWAKV_TOOLS_USAGE_H
#define SWAKV_TOOLS_USAGE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * First in main(): @tool (kept) is the name from now on, and @output_lost the
 * exit status when standard output could not be written (output.h).
 */
void usage_begin(const char *tool, int output_lost);
/* Print the text of --help, or the version, and exit with 0. */
_Noreturn void usage_help(const char *text);
_Noreturn void usage_version(void);

/* "TOOL: WHAT 'VALUE' (see --help)" */
bool usage_error(const char *what, const char *value);
/* Behind what getopt says of an option it does not know. */
bool usage_unknown(void);
/* Numbers as number.h reads them; @option is "--max-seq", say. False after a complaint; *@out is left alone then. */
bool usage_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out);
bool usage_bytes(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out);
/* The same, of a power of two. */
bool usage_power_of_two(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out);

#endif
