/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_hands.h - the process of a block engine that reads and writes its pages
 *
 * It joins the session of the process that plans, and is told by a pipe what to do:
 * it fills pages with their contents, on a stream of its own, and compares them.
 * When the other end of that pipe is gone, it goes on writing and comparing what it
 * was told of last, for as long as it lives: nobody else may have those pages.
 */
#ifndef SWAKV_TESTS_PAGE_HANDS_H
#define SWAKV_TESTS_PAGE_HANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

enum { PLAN_STREAM, HANDS_STREAM, N_STREAMS }; /* each of one process */

enum hands_order {
	HANDS_WRITE,  /* each page gets its content */
	HANDS_CHECK,  /* each page is compared with its content */
	HANDS_FORGET, /* the pages are about to be given back */
	HANDS_LEAVE,
};

struct hands_page {
	int32_t page;
	uint32_t content; /* every word of it */
};

/* Then its pages. Its stream comes behind @after, which is of the other process's. */
struct hands_head {
	enum hands_order order;
	uint32_t n;
	struct swakv_fence after;
};

struct hands_answer {
	uint32_t n_wrong; /* pages that were compared and differ */
	int32_t wrong;    /* one of them */
	struct swakv_fence fence;
};

/* What both processes attach with. */
struct engine_setup {
	const char *broker, *name;
	struct swakv_model model;
	struct swakv_group group;
};

/* Reads or writes all of it. False: the other end is gone. */
bool pipe_read(int fd, void *p, size_t size);
bool pipe_write(int fd, const void *p, size_t size);

/* The whole life of the process: a token comes by @orders first. */
_Noreturn void hands_live(const struct engine_setup *setup, int orders, int answers);

#endif
