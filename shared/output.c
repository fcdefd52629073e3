/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.c - see output.h
 *
 * stdio keeps what was printed until the buffer is full or the process ends, so
 * a full disk shows itself only after main() has chosen its exit code.
 */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "descriptors.h"

static const char *output_program;
static int output_code;
static pid_t output_owner;

static void check(void)
{
	const char *why = "an earlier write failed";

	if (getpid() != output_owner)
		return;
	if (fflush(stdout) != 0) {
		if (errno == EPIPE)
			return;
		why = strerror(errno);
	} else if (!ferror(stdout)) {
		return;
	}
	fprintf(stderr, "%s: cannot write to standard output: %s\n", output_program, why);
	fflush(NULL);
	_exit(output_code);
}

void output_check_at_exit(const char *program, int code)
{
	descriptors_fill_standard(code);
	output_program = program;
	output_code = code;
	output_owner = getpid();
	atexit(check);
}
