/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - sizes: how a pool is cut, and whether a model's longest sequence fits */
#ifndef SWAKV_BROKER_PLAN_H
#define SWAKV_BROKER_PLAN_H

#include <stdint.h>
#include <stdio.h>

#include "backend.h"
#include "config/config.h"

/*
 * Cuts a pool as @c says; @free_bytes is what a percentage refers to. 0, or an
 * enum exit_code with the sentence in @why.
 */
int plan_pool(struct backend_pool *pool, const struct config *c, uint64_t free_bytes, char why[BACKEND_WHY]);

/*
 * Whether the floors of @c are there together in @pool, in whole extents. 0, or
 * EXIT_CODE_CONFIG with the sentence in @why.
 */
int plan_floors(const struct backend_pool *pool, const struct config *c, char why[BACKEND_WHY]);
/*
 * What can be said of @c without a device: all of that, unless the size is a
 * percentage, of which @pool keeps 0 bytes. 0 with the sizes in @pool, or
 * EXIT_CODE_CONFIG with the sentence in @why.
 */
int plan_check(const struct config *c, struct backend_pool *pool, char why[BACKEND_WHY]);

/*
 * Writes to @out what would be allocated, and for each configured model whether
 * one maximal sequence fits, and its bytes. Returns EXIT_CODE_POOL when one does
 * not, else 0.
 */
int plan_print(const struct backend_pool *pool, const struct config *c, FILE *out);

/* How much of a table area one session may have. */
uint64_t plan_table_share(uint64_t table_area_bytes);

#endif
