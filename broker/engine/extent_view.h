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
/*
 * Looks at @looks pages spread over @extent, others with each @turn. The serial of those who bound most of the live
 * ones among them last, as far as that is kept: with the scrub policy `never` it is not. *@shared: they were several.
 * 0: none is known.
 */
uint32_t engine_extent_user(const struct engine *e, uint32_t extent, uint32_t looks, uint32_t turn, bool *shared);

#endif
