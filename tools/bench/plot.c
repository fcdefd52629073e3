/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot.c - see plot.h
 *
 * One panel a curve, in a column: axes from 0, or logarithmic where the values
 * span more than a factor of 30. Enough for a picture that a README shows.
 */
#include "plot.h"

#include <errno.h>
#include <math.h>

#include "cleanup.h"

#define WIDTH  720
#define HEIGHT 260
#define LEFT   90
#define RIGHT  20
#define TOP    36
#define BOTTOM 44

struct axis {
	double lo, hi;
	bool logarithmic;
	double from, to; /* pixels */
};

static double axis_at(const struct axis *a, double v)
{
	double share;

	if (a->logarithmic)
		share = (log(v > a->lo ? v : a->lo) - log(a->lo)) / (log(a->hi) - log(a->lo));
	else
		share = (v - a->lo) / (a->hi - a->lo);
	return a->from + share * (a->to - a->from);
}

static struct axis axis_of(const double *v, uint32_t n, double from, double to)
{
	struct axis a = { .lo = v[0], .hi = v[0], .from = from, .to = to };

	for (uint32_t i = 1; i < n; i++) {
		a.lo = v[i] < a.lo ? v[i] : a.lo;
		a.hi = v[i] > a.hi ? v[i] : a.hi;
	}
	a.logarithmic = a.lo > 0 && a.hi > 30 * a.lo;
	if (!a.logarithmic)
		a.lo = 0;
	a.hi = a.hi > a.lo ? a.hi * 1.05 : a.lo + 1;
	return a;
}

/* Text of a tick: 1500000 is "1.5M". */
static void short_number(double v, char *buf, size_t size)
{
	static const char *const suffix[] = { "", "k", "M", "G" };
	int i = 0;

	for (; v >= 1000 && i < 3; i++)
		v /= 1000;
	snprintf(buf, size, "%.3g%s", v, suffix[i]);
}

static double tick(const struct axis *a, int i, int n)
{
	double share = (double)i / n;

	return a->logarithmic ? exp(log(a->lo) + share * (log(a->hi) - log(a->lo))) : a->lo + share * (a->hi - a->lo);
}

static void panel(FILE *f, const struct curve *c, int index, const char *x_text, const char *y_text)
{
	double top = index * HEIGHT + TOP, bottom = (index + 1) * HEIGHT - BOTTOM;
	struct axis x = axis_of(c->x, c->n, LEFT, WIDTH - RIGHT), y = axis_of(c->y, c->n, bottom, top);
	char number[32];

	fprintf(f, "<text x=\"%d\" y=\"%.0f\" font-weight=\"bold\">%s</text>\n", LEFT, top - 14, c->name);
	fprintf(f, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n", WIDTH - RIGHT, bottom + 34, x_text);
	fprintf(f, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, top - 14, y_text);
	for (int i = 0; i <= 4; i++) {
		double vx = tick(&x, i, 4), vy = tick(&y, i, 4);

		short_number(vx, number, sizeof(number));
		fprintf(f, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n", axis_at(&x, vx),
			bottom + 18, number);
		short_number(vy, number, sizeof(number));
		fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, axis_at(&y, vy) + 4,
			number);
		fprintf(f, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, axis_at(&y, vy), WIDTH - RIGHT);
	}
	fputs("<polyline fill=\"none\" stroke=\"#06c\" stroke-width=\"2\" points=\"", f);
	for (uint32_t i = 0; i < c->n; i++)
		fprintf(f, "%.1f,%.1f ", axis_at(&x, c->x[i]), axis_at(&y, c->y[i]));
	fputs("\"/>\n", f);
}

int plot_write(const struct results *r, const char *path)
{
	AUTO_FCLOSE FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" font-family=\"sans-serif\" "
		"font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		WIDTH, r->n_curves ? r->n_curves * HEIGHT : 1);
	for (uint32_t i = 0; i < r->n_curves; i++)
		if (r->curves[i].n > 1)
			panel(f, &r->curves[i], (int)i, r->curves[i].x_text, r->curves[i].y_text);
	fputs("</svg>\n", f);
	if (fflush(f) != 0)
		return -errno;
	return ferror(f) ? -EIO : 0;
}
