/* SPDX-License-Identifier: Apache-2.0 */
/* hf_blocks.h - block_configs of a config.json: what a search left of the attention of each layer */
#ifndef TOOLS_HF_BLOCKS_H
#define TOOLS_HF_BLOCKS_H

#include "hf_layers.h"

/*
 * Kinds and windows of all c->layers layers; *@found says whether the file has such blocks. 0, HF_BAD or HF_UNMAPPABLE
 * with the sentence.
 */
int hf_blocks_read(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, bool *found);

/* KV heads of those that keep any, of @heads attention heads. 0 or HF_BAD. Without blocks nothing is changed. */
int hf_blocks_read_heads(struct hf_layers *l, const struct hf_config *c, const struct hf_json *j, int64_t heads);

#endif
