/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_sizes.h - which page sizes sessions use, and for whom others are kept
 *
 * The engine has ENGINE_MAX_CLASSES page classes, one a size. Those of the
 * [model] sections are there for good, whoever uses them; a section that does not
 * say its layers keeps PAGE_SIZES_UNSAID for the sessions of that name. All other
 * sizes are common, and each user pays for the common ones that it uses. Control
 * thread only; a size counts until its last session is forgotten, which is later
 * than in the engine.
 */
#ifndef SWAKV_BROKER_PAGE_SIZES_H
#define SWAKV_BROKER_PAGE_SIZES_H

#include <stdint.h>
#include <sys/queue.h>

#include "config/config.h"
#include "engine/engine.h"
#include "ledger.h"

#define PAGE_SIZES_UNSAID 2

struct page_size;
struct page_size_user;

struct page_sizes {
	struct ledger *ledger;
	LIST_HEAD(page_size_list, page_size) sizes;
	uint32_t n_kept;     /* for [model] sections */
	uint32_t n_common;   /* in use */
	uint32_t max_common; /* what is not kept */
	uint32_t n_unsaid;
	struct page_sizes_unsaid {
		const char *model; /* the configuration's */
		uint32_t n_left;
	} unsaid[CONFIG_MAX_MODELS];
};

/* One session's use of one size. All zero: none. */
struct page_size_use {
	struct page_sizes *sizes;
	struct page_size *size;
	struct page_size_user *user;
};

/* Keeps what @c's sections want in a pool with halves of @half_bytes. @c and @l are borrowed. 0 or -ENOMEM. */
int page_sizes_init(struct page_sizes *s, struct ledger *l, const struct config *c, uint64_t half_bytes);
/* Every use must have been left. Safe to repeat, and on zeroes. */
void page_sizes_deinit(struct page_sizes *s);
/* A session of @model, of the user @uid, uses pages of @key from now on; *@out is zero when it may not. */
enum ledger_verdict page_size_use(struct page_sizes *s, uid_t uid, const char *model, struct page_key key,
				  struct page_size_use *out);
/* Not any more. Zeroes it; safe to repeat. */
void page_size_leave(struct page_size_use *u);

#endif
