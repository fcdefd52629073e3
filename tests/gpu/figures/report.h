/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - samples, figures beside their floors, and the tables they are printed in */
#ifndef FIGURES_REPORT_H
#define FIGURES_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SAMPLES     9
#define MAX_FIGURES 128
#define FIGURE_TEXT 112

/* Readings of one thing, all in one unit. */
struct series {
	double values[SAMPLES];
	int n;
};

void series_add(struct series *s, double value);
/* 0 when empty. */
double series_median(const struct series *s);
double series_min(const struct series *s);
double series_max(const struct series *s);

/* What a figure's ratio to its floor should be; 0: nothing is asked. */
struct figure {
	const char *group;
	char name[FIGURE_TEXT];
	const char *unit;
	struct series got;
	char floor_name[FIGURE_TEXT];
	struct series floor;
	double at_least; /* ratio got / floor; 0: nothing is asked */
};

struct report {
	struct figure figures[MAX_FIGURES];
	int n;
	char failed[16][FIGURE_TEXT * 2]; /* groups that could not be measured, and why */
	int n_failed;
};

/* The next figure, named by @format. Exits when there are too many. */
struct figure *report_add(struct report *r, const char *group, const char *unit, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void figure_floor(struct figure *f, const struct series *floor, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Notes that @group has no figures; returns -1. */
int report_fail(struct report *r, const char *group, const char *what, const char *why);

/* Markdown, a table with a line each. */
void report_print(const struct report *r);
/* All of it as one JSON object; false when the file cannot be written. */
bool report_write(const struct report *r, const char *path, const char *device, int driver_version);
/* Figures that are below what was asked of them, and groups that failed. */
int report_misses(const struct report *r);

/* CLOCK_MONOTONIC, microseconds. */
double now_us(void);
void sleep_us(long us);

#endif
