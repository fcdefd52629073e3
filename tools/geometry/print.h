/* SPDX-License-Identifier: Apache-2.0 */
/* print.h - the sizes of a model's layer groups, for people, for programs and to paste */
#ifndef GEOMETRY_PRINT_H
#define GEOMETRY_PRINT_H

#include <stdio.h>

#include "sizes.h"

void print_text(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z);
/* One object and a line end. */
void print_json(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z);
/* Initialisers of struct swakv_group and struct swakv_model. max_seq is given. */
void print_c(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z);
/* A [model] section of a broker's configuration. max_seq is given. */
void print_ini(FILE *out, const char *path, const struct hf_config *c, const struct sizes *z);

#endif
