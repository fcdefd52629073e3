/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - device work that goes through a page table, on CPU and GPU
 *
 * Each kernel takes one parameter block by value. The CUDA kernel of the same
 * name (table.cu, engine.cu) and its CPU twin here read the same block, so a driver
 * that runs twins can stand in for a GPU. Addresses are what the executing
 * side dereferences; all byte offsets are 64-bit.
 */
#ifndef SWAKV_KERNELS_H
#define SWAKV_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* FP8 is e4m3, and each vector of one token and head has a scale: an element is worth its number times that. */
enum kernel_dtype { KERNEL_F16 = 1, KERNEL_BF16 = 2, KERNEL_F32 = 3, KERNEL_FP8 = 4 };

/* ---- table apply: one launch, updates in the parameters ------------------ */

#define KERNEL_APPLY_MAX  500  /* in the classic 4 KiB of parameters: a launch copies all that its kernel takes */
#define KERNEL_APPLY_MOST 4000 /* in the 32,764 bytes of them that there are since CUDA 12.1 */

struct kernel_update {
	uint32_t cell; /* row * width + column */
	int32_t page;  /* K id, -1: empty */
};
/*
 * table is int32 [max_batch][2][width]; K half of a row, then V half = K + num_pages, or -1. Of joined pages it is
 * [max_batch][1][width]. A cell comes at most once: the threads of a launch have no order.
 */
struct kernel_apply {
	uint64_t table;
	int32_t width;
	int32_t num_pages;
	uint32_t n_updates;
	uint32_t joined; /* not 0: pages that have one id */
	struct kernel_update updates[KERNEL_APPLY_MOST];
};
void kernel_apply_cpu(const struct kernel_apply *p);

/* ---- where the pages lie -------------------------------------------------- */

/*
 * Split pages have a half each for K and V, a half of the pool apart, and two
 * ids: V id = K id + num_pages. Joined pages have one id and one run of bytes.
 * Nothing here follows from anything else: K, V, and all strides are where the
 * layout says. Strides are in bytes. What a kernel does not look at may be 0:
 * those of whole pages use half, page_stride, num_pages and joined.
 */
struct kernel_pages {
	uint64_t table;       /* int32 [max_batch][2][width]: K ids, then V ids; joined: [max_batch][1][width] */
	uint64_t half[2];     /* first byte of page 0's K half, and of its V half; joined: of the page, and 0 */
	uint64_t k, v;        /* layer 0 of page 0 */
	uint64_t scales;      /* FP8: likewise, float [2][page_tokens][kv_heads], of K, then of V */
	uint64_t page_stride; /* also the bytes of a half, or of a joined page */
	uint64_t layer_stride;
	uint64_t k_token, v_token; /* from token to token */
	uint64_t k_head, v_head;   /* from head to head */
	int32_t width;
	int32_t num_pages;
	int32_t page_tokens; /* power of two */
	int32_t kv_heads;
	int32_t k_head_dim;
	int32_t v_head_dim;
	int32_t dtype;  /* enum kernel_dtype */
	int32_t joined; /* not 0: pages are joined */
};

/* Sets the strides of tokens and heads in rows without gaps: heads side by side, tokens one behind the other. */
void kernel_pages_rows(struct kernel_pages *g);

/* ---- KV write: rows of K and V into the pages the table names -------------- */

/*
 * Token i (of n_tokens) goes to row slots[i], absolute position positions[i],
 * layer `layer`. k is [n_tokens][kv_heads][k_head_dim], v likewise, in the
 * pages' dtype; k_scales and v_scales, of FP8 only, are float [n_tokens][kv_heads].
 * A token whose table entry is -1, or whose slot is negative, is skipped.
 */
struct kernel_kv_write {
	struct kernel_pages pages;
	uint64_t slots;     /* const int32 * */
	uint64_t positions; /* const int64 * */
	uint64_t k;
	uint64_t v;
	uint64_t k_scales;
	uint64_t v_scales;
	int32_t n_tokens;
	int32_t layer;
};
void kernel_kv_write_cpu(const struct kernel_kv_write *p);

/* ---- paged sliding-window decode attention ---------------------------------- */

/*
 * Row i attends with its q_heads query heads over positions
 * [max(0, endpoints[i] - window), endpoints[i]) of slot slots[i]; the query is
 * the token at endpoints[i] - 1. q and out are float [n][q_heads][head_dim of K
 * / of V]. Query head h reads kv head h / (q_heads / kv_heads). Rows with
 * endpoint 0 or slot < 0 give zeros. A table entry of -1 inside the window
 * gives NaN for the row: the caller's table is wrong, and it must show.
 */
struct kernel_attention {
	struct kernel_pages pages;
	uint64_t slots;     /* const int32 * */
	uint64_t endpoints; /* const int64 * */
	uint64_t q;         /* const float * */
	uint64_t out;       /* float * */
	uint64_t sinks; /* const float [q_heads]: a logit a head that joins the softmax's sum and nothing else; 0: none
			 */
	uint64_t workspace; /* of the splits, see kernel_attention_plan(); 0 when n_splits is 0 or 1 */
	int64_t window;     /* tokens; INT64_MAX: full attention */
	int64_t longest;    /* greatest endpoint of the batch, only to plan splits; 0: not known */
	float scale;        /* of q.k, usually 1/sqrt(head_dim) */
	float soft_cap;     /* > 0: a score x becomes soft_cap * tanh(x / soft_cap) */
	int32_t n;
	int32_t q_heads;
	int32_t layer;
	int32_t n_splits; /* parts the window of a row is shared out in; 0 is 1 */
};
void kernel_attention_cpu(const struct kernel_attention *p);

