/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dashboard.h - what --watch shows of one sample after another: rates, bars, rows in an order of choice
 *
 * Lines of text without a terminal: watch.c puts them on one.
 */
#ifndef SWAKV_STATUS_DASHBOARD_H
#define SWAKV_STATUS_DASHBOARD_H

#include "sample.h"

#define DASHBOARD_WIDTH 80
#define DASHBOARD_LINES (STATUS_MAX_MODELS + STATUS_MAX_TALLIES + STATUS_MAX_SESSIONS + 32)

enum dashboard_sort { SORT_ID, SORT_TOKENS, SORT_COMMANDS, SORT_PAGES, SORT_QUARANTINED, SORT_WAITING, SORT_COUNT };
#define DASHBOARD_SORT_NAMES "id", "tokens", "commands", "pages", "quarantined", "waiting"

/* What a line, or the bar in it, is to look like where there are colours; its text says it, too. */
enum tone { TONE_PLAIN, TONE_HEAD, TONE_WARN, TONE_BAD, TONE_DIM };

struct dashboard_line {
	char text[DASHBOARD_WIDTH + 1];
	enum tone tone;
	int bar, bar_used, bar_quarantined; /* columns: where the bar begins, and its parts; bar 0: there is none */
};

struct dashboard {
	enum dashboard_sort sort;
	bool reverse;
	uint32_t n, n_head; /* lines; those of the head do not scroll */
	struct dashboard_line lines[DASHBOARD_LINES];
	struct status_snapshot
		before; /* the snapshot before `now`: rates are between the two; number 0: there is none */
	struct status_snapshot now;
};

/* Makes the lines of @s. The struct is several MB, all 0 at first: keep it on the heap. */
void dashboard_make(struct dashboard *d, const struct sample *s);
/* "id", ...; static. */
const char *dashboard_sort_name(enum dashboard_sort sort);

#endif
