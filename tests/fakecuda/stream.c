/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - a thread and a queue for each stream
 *
 * Everything runs when its turn comes and not before, copies from host memory
 * included: who frees or changes that memory too early gets wrong data here as
 * on a GPU. After a context error nothing more runs, host functions neither.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "fake.h"

enum kind { OP_COPY_IN, OP_COPY_OUT, OP_COPY, OP_FILL, OP_WRITE, OP_HOST, OP_KERNEL };

struct op {
	STAILQ_ENTRY(op) link;
	enum kind kind;
	long late;
	uint64_t device, value, n; /* target, pattern or word or source, elements */
	uint64_t element;          /* bytes of one */
	void *host;
	CUhostFn fn;
	const struct fake_kernel *kernel;
	size_t n_params;
	unsigned char params[]; /* of a kernel */
};

struct CUstream_st {
	LIST_ENTRY(CUstream_st) link;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	STAILQ_HEAD(, op) queue;
	bool busy, stop;
	struct CUgraph_st *capture; /* NULL: what it is given is done */
};

/* What was captured, in order; a graph that can be launched is a copy of one. */
struct CUgraph_st {
	STAILQ_HEAD(, op) ops;
};

struct CUgraphExec_st {
	struct CUgraph_st *graph;
};

static LIST_HEAD(, CUstream_st) streams = LIST_HEAD_INITIALIZER(streams);
static struct CUstream_st *null_stream;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what a stream does --------------------------------------------------------- */

static void fill(void *host, const struct op *op)
{
	for (uint64_t i = 0; i < op->n; i++)
		memcpy((char *)host + i * op->element, &op->value, op->element);
}

static void copy(void *target, const struct op *op)
{
	const void *source = fake_reach(op->value, op->n);

	if (source)
		memmove(target, source, op->n);
	else
		fake_break_context(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void perform(const struct op *op)
{
	void *target = NULL;

	if (op->kind == OP_HOST) {
		op->fn(op->host);
		return;
	}
	if (op->kind == OP_KERNEL) {
		fake_kernel_run(op->kernel, op->params);
		return;
	}
	/* It was in reach when it was enqueued; it must be so still. */
	target = fake_reach(op->device, op->n * op->element);
	if (!target) {
		fprintf(stderr, "fakecuda: 0x%llx was freed or unregistered before the stream came to it\n",
			(unsigned long long)op->device);
		fake_break_context(CUDA_ERROR_ILLEGAL_ADDRESS);
	} else if (op->kind == OP_WRITE) {
		atomic_store_explicit((_Atomic uint64_t *)target, op->value, memory_order_release);
	} else if (op->kind == OP_FILL) {
		fill(target, op);
	} else if (op->kind == OP_COPY) {
		copy(target, op);
	} else if (op->kind == OP_COPY_IN) {
		memcpy(target, op->host, op->n);
	} else {
		memcpy(op->host, target, op->n);
	}
}

static void *stream_main(void *arg)
{
	CUstream s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct op *op;

		while (STAILQ_EMPTY(&s->queue) && !s->stop)
			pthread_cond_wait(&s->changed, &s->lock);
		op = STAILQ_FIRST(&s->queue);
		if (!op)
			break;
		STAILQ_REMOVE_HEAD(&s->queue, link);
		s->busy = true;
		pthread_mutex_unlock(&s->lock);
		if (op->late > 0)
			fake_sleep_ms(op->late);
		if (fake_context_error() == CUDA_SUCCESS)
			perform(op);
		free(op);
		pthread_mutex_lock(&s->lock);
		s->busy = false;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- streams ------------------------------------------------------------------------ */

static CUstream stream_new(void)
{
	CUstream s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	STAILQ_INIT(&s->queue);
	if (pthread_create(&s->thread, NULL, stream_main, s) != 0) {
		free(s);
		return NULL;
	}
	pthread_setname_np(s->thread, "fakecuda-stream");
	return s;
}

static void stream_wait(CUstream s)
{
	pthread_mutex_lock(&s->lock);
	while (s->busy || !STAILQ_EMPTY(&s->queue))
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

/* The stream that a handle means; NULL: none. The null stream is made at first use. */
static CUstream stream_get(CUstream handle)
{
	CUstream s;

	pthread_mutex_lock(&streams_lock);
	if (!handle) {
		if (!null_stream && (null_stream = stream_new()) != NULL)
			LIST_INSERT_HEAD(&streams, null_stream, link);
		handle = null_stream;
	}
	LIST_FOREACH (s, &streams, link) {
		if (s == handle)
			break;
	}
	pthread_mutex_unlock(&streams_lock);
	return s;
}

void fake_drain(void)
{
	CUstream s;

	pthread_mutex_lock(&streams_lock);
	LIST_FOREACH (s, &streams, link)
		stream_wait(s);
	pthread_mutex_unlock(&streams_lock);
}

FAKE_API CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	CUstream s;

	if (r)
		return r;
	s = stream_new();
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&streams_lock);
	LIST_INSERT_HEAD(&streams, s, link);
	pthread_mutex_unlock(&streams_lock);
	*stream = s;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuStreamDestroy(CUstream handle)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	CUstream s;

	if (r && r != fake_context_error())
		return r;
	s = handle ? stream_get(handle) : NULL;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&streams_lock);
	LIST_REMOVE(s, link);
	pthread_mutex_unlock(&streams_lock);
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return r;
}

FAKE_API CUresult CUDAAPI cuStreamSynchronize(CUstream handle)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	CUstream s;

	if (r)
		return r;
	s = stream_get(handle);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	stream_wait(s);
	return fake_context_error();
}

