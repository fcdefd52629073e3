/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.h - zeroes over dirty pages, before their first use */
#ifndef SWAKV_CLIENT_SCRUB_H
#define SWAKV_CLIENT_SCRUB_H

#include <stdint.h>

#include "wire.h"

struct swakv_session;

/* 0, or SWAKV_EGONE when a scrub lies outside the tables. */
int scrub_check(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n);
/*
 * Enqueues them, once the mirrors have the rows. 0, SWAKV_ENOMEM, or the code of the
 * stream that failed, with the sentence set.
 */
int scrub_deliver(struct swakv_session *s, const struct wire_scrub *scrubs, uint32_t n);
/* Refuses what would bind pages, once that has failed: SWAKV_EDEVICE. */
int scrub_refuse(struct swakv_session *s);

#endif
