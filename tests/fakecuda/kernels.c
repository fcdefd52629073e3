/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - modules, and the CPU twins in the place of kernels
 *
 * Before a twin runs, every address it is going to touch is looked up: a host
 * pointer, a page outside the pool or a freed array breaks the context here as
 * on a GPU. The parameter block then gets host addresses and goes to the twin.
 * What is a race between the threads of one launch aborts.
 */
#include "kernels.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "paging.h"

struct fake_kernel {
	const char *name;
	size_t bytes;
	bool (*run)(const void *params); /* false: illegal address */
};

/* Host address of an array; `ok` falls when it is out of reach. */
static uint64_t reach(bool *ok, uint64_t device, uint64_t bytes)
{
	if (bytes && !fake_reach(device, bytes)) {
		fprintf(stderr, "fakecuda: illegal address 0x%llx (%llu bytes) in a kernel\n",
			(unsigned long long)device, (unsigned long long)bytes);
		*ok = false;
	}
	return device & ~FAKE_TAG;
}

#define APPLY_FEW_BYTES offsetof(struct kernel_apply, updates[KERNEL_APPLY_MAX])

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void refuse_twice(const struct kernel_apply *p)
{
	uint32_t cells[KERNEL_APPLY_MOST];

	for (uint32_t i = 0; i < p->n_updates; i++)
		cells[i] = p->updates[i].cell;
	qsort(cells, p->n_updates, sizeof(cells[0]), by_number);
	for (uint32_t i = 1; i < p->n_updates; i++) {
		if (cells[i] == cells[i - 1])
			fake_die("swakv_apply: cell %u twice in one launch, by threads without order", cells[i]);
	}
}

static bool run_apply_most(const void *params, size_t bytes, uint32_t most)
{
	struct kernel_apply p;
	bool ok = true;

	memcpy(&p, params, bytes);
	if (p.n_updates > most)
		fake_die("swakv_apply: %u updates, at most %u", p.n_updates, most);
	for (uint32_t i = 0; i < p.n_updates; i++) {
		uint64_t row = p.updates[i].cell / (uint32_t)p.width, column = p.updates[i].cell % (uint32_t)p.width;
		uint64_t rows = p.joined ? row : 2 * row;

		for (; rows <= (p.joined ? row : 2 * row + 1); rows++)
			reach(&ok, p.table + (rows * (uint32_t)p.width + column) * sizeof(int32_t), sizeof(int32_t));
	}
	refuse_twice(&p);
	p.table &= ~FAKE_TAG;
	if (ok)
		kernel_apply_cpu(&p);
	return ok;
}

static bool run_apply(const void *params)
{
	return run_apply_most(params, APPLY_FEW_BYTES, KERNEL_APPLY_MAX);
}

static bool run_apply_many(const void *params)
{
	return run_apply_most(params, sizeof(struct kernel_apply), KERNEL_APPLY_MOST);
}

/*
 * Checks the row of @slot and the pages of columns [@first, @end) in layer @layer;
 * *@g has host addresses but for the bases.
 */
static bool pages_in_reach(const struct kernel_pages *g, int32_t slot, int64_t first, int64_t end, int32_t layer)
{
	/* From the first vector's first byte to the last one's last. */
	uint64_t k_bytes = paging_k(g, g->page_tokens - 1, g->kv_heads - 1) + paging_bytes(g, g->k_head_dim);
	uint64_t v_bytes = paging_v(g, g->page_tokens - 1, g->kv_heads - 1) + paging_bytes(g, g->v_head_dim);
	const int32_t *row = paging_row(g, slot);
	bool ok = true;
	int32_t k, v;

	reach(&ok, (uint64_t)(uintptr_t)row | FAKE_TAG, (uint64_t)g->width * (g->joined ? 1 : 2) * sizeof(int32_t));
	for (int64_t c = first; ok && c < end; c++) {
		if (!paging_lookup(g, row, c, &k, &v))
			continue;
		reach(&ok, paging_layer(g, g->k, k, layer), k_bytes);
		reach(&ok, paging_layer(g, g->v, v, layer), v_bytes);
		if (g->dtype == KERNEL_FP8)
			reach(&ok, paging_layer(g, g->scales, k, layer), paging_scales(g, 2, 0));
	}
	return ok;
}

static void bases_to_host(struct kernel_pages *g)
{
	g->half[0] &= ~FAKE_TAG;
	g->half[1] &= ~FAKE_TAG;
	g->k &= ~FAKE_TAG;
	g->v &= ~FAKE_TAG;
	g->scales &= ~FAKE_TAG;
}

