/* SPDX-License-Identifier: Apache-2.0 */
/* hf_layers.h - which layers of a config.json keep K and V, and which of those slide over what window */
#ifndef TOOLS_HF_LAYERS_H
#define TOOLS_HF_LAYERS_H

#include "hf_config.h"
#include "hf_defaults.h"
#include "hf_json.h"

enum { HF_KEEPS_NOTHING = 0 }; /* in place of an enum wire_group_kind */

struct hf_layer {
	uint8_t kind;                              /* enum wire_group_kind, or HF_KEEPS_NOTHING */
	int32_t window;                            /* of a sliding one */
	uint16_t kv_heads, k_head_dim, v_head_dim; /* hf_heads.h fills them */
};

struct hf_layers {
	int64_t window; /* of the sliding ones that have none of their own; 0: there is none */
	bool k_is_v;    /* of full ones */
	struct hf_layer layer[HF_MAX_LAYERS];
};

/* Fills @out without heads, c->layers and c->without. 0, HF_BAD or HF_UNMAPPABLE with the sentence. */
int hf_layers_read(struct hf_layers *out, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d);

/* Adds a note to @c; what no longer fits is left out. */
__attribute__((format(printf, 2, 3))) void hf_note(struct hf_config *c, const char *format, ...);

#endif