/* ---- enqueueing ----------------------------------------------------------------------- */

/* Appends a copy of *@op, with @bytes of parameters. */
static CUresult enqueue(CUstream handle, const struct op *op, const void *params, size_t bytes)
{
	CUstream s = stream_get(handle);
	struct op *copy;

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	copy = malloc(sizeof(*copy) + bytes);
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*copy = *op;
	copy->n_params = bytes;
	if (bytes)
		memcpy(copy->params, params, bytes);
	pthread_mutex_lock(&s->lock);
	if (s->capture)
		STAILQ_INSERT_TAIL(&s->capture->ops, copy, link);
	else
		STAILQ_INSERT_TAIL(&s->queue, copy, link);
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return CUDA_SUCCESS;
}

/* Enters @function and enqueues *@op if its target can be reached. */
static CUresult enqueue_memory(const char *function, CUstream stream, struct op *op)
{
	CUresult r = fake_enter(function, FAKE_CONTEXT, &op->late);

	if (r)
		return r;
	if (!fake_reach(op->device, op->n * op->element) || op->device % op->element != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return enqueue(stream, op, NULL, 0);
}

/*
 * `armed` behind `word` must tell of the write before it is under way: whoever
 * looks between must not see an idle line.
 */
static void check_armed(uint64_t device, uint64_t value)
{
	const char *host = fake_reach(device, 2 * sizeof(uint64_t));
	uint64_t armed;

	if (!host)
		fake_die("stream write to 0x%llx: there is no armed word behind it", (unsigned long long)device);
	armed = atomic_load_explicit((const _Atomic uint64_t *)(host + sizeof(uint64_t)), memory_order_acquire);
	if (armed < value)
		fake_die("stream write of %llu enqueued while the armed word holds %llu: a line is armed before the "
			 "enqueue",
			 (unsigned long long)value, (unsigned long long)armed);
}

FAKE_API CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr device, cuuint64_t value, unsigned flags)
{
	struct op op = { .kind = OP_WRITE, .device = device, .value = value, .n = 1, .element = sizeof(value) };
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, &op.late);

	if (r)
		return r;
	if (!fake_reach(device, sizeof(value)) || device % sizeof(value) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!fake_number("FAKECUDA_STREAM_WRITE", 1))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (fake_number("FAKECUDA_CHECK_ARMED", 0))
		check_armed(device, value);
	return enqueue(stream, &op, NULL, 0);
}

FAKE_API CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
	struct op op = { .kind = OP_HOST, .fn = fn, .host = arg };
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, &op.late);

	return r ? r : enqueue(stream, &op, NULL, 0);
}

FAKE_API CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)
{
	struct op op = { .kind = OP_COPY_IN, .device = dst, .host = (void *)(uintptr_t)src, .n = bytes, .element = 1 };

	return enqueue_memory(__func__, stream, &op);
}

