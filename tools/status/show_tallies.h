/* SPDX-License-Identifier: Apache-2.0 */
/* show_tallies.h - what models and sessions have done, and how long it took, in each of the ways to write it */
#ifndef SWAKV_STATUS_SHOW_TALLIES_H
#define SWAKV_STATUS_SHOW_TALLIES_H

#include <jansson.h>
#include <stdio.h>

#include "status_page.h"

struct exposition;

/* {tokens, pages}: of a session, or of a model. */
json_t *totals_json(const struct status_totals *t);
/* An array of models. */
json_t *tallies_json(const struct status_snapshot *s);
void tallies_expose(struct exposition *e, const struct status_snapshot *s);
/* A table, nothing when there is no model. */
void tallies_write(FILE *out, const struct status_snapshot *s);

#endif
