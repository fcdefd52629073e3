/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - an answer for people, and for programs */
#ifndef SWAKV_CTL_SHOW_H
#define SWAKV_CTL_SHOW_H

#include "ask.h"

/* The answer to @q on standard output; when it was refused (@e), on standard error. */
void show_text(const struct question *q, const struct answer *a, enum ctl_exit e);
/* One JSON object on standard output, whatever came of it; its keys are in swakv-ctl(1). */
void show_json(const struct question *q, const struct answer *a, enum ctl_exit e);

#endif
