/* SPDX-License-Identifier: Apache-2.0 */
/* show_tallies.c - see show_tallies.h */
#include "show_tallies.h"

#include "exposition.h"
#include "json_put.h"
#include "text.h"

/* ---- JSON ------------------------------------------------------------------------------- */

json_t *totals_json(const struct status_totals *t)
{
	json_t *object = json_object(), *tokens = json_object(), *pages = json_object();

	json_put(tokens, "prefilled", (int64_t)t->prefilled);
	json_put(tokens, "stepped", (int64_t)t->stepped);
	json_put(pages, "taken", (int64_t)t->pages_taken);
	json_put(pages, "returned", (int64_t)t->pages_returned);
	json_put(pages, "scrubbed", (int64_t)t->pages_scrubbed);
	json_put(pages, "moved", (int64_t)t->pages_moved);
	json_put(pages, "yielded", (int64_t)t->pages_yielded);
	json_object_set_new(object, "tokens", tokens);
	json_object_set_new(object, "pages", pages);
	return object;
}

static json_t *admissions_json(const struct status_snapshot *s, uint32_t tally, bool takes)
{
	const struct status_admissions *a = takes ? &s->tallies[tally].takes : &s->tallies[tally].begins;
	json_t *object = json_object(), *reasons = json_object();
	char reason[TEXT_SIZE];

	json_put(object, "admitted", (int64_t)a->admitted);
	json_put(object, "waited", (int64_t)a->waited);
	json_put(object, "refused", (int64_t)a->refused);
	for (uint32_t i = 0; i < s->n_denials; i++)
		if (s->denials[i].tally == tally && (s->denials[i].takes != 0) == takes)
			json_put(reasons, text_reason(reason, s->denials[i].reason), (int64_t)s->denials[i].n);
	json_object_set_new(object, "refused_by_reason", reasons);
	return object;
}

static int64_t microseconds(uint64_t ns)
{
	return (int64_t)((ns + 999) / 1000);
}

static json_t *times_json(const struct times *t)
{
	json_t *object = json_object();

	json_put(object, "count", (int64_t)times_count(t));
	json_put(object, "sum_us", (int64_t)(t->sum_ns / 1000));
	json_put(object, "p50_us", microseconds(times_quantile(t, 0.5)));
	json_put(object, "p90_us", microseconds(times_quantile(t, 0.9)));
	json_put(object, "p99_us", microseconds(times_quantile(t, 0.99)));
	return object;
}

json_t *tallies_json(const struct status_snapshot *s)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < s->n_tallies; i++) {
		const struct status_tally *y = &s->tallies[i];
		json_t *object = totals_json(&y->totals);

		json_put_text(object, "model", y->model);
		json_object_set_new(object, "begins", admissions_json(s, i, false));
		json_object_set_new(object, "takes", admissions_json(s, i, true));
		json_object_set_new(object, "prepare", times_json(&y->prepare));
		json_object_set_new(object, "step", times_json(&y->step));
		json_object_set_new(object, "wait", times_json(&y->wait));
		json_array_append_new(array, object);
	}
	return array;
}

/* ---- metrics ------------------------------------------------------------------------------ */

#define TALLY_COUNTER(metric, help, field)                                                                             \
	family(e, metric, "counter", help);                                                                            \
	for (uint32_t i = 0; i < s->n_tallies; i++) {                                                                  \
		sample_begin(e);                                                                                       \
		label(e, "model", s->tallies[i].model);                                                                \
		value(e, (int64_t)s->tallies[i].field);                                                                \
	}

static void expose_denials(struct exposition *e, const struct status_snapshot *s, bool takes)
{
	char reason[TEXT_SIZE];

	for (uint32_t i = 0; i < s->n_denials; i++) {
		if ((s->denials[i].takes != 0) != takes)
			continue;
		sample_begin(e);
		label(e, "model", s->tallies[s->denials[i].tally].model);
		label(e, "reason", text_reason(reason, s->denials[i].reason));
		value(e, (int64_t)s->denials[i].n);
	}
}

