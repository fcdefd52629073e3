/* SPDX-License-Identifier: Apache-2.0 */
/* hf_latent.h - models that keep one latent row a token and layer instead of heads of K and of V (MLA) */
#ifndef TOOLS_HF_LATENT_H
#define TOOLS_HF_LATENT_H

#include "hf_layers.h"

struct hf_latent {
	uint32_t rank; /* elements of the compressed K and V; 0: the model has heads */
	uint32_t rope; /* elements of the part of K that is rotated, behind them */
	bool off;      /* the file says use_mla: false, whatever else it says */
};

/* 0, HF_BAD or HF_UNMAPPABLE with the sentence. */
int hf_latent_read(struct hf_latent *out, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d);

#endif
