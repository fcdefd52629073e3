/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_defaults.c - see hf_defaults.h
 *
 * The library that writes these files leaves out what equals the default of
 * the model's class, so a file alone does not always say which layers slide.
 */
#include "hf_defaults.h"

#include <stddef.h>
#include <string.h>

static const struct hf_defaults defaults[] = {
	{ .model_type = "cohere2", .window = 4096, .pattern = 4 },
	{ .model_type = "exaone4", .window = 4096, .pattern = 4 },
	{ .model_type = "gemma2", .heads = 8, .kv_heads = 4, .head_dim = 256, .window = 4096, .pattern = 2 },
	{ .model_type = "gemma3_text",
	  .heads = 8,
	  .kv_heads = 4,
	  .head_dim = 256,
	  .window = 4096,
	  .pattern = 6,
	  .max_seq = 131072 },
	{ .model_type = "gemma3n_text",
	  .heads = 8,
	  .kv_heads = 2,
	  .head_dim = 256,
	  .window = 512,
	  .pattern = 5,
	  .shared = 15,
	  .max_seq = 32768 },
	{ .model_type = "gemma4_text",
	  .heads = 8,
	  .kv_heads = 4,
	  .head_dim = 256,
	  .full_head_dim = 512,
	  .window = 512,
	  .pattern = 6,
	  .last_full = true },
	{ .model_type = "gemma4_unified_text", .full_head_dim = 512, .pattern = 6, .last_full = true },
	{ .model_type = "gpt_oss", .heads = 64, .kv_heads = 8, .head_dim = 64, .window = 128, .pattern = 2 },
	{ .model_type = "llama4_text", .chunk = 8192 },
	{ .model_type = "mistral", .kv_heads = 8, .window = 4096, .all_slide = true },
	{ .model_type = "mixtral", .kv_heads = 8, .all_slide = true },
	{ .model_type = "olmo3", .window = 4096, .pattern = 4 },
	{ .model_type = "phi3", .all_slide = true },
	{ .model_type = "starcoder2", .all_slide = true },
};

const struct hf_defaults *hf_defaults_of(const char *model_type)
{
	static const struct hf_defaults none;

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (strcmp(defaults[i].model_type, model_type) == 0)
			return &defaults[i];
	return &none;
}

bool hf_defaults_window_off(const char *model_type)
{
	return strncmp(model_type, "qwen", 4) == 0;
}
