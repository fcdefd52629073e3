/* SPDX-License-Identifier: Apache-2.0 */
/* hf_keys.h - keys of a config.json that speak of attention and that nobody here understands */
#ifndef TOOLS_HF_KEYS_H
#define TOOLS_HF_KEYS_H

#include "hf_json.h"

/*
 * 0, or HF_UNMAPPABLE with a sentence that names the key: its name speaks of
 * heads, windows or the kinds of layers, it says something, and what it says is
 * not known. @model_type: what keys of one type mean is known for it alone;
 * @latent: those of latent rows are, for the model keeps some, or says that it does not.
 */
int hf_keys_refuse(const struct hf_json *j, const char *model_type, bool latent);

#endif
