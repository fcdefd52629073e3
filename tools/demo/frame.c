/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.c - one decode step
 *
 * Two frames take turns: while the stream works on one, the results of the
 * other are checked. A frame owns everything its launches read and write until
 * its fence is reached, so nothing waits in between.
 *
 * The attention reads through the device tables alone, one of each layer group.
 * Beside it, a copy of every whole table is taken in stream order and compared with the mirror:
 * attention shows a wrong page inside the window, the copy also a wrong entry
 * outside it, or a V id that is not K id + num_pages. And once every request has
 * been prepared, no change of the broker's own table is left to be delivered:
 * then that one must equal the mirror, too. One vector of each group is read
 * at an address of the checker's own: see probe.h.
 */
#include "frame.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "worker.h"

#define PRINTED 8 /* mismatches shown in full */

static size_t take(size_t *at, size_t bytes)
{
	size_t offset = *at;

	*at += (bytes + 63) / 64 * 64;
	return offset;
}

static size_t table_bytes(const struct worker *w, const struct group *g)
{
	return (size_t)w->opt.batch * layout_id_rows(&g->layout) * (size_t)g->layout.width * sizeof(int32_t);
}

static int part_init(struct frame_part *part, const struct worker *w, const struct group *g, size_t *at)
{
	const struct preset_group *p = &g->shape;
	size_t vectors = (size_t)w->opt.batch * p->layers;

	part->k = take(at, vectors * p->kv_heads * p->head_dim * g->layout.element_bytes);
	part->v = take(at, vectors * p->kv_heads * p->head_dim * g->layout.element_bytes);
	part->k_scales = take(at, vectors * p->kv_heads * sizeof(float));
	part->v_scales = take(at, vectors * p->kv_heads * sizeof(float));
	part->q = take(at, vectors * p->q_heads * p->head_dim * sizeof(float));
	part->out = take(at, vectors * p->q_heads * p->head_dim * sizeof(float));
	part->table = take(at, table_bytes(w, g));
	part->probed = take(at, 2 * (probe_bytes(&g->layout) + sizeof(float)));
	part->expected = malloc(table_bytes(w, g));
	return part->expected ? 0 : SWAKV_ENOMEM;
}

int frame_init(struct frame *f, struct worker *w)
{
	size_t n = w->opt.batch, at = 0;
	int rc = 0;

	*f = (struct frame){ 0 };
	f->slots = take(&at, n * sizeof(int32_t));
	f->positions = take(&at, n * sizeof(int64_t));
	f->endpoints = take(&at, n * sizeof(int64_t));
	f->heads_end = at;
	for (uint32_t i = 0; i < w->n_groups && !rc; i++)
		rc = part_init(&f->parts[i], w, &w->groups[i], &at);
	f->entries = calloc(n, sizeof(*f->entries));
	if (rc || !f->entries)
		return SWAKV_ENOMEM;
	return device_buffer_new(&w->device, &f->buffer, at);
}

void frame_deinit(struct frame *f, struct worker *w)
{
	device_buffer_free(&w->device, &f->buffer);
	free(f->entries);
	for (int i = 0; i < PRESET_MAX_GROUPS; i++)
		free(f->parts[i].expected);
	*f = (struct frame){ 0 };
}

static void *host(const struct frame *f, size_t offset)
{
	return f->buffer.host + offset;
}

/* Elements of all sequences' vectors of one layer. */
static size_t kv_elements(const struct frame *f, const struct group *g)
{
	return (size_t)f->n * g->shape.kv_heads * g->shape.head_dim;
}

/* Of all sequences' scales of @layers layers. */
static size_t scale_bytes(const struct frame *f, const struct group *g, size_t layers)
{
	return g->layout.dtype == SWAKV_FP8 ? layers * f->n * g->shape.kv_heads * sizeof(float) : 0;
}

static size_t q_elements(const struct frame *f, const struct group *g)
{
	return (size_t)f->n * g->shape.q_heads * g->shape.head_dim;
}

