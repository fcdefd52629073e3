/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - the main loop
 *
 * Every round: let requests join, prepare one token for every sequence with one
 * step command, enqueue the step and complete it at once with the fence of its
 * mark, drop what has ended, then check the results of the step before while
 * the stream works on this one. No step is waited for before its results are
 * wanted, so two are open at a time.
 */
#include "worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "batch.h"
#include "clock.h"
#include "layout.h"
#include "report.h"

#define PENDING_LIMIT 60000000000ull /* ns that "pending" may last with an idle stream */

int worker_fail_detail(struct worker *w, int code, const char *what, const char *detail)
{
	if (w->code)
		return w->code;
	w->code = code;
	snprintf(w->why, sizeof(w->why), "%s: %s (%s)", what, detail, swakv_error_name(code));
	return code;
}

int worker_fail(struct worker *w, int code, const char *what)
{
	const char *detail = swakv_session_error(w->session);

	return worker_fail_detail(w, code, what, detail[0] ? detail : swakv_error_text(code));
}

int worker_make_room(struct worker *w)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->n_groups && !rc; i++)
		rc = mirror_reserve(&w->mirrors[i]);
	return rc ? worker_fail_detail(w, rc, "making room", device_why(&w->device)) : 0;
}

int worker_poison_row(struct worker *w, int32_t slot)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->n_groups && !rc; i++)
		rc = mirror_poison_row(&w->mirrors[i], slot);
	return rc;
}

uint64_t worker_results(const struct worker *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < w->n_groups; i++)
		n += w->groups[i].results;
	return n;
}

uint64_t worker_mismatches(const struct worker *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < w->n_groups; i++)
		n += w->groups[i].mismatches;
	return n;
}

/* ---- start ---------------------------------------------------------------- */

static int take_groups(struct worker *w)
{
	uint32_t layer = 0;

	for (uint32_t i = 0; i < w->opt.preset.n_groups; i++) {
		struct group *g = &w->groups[i];
		const char *fault;
		int rc;

		g->layout.size = sizeof(g->layout);
		rc = swakv_session_get_layout(w->session, i, &g->layout);
		if (rc)
			return worker_fail(w, rc, "asking for the layout");
		g->shape = w->opt.preset.groups[i];
		g->first_layer = layer;
		layer += g->shape.layers;
		fault = layout_fault(&g->layout, &w->opt.preset, i, &w->info, w->opt.batch, w->opt.max_seq);
		if (fault)
			return worker_fail_detail(w, SWAKV_EINVALID, "checking the layout", fault);
		g->pages = layout_pages(&g->layout);
		w->n_groups++;
	}
	return 0;
}

static int attach(struct worker *w)
{
	const struct preset *p = &w->opt.preset;
	struct swakv_group groups[PRESET_MAX_GROUPS];
	const struct swakv_model model = { .size = sizeof(model),
					   .name = w->opt.name,
					   .groups = groups,
					   .n_groups = p->n_groups,
					   .max_batch = w->opt.batch,
					   .max_seq = w->opt.max_seq };
	const struct swakv_attach_options options = {
		.size = sizeof(options),
		.broker = w->opt.broker,
		.socket = w->opt.socket,
		.pool = w->opt.pool,
		.on_updates = mirror_updates,
		.on_updates_arg = w->mirrors,
	};
	char why[256] = "";
	int rc;

	for (uint32_t i = 0; i < p->n_groups; i++)
		groups[i] = layout_declare(p, i);
	rc = swakv_session_attach(&options, &model, &w->session, why, sizeof(why));
	if (rc)
		return worker_fail_detail(w, rc, "attaching", why);
	w->info.size = sizeof(w->info);
	(void)swakv_session_get_info(w->session, &w->info); /* cannot fail */
	return take_groups(w);
}

/* Rows as this worker can run them: within max_seq and max_decode. */
static int load_trace(struct worker *w)
{
	char why[384];

	if (trace_read(&w->trace, w->opt.trace, w->opt.skip, w->opt.rows, why, sizeof(why)) < 0)
		return worker_fail_detail(w, SWAKV_ESYSTEM, "reading the trace", why);
	for (size_t i = 0; i < w->trace.n_rows; i++) {
		struct trace_row *row = &w->trace.rows[i];

		if (w->opt.max_decode && row->generated > w->opt.max_decode)
			row->generated = w->opt.max_decode;
		if (row->context + row->generated <= w->opt.max_seq)
			continue;
		w->stats.rows_clipped++;
		if (row->context >= w->opt.max_seq)
			row->context = w->opt.max_seq - (row->generated ? 1 : 0);
		if (row->context + row->generated > w->opt.max_seq)
			row->generated = w->opt.max_seq - row->context;
	}
	return 0;
}