/* Bounds are every fourth: a power of two, and those between would be many series. */
static void expose_times(struct exposition *e, const char *model, const struct times *t)
{
	char bound[32];

	for (uint32_t step = 3; step <= TIMES_LAST + 3; step += 4) {
		uint64_t ns = times_bound(step < TIMES_LAST ? step : TIMES_LAST);

		snprintf(bound, sizeof(bound), "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
		sample_begin_of(e, "_bucket");
		label(e, "model", model);
		label(e, "le", step < TIMES_LAST ? bound : "+Inf");
		value(e, (int64_t)times_up_to(t, step));
	}
	sample_begin_of(e, "_sum");
	label(e, "model", model);
	fprintf(e->out, "} %" PRIu64 ".%09" PRIu64 "\n", t->sum_ns / 1000000000, t->sum_ns % 1000000000);
	sample_begin_of(e, "_count");
	label(e, "model", model);
	value(e, (int64_t)times_count(t));
}

#define TALLY_TIMES(metric, help, field)                                                                               \
	family(e, metric, "histogram", help);                                                                          \
	for (uint32_t i = 0; i < s->n_tallies; i++)                                                                    \
		expose_times(e, s->tallies[i].model, &s->tallies[i].field);

void tallies_expose(struct exposition *e, const struct status_snapshot *s)
{
	TALLY_COUNTER("swakv_model_prefill_tokens_total", "Tokens that prefills have completed.", totals.prefilled)
	TALLY_COUNTER("swakv_model_step_tokens_total", "Tokens that steps have completed.", totals.stepped)
	TALLY_COUNTER("swakv_model_pages_taken_total", "Pages taken from the pool.", totals.pages_taken)
	TALLY_COUNTER("swakv_model_pages_returned_total", "Pages that went back to the pool.", totals.pages_returned)
	TALLY_COUNTER("swakv_model_pages_scrubbed_total", "Pages that workers were told to scrub.",
		      totals.pages_scrubbed)
	TALLY_COUNTER("swakv_model_pages_moved_total", "Pages that moved out of extents that others wait for.",
		      totals.pages_moved)
	TALLY_COUNTER("swakv_model_pages_yielded_total", "Pages given because others lacked some.",
		      totals.pages_yielded)
	TALLY_COUNTER("swakv_model_begins_admitted_total", "Begins admitted, at once or after a wait.", begins.admitted)
	TALLY_COUNTER("swakv_model_begins_waited_total", "Begins that had to wait.", begins.waited)
	family(e, "swakv_model_begins_refused_total", "counter", "Begins refused, by reason.");
	expose_denials(e, s, false);
	TALLY_COUNTER("swakv_model_takes_admitted_total", "Takes admitted, at once or after a wait.", takes.admitted)
	TALLY_COUNTER("swakv_model_takes_waited_total", "Takes that had to wait.", takes.waited)
	family(e, "swakv_model_takes_refused_total", "counter", "Takes refused, by reason.");
	expose_denials(e, s, true);
	TALLY_TIMES("swakv_model_prepare_seconds", "From when the broker has seen a prepare to its answer.", prepare)
	TALLY_TIMES("swakv_model_step_seconds", "From the answer to a step's prepare to its complete.", step)
	TALLY_TIMES("swakv_model_wait_seconds", "How long begins and takes that waited have waited.", wait)
}

/* ---- table --------------------------------------------------------------------------------- */

/* "12 us", "3.4 ms", "5.6 s"; "-" of nothing. */
static const char *text_time(char buf[TEXT_SIZE], const struct times *t, double share)
{
	double us = (double)times_quantile(t, share) / 1000;

	if (times_count(t) == 0)
		return "-";
	snprintf(buf, TEXT_SIZE,
		 us < 1000      ? "%.0f us"
		 : us < 1000000 ? "%.1f ms"
				: "%.1f s",
		 us < 1000      ? us
		 : us < 1000000 ? us / 1000
				: us / 1000000);
	return buf;
}

static void write_times(FILE *out, const char *name, const struct times *t)
{
	char a[TEXT_SIZE], b[TEXT_SIZE], c[TEXT_SIZE];

	if (times_count(t))
		fprintf(out, "; %s %s / %s / %s", name, text_time(a, t, 0.5), text_time(b, t, 0.9),
			text_time(c, t, 0.99));
}

void tallies_write(FILE *out, const struct status_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_tallies; i++) {
		const struct status_tally *y = &s->tallies[i];

		fprintf(out,
			"%s%-10s tokens %" PRIu64 " prefilled, %" PRIu64 " stepped; begins %" PRIu64
			" admitted, %" PRIu64 " waited, %" PRIu64 " refused; takes %" PRIu64 ", %" PRIu64 ", %" PRIu64
			"\n",
			i ? "" : "\n", y->model, y->totals.prefilled, y->totals.stepped, y->begins.admitted,
			y->begins.waited, y->begins.refused, y->takes.admitted, y->takes.waited, y->takes.refused);
		fprintf(out,
			"%-10s pages %" PRIu64 " taken, %" PRIu64 " returned, %" PRIu64 " scrubbed, %" PRIu64
			" moved, %" PRIu64 " given to others",
			"", y->totals.pages_taken, y->totals.pages_returned, y->totals.pages_scrubbed,
			y->totals.pages_moved, y->totals.pages_yielded);
		write_times(out, "half, 90 % and 99 % of prepares within", &y->prepare);
		write_times(out, "of steps", &y->step);
		write_times(out, "of waits", &y->wait);
		fputc('\n', out);
	}
}
