/* SPDX-License-Identifier: Apache-2.0 */
/* hf_families.h - what the types of model that the transformers library (5.24) knows keep for a token */
#ifndef TOOLS_HF_FAMILIES_H
#define TOOLS_HF_FAMILIES_H

#include "hf_defaults.h"

enum hf_family {
	HF_UNKNOWN,    /* the type says nothing */
	HF_DECODER,    /* K and V, or a latent row, and nothing else: it has a row in hf_defaults.c */
	HF_ENCODER,    /* nothing, unless is_decoder says otherwise */
	HF_CROSS,      /* K and V of an encoder or of images, too */
	HF_STATE,      /* a state */
	HF_HYBRID,     /* a state in some layers */
	HF_INDEXED,    /* keys of an indexer beside a latent row */
	HF_COMPRESSED, /* one vector for several tokens */
	HF_LOOPED,     /* K and V of each of several runs of a layer */
	HF_OTHER       /* something that is none of these */
};

enum hf_family hf_family_of(const char *model_type);

#endif
