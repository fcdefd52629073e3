/* SPDX-License-Identifier: Apache-2.0 */
/* dashboard.c - see dashboard.h; a line has no more than 80 columns */
#include "dashboard.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "size.h"
#include "text.h"

enum { BAR = 14 };

const char *dashboard_sort_name(enum dashboard_sort sort)
{
	NAMES(names, SORT_COUNT, DASHBOARD_SORT_NAMES);

	return NAME_OF(names, sort);
}

/* ---- lines ------------------------------------------------------------------------------ */

static struct dashboard_line *__attribute__((format(printf, 3, 4)))
line(struct dashboard *d, enum tone tone, const char *format, ...)
{
	struct dashboard_line *l = &d->lines[d->n < DASHBOARD_LINES - 1 ? d->n++ : d->n];
	va_list args;

	*l = (struct dashboard_line){ .tone = tone };
	va_start(args, format);
	vsnprintf(l->text, sizeof(l->text), format, args);
	va_end(args);
	return l;
}

/* "[||||||!!......]": used, in quarantine, and not used, of @whole; a little of each is seen, too. */
static void bar(char out[BAR + 3], uint64_t used, uint64_t quarantined, uint64_t whole, int *n_used, int *n_quarantined)
{
	double each = whole ? (double)BAR / (double)whole : 0;
	int n = (int)(each * (double)used + 0.5), q = (int)(each * (double)quarantined + 0.5);

	n = n == 0 && used ? 1 : n;
	q = q == 0 && quarantined ? 1 : q > BAR ? BAR : q;
	n = n > BAR - q ? BAR - q : n;
	*n_used = n;
	*n_quarantined = q;
	out[0] = '[';
	for (int i = 0; i < BAR; i++)
		out[1 + i] = i < n ? '|' : i < n + q ? '!' : '.';
	out[BAR + 1] = ']';
	out[BAR + 2] = '\0';
}

/* ---- rates ------------------------------------------------------------------------------ */

/* "-", "7", "1.2k", "34M": in 5 columns. */
static const char *rate_text(char buf[TEXT_SIZE], double rate)
{
	static const char units[] = " kMGT";
	int unit = 0;

	if (rate < 0)
		return "-";
	for (; rate >= 999.5 && unit < 4; unit++)
		rate /= 1000;
	if (unit == 0)
		snprintf(buf, TEXT_SIZE, "%.0f", rate);
	else
		snprintf(buf, TEXT_SIZE, rate < 99.95 ? "%.1f%c" : "%.0f%c", rate, units[unit]);
	return buf;
}

/* Seconds between the two snapshots, 0: there are no two. */
static double interval(const struct dashboard *d)
{
	if (d->before.number == 0 || d->now.published_ns <= d->before.published_ns)
		return 0;
	return (double)(d->now.published_ns - d->before.published_ns) / 1e9;
}

/* A counter's rate; negative: not known. */
static double rate(const struct dashboard *d, uint64_t before, uint64_t now)
{
	double seconds = interval(d);

	return seconds > 0 && now >= before ? (double)(now - before) / seconds : -1;
}

static uint64_t tokens(const struct status_totals *t)
{
	return t->prefilled + t->stepped;
}

static const struct status_session *session_before(const struct dashboard *d, const struct status_session *x)
{
	for (uint32_t i = 0; i < d->before.n_sessions; i++)
		if (d->before.sessions[i].id == x->id && d->before.sessions[i].generation == x->generation)
			return &d->before.sessions[i];
	return NULL;
}

static const struct status_tally *tally_of(const struct status_snapshot *s, const char *model)
{
	for (uint32_t i = 0; i < s->n_tallies; i++)
		if (!strcmp(s->tallies[i].model, model))
			return &s->tallies[i];
	return NULL;
}

static double session_tokens(const struct dashboard *d, const struct status_session *x)
{
	const struct status_session *b = session_before(d, x);

	return b ? rate(d, tokens(&b->totals), tokens(&x->totals)) : -1;
}

