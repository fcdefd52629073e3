/* SPDX-License-Identifier: Apache-2.0 */
/*
 * density.c - see density.h
 *
 * No broker and no time: arithmetic over the rows of a trace. Each row is a
 * sequence that decodes: its prompt is resident, and so are some of its output
 * tokens. It is caught at one step of its output; the steps of all rows together
 * are spread evenly over the outputs (multiples of the golden ratio, so that a
 * run gives the same numbers again).
 *
 * From every row on as the first, rows are taken in order, beginning anew after
 * the last, until the next one's pages are more than what is left. `sequences`
 * is the mean over all those first rows.
 */
#include "density.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "names.h"
#include "trace.h"
#include "usage.h"
#include "window.h"

#define GIB ((int64_t)1 << 30)

/* 52 layers, 16 heads of 128, 2 bytes, K and V: the sliding layers of Gemma 3 27B. */
#define TOKEN_BYTES (52 * 16 * 128 * 2 * 2)

enum { FULL, ANY, MAX_ADVANCE_1, ANY_MAX_TOKENS, MAX_ADVANCE_1_MAX_TOKENS, ON_DEMAND, N_WAYS };

NAMES(names, N_WAYS, "full", "any", "max_advance_1", "any_max_tokens", "max_advance_1_max_tokens", "on_demand");

struct density {
	const struct density_options *options;
	struct trace trace;     /* rows with output only */
	size_t skipped;         /* rows without */
	int64_t page_bytes;     /* of a K and V pair */
	int64_t pages;          /* pairs in the pool */
	int32_t *need[N_WAYS];  /* pages of each row */
	double mean[N_WAYS];    /* of them, over the rows */
	double fitting[N_WAYS]; /* sequences, mean over all first rows */
	double preempted;       /* of a thousand, on demand */
};

void density_options_init(struct density_options *o)
{
	*o = (struct density_options){ .window = 1024,
				       .page_tokens = 128,
				       .max_seq = 32768,
				       .in_flight = 2,
				       .pool = 64 * GIB,
				       .token_bytes = TOKEN_BYTES };
}

bool density_option(struct density_options *o, const char *name, const char *value)
{
	const struct {
		const char *name;
		int64_t *to, least, most;
		bool (*read)(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out);
	} options[] = {
		{ "window", &o->window, 1, INT32_MAX, usage_number },
		{ "page-tokens", &o->page_tokens, 16, 256, usage_power_of_two },
		{ "max-seq", &o->max_seq, 1, INT32_MAX, usage_number },
		{ "in-flight", &o->in_flight, 1, INT32_MAX, usage_number },
		{ "max-rewind", &o->max_rewind, 0, INT32_MAX, usage_number },
		{ "size", &o->pool, 1, INT64_MAX, usage_bytes },
		{ "pool", &o->pool, 1, INT64_MAX, usage_bytes },
		{ "token-bytes", &o->token_bytes, 1, INT32_MAX, usage_number },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		char option[32];
		uint64_t n;

		if (strcmp(name, options[i].name) != 0)
			continue;
		snprintf(option, sizeof(option), "--%s", name);
		if (!options[i].read(option, value, (uint64_t)options[i].least, (uint64_t)options[i].most, &n))
			return false;
		*options[i].to = (int64_t)n;
		return true;
	}
	return usage_unknown();
}

/* ---- the rows ----------------------------------------------------------- */

