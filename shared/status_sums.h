/* SPDX-License-Identifier: Apache-2.0 */
/* status_sums.h - what must add up in every snapshot (spec section 4): looked at by the broker, and by its readers */
#ifndef SWAKV_STATUS_SUMS_H
#define SWAKV_STATUS_SUMS_H

#include <stdbool.h>
#include <stddef.h>

#include "status_page.h"

/* Pages that all sessions of model @m hold in class @class. Indices in @s are possible ones. */
int64_t status_model_pages(const struct status_snapshot *s, const struct status_model *m, uint32_t class);
/*
 * True when bytes and pages add up, and what sessions hold is what the classes
 * have out; else @why says what does not. Where not all sessions are listed,
 * their share is not looked at.
 */
bool status_sums_hold(const struct status_snapshot *s, char *why, size_t size);

#endif