static enum kvgen_dtype kvgen_dtype(enum swakv_dtype dtype)
{
	return dtype == SWAKV_FP8 ? KVGEN_FP8 : dtype == SWAKV_F16 ? KVGEN_F16 : KVGEN_BF16;
}

static int init_checker(struct worker *w)
{
	size_t most = 1; /* none would be no memory */

	w->gen = (struct kvgen){ w->opt.seed, kvgen_dtype(w->opt.preset.dtype) };
	for (uint32_t i = 0; i < w->n_groups; i++) {
		struct group *g = &w->groups[i];
		const struct preset_group *p = &g->shape;
		/* a window that no sequence fills is full attention */
		int64_t window = p->window ? p->window : w->opt.max_seq;
		const struct dense_shape shape = { window, p->layers, p->kv_heads, p->q_heads, p->head_dim };

		if (dense_init(&g->dense, &shape, &w->gen) < 0)
			return SWAKV_ENOMEM;
		g->dense.first_layer = g->first_layer;
		if ((size_t)p->q_heads * p->head_dim > most)
			most = (size_t)p->q_heads * p->head_dim;
	}
	w->want = calloc(most, sizeof(*w->want));
	w->steps = calloc(w->opt.batch, sizeof(*w->steps));
	return w->want && w->steps ? 0 : SWAKV_ENOMEM;
}

static int init_mirrors(struct worker *w)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->n_groups && !rc; i++)
		rc = mirror_init(&w->mirrors[i], &w->device, &w->groups[i].pages, w->opt.batch,
				 w->groups[i].layout.private_pages, w->opt.poison);
	return rc;
}

static void print_group(const struct worker *w, const struct group *g)
{
	fprintf(stderr, "%s:   %u layers, ", w->opt.name, g->shape.layers);
	if (g->shape.window)
		fprintf(stderr, "window %" PRId64, g->shape.window);
	else
		fprintf(stderr, "full attention");
	fprintf(stderr, ", %u kv heads x %u, %u query heads, %d pages a sequence%s\n", g->shape.kv_heads,
		g->shape.head_dim, g->shape.q_heads, g->layout.private_pages, g->shape.window ? "" : " at most");
}

static void print_start(const struct worker *w)
{
	const struct preset *p = &w->opt.preset;

	if (w->opt.quiet)
		return;
	fprintf(stderr, "%s: session %u on %s: %s, %s pages of %u tokens; %zu rows, batch %u, seed %" PRIu64 "%s\n",
		w->opt.name, w->info.session_id, w->info.device, preset_dtype_name(p->dtype), preset_form_name(p->form),
		p->page_tokens, w->trace.n_rows, w->opt.batch, w->opt.seed, w->opt.poison ? ", poison" : "");
	for (uint32_t i = 0; i < w->n_groups; i++)
		print_group(w, &w->groups[i]);
	if (w->stats.rows_clipped)
		fprintf(stderr, "%s: %" PRIu64 " rows are longer than %" PRId64 " tokens and are clipped\n",
			w->opt.name, w->stats.rows_clipped, w->opt.max_seq);
}

int worker_init(struct worker *w, const struct options *opt)
{
	char why[384] = "";
	int rc;

	*w = (struct worker){ .opt = *opt, .started_ns = clock_ns(), .backoff_ns = 1000000 };
	if (load_trace(w) || attach(w))
		return w->code;
	rc = device_open(&w->device, w->session, why, sizeof(why));
	if (rc)
		return worker_fail_detail(w, rc, "opening the device", why);
	(void)((rc = init_checker(w)) || (rc = batch_init(w)) || (rc = init_mirrors(w)) ||
	       (rc = frame_init(&w->frames[0], w)) || (rc = frame_init(&w->frames[1], w)) ||
	       (rc = prefill_init(&w->prefill, w)) || (rc = compaction_init(&w->compaction, w)));
	if (rc)
		return worker_fail_detail(w, rc, "making buffers", swakv_error_text(rc));
	print_start(w);
	return 0;
}

void worker_deinit(struct worker *w)
{
	/* Launches still queued use the buffers: they end before anything is freed. */
	if (w->session && w->device.session)
		swakv_stream_synchronize(w->session, w->device.stream);
	batch_deinit(w);
	prefill_deinit(&w->prefill, w);
	compaction_deinit(&w->compaction, w);
	frame_deinit(&w->frames[0], w);
	frame_deinit(&w->frames[1], w);
	for (uint32_t i = 0; i < w->n_groups; i++)
		mirror_deinit(&w->mirrors[i]);
	swakv_session_close(w->session);
	w->session = NULL;
	device_close(&w->device);
	for (uint32_t i = 0; i < w->n_groups; i++)
		dense_deinit(&w->groups[i].dense);
	trace_deinit(&w->trace);
	free(w->want);
	free(w->steps);
	w->want = NULL;
	w->steps = NULL;
}