static double session_commands(const struct dashboard *d, const struct status_session *x)
{
	const struct status_session *b = session_before(d, x);

	return b ? rate(d, b->commands, x->commands) : -1;
}

/* ---- the head -------------------------------------------------------------------------------- */

static void put_pool(struct dashboard *d)
{
	const struct status_snapshot *s = &d->now;
	char text[BAR + 3], a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT];
	uint64_t live = 0, quarantined = 0;
	struct dashboard_line *l;
	int used, q;

	for (uint32_t i = 0; i < s->n_classes; i++) {
		const struct status_class *k = &s->classes[i];
		uint64_t each = k->joined ? k->page_bytes : 2 * k->page_bytes;

		live += (uint64_t)k->leased * each;
		quarantined += (uint64_t)k->quarantined * each;
	}
	bar(text, live, quarantined, s->pool_total, &used, &q);
	l = line(d, TONE_PLAIN, "pool %s %s of %s leased, %s quarantined", text, size_text(live, a),
		 size_text(s->pool_total, b), size_text(quarantined, c));
	l->bar = 6;
	l->bar_used = used;
	l->bar_quarantined = q;
}

static void put_rates(struct dashboard *d)
{
	const struct status_snapshot *s = &d->now, *b = &d->before;
	uint64_t now = 0, before = 0;
	char x[TEXT_SIZE], y[TEXT_SIZE], z[TEXT_SIZE];

	for (uint32_t i = 0; i < s->n_tallies; i++)
		now += tokens(&s->tallies[i].totals);
	for (uint32_t i = 0; i < b->n_tallies; i++)
		before += tokens(&b->tallies[i].totals);
	line(d, TONE_PLAIN, "a second: %s tokens, %s commands, %s refused; %" PRIu32 " sessions",
	     rate_text(x, rate(d, before, now)), rate_text(y, rate(d, b->commands, s->commands)),
	     rate_text(z, rate(d, b->refusals, s->refusals)), s->n_sessions);
}

