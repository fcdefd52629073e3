/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compaction.c - compaction with rows kept
 *
 * Begin, mark, complete: the mark proves that nothing on the stream, the poison
 * of the dropped pages included, will touch these again. The mapping that the
 * library copies to the device is read back in stream order; it is compared
 * when its place is needed again, or at the end.
 */
#include "compaction.h"

#include <stdio.h>
#include <string.h>

#include "worker.h"

static size_t offset_of(uint32_t at)
{
	return (size_t)at * GROUP_MAX * sizeof(int32_t);
}

int compaction_init(struct compaction *c, struct worker *w)
{
	*c = (struct compaction){ 0 };
	return device_buffer_new(&w->device, &c->buffer, offset_of(COMPACTION_OPEN));
}

void compaction_deinit(struct compaction *c, struct worker *w)
{
	device_buffer_free(&w->device, &c->buffer);
	*c = (struct compaction){ 0 };
}

static int check_one(struct compaction *c, struct worker *w, uint32_t at)
{
	const int32_t *got = (const int32_t *)(const void *)(c->buffer.host + offset_of(at));
	const int32_t *want = c->open[at].expected;

	if (!c->open[at].in_flight)
		return 0;
	int rc = device_wait(&w->device, c->open[at].fence);
	if (rc)
		return worker_fail_detail(w, rc, "waiting for a compaction", device_why(&w->device));
	c->open[at].in_flight = false;
	for (uint32_t i = 0; i < c->open[at].n; i++) {
		w->stats.cells++;
		if (got[i] == want[i])
			continue;
		w->stats.cells_wrong++;
		fprintf(stderr,
			"swakv-demo-worker: %s: WRONG MAPPING entry %u of %u: the device holds %d, expected %d\n",
			w->opt.name, i, c->open[at].n, got[i], want[i]);
	}
	return 0;
}

int compaction_check(struct compaction *c, struct worker *w)
{
	int rc = 0;

	for (uint32_t i = 0; i < COMPACTION_OPEN && !rc; i++)
		rc = check_one(c, w, i);
	return rc;
}

int compaction_run(struct compaction *c, struct worker *w, swakv_request *request, const int32_t *old_to_new,
		   uint32_t n, uint32_t n_left)
{
	uint32_t at = c->next++ % COMPACTION_OPEN;
	int rc = check_one(c, w, at);

	if (rc)
		return rc;
	memcpy(c->open[at].expected, old_to_new, n * sizeof(*old_to_new));
	c->open[at].n = n;
	rc = swakv_compact_begin(request, old_to_new, n, (int32_t)n_left, 0, c->buffer.address + offset_of(at), NULL);
	if (rc)
		return worker_fail(w, rc, "beginning a compaction");
	rc = device_download(&w->device, &c->buffer, offset_of(at), n * sizeof(*old_to_new));
	if (rc)
		return worker_fail_detail(w, rc, "reading a mapping back", device_why(&w->device));
	rc = swakv_stream_mark(w->session, w->device.stream, &c->open[at].fence);
	if (!rc)
		rc = swakv_compact_complete(request, c->open[at].fence, NULL);
	if (rc)
		return worker_fail(w, rc, "completing a compaction");
	c->open[at].in_flight = true;
	w->stats.compactions++;
	return 0;
}