void frame_add(struct frame *f, struct sequence *seq)
{
	seq->endpoint++;
	seq->remaining--;
	seq->n_frames++;
	f->entries[f->n++] = (struct frame_entry){ seq, seq->endpoint };
}

/* ---- inputs ----------------------------------------------------------------- */

/* K, V and Q of entry @i in layer @layer of the group. */
static void make_vectors(struct frame *f, const struct worker *w, uint32_t group, uint32_t i, uint32_t layer)
{
	const struct frame_part *part = &f->parts[group];
	const struct group *g = &w->groups[group];
	const struct preset_group *p = &g->shape;
	const struct frame_entry *e = &f->entries[i];
	struct kvgen_at at = { KVGEN_Q, e->seq->id, e->endpoint - 1, g->first_layer + layer, 0 };
	size_t token = (size_t)layer * f->n + i, scales = token * p->kv_heads * sizeof(float);
	size_t kv = token * p->kv_heads * p->head_dim * g->layout.element_bytes;
	size_t q = token * p->q_heads * p->head_dim;

	kvgen_token(&w->gen, at, p->kv_heads, p->head_dim,
		    &(struct kvgen_token){ host(f, part->k + kv), host(f, part->v + kv),
					   host(f, part->k_scales + scales), host(f, part->v_scales + scales) });
	for (at.head = 0; at.head < p->q_heads; at.head++, q += p->head_dim)
		kvgen_values(&w->gen, at, p->head_dim, (float *)host(f, part->q) + q);
}

static void make_inputs(struct frame *f, const struct worker *w)
{
	for (uint32_t i = 0; i < f->n; i++) {
		const struct frame_entry *e = &f->entries[i];

		((int32_t *)host(f, f->slots))[i] = e->seq->slot;
		((int64_t *)host(f, f->positions))[i] = e->endpoint - 1;
		((int64_t *)host(f, f->endpoints))[i] = e->endpoint;
		for (uint32_t g = 0; g < w->n_groups; g++)
			for (uint32_t layer = 0; layer < w->groups[g].shape.layers; layer++)
				make_vectors(f, w, g, i, layer);
	}
}

static int send_inputs(struct frame *f, struct worker *w)
{
	int rc = device_upload(&w->device, &f->buffer, f->slots, f->heads_end - f->slots);

	for (uint32_t i = 0; i < w->n_groups && !rc; i++) {
		const struct group *g = &w->groups[i];
		size_t kv = g->shape.layers * kv_elements(f, g) * g->layout.element_bytes;
		size_t q = g->shape.layers * q_elements(f, g) * sizeof(float),
		       scales = scale_bytes(f, g, g->shape.layers);

		(void)((rc = device_upload(&w->device, &f->buffer, f->parts[i].k, kv)) ||
		       (rc = device_upload(&w->device, &f->buffer, f->parts[i].v, kv)) ||
		       (rc = device_upload(&w->device, &f->buffer, f->parts[i].k_scales, scales)) ||
		       (rc = device_upload(&w->device, &f->buffer, f->parts[i].v_scales, scales)) ||
		       (rc = device_upload(&w->device, &f->buffer, f->parts[i].q, q)));
	}
	return rc;
}

/* ---- launches --------------------------------------------------------------- */

static int launch_kv_write(struct frame *f, struct worker *w, uint32_t group, uint32_t layer)
{
	const struct group *g = &w->groups[group];
	const struct frame_part *part = &f->parts[group];
	size_t at = layer * kv_elements(f, g) * g->layout.element_bytes, scales = scale_bytes(f, g, layer);
	const struct kernel_kv_write write = {
		.pages = g->pages,
		.slots = f->buffer.address + f->slots,
		.positions = f->buffer.address + f->positions,
		.k = f->buffer.address + part->k + at,
		.v = f->buffer.address + part->v + at,
		.k_scales = f->buffer.address + part->k_scales + scales,
		.v_scales = f->buffer.address + part->v_scales + scales,
		.n_tokens = (int32_t)f->n,
		.layer = (int32_t)layer,
	};

	return device_kv_write(&w->device, &write);
}

