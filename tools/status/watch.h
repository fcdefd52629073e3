/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - one sample after another */
#ifndef SWAKV_STATUS_WATCH_H
#define SWAKV_STATUS_WATCH_H

#include "view.h"

struct watch_options {
	const char *instance; /* as of sample_take() */
	const char *socket;
	double seconds;
	unsigned long count; /* 0: no end */
	bool plain;          /* no colours */
};

/*
 * Shows a fresh sample every so many seconds: full screen when stdout is a
 * terminal and the view is a table, else as plain text, one after another. Ends
 * after so many samples, on SIGINT or SIGTERM, on 'q', or when nobody reads
 * stdout any more. @s is room for the samples; it holds the last one afterwards.
 */
void watch(struct sample *s, const struct view *v, const struct watch_options *o);

#endif
