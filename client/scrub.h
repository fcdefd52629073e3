/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.h - zeroes over dirty pages, before their first use */
#ifndef SWAKV_CLIENT_SCRUB_H
#define SWAKV_CLIENT_SCRUB_H

#include <stddef.h>
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
/*
 * Enqueues a scrub of @count pages of @group, which are in no row, on stream
 * @stream. 0, or the code of the stream, with the sentence set.
 */
int scrub_pages_of(struct swakv_session *s, uint32_t stream, uint32_t group, const int32_t *pages, size_t count);
/* Refuses what would bind pages, once that has failed: SWAKV_EDEVICE. */
int scrub_refuse(struct swakv_session *s);

#endif