/* ---- one round ------------------------------------------------------------- */

/* Asks for one more token of every request; @f gets the sequences of those that may advance, w->steps their entries. */
static int prepare(struct worker *w, struct frame *f, uint32_t *n_steps)
{
	struct job *job;
	uint32_t n = 0, kept = 0, refused = 0;
	uint64_t from;
	int rc = worker_make_room(w);

	if (rc)
		return rc;
	TAILQ_FOREACH (job, &w->jobs, link)
		w->steps[n++] = (struct swakv_step){ .size = sizeof(struct swakv_step), .request = job->request };
	from = clock_ns();
	rc = swakv_step_prepare(w->session, w->steps, n, NULL);
	histogram_add(&w->stats.prepare, clock_ns() - from);
	if (rc && rc != SWAKV_EPENDING)
		return worker_fail(w, rc, "preparing a step");
	n = 0;
	TAILQ_FOREACH (job, &w->jobs, link) {
		struct swakv_step *step = &w->steps[n++];

		if (step->result == SWAKV_EPENDING) {
			refused++;
			continue;
		}
		if (step->result)
			return worker_fail(w, step->result, "preparing a step");
		for (uint32_t i = 0; i < job->n_seqs; i++)
			frame_add(f, job->seqs[i]);
		w->steps[kept++] = *step;
	}
	/* Refused as a whole: then no entry has advanced, and none says so. */
	if (rc && !refused)
		return worker_fail(w, rc, "preparing a step");
	w->stats.pending += refused;
	f->whole = !refused;
	*n_steps = kept;
	return 0;
}

static int complete(struct worker *w, const struct frame *f, uint32_t n_steps)
{
	uint64_t from;
	int rc;

	for (uint32_t i = 0; i < n_steps; i++)
		w->steps[i].fence = f->fence;
	from = clock_ns();
	rc = swakv_step_complete(w->session, w->steps, n_steps, NULL);
	histogram_add(&w->stats.complete, clock_ns() - from);
	return rc ? worker_fail(w, rc, "completing a step") : 0;
}

static int check_all(struct worker *w)
{
	/* The older step first: results are checked in the order of the tokens. */
	uint32_t older = w->stats.steps % 2;
	int rc = frame_check(&w->frames[older], w);

	if (!rc)
		rc = frame_check(&w->frames[1 - older], w);
	return rc ? rc : compaction_check(&w->compaction, w);
}

/* Every request waits for pages behind open completion points: those are reached once all results are there. */
static int wait_pending(struct worker *w)
{
	struct timespec pause = { .tv_nsec = 200000 };
	int rc = check_all(w);

	if (rc)
		return rc;
	if (!w->pending_since_ns)
		w->pending_since_ns = clock_ns();
	if (clock_ns() - w->pending_since_ns > PENDING_LIMIT)
		return worker_fail_detail(w, SWAKV_EPENDING, "preparing a step",
					  "refused for 60 s although all work of the stream has ended");
	nanosleep(&pause, NULL);
	return 0;
}

static int step(struct worker *w)
{
	struct frame *f = &w->frames[w->stats.steps % 2], *before = &w->frames[1 - w->stats.steps % 2];
	uint32_t n_steps = 0;
	int rc = frame_check(f, w);

	if (rc || (rc = prepare(w, f, &n_steps)))
		return rc;
	if (!n_steps)
		return wait_pending(w);
	w->pending_since_ns = 0;
	(void)((rc = frame_submit(f, w)) || (rc = complete(w, f, n_steps)));
	if (rc)
		return rc;
	w->stats.steps++;
	w->stats.tokens_decoded += f->n;
	rc = batch_retire(w);
	return rc ? rc : frame_check(before, w);
}

/* Nothing to do until pages are there: looks again after the pause that batch_admit() has set. */
static void wait_pages(struct worker *w)
{
	uint64_t now = clock_ns(), until = w->retry_ns > now ? w->retry_ns - now : 1000000;

	if (until > 250000000)
		until = 250000000;
	nanosleep(&(struct timespec){ .tv_nsec = (long)until }, NULL);
}

int worker_run(struct worker *w, const volatile int *stop)
{
	while (!w->code) {
		report_tick(w);
		if (!w->winding_down &&
		    (*stop || (w->opt.time_limit_ns && clock_ns() - w->started_ns > w->opt.time_limit_ns)))
			batch_wind_down(w);
		if (batch_admit(w) || batch_retire(w))
			break;
		if (w->n_jobs) {
			step(w);
			continue;
		}
		if (check_all(w) || batch_drained(w))
			break;
		wait_pages(w);
	}
	return w->code;
}
