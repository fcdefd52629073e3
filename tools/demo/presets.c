/* SPDX-License-Identifier: Apache-2.0 */
#include "presets.h"

#include <string.h>

static const struct preset presets[] = {
	{ "gemma3-1b", "Gemma 3 1B: 22 sliding layers of 26, window 512", 512, 22, 1, 4, 256, SWAKV_BF16, 128 },
	{ "gpt-oss-20b", "gpt-oss 20B: 12 sliding layers of 24, window 128", 128, 12, 8, 64, 64, SWAKV_BF16, 128 },
	{ "mistral-7b", "Mistral 7B v0.1: 32 layers, all sliding, window 4096", 4096, 32, 8, 32, 128, SWAKV_BF16, 128 },
};

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
	uint32_t ratio = p->q_heads / p->kv_heads;

	p->layers = share(p->layers, n);
	p->kv_heads = share(p->kv_heads, n);
	p->q_heads = p->kv_heads * ratio;
}
