/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c - see report.h
 *
 * A reading alone says little on a machine that others use, too: each figure
 * stands beside a floor that was read in the same run, and its ratio to it is
 * what can be compared between runs.
 */
#include "report.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void sleep_us(long us)
{
	nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

/* ---- series ------------------------------------------------------------------ */

void series_add(struct series *s, double value)
{
	int i = s->n < SAMPLES ? s->n++ : SAMPLES - 1;

	/* Kept in order. */
	for (; i > 0 && s->values[i - 1] > value; i--)
		s->values[i] = s->values[i - 1];
	s->values[i] = value;
}

double series_median(const struct series *s)
{
	return s->n ? (s->values[(s->n - 1) / 2] + s->values[s->n / 2]) / 2 : 0;
}

double series_min(const struct series *s)
{
	return s->n ? s->values[0] : 0;
}

double series_max(const struct series *s)
{
	return s->n ? s->values[s->n - 1] : 0;
}

/* ---- figures ------------------------------------------------------------------- */

struct figure *report_add(struct report *r, const char *group, const char *unit, const char *format, ...)
{
	struct figure *f = &r->figures[r->n];
	va_list args;

	if (r->n == MAX_FIGURES) {
		fprintf(stderr, "figures: more than %d figures\n", MAX_FIGURES);
		exit(1);
	}
	r->n++;
	f->group = group;
	f->unit = unit;
	va_start(args, format);
	vsnprintf(f->name, sizeof(f->name), format, args);
	va_end(args);
	return f;
}

void figure_floor(struct figure *f, const struct series *floor, const char *format, ...)
{
	va_list args;

	f->floor = *floor;
	va_start(args, format);
	vsnprintf(f->floor_name, sizeof(f->floor_name), format, args);
	va_end(args);
}

int report_fail(struct report *r, const char *group, const char *what, const char *why)
{
	if (r->n_failed < (int)(sizeof(r->failed) / sizeof(r->failed[0])))
		snprintf(r->failed[r->n_failed++], sizeof(r->failed[0]), "%s: %s: %s", group, what, why);
	return -1;
}

static double ratio(const struct figure *f)
{
	double floor = series_median(&f->floor);

	return floor > 0 ? series_median(&f->got) / floor : 0;
}

static bool missed(const struct figure *f)
{
	return f->at_least > 0 && ratio(f) < f->at_least;
}

int report_misses(const struct report *r)
{
	int n = r->n_failed;

	for (int i = 0; i < r->n; i++)
		n += missed(&r->figures[i]);
	return n;
}

/* ---- output ---------------------------------------------------------------------- */

/* Three significant digits or so, whatever the size. */
static const char *number(double x, char buf[32])
{
	snprintf(buf, 32, x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : x >= 1 ? "%.2f" : "%.3f", x);
	return buf;
}

static void print_figure(const struct figure *f)
{
	char a[32], b[32], c[32], d[32], e[32], g[32], h[32];

	printf("| %s | %s %s | %s - %s | ", f->name, number(series_median(&f->got), a), f->unit,
	       number(series_min(&f->got), b), number(series_max(&f->got), c));
	if (f->floor.n)
		printf("%s: %s %s (%s - %s) | %s%s |\n", f->floor_name, number(series_median(&f->floor), d), f->unit,
		       number(series_min(&f->floor), e), number(series_max(&f->floor), g), number(ratio(f), h),
		       missed(f) ? " (MISSED)" : "");
	else
		printf("%s | |\n", f->floor_name);
}

void report_print(const struct report *r)
{
	printf("| figure | median of %d | spread | floor | ratio |\n|---|---|---|---|---|\n", SAMPLES);
	for (int i = 0; i < r->n; i++) {
		if (r->figures[i].got.n == SAMPLES)
			print_figure(&r->figures[i]);
	}
	for (int i = 0; i < r->n_failed; i++)
		printf("\nNOT MEASURED: %s\n", r->failed[i]);
	fflush(stdout);
}

static json_t *series_json(const struct series *s)
{
	json_t *samples = json_array();

	for (int i = 0; i < s->n; i++)
		json_array_append_new(samples, json_real(s->values[i]));
	return json_pack("{s:f, s:f, s:f, s:o}", "median", series_median(s), "min", series_min(s), "max", series_max(s),
			 "samples", samples);
}

static json_t *figure_json(const struct figure *f)
{
	json_t *j = json_pack("{s:s, s:s, s:s, s:o}", "group", f->group, "name", f->name, "unit", f->unit, "got",
			      series_json(&f->got));

	if (f->floor.n) {
		json_object_set_new(j, "floor", series_json(&f->floor));
		json_object_set_new(j, "ratio", json_real(ratio(f)));
	}
	json_object_set_new(j, "floor_name", json_string(f->floor_name));
	if (f->at_least > 0)
		json_object_set_new(j, "ratio_at_least", json_real(f->at_least));
	return j;
}

bool report_write(const struct report *r, const char *path, const char *device, int driver_version)
{
	json_t *figures = json_array(), *failed = json_array(), *all;
	bool ok;

	for (int i = 0; i < r->n; i++)
		json_array_append_new(figures, figure_json(&r->figures[i]));
	for (int i = 0; i < r->n_failed; i++)
		json_array_append_new(failed, json_string(r->failed[i]));
	all = json_pack("{s:s, s:i, s:o, s:o}", "device", device, "driver", driver_version, "figures", figures,
			"failed", failed);
	ok = json_dump_file(all, path, JSON_INDENT(1)) == 0;
	json_decref(all);
	return ok;
}
