/* SPDX-License-Identifier: Apache-2.0 */
/* presets.h - attention layers of known models, as a worker without a model imitates them */
#ifndef DEMO_PRESETS_H
#define DEMO_PRESETS_H

#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#define PRESET_MAX_GROUPS 2

/* Layers of one kind. */
struct preset_group {
	int64_t window; /* tokens; 0: full attention */
	uint32_t layers;
	uint32_t kv_heads;
	uint32_t q_heads; /* a multiple of kv_heads */
	uint32_t head_dim;
};

struct preset {
	const char *name;
	const char *text; /* for people */
	enum swakv_dtype dtype;
	uint32_t page_tokens;
	enum swakv_form form;
	uint32_t n_groups;
	struct preset_group groups[PRESET_MAX_GROUPS];
};

/* "f16", "bf16" or "fp8". */
const char *preset_dtype_name(enum swakv_dtype dtype);
/* "split" or "joined". */
const char *preset_form_name(enum swakv_form form);
/* Bytes of one element of K or V. */
uint32_t preset_element_bytes(const struct preset *p);

/* All presets; *@n gets their number. Static. */
const struct preset *preset_list(size_t *n);
/* The preset called @name, NULL: there is none. Static. */
const struct preset *preset_find(const char *name);
/*
 * Divides layers and heads of each group by @n (at least 1), each down to no less
 * than one; query heads a kv head, window and head dimension stay what they are.
 */
void preset_scale(struct preset *p, uint32_t n);

#endif