FAKE_API CUresult CUDAAPI cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	struct op op = { .kind = OP_COPY_OUT, .device = src, .host = dst, .n = bytes, .element = 1 };

	return enqueue_memory(__func__, stream, &op);
}

FAKE_API CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
	struct op op = { .kind = OP_COPY, .device = dst, .value = src, .n = bytes, .element = 1 };

	if (!fake_reach(src, bytes))
		op.device = 0; /* refused as a wrong target is */
	return enqueue_memory(__func__, stream, &op);
}

FAKE_API CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream)
{
	struct op op = { .kind = OP_FILL, .device = dst, .value = value, .n = n, .element = 4 };

	return enqueue_memory(__func__, stream, &op);
}

FAKE_API CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
	struct op op = { .kind = OP_FILL, .device = dst, .value = value, .n = n, .element = 2 };

	return enqueue_memory(__func__, stream, &op);
}

FAKE_API CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
					 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
					 CUstream stream, void **params, void **extra)
{
	struct op op = { .kind = OP_KERNEL };
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, &op.late);

	if (r)
		return r;
	if (!fake_kernel_valid(f))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z || grid_y > 65535 || grid_z > 65535 ||
	    (uint64_t)block_x * block_y * block_z > 1024 || !params || extra)
		return CUDA_ERROR_INVALID_VALUE;
	op.kernel = (const struct fake_kernel *)(const void *)f;
	if (shared_bytes > fake_kernel_shared(op.kernel))
		return CUDA_ERROR_INVALID_VALUE;
	if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1)
		fake_die("%s: launched in more than one dimension", fake_kernel_name(op.kernel));
	fake_launch_check(fake_kernel_name(op.kernel), params[0], grid_x, block_x, shared_bytes);
	return enqueue(stream, &op, params[0], fake_kernel_bytes(op.kernel));
}

/* ---- graphs ------------------------------------------------------------------------------- */

static struct CUgraph_st *graph_free(struct CUgraph_st *g)
{
	struct op *op;

	while ((op = STAILQ_FIRST(&g->ops)) != NULL) {
		STAILQ_REMOVE_HEAD(&g->ops, link);
		free(op);
	}
	free(g);
	return NULL;
}

FAKE_API CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	CUstream s = handle ? stream_get(handle) : NULL;

	if (r)
		return r;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	s->capture = calloc(1, sizeof(*s->capture));
	if (!s->capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	STAILQ_INIT(&s->capture->ops);
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	CUstream s = handle ? stream_get(handle) : NULL;

	if (s && s->capture && r) /* the capture is over in any case */
		s->capture = graph_free(s->capture);
	if (r)
		return r;
	if (!s || !s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	*graph = s->capture;
	s->capture = NULL;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	CUstream s = stream_get(handle);

	if (r)
		return r;
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	*status = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	CUgraphExec e;
	struct op *op;

	if (r)
		return r;
	e = calloc(1, sizeof(*e));
	if (!e || (e->graph = calloc(1, sizeof(*e->graph))) == NULL)
		fake_die("out of memory");
	STAILQ_INIT(&e->graph->ops);
	STAILQ_FOREACH (op, &graph->ops, link) {
		struct op *copy = malloc(sizeof(*op) + op->n_params);

		if (!copy)
			fake_die("out of memory");
		memcpy(copy, op, sizeof(*op) + op->n_params);
		STAILQ_INSERT_TAIL(&e->graph->ops, copy, link);
	}
	*exec = e;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuGraphDestroy(CUgraph graph)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	graph_free(graph);
	return r;
}

FAKE_API CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	long late = 0;
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, &late);
	struct op *op;

	if (!r && !exec)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r)
		return r;
	STAILQ_FOREACH (op, &exec->graph->ops, link) {
		struct op copy = *op;

		copy.late += late;
		late = 0;
		r = enqueue(stream, &copy, op->params, op->n_params);
		if (r)
			break;
	}
	return r;
}

FAKE_API CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	if (!exec)
		return CUDA_ERROR_INVALID_HANDLE;
	graph_free(exec->graph);
	free(exec);
	return r;
}
