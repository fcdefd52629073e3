/* SPDX-License-Identifier: Apache-2.0 */
/* show_moves.h - extents that come empty, pages that move for that, why others do not: as JSON and in the table */
#ifndef SWAKV_STATUS_SHOW_MOVES_H
#define SWAKV_STATUS_SHOW_MOVES_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "status_page.h"

struct view;

/* Extents that were passed over, by the reason; those of which there are none are left out. @of: [STAY_COUNT]. */
json_t *stays_json(const uint32_t *of);
/* {pages, bytes, no_place, emptying_extents, to_move}: of all classes and sessions. */
json_t *moves_json(const struct status_snapshot *snap);
/* Lines of what has moved, of classes with extents that are to come empty, and of sessions; or none. */
void moves_write(FILE *out, const struct view *v, const struct status_snapshot *s);
/* A line of one session, where it has pages to move or keeps others from it. */
void session_moves_write(FILE *out, const struct status_session *x);

#endif