static int32_t smaller(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* Pages that a sequence has mapped. */
static int32_t needed_at(const struct window *w, int64_t endpoint)
{
	return window_end(w, endpoint) - window_begin(w, endpoint);
}

/* Pages of row @i, caught in its output, in every way. */
static void need_of(struct density *d, size_t i)
{
	const struct density_options *o = d->options;
	struct window w = window_make(o->window, (uint32_t)o->page_tokens);
	struct window kept = window_kept(o->window, o->max_rewind, (uint32_t)o->page_tokens);
	const struct trace_row *row = &d->trace.rows[i];
	int32_t all = window_width(&w, row->context + row->generated);
	double golden = 0.61803398874989485 * (double)(i + 1);
	int64_t endpoint = row->context + 1 + (int64_t)((golden - floor(golden)) * (double)row->generated);

	d->need[FULL][i] = all;
	d->need[ANY][i] = window_reservation(&w, o->max_seq, 0, 1);
	d->need[MAX_ADVANCE_1][i] = window_reservation(&kept, o->max_seq, 1, 1);
	d->need[ANY_MAX_TOKENS][i] = smaller(d->need[ANY][i], all);
	d->need[MAX_ADVANCE_1_MAX_TOKENS][i] = smaller(d->need[MAX_ADVANCE_1][i], all);
	d->need[ON_DEMAND][i] = needed_at(&w, endpoint);
}

/* The rows [first, end), counted on beyond the last, that fit in what whole rounds of the trace leave. */
struct filling {
	const int32_t *need;
	size_t n;
	int64_t left; /* pages */
	int64_t sum;  /* that the rows taken need */
	size_t first, end;
};

/* Moves on to row @first, which is the next one: the last row taken only moves on, too. */
static void filling_move(struct filling *f, size_t first)
{
	f->sum -= f->end > f->first ? f->need[f->first] : 0;
	f->first = first;
	if (f->end < first) {
		f->end = first;
		f->sum = 0;
	}
	while (f->sum + f->need[f->end % f->n] <= f->left)
		f->sum += f->need[f->end++ % f->n];
}

/* Whole rounds of the trace that fit; @f begins with what they leave. */
static int64_t filling_begin(struct filling *f, const struct density *d, int way)
{
	int64_t all = 0;

	for (size_t i = 0; i < d->trace.n_rows; i++)
		all += d->need[way][i];
	/* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): the trace has rows, and each needs pages */
	*f = (struct filling){ .need = d->need[way], .n = d->trace.n_rows, .left = d->pages % all };
	return d->pages / all;
}

/* Mean over all first rows of how many rows fit. */
static double fit(const struct density *d, int way)
{
	struct filling f;
	int64_t rounds = filling_begin(&f, d, way), taken = 0;

	for (size_t first = 0; first < f.n; first++) {
		filling_move(&f, first);
		taken += (int64_t)(f.end - first);
	}
	return (double)rounds * (double)f.n + (double)taken / (double)f.n;
}

/* ---- on demand, and then? ----------------------------------------------- */

/* Rows that decode together and get each page when a token needs it. */
struct serving {
	const struct density *d;
	struct window w;
	size_t *live; /* rows, in order of admission */
	size_t n_live;
	bool *begun;       /* of each row: it is live, or has been served */
	int64_t *endpoint; /* of each live row */
	size_t next;       /* no row below it waits */
	int64_t used;      /* pages */
	int64_t preempted;
};

static int64_t last_of(const struct serving *s, size_t row)
{
	return s->d->trace.rows[row].context + s->d->trace.rows[row].generated;
}

/* Rows join in order as long as the pages of their first step are there. */
static void admit(struct serving *s)
{
	for (; s->next < s->d->trace.n_rows; s->next++) {
		int64_t first = s->d->trace.rows[s->next].context + 1;

		if (s->begun[s->next])
			continue;
		if (s->n_live > 0 && s->used + needed_at(&s->w, first) > s->d->pages)
			return;
		s->begun[s->next] = true;
		s->endpoint[s->next] = first;
		s->used += needed_at(&s->w, first);
		s->live[s->n_live++] = s->next;
	}
}

/* One token for each of them; those at their end leave. */
static void advance(struct serving *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_live; i++) {
		size_t row = s->live[i];

		s->used -= needed_at(&s->w, s->endpoint[row]);
		if (s->endpoint[row] == last_of(s, row))
			continue;
		s->used += needed_at(&s->w, ++s->endpoint[row]);
		s->live[n++] = row;
	}
	s->n_live = n;
}

/* While they need more pages than there are, the last to come loses its own and waits again from its prompt on. */
static void preempt(struct serving *s)
{
	while (s->used > s->d->pages && s->n_live > 1) {
		size_t row = s->live[--s->n_live];

		s->used -= needed_at(&s->w, s->endpoint[row]);
		s->begun[row] = false;
		s->next = row < s->next ? row : s->next;
		s->preempted++;
	}
}

/* Sequences that lost their pages, of a thousand, when the pool is kept full of the trace's. Negative: no memory. */
static double preempted(const struct density *d)
{
	size_t n = d->trace.n_rows;
	AUTO_FREE size_t *live = calloc(n, sizeof(*live));
	AUTO_FREE bool *begun = calloc(n, sizeof(*begun));
	AUTO_FREE int64_t *endpoint = calloc(n, sizeof(*endpoint));
	struct serving s = { .d = d, .live = live, .begun = begun, .endpoint = endpoint };

	if (!live || !begun || !endpoint)
		return -1; /* NOLINT(clang-analyzer-unix.Malloc): it does not see what cleans up */
	s.w = window_make(d->options->window, (uint32_t)d->options->page_tokens);
	for (admit(&s); s.n_live > 0; admit(&s)) {
		advance(&s);
		preempt(&s);
	}
	return 1000 * (double)s.preempted / (double)n;
}