static int launch_attention(struct frame *f, struct worker *w, uint32_t group, uint32_t layer)
{
	const struct group *g = &w->groups[group];
	size_t at = layer * q_elements(f, g) * sizeof(float);

	return device_attention(&w->device,
				&(struct kernel_attention){
					.pages = g->pages,
					.slots = f->buffer.address + f->slots,
					.endpoints = f->buffer.address + f->endpoints,
					.q = f->buffer.address + f->parts[group].q + at,
					.out = f->buffer.address + f->parts[group].out + at,
					.window = g->layout.kind == SWAKV_FULL ? INT64_MAX : g->layout.window,
					.scale = 1 / sqrtf((float)g->shape.head_dim),
					.n = (int32_t)f->n,
					.q_heads = (int32_t)g->shape.q_heads,
					.layer = (int32_t)layer,
				});
}

static int launch_kernels(struct frame *f, struct worker *w)
{
	int rc = 0;

	for (uint32_t g = 0; g < w->n_groups; g++)
		for (uint32_t layer = 0; layer < w->groups[g].shape.layers && !rc; layer++)
			rc = launch_kv_write(f, w, g, layer);
	for (uint32_t g = 0; g < w->n_groups; g++)
		for (uint32_t layer = 0; layer < w->groups[g].shape.layers && !rc; layer++)
			rc = launch_attention(f, w, g, layer);
	return rc;
}

/* ---- tables ----------------------------------------------------------------- */

static void expect_table(struct frame *f, const struct worker *w, uint32_t group)
{
	const struct swakv_layout *l = &w->groups[group].layout;
	int32_t width = l->width, *at = f->parts[group].expected;

	for (uint32_t slot = 0; slot < w->opt.batch; slot++, at += (int32_t)layout_id_rows(l) * width)
		for (int32_t c = 0; c < width; c++) {
			int32_t page = mirror_page(&w->mirrors[group], (int32_t)slot, c);

			at[c] = page;
			if (l->form == SWAKV_SPLIT)
				at[width + c] = page < 0 ? -1 : page + l->num_pages;
		}
}

/* Counts and shows the entries in which the table @got of a group differs from what the frame expects. */
static void compare_table(const struct frame *f, struct worker *w, uint32_t group, const int32_t *got,
			  const char *whose)
{
	size_t n = table_bytes(w, &w->groups[group]) / sizeof(int32_t), width = (size_t)w->groups[group].layout.width;
	size_t rows = layout_id_rows(&w->groups[group].layout);
	const int32_t *expected = f->parts[group].expected;

	w->stats.cells += n;
	if (memcmp(got, expected, n * sizeof(*got)) == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		if (got[i] == expected[i])
			continue;
		w->stats.cells_wrong++;
		if (w->n_cells_printed++ < PRINTED)
			fprintf(stderr,
				"swakv-demo-worker: %s: WRONG TABLE ENTRY slot %zu logical page %zu %s of group %u: %s "
				"holds %d, expected %d\n",
				w->opt.name, i / (rows * width), i % width,
				rows == 1       ? "id"
				: i / width % 2 ? "V"
						: "K",
				group, whose, got[i], expected[i]);
	}
}

static void expect_tables(struct frame *f, struct worker *w)
{
	for (uint32_t i = 0; i < w->n_groups; i++) {
		expect_table(f, w, i);
		if (f->whole)
			compare_table(f, w, i, w->groups[i].layout.host_table, "the broker");
	}
}

/* The probe's K (or V), and the scale of it. */
static int read_vector(struct frame *f, struct worker *w, uint32_t group, int32_t page, bool v)
{
	const struct swakv_layout *l = &w->groups[group].layout;
	const struct frame_part *part = &f->parts[group];
	size_t bytes = probe_bytes(l), scale = part->probed + 2 * bytes + (v ? sizeof(float) : 0);
	int rc = device_read(&w->device, &f->buffer, part->probed + (v ? bytes : 0),
			     probe_address(l, &part->probe, page, v), bytes);

	if (rc || l->dtype != SWAKV_FP8)
		return rc;
	return device_read(&w->device, &f->buffer, scale, probe_scale_address(l, &part->probe, page, v), sizeof(float));
}

