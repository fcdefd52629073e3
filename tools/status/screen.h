/* SPDX-License-Identifier: Apache-2.0 */
/* screen.h - the dashboard on a terminal: keys, scrolling, colours */
#ifndef SWAKV_STATUS_SCREEN_H
#define SWAKV_STATUS_SCREEN_H

#include <signal.h>

#include "watch.h"

/* As watch(), of all there is, on the terminal that stdout is, until *@interrupted. */
void screen_run(struct sample *s, const struct watch_options *o, const volatile sig_atomic_t *interrupted);

#endif
