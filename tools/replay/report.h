/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what came of a file, for people and for machines */
#ifndef SWAKV_REPLAY_REPORT_H
#define SWAKV_REPLAY_REPORT_H

#include "run.h"

/* One line: "FILE: ok (...)", "FILE:LINE: expected ..., got ..." or "FILE:LINE: what is wrong". */
void report_text(const char *path, const struct outcome *o, FILE *out);
/* One JSON object in a line; members that do not apply are null. */
void report_json(const char *path, const struct outcome *o, FILE *out);

#endif
