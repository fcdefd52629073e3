/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what a worker says about itself: lines for people, JSON for programs */
#ifndef DEMO_REPORT_H
#define DEMO_REPORT_H

#include <stdbool.h>

struct worker;

/* A progress line on stderr and a fresh report file, each when it is due. */
void report_tick(struct worker *w);
/*
 * The last word: report file, and text or JSON on stdout. @state: "done",
 * "stopped" or "failed". False when the report file could not be written.
 */
bool report_end(struct worker *w, const char *state);

#endif
