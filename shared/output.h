/* SPDX-License-Identifier: Apache-2.0 */
/* output.h - what a program printed must not get lost unnoticed */
#ifndef SWAKV_OUTPUT_H
#define SWAKV_OUTPUT_H

/*
 * From now on an exit() of this process with standard output that could not be
 * written says so on standard error, in the name of @program (kept), and ends
 * with @code instead. A reader that went away is no failure. Call it first in
 * main(): other exit handlers then run before it, and what is closed of
 * descriptors 0 to 2 is filled first (descriptors.h). Not inherited by children
 * that fork.
 */
void output_check_at_exit(const char *program, int code);

#endif
