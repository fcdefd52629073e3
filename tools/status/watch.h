/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - one sample after another */
#ifndef SWAKV_STATUS_WATCH_H
#define SWAKV_STATUS_WATCH_H

#include "view.h"

/*
 * Shows a fresh sample of @instance, or of who is behind @socket, every @seconds: full screen when stdout is
 * a terminal and the view is a table, else as plain text, one after another.
 * Ends after @count samples (0: never), on SIGINT or SIGTERM, on 'q', or when
 * nobody reads stdout any more. @s is room for the samples; it holds the last
 * one afterwards.
 */
void watch(struct sample *s, const char *instance, const char *socket, const struct view *v, double seconds,
	   unsigned long count);

#endif
