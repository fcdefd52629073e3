/* SPDX-License-Identifier: Apache-2.0 */
/* hf_lists.h - lists in a config.json that say of each layer which attention it has */
#ifndef TOOLS_HF_LISTS_H
#define TOOLS_HF_LISTS_H

#include "hf_layers.h"

/*
 * Fills the kinds of all c->layers layers from the first list that is there; *@found
 * says whether one was. 0, HF_BAD or HF_UNMAPPABLE with the sentence.
 */
int hf_lists_read(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, bool *found);

/*
 * An array with one entry for each layer, or NULL with the sentence. Entries of
 * layers that predict further tokens (num_nextn_predict_layers) may follow.
 */
const json_t *hf_lists_of_layers(const struct hf_json *j, const char *field, uint32_t layers);

/* "FIELD[I] is VALUE, WHAT". Returns @code. */
int hf_lists_refuse(const struct hf_json *j, int code, const char *field, size_t i, const json_t *value,
		    const char *what);

#endif
