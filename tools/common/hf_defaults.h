/* SPDX-License-Identifier: Apache-2.0 */
/* hf_defaults.h - what a config.json leaves out, because it is the default of its model type */
#ifndef TOOLS_HF_DEFAULTS_H
#define TOOLS_HF_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* 0: the type has no such default. */
struct hf_defaults {
	const char *model_type;
	int64_t heads, kv_heads, head_dim, full_head_dim;
	int64_t window;
	int64_t pattern; /* each so many-th layer is full */
	int64_t shared;  /* last layers that keep no K and V */
	int64_t chunk;   /* attention in chunks of so many tokens */
	int64_t max_seq; /* tokens the model was made for */
	bool all_slide;  /* with a window, every layer has it */
	bool last_full;  /* the last layer is full, whatever the file says */
};

/* Never NULL: for a type that is not known all is 0. Static. */
const struct hf_defaults *hf_defaults_of(const char *model_type);
/* True for the types in which a window is off unless use_sliding_window says so. */
bool hf_defaults_window_off(const char *model_type);

#endif