static void put_head(struct dashboard *d, const struct sample *s)
{
	char a[TEXT_SIZE], b[TEXT_SIZE];

	if (s->verdict != VERDICT_RUNNING || !s->has_snapshot)
		line(d, TONE_BAD, "broker %s: %s; %s", s->instance, verdict_name(s->verdict), s->reason);
	else
		line(d, TONE_HEAD, "broker %s: running for %s on %s, seen %s ago", s->instance,
		     text_duration(a, s->uptime_ms), s->head.device, text_duration(b, s->age_ms));
	if (!s->has_snapshot)
		return;
	put_pool(d);
	put_rates(d);
	if (s->snapshot.device_lost_ns)
		line(d, TONE_BAD, "LOST the device, %s ago",
		     text_duration(a, sample_age_ms(s, s->snapshot.device_lost_ns)));
	if (s->snapshot.drained)
		line(d, TONE_WARN, "DRAINED: no new sessions and requests of any model");
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const char *step_text(char buf[TEXT_SIZE], const struct status_tally *y)
{
	double us;

	if (!y || times_count(&y->step) == 0)
		return "-";
	us = (double)times_quantile(&y->step, 0.5) / 1000;
	snprintf(buf, TEXT_SIZE,
		 us < 1000      ? "%.0fus"
		 : us < 1000000 ? "%.1fms"
				: "%.1fs",
		 us < 1000      ? us
		 : us < 1000000 ? us / 1000
				: us / 1000000);
	return buf;
}

static void put_model(struct dashboard *d, const struct status_model *m)
{
	const struct status_tally *y = tally_of(&d->now, m->name), *b = tally_of(&d->before, m->name);
	uint64_t whole = m->ceiling ? m->ceiling : d->now.pool_total;
	char text[BAR + 3], used[SIZE_TEXT], x[TEXT_SIZE], z[TEXT_SIZE];
	bool drained = m->drained || d->now.drained;
	struct dashboard_line *l;
	int n, q;

	bar(text, m->used, 0, whole, &n, &q);
	l = line(d, drained ? TONE_WARN : TONE_PLAIN, "%-16.16s %s %10s %4u %4u %6s %6s %s", m->name, text,
		 size_text(m->used, used), m->sessions, m->waiting,
		 rate_text(x, y && b ? rate(d, tokens(&b->totals), tokens(&y->totals)) : -1), step_text(z, y),
		 drained     ? "DRAINED"
		 : m->claims ? "claims"
			     : "");
	l->bar = 18;
	l->bar_used = n;
}

static double sort_key(const struct dashboard *d, const struct status_session *x)
{
	switch (d->sort) {
	case SORT_TOKENS:
		return -session_tokens(d, x);
	case SORT_COMMANDS:
		return -session_commands(d, x);
	case SORT_PAGES:
		return -(double)x->leased;
	case SORT_QUARANTINED:
		return -(double)x->quarantined;
	case SORT_WAITING:
		return -(double)x->waiting;
	default:
		return x->id;
	}
}

struct row {
	double key;
	uint32_t id, index;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void put_session(struct dashboard *d, const struct status_session *x)
{
	char a[TEXT_SIZE], b[TEXT_SIZE];
	const char *state = x->poisoned ? "poisoned" : text_session_state(x->state);
	enum tone tone = x->poisoned || x->state == STATUS_ENDED ? TONE_BAD
			 : x->state != STATUS_ATTACHED           ? TONE_WARN
								 : TONE_PLAIN;

	line(d, tone, "%-4u %7d %-16.16s %-8s %4u %4u %8" PRId64 " %6" PRId64 " %6s %6s", x->id, x->pid, x->model,
	     state, x->n_requests, x->waiting, x->leased, x->quarantined, rate_text(a, session_tokens(d, x)),
	     rate_text(b, session_commands(d, x)));
}

static void put_sessions(struct dashboard *d)
{
	const struct status_snapshot *s = &d->now;
	struct row rows[STATUS_MAX_SESSIONS];

	line(d, TONE_HEAD, "%-4s %7s %-16s %-8s %4s %4s %8s %6s %6s %6s", "ID", "PID", "MODEL", "STATE", "REQ", "WAIT",
	     "LEASED", "QUAR", "TOK/S", "CMD/S");
	for (uint32_t i = 0; i < s->n_sessions; i++)
		rows[i] = (struct row){ sort_key(d, &s->sessions[i]), s->sessions[i].id, i };
	qsort(rows, s->n_sessions, sizeof(rows[0]), compare_rows);
	for (uint32_t i = 0; i < s->n_sessions; i++)
		put_session(d, &s->sessions[rows[d->reverse ? s->n_sessions - 1 - i : i].index]);
}

void dashboard_make(struct dashboard *d, const struct sample *s)
{
	d->n = 0;
	if (s->has_snapshot && s->snapshot.number != d->now.number) {
		/* Of another broker nothing is to be compared. */
		bool follows = s->snapshot.number > d->now.number && s->snapshot.commands >= d->now.commands;

		d->before = d->now;
		d->now = s->snapshot;
		d->before.number = follows ? d->before.number : 0;
	}
	put_head(d, s);
	d->n_head = d->n;
	if (!s->has_snapshot)
		return;
	line(d, TONE_PLAIN, "%s", "");
	line(d, TONE_HEAD, "%-16s %-16s %10s %4s %4s %6s %6s", "MODEL", "USE", "", "SESS", "WAIT", "TOK/S", "STEP");
	for (uint32_t i = 0; i < d->now.n_models; i++)
		put_model(d, &d->now.models[i]);
	line(d, TONE_PLAIN, "%s", "");
	put_sessions(d);
}
