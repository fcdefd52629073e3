/* SPDX-License-Identifier: Apache-2.0 */
/* status_sums.h - what must add up in every snapshot (spec section 4): looked at by the broker, and by its readers */
#ifndef SWAKV_STATUS_SUMS_H
#define SWAKV_STATUS_SUMS_H

#include <stdbool.h>
#include <stddef.h>

#include "status_page.h"

/* Pages that sessions manage themselves, over all their groups. */
struct status_managed {
	int64_t managed, offered, wanted;
	uint64_t since_ns; /* when the first was asked that still is, 0: none */
};
struct status_managed status_session_managed(const struct status_session *x);
struct status_managed status_model_managed(const struct status_snapshot *s, const struct status_model *m);

/* Pages that all sessions of model @m hold in class @class. Indices in @s are possible ones. */
int64_t status_model_pages(const struct status_snapshot *s, const struct status_model *m, uint32_t class);
/*
 * True when bytes and pages add up, and what sessions hold is what the classes
 * have out; else @why says what does not. Where not all sessions are listed,
 * their share is not looked at.
 */
bool status_sums_hold(const struct status_snapshot *s, char *why, size_t size);

/*
 * Bytes, K and V, that the sessions of @m hold: of pages in rows of sequences (or on their way out of them), reserved
 * for sequences and in no row, managed by the sessions themselves, and in quarantine.
 */
struct status_bytes {
	uint64_t bound, reserved, managed, quarantined;
};
struct status_bytes status_model_bytes(const struct status_snapshot *s, const struct status_model *m);

#endif