/* Leaves out the rows without output: they never decode. 0, or -1 after a sentence. */
static int take_rows(struct density *d)
{
	struct trace *t = &d->trace;
	size_t n = 0;

	for (size_t i = 0; i < t->n_rows; i++) {
		int64_t tokens = t->rows[i].context + t->rows[i].generated;

		if (tokens > d->options->max_seq) {
			fprintf(stderr,
				"swakv-bench: %s: row %zu has %" PRId64 " tokens, --max-seq allows %" PRId64 "\n",
				d->options->trace, i + 1, tokens, d->options->max_seq);
			return -1;
		}
		if (t->rows[i].generated > 0)
			t->rows[n++] = t->rows[i];
	}
	d->skipped = t->n_rows - n;
	t->n_rows = n;
	if (n == 0)
		fprintf(stderr, "swakv-bench: %s: no row has output\n", d->options->trace);
	return n == 0 ? -1 : 0;
}

static bool allocate(struct density *d)
{
	size_t n = d->trace.n_rows;
	bool all = true;

	for (int way = 0; way < N_WAYS; way++)
		all = (d->need[way] = calloc(n, sizeof(*d->need[way]))) && all;
	return all;
}

static void compute(struct density *d)
{
	size_t n = d->trace.n_rows;

	d->page_bytes = d->options->page_tokens * d->options->token_bytes;
	d->pages = d->options->pool / d->page_bytes;
	for (size_t i = 0; i < n; i++)
		need_of(d, i);
	for (int way = 0; way < N_WAYS; way++) {
		for (size_t i = 0; i < n; i++)
			d->mean[way] += d->need[way][i] / (double)n;
		d->fitting[way] = fit(d, way);
	}
	d->preempted = preempted(d);
}

/* ---- output ------------------------------------------------------------- */

static void print_json(const struct density *d)
{
	const struct density_options *o = d->options;
	json_t *out = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rows",
				(json_int_t)d->trace.n_rows, "rows_without_output", (json_int_t)d->skipped,
				"pool_bytes", (json_int_t)o->pool, "pool_pages", (json_int_t)d->pages, "page_bytes",
				(json_int_t)d->page_bytes, "page_tokens", (json_int_t)o->page_tokens, "window",
				(json_int_t)o->window, "max_seq", (json_int_t)o->max_seq, "in_flight",
				(json_int_t)o->in_flight, "max_rewind", (json_int_t)o->max_rewind);

	for (int way = 0; way < N_WAYS; way++)
		json_object_set_new(out, names[way],
				    json_pack("{s:f, s:f, s:f}", "sequences", d->fitting[way], "pages_per_sequence",
					      d->mean[way], "bytes_per_sequence",
					      d->mean[way] * (double)d->page_bytes));
	json_object_set_new(json_object_get(out, names[ON_DEMAND]), "preempted_per_1000", json_real(d->preempted));
	json_dumpf(out, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
	putchar('\n');
	json_decref(out);
}

static void print_text(const struct density *d)
{
	const struct density_options *o = d->options;

	printf("%zu rows, window %" PRId64 ", pages of %" PRId64 " tokens (%" PRId64 " bytes of K and V), %" PRId64
	       " of them\n\n%-26s %10s %15s %7s\n",
	       d->trace.n_rows, o->window, o->page_tokens, d->page_bytes, d->pages, "", "sequences", "pages/sequence",
	       "to any");
	for (int way = 0; way < N_WAYS; way++)
		printf("%-26s %10.1f %15.2f %7.2f\n", names[way], d->fitting[way], d->mean[way],
		       d->fitting[ANY] > 0 ? d->fitting[way] / d->fitting[ANY] : 0);
	printf("\non demand, %.1f of 1000 sequences lose their pages on the way\n", d->preempted);
}

int density_run(const struct density_options *o)
{
	struct density d = { .options = o };
	char why[256];
	int r;

	if (!o->trace) {
		fprintf(stderr, "swakv-bench: --density needs --trace FILE; see --help\n");
		return 2;
	}
	if (trace_read(&d.trace, o->trace, 0, 0, why, sizeof(why)) < 0) {
		fprintf(stderr, "swakv-bench: %s\n", why);
		return 1;
	}
	r = take_rows(&d) < 0;
	if (!r && !allocate(&d)) {
		fprintf(stderr, "swakv-bench: out of memory\n");
		r = 1;
	}
	if (!r) {
		compute(&d);
		(o->json ? print_json : print_text)(&d);
	}
	for (int way = 0; way < N_WAYS; way++)
		free(d.need[way]);
	trace_deinit(&d.trace);
	return r;
}