/* Reads a vector of one of the sequences; of which, the steps take in turn. */
static int probe(struct frame *f, struct worker *w, uint32_t group)
{
	const struct frame_entry *e = &f->entries[w->stats.steps % f->n];
	const struct swakv_layout *l = &w->groups[group].layout;
	struct frame_part *part = &f->parts[group];
	int32_t page;
	int rc;

	part->probe = probe_choose(l, e->seq->id, e->endpoint, w->stats.steps);
	page = mirror_page(&w->mirrors[group], e->seq->slot, probe_column(l, &part->probe));
	if (page < 0) {
		/* not what it must be: that is for the check to say */
		memset(host(f, part->probed), 0xff, 2 * probe_bytes(l));
		return 0;
	}
	rc = read_vector(f, w, group, page, false);
	return rc ? rc : read_vector(f, w, group, page, true);
}

static int read_back(struct frame *f, struct worker *w)
{
	int rc = 0;

	for (uint32_t i = 0; i < w->n_groups && !rc; i++) {
		const struct group *g = &w->groups[i];

		rc = device_download(&w->device, &f->buffer, f->parts[i].out,
				     g->shape.layers * q_elements(f, g) * sizeof(float));
		if (!rc)
			rc = device_read(&w->device, &f->buffer, f->parts[i].table, g->layout.table, table_bytes(w, g));
		if (!rc)
			rc = probe(f, w, i);
	}
	return rc;
}

/* ---- the step --------------------------------------------------------------- */

/* Pages of sequences that end with this step: only its mark frees them, so this is the last moment. */
static int poison_ended(struct frame *f, struct worker *w)
{
	for (uint32_t i = 0; i < f->n; i++) {
		if (f->entries[i].seq->remaining > 0)
			continue;
		int rc = worker_poison_row(w, f->entries[i].seq->slot);

		if (rc)
			return rc;
	}
	return 0;
}

int frame_submit(struct frame *f, struct worker *w)
{
	int rc;

	make_inputs(f, w);
	expect_tables(f, w);
	(void)((rc = send_inputs(f, w)) || (rc = launch_kernels(f, w)) || (rc = read_back(f, w)) ||
	       (rc = device_pause(&w->device, w->opt.lag_ms)) || (rc = poison_ended(f, w)));
	if (rc)
		return worker_fail_detail(w, rc, "enqueueing a step", device_why(&w->device));
	rc = swakv_stream_mark(w->session, w->device.stream, &f->fence);
	if (rc)
		return worker_fail(w, rc, "marking the stream");
	f->in_flight = true;
	return 0;
}

/* ---- the check -------------------------------------------------------------- */

static void print_mismatch(struct worker *w, const struct group *g, const struct frame_entry *e, uint32_t layer,
			   uint32_t head, const struct dense_verdict *v, double want, double got, double tolerance)
{
	if (w->n_printed++ < PRINTED)
		fprintf(stderr,
			"swakv-demo-worker: %s: MISMATCH sequence %llu position %lld layer %u head %u element %u: got "
			"%.9g, "
			"want %.9g (off by %.3g, tolerance %.3g); %u of %u elements are wrong\n",
			w->opt.name, (unsigned long long)e->seq->id, (long long)e->endpoint - 1, g->first_layer + layer,
			head, v->first_wrong, got, want, fabs(got - want), tolerance, v->n_wrong, g->shape.head_dim);
	else if (w->n_printed == PRINTED + 1)
		fprintf(stderr, "swakv-demo-worker: %s: further mismatches are only counted\n", w->opt.name);
}