/* All bytes of the @n pages in @list. */
static bool whole_pages_in_reach(const struct kernel_pages *g, const int32_t *list, int32_t n)
{
	bool ok = true;

	for (int32_t i = 0; ok && i < n; i++) {
		reach(&ok, paging_half(g, 0, list[i]), g->page_stride);
		if (!g->joined)
			reach(&ok, paging_half(g, 1, list[i]), g->page_stride);
	}
	return ok;
}

static bool run_kv_write(const void *params)
{
	struct kernel_kv_write p;
	const int32_t *slots;
	const int64_t *positions;
	uint64_t n, heads;
	bool ok = true;

	memcpy(&p, params, sizeof(p));
	n = (uint64_t)p.n_tokens;
	p.slots = reach(&ok, p.slots, n * sizeof(*slots));
	p.positions = reach(&ok, p.positions, n * sizeof(*positions));
	heads = n * (uint64_t)p.pages.kv_heads;
	p.k = reach(&ok, p.k, heads * paging_bytes(&p.pages, p.pages.k_head_dim));
	p.v = reach(&ok, p.v, heads * paging_bytes(&p.pages, p.pages.v_head_dim));
	if (p.pages.dtype == KERNEL_FP8) {
		p.k_scales = reach(&ok, p.k_scales, heads * sizeof(float));
		p.v_scales = reach(&ok, p.v_scales, heads * sizeof(float));
	}
	p.pages.table = reach(&ok, p.pages.table, sizeof(int32_t));
	slots = (const int32_t *)(uintptr_t)p.slots;
	positions = (const int64_t *)(uintptr_t)p.positions;
	for (uint64_t i = 0; ok && i < n; i++) {
		int64_t column = positions[i] / p.pages.page_tokens;

		if (slots[i] >= 0 && positions[i] >= 0)
			ok = pages_in_reach(&p.pages, slots[i], column, column + 1, p.layer);
	}
	bases_to_host(&p.pages);
	if (ok)
		kernel_kv_write_cpu(&p);
	return ok;
}

static bool run_attention(const void *params)
{
	struct kernel_attention p;
	const int32_t *slots;
	const int64_t *endpoints;
	uint64_t n, heads;
	bool ok = true;

	memcpy(&p, params, sizeof(p));
	n = (uint64_t)p.n;
	heads = n * (uint64_t)p.q_heads;
	p.slots = reach(&ok, p.slots, n * sizeof(*slots));
	p.endpoints = reach(&ok, p.endpoints, n * sizeof(*endpoints));
	p.q = reach(&ok, p.q, heads * (uint64_t)p.pages.k_head_dim * sizeof(float));
	p.out = reach(&ok, p.out, heads * (uint64_t)p.pages.v_head_dim * sizeof(float));
	if (p.sinks)
		p.sinks = reach(&ok, p.sinks, (uint64_t)p.q_heads * sizeof(float));
	if (p.n_splits > 1)
		reach(&ok, p.workspace,
		      heads * (uint64_t)p.n_splits * (uint64_t)(p.pages.v_head_dim + 2) * sizeof(float));
	p.pages.table = reach(&ok, p.pages.table, sizeof(int32_t));
	slots = (const int32_t *)(uintptr_t)p.slots;
	endpoints = (const int64_t *)(uintptr_t)p.endpoints;
	for (uint64_t i = 0; ok && i < n; i++) {
		int64_t begin = endpoints[i] > p.window ? endpoints[i] - p.window : 0, tokens = p.pages.page_tokens;

		if (slots[i] >= 0 && endpoints[i] > 0)
			ok = pages_in_reach(&p.pages, slots[i], begin / tokens, (endpoints[i] + tokens - 1) / tokens,
					    p.layer);
	}
	bases_to_host(&p.pages);
	if (ok)
		kernel_attention_cpu(&p);
	return ok;
}

static bool run_fill(const void *params)
{
	struct kernel_fill p;
	const int32_t *list;
	bool ok = true;

	memcpy(&p, params, sizeof(p));
	p.page_list = reach(&ok, p.page_list, (uint64_t)p.n_pages * sizeof(*list));
	list = (const int32_t *)(uintptr_t)p.page_list;
	ok = ok && whole_pages_in_reach(&p.pages, list, p.n_pages);
	bases_to_host(&p.pages);
	if (ok)
		kernel_fill_cpu(&p);
	return ok;
}

/* The splits' twin writes whole rows: nothing is left to join. */
static bool run_join(const void *params)
{
	return params != NULL;
}

