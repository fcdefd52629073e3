/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "json_put.h"
#include "worker.h"

#define REPORT_EVERY   1000000000ull /* ns */
#define PROGRESS_EVERY 3000000000ull /* ns */

static double us(const struct histogram *h, double share)
{
	return (double)histogram_quantile(h, share) / 1000;
}

static json_t *counters(const struct worker *w)
{
	struct swakv_session_counters c = { .size = sizeof(c) };

	if (w->session)
		swakv_session_get_counters(w->session, &c);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "commands", (json_int_t)c.commands, "replies",
			 (json_int_t)c.replies, "wakeups_sent", (json_int_t)c.wakeups_sent, "sleeps",
			 (json_int_t)c.sleeps, "row_faults", (json_int_t)c.row_faults, "rescues",
			 (json_int_t)c.rescues);
}

/* Where the group's table and pages lie: bytes from the start of the pool. */
static json_t *layout(const struct worker *w, const struct swakv_layout *l)
{
	uint64_t pool = w->info.pool_device;

	if (!l->width)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "table", (json_int_t)(l->table - pool), "k",
			 (json_int_t)(l->k_base - pool), "v", (json_int_t)(l->v_base - pool), "page_stride",
			 (json_int_t)l->page_stride, "layer_stride", (json_int_t)l->layer_stride, "width",
			 (json_int_t)l->width, "pages", (json_int_t)l->num_pages);
}

static json_t *group(const struct worker *w, const struct preset_group *p, const struct group *g)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "window",
			 p->window ? json_integer(p->window) : json_null(), "layers", (json_int_t)p->layers, "kv_heads",
			 (json_int_t)p->kv_heads, "q_heads", (json_int_t)p->q_heads, "head_dim",
			 (json_int_t)p->head_dim, "results", (json_int_t)g->results, "mismatches",
			 (json_int_t)g->mismatches, "layout", layout(w, &g->layout));
}

static json_t *model(const struct worker *w)
{
	const struct preset *p = &w->opt.preset;
	json_t *groups = json_array();

	for (uint32_t i = 0; i < p->n_groups; i++)
		json_array_append_new(groups, group(w, &p->groups[i], &w->groups[i]));
	return json_pack("{s:s, s:I, s:s, s:s, s:I, s:o}", "preset", p->name, "scale", (json_int_t)w->opt.scale,
			 "dtype", preset_dtype_name(p->dtype), "form", preset_form_name(p->form), "page_tokens",
			 (json_int_t)p->page_tokens, "groups", groups);
}

static void add(json_t *to, const char *key, uint64_t value)
{
	json_put(to, key, value);
}

static json_t *report_json(const struct worker *w, const char *state)
{
	const struct stats *s = &w->stats;
	json_t *r = json_object();

	json_put_text(r, "name", w->opt.name);
	json_put_text(r, "state", state);
	json_object_set_new(r, "error", w->code ? json_string(w->why) : json_null());
	add(r, "pid", (uint64_t)getpid());
	add(r, "session", w->info.session_id);
	json_object_set_new(r, "model", model(w));
	add(r, "seed", w->opt.seed);
	json_object_set_new(r, "seconds", json_real((double)(clock_ns() - w->started_ns) / 1e9));
	add(r, "rows", w->trace.n_rows);
	add(r, "rows_done", s->rows_done);
	add(r, "rows_clipped", s->rows_clipped);
	add(r, "tokens_prefilled", s->tokens_prefilled);
	add(r, "tokens_decoded", s->tokens_decoded);
	add(r, "steps", s->steps);
	add(r, "requests", s->requests);
	add(r, "compactions", s->compactions);
	add(r, "results", worker_results(w));
	add(r, "mismatches", worker_mismatches(w));
	add(r, "table_entries", s->cells);
	add(r, "table_entries_wrong", s->cells_wrong);
	add(r, "vectors", s->vectors);
	add(r, "vectors_wrong", s->vectors_wrong);
	json_object_set_new(r, "max_error", json_real(s->max_error));
	json_object_set_new(r, "tolerance", json_real(s->tolerance));
	add(r, "begins_refused", s->nopages);
	add(r, "prepares_pending", s->pending);
	json_object_set_new(r, "prepare_us",
			    json_pack("{s:f, s:f}", "p50", us(&s->prepare, 0.5), "p99", us(&s->prepare, 0.99)));
	json_object_set_new(r, "complete_us",
			    json_pack("{s:f, s:f}", "p50", us(&s->complete, 0.5), "p99", us(&s->complete, 0.99)));
	json_object_set_new(r, "client", counters(w));
	return r;
}