static void check_layer(struct frame *f, struct worker *w, uint32_t group, uint32_t i, uint32_t layer)
{
	struct group *g = &w->groups[group];
	const struct preset_group *p = &g->shape;
	const struct frame_entry *e = &f->entries[i];
	const struct dense_sequence *dense = e->seq->dense[group];
	const float *out = (const float *)host(f, f->parts[group].out) + layer * q_elements(f, g) +
			   (size_t)i * p->q_heads * p->head_dim;
	double tolerance = dense_tolerance(&g->dense.shape, dense_sequence_length(&g->dense, dense));

	if (tolerance > w->stats.tolerance)
		w->stats.tolerance = tolerance;
	dense_sequence_attend(&g->dense, dense, layer, w->want);
	for (uint32_t head = 0; head < p->q_heads; head++) {
		const double *want = w->want + (size_t)head * p->head_dim;
		const float *got = out + (size_t)head * p->head_dim;
		struct dense_verdict v = dense_compare(want, got, p->head_dim, tolerance);

		g->results++;
		if (v.max_error > w->stats.max_error)
			w->stats.max_error = v.max_error;
		if (!v.n_wrong)
			continue;
		g->mismatches++;
		print_mismatch(w, g, e, layer, head, &v, want[v.first_wrong], (double)got[v.first_wrong], tolerance);
	}
}

static int check_entry(struct frame *f, struct worker *w, uint32_t group, uint32_t i)
{
	struct sequence *seq = f->entries[i].seq;
	struct group *g = &w->groups[group];

	if (!seq->dense[group])
		seq->dense[group] = dense_sequence_new(&g->dense, seq->id, seq->endpoint + seq->remaining);
	if (!seq->dense[group])
		return worker_fail_detail(w, SWAKV_ENOMEM, "checking a sequence", "out of memory");
	dense_sequence_advance(&g->dense, seq->dense[group], f->entries[i].endpoint);
	for (uint32_t layer = 0; layer < g->shape.layers; layer++)
		check_layer(f, w, group, i, layer);
	return 0;
}

static void print_vector(const struct worker *w, const struct group *g, const struct probe *p, int v,
			 const unsigned char *bits, size_t bytes, float scale, uint32_t wrong)
{
	uint32_t size = g->layout.element_bytes, value = 0;

	fprintf(stderr,
		"swakv-demo-worker: %s: WRONG VECTOR %s of sequence %llu position %lld layer %u head %u: ", w->opt.name,
		v ? "V" : "K", (unsigned long long)p->sequence, (long long)p->position, g->first_layer + p->layer,
		p->head);
	if (wrong == bytes) {
		fprintf(stderr, "its scale in the page is %.9g\n", (double)scale);
		return;
	}
	memcpy(&value, bits + wrong / size * size, size);
	fprintf(stderr, "element %u of the page holds %0*x\n", wrong / size, (int)(2 * size), value);
}

static void check_probe(const struct frame *f, struct worker *w, uint32_t group)
{
	const struct group *g = &w->groups[group];
	const struct frame_part *part = &f->parts[group];
	const struct probe *p = &part->probe;

	size_t bytes = probe_bytes(&g->layout);

	for (int v = 0; v < 2; v++) {
		const unsigned char *bits = host(f, part->probed + (v ? bytes : 0));
		uint32_t wrong;
		float scale;

		memcpy(&scale, host(f, part->probed + 2 * bytes + (v ? sizeof(scale) : 0)), sizeof(scale));
		w->stats.vectors++;
		if (probe_holds(p, &g->layout, &w->gen, g->first_layer, v, bits, scale, &wrong))
			continue;
		w->stats.vectors_wrong++;
		if (w->n_vectors_printed++ < PRINTED)
			print_vector(w, g, p, v, bits, bytes, scale, wrong);
	}
}

int frame_check(struct frame *f, struct worker *w)
{
	if (!f->in_flight)
		return 0;
	int rc = device_wait(&w->device, f->fence);
	if (rc)
		return worker_fail_detail(w, rc, "waiting for a step", device_why(&w->device));
	for (uint32_t g = 0; g < w->n_groups; g++) {
		compare_table(f, w, g, host(f, f->parts[g].table), "the device");
		check_probe(f, w, g);
	}
	for (uint32_t i = 0; i < f->n; i++) {
		for (uint32_t g = 0; g < w->n_groups && !rc; g++)
			rc = check_entry(f, w, g, i);
		f->entries[i].seq->n_frames--;
		sequence_release(f->entries[i].seq, w);
	}
	f->in_flight = false;
	f->n = 0;
	return rc;
}
