/* SPDX-License-Identifier: Apache-2.0 */
/* driver_graph.c - capturing what a stream is given, and launching it again */
#include "driver_private.h"

int driver_capture_begin(struct driver *d, void *stream)
{
	/* Relaxed: what other threads of the process do meanwhile is their own affair. */
	return DRIVER_CALL(d, d->api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
			   "cuStreamBeginCapture()");
}

int driver_capture_end(struct driver *d, void *stream, void **exec)
{
	CUgraphExec e = NULL;
	CUgraph graph = NULL;
	CUresult destroyed;
	int r = driver_enter(d);

	*exec = NULL;
	if (r)
		return r;
	r = driver_check(d, d->api.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture()");
	if (r == 0) {
		r = driver_check(d, d->api.cuGraphInstantiateWithFlags(&e, graph, 0), "cuGraphInstantiateWithFlags()");
		destroyed = d->api.cuGraphDestroy(graph);
		if (r == 0 && destroyed != CUDA_SUCCESS) {
			d->api.cuGraphExecDestroy(e);
			r = driver_check(d, destroyed, "cuGraphDestroy()");
		}
	}
	if (r == 0)
		*exec = e;
	return driver_leave(d, r);
}

int driver_stream_is_capturing(struct driver *d, void *stream, bool *capturing)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	int r = DRIVER_CALL(d, d->api.cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing()");

	*capturing = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return r;
}

int driver_graph_launch(struct driver *d, void *exec, void *stream)
{
	return DRIVER_CALL(d, d->api.cuGraphLaunch(exec, stream), "cuGraphLaunch()");
}

int driver_graph_destroy(struct driver *d, void *exec)
{
	return DRIVER_CALL(d, d->api.cuGraphExecDestroy(exec), "cuGraphExecDestroy()");
}