static bool run_copy(const void *params)
{
	struct kernel_copy p;
	bool ok = true;

	memcpy(&p, params, sizeof(p));
	p.from_list = reach(&ok, p.from_list, (uint64_t)p.n_pages * sizeof(int32_t));
	p.to_list = reach(&ok, p.to_list, (uint64_t)p.n_pages * sizeof(int32_t));
	ok = ok && whole_pages_in_reach(&p.pages, (const int32_t *)(uintptr_t)p.from_list, p.n_pages) &&
	     whole_pages_in_reach(&p.pages, (const int32_t *)(uintptr_t)p.to_list, p.n_pages);
	bases_to_host(&p.pages);
	if (ok)
		kernel_copy_cpu(&p);
	return ok;
}

static bool run_check(const void *params)
{
	struct kernel_check p;
	const int32_t *list;
	uint64_t n;
	bool ok = true;

	memcpy(&p, params, sizeof(p));
	n = (uint64_t)p.n_pages;
	p.page_list = reach(&ok, p.page_list, n * sizeof(*list));
	p.patterns = reach(&ok, p.patterns, n * sizeof(uint16_t));
	p.counts = reach(&ok, p.counts, n * sizeof(uint32_t));
	list = (const int32_t *)(uintptr_t)p.page_list;
	ok = ok && whole_pages_in_reach(&p.pages, list, p.n_pages);
	bases_to_host(&p.pages);
	if (ok)
		kernel_check_cpu(&p);
	return ok;
}

static bool run_empty(const void *params)
{
	return true;
}

static bool run_scrub_most(const void *params, size_t bytes, int32_t most)
{
	struct kernel_scrub p;
	bool ok = true;

	memcpy(&p, params, bytes);
	if (p.n_pages > most)
		fake_die("swakv_scrub: %d pages, at most %d", p.n_pages, most);
	ok = whole_pages_in_reach(&p.pages, p.list, p.n_pages);
	bases_to_host(&p.pages);
	if (ok)
		kernel_scrub_cpu(&p);
	return ok;
}

static bool run_scrub(const void *params)
{
	return run_scrub_most(params, sizeof(struct kernel_scrub), KERNEL_SCRUB_MAX);
}

#define SCRUB_FEW_BYTES offsetof(struct kernel_scrub, list[KERNEL_SCRUB_FEW])

static bool run_scrub_few(const void *params)
{
	return run_scrub_most(params, SCRUB_FEW_BYTES, KERNEL_SCRUB_FEW);
}

static bool run_count(const void *params)
{
	struct kernel_count p;
	bool ok = true;

	memcpy(&p, params, sizeof(p));
	p.counter = reach(&ok, p.counter, sizeof(uint64_t));
	p.word = reach(&ok, p.word, sizeof(uint64_t));
	/* As a stream write: the line is armed before, and the armed word lies behind the one that is written. */
	if (ok && fake_number("FAKECUDA_CHECK_ARMED", 0) &&
	    ((const uint64_t *)(uintptr_t)p.word)[1] < *(const uint64_t *)(uintptr_t)p.counter + 1)
		fake_die("swakv_count to %llu while the armed word holds %llu: a line is armed before the launch",
			 (unsigned long long)(*(const uint64_t *)(uintptr_t)p.counter + 1),
			 (unsigned long long)((const uint64_t *)(uintptr_t)p.word)[1]);
	if (ok)
		kernel_count_cpu(&p);
	return ok;
}

/* The updates go through the twin of the plain apply, which knows what they must not be. */
static bool run_apply_ring(const void *params)
{
	struct kernel_apply apply = { .n_updates = 0 };
	const struct kernel_ring_buffer *b;
	struct kernel_apply_ring p;
	bool ok = true;
	uint64_t step;

	memcpy(&p, params, sizeof(p));
	p.counter = reach(&ok, p.counter, sizeof(uint64_t));
	p.ring = reach(&ok, p.ring, p.n_buffers * sizeof(*b));
	if (!ok)
		return false;
	step = *(const uint64_t *)(uintptr_t)p.counter + 1;
	b = (const struct kernel_ring_buffer *)(uintptr_t)p.ring + step % p.n_buffers;
	if (__atomic_load_n(&b->step, __ATOMIC_ACQUIRE) != step)
		return true;
	apply.table = p.table;
	apply.width = p.width;
	apply.num_pages = p.num_pages;
	apply.joined = p.joined;
	apply.n_updates = b->n_updates;
	memcpy(apply.updates, b->updates, sizeof(b->updates));
	return run_apply(&apply);
}

