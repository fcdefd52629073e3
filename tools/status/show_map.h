/* SPDX-License-Identifier: Apache-2.0 */
/* show_map.h - the pool extent by extent, and what happened last, as JSON and for people */
#ifndef SWAKV_STATUS_SHOW_MAP_H
#define SWAKV_STATUS_SHOW_MAP_H

#include <stdio.h>

#include <jansson.h>

#include "sample.h"

/* The values of the keys "map" and "events" (swakv-status(1)). The caller owns them. */
json_t *map_json(const struct status_snapshot *s);
json_t *events_json(const struct sample *s);
/* A character an extent; a line an event, the newest last. */
void map_write(FILE *out, const struct status_snapshot *s);
void events_write(FILE *out, const struct sample *s);

#endif
