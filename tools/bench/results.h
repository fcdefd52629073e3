/* SPDX-License-Identifier: Apache-2.0 */
/* results.h - samples of one figure, and the list of all figures */
#ifndef SWAKV_BENCH_RESULTS_H
#define SWAKV_BENCH_RESULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SERIES_MAX 201

/* Samples of one figure. The good ones stand first, those of a second choice last. */
struct series {
	double value[SERIES_MAX]; /* ns an operation */
	double spin[SERIES_MAX];  /* ns a spin round trip, of the same moment */
	uint32_t n;
	uint32_t n_second; /* one side had to give its CPU away for a moment: taken when there are hardly any others */
	uint32_t dropped;
	double last_value, last_spin; /* of the last one dropped */
};

/* @drifted: its two spins disagree; @put_aside: a side lost its CPU. */
void series_add(struct series *s, double value, double spin, bool drifted, bool put_aside);

enum figure_unit { UNIT_NS, UNIT_COUNT, UNIT_RATIO, UNIT_BYTES, UNIT_PERCENT, UNIT_PER_S };

struct figure {
	char name[48];
	enum figure_unit unit;
	double median, low, high; /* quartiles */
	double ratio;             /* to the spin; 0: none */
	double spin;              /* median of its brackets */
	uint32_t n, dropped;      /* samples */
};

#define RESULTS_MAX 256

/* Points of a curve for the picture: a latency distribution, or a scaling. */
struct curve {
	char name[48];
	const char *x_text, *y_text; /* static: names of the axes */
	uint32_t n;
	double x[128], y[128];
};
#define CURVES_MAX 24

struct results {
	uint32_t n;
	struct figure figures[RESULTS_MAX];
	uint32_t n_curves;
	struct curve curves[CURVES_MAX];
	bool live; /* print each figure as it comes */
};

double series_median(const double *values, uint32_t n);

/* Records samples in nanoseconds. A figure without good samples shows its last bad one, with n = 0. */
struct figure *results_series(struct results *r, const char *name, const struct series *s);
struct figure *results_value(struct results *r, const char *name, enum figure_unit unit, double value);
/* A curve to fill, NULL when there is no room. */
struct curve *results_curve(struct results *r, const char *name, const char *x_text, const char *y_text);
void curve_add(struct curve *c, double x, double y);

void results_print_json(const struct results *r, FILE *out);
/* A heading for the lines that follow as figures come. */
void results_print_head(FILE *out);

#endif