/* Renames a whole file into place, so that a reader, or a kill, never sees half of one. */
static bool write_file(const struct worker *w, const char *state)
{
	char temporary[PATH_MAX];
	bool written;
	json_t *r;

	if (!w->opt.report)
		return true;
	snprintf(temporary, sizeof(temporary), "%s.tmp", w->opt.report); /* the option's length was checked */
	r = report_json(w, state);
	written = json_dump_file(r, temporary, JSON_INDENT(2)) == 0 && rename(temporary, w->opt.report) == 0;
	if (!written)
		fprintf(stderr, "swakv-demo-worker: %s: cannot write %s: %s\n", w->opt.name, w->opt.report,
			strerror(errno));
	json_decref(r);
	return written;
}

static void print_progress(const struct worker *w)
{
	const struct stats *s = &w->stats;

	fprintf(stderr,
		"%s: %" PRIu64 " rows done, %u requests, %" PRIu64 " tokens decoded, %" PRIu64
		" results checked, %" PRIu64 " mismatches%s\n",
		w->opt.name, s->rows_done, w->n_jobs, s->tokens_decoded, worker_results(w),
		worker_mismatches(w) + s->cells_wrong + s->vectors_wrong, w->retry_ns ? "; waiting for pages" : "");
}

void report_tick(struct worker *w)
{
	uint64_t now = clock_ns();

	if (now >= w->next_report_ns) {
		w->next_report_ns = now + REPORT_EVERY;
		(void)write_file(w, w->winding_down ? "stopping" : "running");
	}
	if (!w->opt.quiet && now >= w->next_progress_ns) {
		if (w->next_progress_ns)
			print_progress(w);
		w->next_progress_ns = now + PROGRESS_EVERY;
	}
}

static void print_text(const struct worker *w, const char *state)
{
	const struct stats *s = &w->stats;
	struct swakv_session_counters c = { .size = sizeof(c) };

	if (w->session)
		swakv_session_get_counters(w->session, &c);
	printf("%s: %s after %.1f s\n", w->opt.name, state, (double)(clock_ns() - w->started_ns) / 1e9);
	printf("  rows       %" PRIu64 " done %s %zu, %" PRIu64 " clipped to %" PRId64 " tokens\n", s->rows_done,
	       w->opt.loop ? "in rounds of" : "of", w->trace.n_rows, s->rows_clipped, w->opt.max_seq);
	printf("  tokens     %" PRIu64 " prefilled, %" PRIu64 " decoded in %" PRIu64 " steps\n", s->tokens_prefilled,
	       s->tokens_decoded, s->steps);
	printf("  requests   %" PRIu64 ", with %" PRIu64 " compactions; %" PRIu64 " begins and %" PRIu64
	       " prepares had to wait\n",
	       s->requests, s->compactions, s->nopages, s->pending);
	printf("  results    %" PRIu64 " checked, %" PRIu64 " mismatches\n", worker_results(w), worker_mismatches(w));
	for (uint32_t i = 0; i < w->n_groups && w->n_groups > 1; i++)
		printf("             %" PRIu64 " of %s attention, %" PRIu64 " mismatches\n", w->groups[i].results,
		       w->groups[i].shape.window ? "sliding" : "full", w->groups[i].mismatches);
	printf("  error      %.3g at most; tolerance up to %.3g = 4 * 2^-24 * (sqrt(tokens) + sqrt(head size))\n",
	       s->max_error, s->tolerance);
	printf("  table      %" PRIu64 " entries compared with the updates, %" PRIu64 " wrong\n", s->cells,
	       s->cells_wrong);
	printf("  vectors    %" PRIu64 " of K and V found where the checker expects them, %" PRIu64 " wrong\n",
	       s->vectors - s->vectors_wrong, s->vectors_wrong);
	printf("  prepare    p50 %.1f us, p99 %.1f us\n", us(&s->prepare, 0.5), us(&s->prepare, 0.99));
	printf("  complete   p50 %.1f us, p99 %.1f us\n", us(&s->complete, 0.5), us(&s->complete, 0.99));
	printf("  client     %" PRIu64 " commands, %" PRIu64 " doorbells, %" PRIu64 " sleeps, %" PRIu64
	       " row faults, %" PRIu64 " rescues\n",
	       c.commands, c.wakeups_sent, c.sleeps, c.row_faults, c.rescues);
}

bool report_end(struct worker *w, const char *state)
{
	bool written = write_file(w, state);

	if (w->opt.json) {
		json_t *r = report_json(w, state);

		json_dumpf(r, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(r);
	} else if (w->session) {
		print_text(w, state);
	}
	return written;
}
