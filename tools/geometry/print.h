/* SPDX-License-Identifier: Apache-2.0 */
/* print.h - the sizes of a model's layer groups, for people and for programs */
#ifndef GEOMETRY_PRINT_H
#define GEOMETRY_PRINT_H

#include <stdio.h>

#include "sizes.h"

void print_text(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z);
/* One object and a line end. */
void print_json(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z);

#endif
