/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - which table changes travel with which answer */
#ifndef SWAKV_ENGINE_DELIVERY_H
#define SWAKV_ENGINE_DELIVERY_H

#include "internal.h"

void delivery_reset(struct delivery *d);
/* Columns [first, end) of @row have just been bound, and one of the pages is dirty. */
void delivery_scrub(struct delivery *d, int32_t row, int32_t first, int32_t end);
/* The rows of @r, then the stray rows of its stream. */
void delivery_collect(struct session *s, struct request *r, struct delivery *d);

#endif