/*
 * Sets p->n_splits so that a small batch fills a GPU, too; returns the bytes
 * that p->workspace must have on the device then, 0 when it needs none. Launches
 * that share a workspace must be on one stream. The CPU twin ignores both.
 */
uint64_t kernel_attention_plan(struct kernel_attention *p);

/* ---- fill: 16-bit pattern over pages (poison with NaN, scrub with 0) --------- */

/*
 * Fills each page of page_list (const int32 *, K ids) with all that it has. Bytes
 * at even addresses get the pattern's lower half, those at odd ones the upper.
 */
struct kernel_fill {
	struct kernel_pages pages;
	uint64_t page_list;
	int32_t n_pages;
	uint16_t pattern;
	uint16_t reserved;
};
void kernel_fill_cpu(const struct kernel_fill *p);

/* ---- scrub: zeroes over pages, their ids in the parameters ---------------------- */

#define KERNEL_SCRUB_MAX 8000 /* as above */
#define KERNEL_SCRUB_FEW 960  /* in the classic 4 KiB */

/* As a fill with 0; nothing needs to outlive the launch. */
struct kernel_scrub {
	struct kernel_pages pages;
	int32_t n_pages;
	int32_t list[KERNEL_SCRUB_MAX]; /* K ids */
};
void kernel_scrub_cpu(const struct kernel_scrub *p);

/* ---- counting up, and table apply, inside a captured graph ------------------------ */

/*
 * The word of a timeline counts the steps of its stream. A value that is fixed
 * when a graph is captured cannot, so the device counts: *counter += 1, and the
 * new count goes to *word, visible to the host after all earlier work.
 */
struct kernel_count {
	uint64_t counter; /* uint64_t * in device memory */
	uint64_t word;    /* uint64_t * in registered host memory */
};
void kernel_count_cpu(const struct kernel_count *p);

/* Updates of one step, written by the host before the graph is launched; `step` last. */
struct kernel_ring_buffer {
	uint64_t step; /* whose updates these are: buffer step % n_buffers */
	uint32_t n_updates;
	uint32_t reserved;
	struct kernel_update updates[KERNEL_APPLY_MAX];
};

/*
 * As an apply, with the updates of step *counter + 1 from its buffer of the
 * ring. A buffer that is about another step means that this one has none. Without a
 * twin: with the buffer known it is an apply.
 */
struct kernel_apply_ring {
	uint64_t table;
	uint64_t ring;    /* struct kernel_ring_buffer [n_buffers], in registered host memory */
	uint64_t counter; /* of the stream */
	int32_t width;
	int32_t num_pages;
	uint32_t n_buffers;
	uint32_t joined; /* as in an apply */
};

/* ---- copy: whole pages, K and V, all layers ----------------------------------- */

/* Page from_list[i] to page to_list[i] (const int32 *, K ids); no page may be both read and written. */
struct kernel_copy {
	struct kernel_pages pages;
	uint64_t from_list;
	uint64_t to_list;
	int32_t n_pages;
	int32_t reserved;
};
void kernel_copy_cpu(const struct kernel_copy *p);

/* ---- check: do pages hold their pattern and nothing else? ----------------------- */

/*
 * Adds to counts[i] the 16-bit elements of page page_list[i], K and V, all layers, that are not patterns[i]. Pages of
 * an even number of bytes only.
 */
struct kernel_check {
	struct kernel_pages pages;
	uint64_t page_list; /* const int32 *, K ids */
	uint64_t patterns;  /* const uint16 * */
	uint64_t counts;    /* uint32 * */
	int32_t n_pages;
	int32_t reserved;
};
void kernel_check_cpu(const struct kernel_check *p);

/*
 * Bytes of a page that one block fills, copies or checks at a time, and the
 * threads of a block that fills and copies.
 */
#define KERNEL_PIECE        (64u << 10)
#define KERNEL_FILL_THREADS 1024u
#define KERNEL_COPY_THREADS 512u

/* ---- element conversion (round to nearest even) ----------------------------- */

float half_to_float(uint16_t h);
uint16_t float_to_half(float f);
float bf16_to_float(uint16_t h);
uint16_t float_to_bf16(float f);
/* e4m3: no infinities; what is greater than 448 becomes that. */
float fp8_to_float(uint8_t e);
uint8_t float_to_fp8(float f);

/* ---- CUDA ------------------------------------------------------------------- */

/* Names of the CUDA kernels. */
#define KERNEL_NAME_APPLY     "swakv_apply" /* at most KERNEL_APPLY_MAX updates */
#define KERNEL_NAME_MANY      "swakv_apply_many"
#define KERNEL_NAME_KV_WRITE  "swakv_kv_write"
#define KERNEL_NAME_ATTENTION "swakv_attention" /* any geometry; its quicker forms have names that begin like this */
#define KERNEL_NAME_JOIN      "swakv_attention_join"
#define KERNEL_NAME_FILL      "swakv_fill"
#define KERNEL_NAME_COPY      "swakv_copy" /* pages of a multiple of 16 bytes */
#define KERNEL_NAME_COPY_ODD  "swakv_copy_odd"
#define KERNEL_NAME_CHECK     "swakv_check"
#define KERNEL_NAME_EMPTY     "swakv_empty" /* no parameters, does nothing: what a launch costs at least */
#define KERNEL_NAME_SCRUB     "swakv_scrub"
#define KERNEL_NAME_SCRUB_FEW "swakv_scrub_few" /* the same with at most KERNEL_SCRUB_FEW ids */
#define KERNEL_NAME_COUNT     "swakv_count"
#define KERNEL_NAME_RING      "swakv_apply_ring"

#ifdef __cplusplus
}
#endif
#endif
