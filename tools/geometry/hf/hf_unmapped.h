/* SPDX-License-Identifier: Apache-2.0 */
/* hf_unmapped.h - models that keep no K and V, or keep them another way than in pages of windows */
#ifndef TOOLS_HF_UNMAPPED_H
#define TOOLS_HF_UNMAPPED_H

#include "hf_defaults.h"
#include "hf_json.h"

/*
 * 0, or HF_UNMAPPABLE with the sentence: the model in @j, of type @model_type,
 * with the defaults @d, in the file @file.
 */
int hf_unmapped_refuse(const struct hf_json *j, const struct hf_json *file, const char *model_type,
		       const struct hf_defaults *d);

#endif
