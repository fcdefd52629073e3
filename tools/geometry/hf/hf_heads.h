/* SPDX-License-Identifier: Apache-2.0 */
/* hf_heads.h - heads of K and V of each layer of a config.json, and their sizes */
#ifndef TOOLS_HF_HEADS_H
#define TOOLS_HF_HEADS_H

#include "hf_layers.h"

/* Fills the heads of all c->layers layers, of which kinds and windows are there. 0, HF_BAD or HF_UNMAPPABLE. */
int hf_heads_read(struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d);

#endif
