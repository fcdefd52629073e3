/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"

#include "stage.h"
#include "trace.h"

#define SLOTS 16 /* of the session */

struct served {
	int64_t left; /* tokens to generate; 0: the slot is free */
	swakv_request *request;
};

/* The next row of this worker's share fills a free slot. False: none is left. */
static bool admit(swakv_session *s, struct trace *t, size_t *row, uint32_t n, uint32_t slot, struct served *v)
{
	const struct trace_row *w;
	int32_t length;

	if (*row >= t->n_rows)
		return false;
	w = &t->rows[*row];
	*row += n;
	length = (int32_t)(w->context < 100000 ? w->context : 100000);
	v->request = bench_begin(s, slot, 1);
	bench_ok(s, swakv_prefill_prepare(v->request, &length, 1, NULL), "prefill");
	bench_ok(s, swakv_prefill_complete(v->request, SWAKV_DONE, NULL), "prefill");
	v->left = w->generated > 0 ? w->generated : 1;
	return true;
}

static void step(swakv_session *s, struct served *v, struct lane *l)
{
	struct swakv_step steps[SLOTS];
	uint64_t start = ticks();
	uint32_t n = 0;

	for (int i = 0; i < SLOTS; i++)
		if (v[i].left > 0)
			steps[n++] = (struct swakv_step){ .size = sizeof(struct swakv_step), .request = v[i].request };
	bench_ok(s, swakv_step_prepare(s, steps, n, NULL), "step");
	bench_ok(s, swakv_step_complete(s, steps, n, NULL), "step");
	histogram_add(&l->latency, ticks() - start);
	l->ops += n;
	for (int i = 0; i < SLOTS; i++) {
		if (v[i].left == 0 || --v[i].left > 0)
			continue;
		bench_ok(s, swakv_request_finish(v[i].request, NULL), "finish");
		swakv_request_free(v[i].request);
		l->requests++;
	}
}

void serve_trace(swakv_session *s, const char *path, uint32_t index, uint32_t n, struct lane *l)
{
	struct served v[SLOTS] = { 0 };
	struct trace t;
	char why[300];
	size_t row = index;
	bool busy = true;

	if (trace_read(&t, path, 0, 0, why, sizeof(why)) < 0)
		bench_die("%s", why);
	while (busy) {
		busy = false;
		for (uint32_t i = 0; i < SLOTS; i++)
			busy |= v[i].left > 0 || admit(s, &t, &row, n, i, &v[i]);
		if (busy)
			step(s, v, l);
	}
	trace_deinit(&t);
}
