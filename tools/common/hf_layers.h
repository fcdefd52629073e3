/* SPDX-License-Identifier: Apache-2.0 */
/* hf_layers.h - which layers of a config.json keep K and V, and which of those slide */
#ifndef TOOLS_HF_LAYERS_H
#define TOOLS_HF_LAYERS_H

#include "hf_config.h"
#include "hf_defaults.h"
#include "hf_json.h"

struct hf_layers {
	int64_t window;              /* of the sliding ones; 0: there is none */
	uint8_t kind[HF_MAX_LAYERS]; /* enum wire_group_kind, of the first layers - shared */
};

/* Fills @out, c->layers and c->shared. 0, HF_BAD or HF_UNMAPPABLE with the sentence. */
int hf_layers_read(struct hf_layers *out, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d);

/* Adds a note to @c; what no longer fits is left out. */
__attribute__((format(printf, 2, 3))) void hf_note(struct hf_config *c, const char *format, ...);

#endif
