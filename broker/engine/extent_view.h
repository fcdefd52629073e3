/* SPDX-License-Identifier: Apache-2.0 */
/* extent_view.h - what can be seen of an extent: how full it is, and whose pages are in it */
#ifndef SWAKV_ENGINE_EXTENT_VIEW_H
#define SWAKV_ENGINE_EXTENT_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct session;

struct extent_view {
	int32_t page_class; /* its index, -1: none has it; then there are no pages */
	uint32_t live;      /* pages leased or in quarantine that touch it */
	uint32_t quarantined;
	uint32_t free; /* pages that start in it */
	bool emptying; /* what lives in it is to move */
	bool claimed;  /* kept for a request that has waited long */
};

/* Extents of each half. */
uint32_t engine_extents(const struct engine *e);
/* @extent is one of them. */
void engine_extent_view(const struct engine *e, uint32_t extent, struct extent_view *out);

/* Names @group of @s in every pool that it was ever in; never 0. */
uint32_t session_serial(const struct session *s, uint32_t group);
/* Of the pages that were looked at: serials of those who bound them last; 0: none is known. */
struct extent_users {
	uint32_t most; /* of most of them, where anybody has most */
	uint32_t lowest, highest;
};
/*
 * Looks at @looks pages spread over @extent, others with each @turn, as far as they are live. With the scrub policy
 * `never` nobody is known. The groups of a session have serials that follow each other.
 */
struct extent_users engine_extent_users(const struct engine *e, uint32_t extent, uint32_t looks, uint32_t turn);

#endif