static const struct fake_kernel kernels[] = {
	{ KERNEL_NAME_APPLY, APPLY_FEW_BYTES, run_apply },
	{ KERNEL_NAME_KV_WRITE, sizeof(struct kernel_kv_write), run_kv_write },
	{ KERNEL_NAME_ATTENTION, sizeof(struct kernel_attention), run_attention },
	{ KERNEL_NAME_FILL, sizeof(struct kernel_fill), run_fill },
	{ KERNEL_NAME_COPY, sizeof(struct kernel_copy), run_copy },
	{ KERNEL_NAME_JOIN, sizeof(struct kernel_attention), run_join },
	{ KERNEL_NAME_CHECK, sizeof(struct kernel_check), run_check },
	{ KERNEL_NAME_EMPTY, 0, run_empty },
	{ KERNEL_NAME_SCRUB, sizeof(struct kernel_scrub), run_scrub },
	{ KERNEL_NAME_SCRUB_FEW, SCRUB_FEW_BYTES, run_scrub_few },
	{ KERNEL_NAME_MANY, sizeof(struct kernel_apply), run_apply_many },
	{ KERNEL_NAME_COPY_ODD, sizeof(struct kernel_copy), run_copy },
	{ KERNEL_NAME_COUNT, sizeof(struct kernel_count), run_count },
	{ KERNEL_NAME_RING, sizeof(struct kernel_apply_ring), run_apply_ring },
	/* One twin stands for every form of the attention kernel. */
	{ KERNEL_NAME_ATTENTION "_f16_d64", sizeof(struct kernel_attention), run_attention },
	{ KERNEL_NAME_ATTENTION "_f16_d128", sizeof(struct kernel_attention), run_attention },
	{ KERNEL_NAME_ATTENTION "_f16_d256", sizeof(struct kernel_attention), run_attention },
	{ KERNEL_NAME_ATTENTION "_bf16_d64", sizeof(struct kernel_attention), run_attention },
	{ KERNEL_NAME_ATTENTION "_bf16_d128", sizeof(struct kernel_attention), run_attention },
	{ KERNEL_NAME_ATTENTION "_bf16_d256", sizeof(struct kernel_attention), run_attention },
};
#define N_KERNELS (sizeof(kernels) / sizeof(kernels[0]))

const struct fake_kernel *fake_kernel_find(const char *name)
{
	for (size_t i = 0; i < N_KERNELS; i++) {
		if (strcmp(kernels[i].name, name) == 0)
			return &kernels[i];
	}
	return NULL;
}

bool fake_kernel_valid(const void *handle)
{
	for (size_t i = 0; i < N_KERNELS; i++) {
		if (handle == &kernels[i])
			return true;
	}
	return false;
}

/* Dynamic shared memory that each kernel may have: raised by cuFuncSetAttribute(). */
static _Atomic uint32_t shared_most[N_KERNELS];

uint32_t fake_kernel_shared(const struct fake_kernel *k)
{
	uint32_t most = shared_most[k - kernels];

	return most > 48u << 10 ? most : 48u << 10;
}

size_t fake_kernel_bytes(const struct fake_kernel *k)
{
	return k->bytes;
}

const char *fake_kernel_name(const struct fake_kernel *k)
{
	return k->name;
}

void fake_kernel_run(const struct fake_kernel *k, const void *params)
{
	if (!k->run(params)) {
		fprintf(stderr, "fakecuda: kernel %s: the context is lost\n", k->name);
		fake_break_context(CUDA_ERROR_ILLEGAL_ADDRESS);
	}
}

/* ---- modules ------------------------------------------------------------------------ */

static int module; /* its address is the handle */

FAKE_API CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	if (r)
		return r;
	if (!image)
		return CUDA_ERROR_INVALID_IMAGE;
	*out = (CUmodule)(void *)&module;
	return CUDA_SUCCESS;
}

FAKE_API CUresult CUDAAPI cuModuleUnload(CUmodule m)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);

	if (r)
		return r;
	return (void *)m == &module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE_API CUresult CUDAAPI cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	const struct fake_kernel *k = fake_kernel_find(name);

	if (r)
		return r;
	if ((void *)m != &module)
		return CUDA_ERROR_INVALID_HANDLE;
	*f = (CUfunction)(void *)(uintptr_t)k;
	return k ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* What the attribute of the device says is what a block may have. */
FAKE_API CUresult CUDAAPI cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
	CUresult r = fake_enter(__func__, FAKE_CONTEXT, NULL);
	_Atomic uint32_t *most;

	if (r)
		return r;
	if (!fake_kernel_valid((const void *)f) || attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	if (value < 0 || (uint64_t)value > fake_shared_bytes())
		return CUDA_ERROR_INVALID_VALUE;
	most = &shared_most[(const struct fake_kernel *)(const void *)f - kernels];
	*most = (uint32_t)value;
	return CUDA_SUCCESS;
}
