/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_config.h - layer groups of a model, from its Hugging Face config.json
 *
 * Says which layers keep K and V, which of them slide and over what window,
 * and the shape of their heads, or the bytes of a latent row: struct wire_group,
 * what a worker declares at attach. What a paged window cannot hold is refused with a sentence, never
 * guessed at; what had to be assumed stands in the notes.
 */
#ifndef TOOLS_HF_CONFIG_H
#define TOOLS_HF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

enum {
	HF_BAD = 1,        /* not readable, no JSON, a value that cannot be */
	HF_UNMAPPABLE = 2, /* a good file of a model whose K and V are no pages of windows */
};

enum { HF_MAX_LAYERS = 4096, HF_MAX_NOTES = 12, HF_NOTE = 160, HF_WHY = 512 };

struct hf_group {
	struct wire_group shape; /* page_tokens is 0: the caller chooses */
	uint32_t first_layer;    /* lowest layer of the group */
	bool k_is_v;             /* V comes from K's projection; both are kept all the same */
};

struct hf_config {
	char model_type[64];           /* "" when the file does not say */
	uint32_t layers;               /* of the model */
	uint32_t shared;               /* of them: read the K and V of earlier layers, keep none */
	uint16_t donor[HF_MAX_LAYERS]; /* whose K and V a layer reads: its own, or those of an earlier one */
	uint32_t without;              /* of them: have no attention */
	int64_t max_seq;               /* tokens the model was made for, 0: the file does not say */
	uint32_t dtype;                /* enum wire_dtype, of all groups */
	uint32_t latent, latent_rope;  /* elements of the row that a token keeps in place of heads; 0: it keeps heads */
	uint32_t n_groups;
	struct hf_group groups[WIRE_MAX_GROUPS]; /* layers of one kind, window and shape; in order of first layers */
	uint32_t n_notes;
	char notes[HF_MAX_NOTES][HF_NOTE]; /* sentences on what was assumed or left aside */
};

/*
 * Reads file @path, "-": standard input. 0; HF_BAD or HF_UNMAPPABLE with a sentence in @why
 * (@why_size bytes, HF_WHY is enough). @dtype: enum wire_dtype to take instead
 * of the file's, 0: the file's.
 */
int hf_config_read(struct hf_config *c, const char *path, uint32_t dtype, char *why, size_t why_size);
/* The same from memory; @name stands for the file in sentences. */
int hf_config_parse(struct hf_config *c, const char *text, size_t len, const char *name, uint32_t dtype, char *why,
		    size_t why_size);

/* "bf16" and the like; NULL for a value that is none. */
const char *hf_dtype_name(uint32_t dtype);
/* The dtype called so, 0: there is none. */
uint32_t hf_dtype_find(const char *name);

#endif
