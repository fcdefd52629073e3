/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ENOUGH 3 /* good samples */

static const struct {
	const char *key;  /* suffix in JSON */
	const char *text; /* behind the number, for people */
} units[] = {
	[UNIT_NS] = { "_ns", "ns" },          [UNIT_COUNT] = { "", "" },
	[UNIT_RATIO] = { "", "x" },           [UNIT_BYTES] = { "_bytes", "B" },
	[UNIT_PERCENT] = { "_percent", "%" }, [UNIT_PER_S] = { "_per_s", "/s" },
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void series_add(struct series *s, double value, double spin, bool drifted, bool put_aside)
{
	uint32_t at = s->n;

	if (drifted || s->n + s->n_second == SERIES_MAX) {
		s->dropped++;
		s->last_value = value;
		s->last_spin = spin;
		return;
	}
	if (put_aside)
		at = SERIES_MAX - ++s->n_second;
	else
		s->n++;
	s->value[at] = value;
	s->spin[at] = spin;
}

/* The samples that count, in order. */
static struct series series_settle(const struct series *s)
{
	struct series out = *s;

	if (s->n >= ENOUGH) {
		out.dropped += s->n_second;
	} else {
		for (uint32_t i = SERIES_MAX - s->n_second; i < SERIES_MAX; i++, out.n++) {
			out.value[out.n] = s->value[i];
			out.spin[out.n] = s->spin[i];
		}
	}
	out.n_second = 0;
	return out;
}

/* Value below which @share of the samples lie. */
static double series_quantile(const double *values, uint32_t n, double share)
{
	double sorted[SERIES_MAX], at = share * (n - 1);
	uint32_t below = (uint32_t)at;

	if (n == 0)
		return 0;
	memcpy(sorted, values, n * sizeof(*values));
	qsort(sorted, n, sizeof(*sorted), by_value);
	return below + 1 < n ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[n - 1];
}

double series_median(const double *values, uint32_t n)
{
	return series_quantile(values, n, 0.5);
}

static void print_figure(const struct figure *f, FILE *out)
{
	fprintf(out, "%-30s %14.*f %-3s", f->name, f->median < 100 ? 2 : 0, f->median, units[f->unit].text);
	if (f->unit == UNIT_NS) {
		fprintf(out, " %12.*f .. %-12.*f", f->low < 100 ? 1 : 0, f->low, f->high < 100 ? 1 : 0, f->high);
		if (f->ratio > 0)
			fprintf(out, " %9.2f x  %6.0f", f->ratio, f->spin);
		else
			fprintf(out, " %11s  %6s", "", "");
		fprintf(out, " %4u of %u", f->n, f->n + f->dropped);
	}
	fputc('\n', out);
	fflush(out);
}

void results_print_head(FILE *out)
{
	fprintf(out, "%-30s %14s     %12s    %-12s %9s    %6s %s\n", "figure", "median", "lower", "upper quartile",
		"to spin", "spin", "samples kept");
}

static struct figure *add(struct results *r, const char *name, enum figure_unit unit)
{
	struct figure *f = &r->figures[r->n < RESULTS_MAX - 1 ? r->n++ : RESULTS_MAX - 1];

	*f = (struct figure){ .unit = unit };
	snprintf(f->name, sizeof(f->name), "%s", name);
	return f;
}

struct figure *results_series(struct results *r, const char *name, const struct series *taken)
{
	struct series settled = series_settle(taken), *s = &settled;
	struct figure *f = add(r, name, UNIT_NS);
	double ratio[SERIES_MAX];
	bool timed = s->n ? s->spin[0] > 0 : s->last_spin > 0;

	f->n = s->n;
	f->dropped = s->dropped;
	if (s->n == 0) {
		f->median = f->low = f->high = s->last_value;
		f->spin = s->last_spin;
		f->ratio = timed ? s->last_value / s->last_spin : 0;
	} else {
		for (uint32_t i = 0; i < s->n; i++)
			ratio[i] = timed ? s->value[i] / s->spin[i] : 0;
		f->median = series_median(s->value, s->n);
		f->low = series_quantile(s->value, s->n, 0.25);
		f->high = series_quantile(s->value, s->n, 0.75);
		f->spin = series_median(s->spin, s->n);
		f->ratio = series_median(ratio, s->n);
	}
	if (r->live)
		print_figure(f, stdout);
	return f;
}

struct figure *results_value(struct results *r, const char *name, enum figure_unit unit, double value)
{
	struct figure *f = add(r, name, unit);

	f->median = f->low = f->high = value;
	f->n = 1;
	if (r->live)
		print_figure(f, stdout);
	return f;
}

struct curve *results_curve(struct results *r, const char *name, const char *x_text, const char *y_text)
{
	struct curve *c = r->n_curves < CURVES_MAX ? &r->curves[r->n_curves++] : NULL;

	if (c) {
		snprintf(c->name, sizeof(c->name), "%s", name);
		c->x_text = x_text;
		c->y_text = y_text;
	}
	return c;
}

void curve_add(struct curve *c, double x, double y)
{
	if (!c || c->n == sizeof(c->x) / sizeof(c->x[0]))
		return;
	c->x[c->n] = x;
	c->y[c->n++] = y;
}

static void put(json_t *o, const char *name, const char *suffix, json_t *value)
{
	char key[80];

	snprintf(key, sizeof(key), "%s%s", name, suffix);
	json_object_set_new(o, key, value);
}

void results_print_json(const struct results *r, FILE *out)
{
	json_t *o = json_object();

	for (uint32_t i = 0; i < r->n; i++) {
		const struct figure *f = &r->figures[i];

		put(o, f->name, units[f->unit].key, json_real(f->median));
		if (f->unit != UNIT_NS)
			continue;
		put(o, f->name, "_low_ns", json_real(f->low));
		put(o, f->name, "_high_ns", json_real(f->high));
		put(o, f->name, "_samples", json_integer(f->n));
		put(o, f->name, "_dropped", json_integer(f->dropped));
		if (f->ratio > 0) {
			put(o, f->name, "_ratio", json_real(f->ratio));
			put(o, f->name, "_spin_ns", json_real(f->spin));
		}
	}
	json_dumpf(o, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	fputc('\n', out);
	json_decref(o);
}
