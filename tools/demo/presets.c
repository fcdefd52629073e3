/* SPDX-License-Identifier: Apache-2.0 */
#include "presets.h"

#include <string.h>

#define BF16 .dtype = SWAKV_BF16, .page_tokens = 128

static const struct preset presets[] = {
	{ "gemma3-1b", "Gemma 3 1B, its 22 sliding layers", BF16, .n_groups = 1, .groups = { { 512, 22, 1, 4, 256 } } },
	{ "gemma3-27b", "Gemma 3 27B", BF16, .form = SWAKV_JOINED, .n_groups = 2,
	  .groups = { { 1024, 52, 16, 32, 128 }, { 0, 10, 16, 32, 128 } } },
	{ "gemma4-31b", "Gemma 4 31B", BF16, .n_groups = 2,
	  .groups = { { 1024, 50, 16, 32, 256 }, { 0, 10, 4, 32, 512 } } },
	{ "gpt-oss-20b", "gpt-oss 20B", BF16, .n_groups = 2,
	  .groups = { { 128, 12, 8, 64, 64 }, { 0, 12, 8, 64, 64 } } },
	{ "mistral-7b", "Mistral 7B v0.1", BF16, .form = SWAKV_JOINED, .n_groups = 1,
	  .groups = { { 4096, 32, 8, 32, 128 } } },
	{ "phi3-mini", "Phi-3 mini 4k", BF16, .n_groups = 1, .groups = { { 2047, 32, 32, 32, 96 } } },
};

const char *preset_dtype_name(enum swakv_dtype dtype)
{
	return dtype == SWAKV_FP8 ? "fp8" : dtype == SWAKV_F16 ? "f16" : "bf16";
}

const char *preset_form_name(enum swakv_form form)
{
	return form == SWAKV_JOINED ? "joined" : "split";
}

uint32_t preset_element_bytes(const struct preset *p)
{
	return p->dtype == SWAKV_FP8 ? 1 : 2;
}

const struct preset *preset_list(size_t *n)
{
	*n = sizeof(presets) / sizeof(presets[0]);
	return presets;
}

const struct preset *preset_find(const char *name)
{
	size_t n;
	const struct preset *p = preset_list(&n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(p[i].name, name) == 0)
			return &p[i];
	return NULL;
}

static uint32_t share(uint32_t value, uint32_t n)
{
	return value / n > 0 ? value / n : 1;
}

void preset_scale(struct preset *p, uint32_t n)
{
	for (uint32_t i = 0; i < p->n_groups; i++) {
		struct preset_group *g = &p->groups[i];
		uint32_t ratio = g->q_heads / g->kv_heads;

		g->layers = share(g->layers, n);
		g->kv_heads = share(g->kv_heads, n);
		g->q_heads = g->kv_heads * ratio;
	}
}
