/* SPDX-License-Identifier: Apache-2.0 */
/* hf_shared.h - layers of a config.json that read the K and V of another layer and keep none */
#ifndef TOOLS_HF_SHARED_H
#define TOOLS_HF_SHARED_H

#include "hf_layers.h"

/* Fills c->donor and c->shared; the kinds of @l are final. 0, HF_BAD or HF_UNMAPPABLE with the sentence. */
int hf_shared_read(const struct hf_layers *l, struct hf_config *c, const struct hf_json *j,
		   const struct hf_defaults *d);

#endif
