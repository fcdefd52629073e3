/* SPDX-License-Identifier: Apache-2.0 */
/* hf_defaults.h - what a config.json leaves out, because it is the default of its model type */
#ifndef TOOLS_HF_DEFAULTS_H
#define TOOLS_HF_DEFAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* Which layers slide where the file has a window and no list; n is that of struct hf_defaults. */
enum hf_layout {
	HF_LAYOUT_UNKNOWN,
	HF_LAYOUT_FULL,        /* none does */
	HF_LAYOUT_ALL,         /* each does */
	HF_LAYOUT_NTH_FULL,    /* all but n - 1, 2 n - 1, ... */
	HF_LAYOUT_FIRST_FULL,  /* all but 0, n, 2 n, ... */
	HF_LAYOUT_MIMO,        /* all but 0 and n - 1, 2 n - 1, ... */
	HF_LAYOUT_NTH_OR_LAST, /* all but n - 1, 2 n - 1, ... and the last */
	HF_LAYOUT_BACKWARDS,   /* all but the last, n before it, 2 n before it, ... */
	HF_LAYOUT_FLINT,       /* all but 0, those with a rest of 1 over n, and the last */
	HF_LAYOUT_FROM,        /* those from n on */
	HF_LAYOUT_EVEN_BELOW,  /* 0, 2, ... below n */
	HF_LAYOUT_NO_ROPE,     /* those without rotary embedding: each n-th where no_rope_layers does not say */
};

enum {
	HF_LAST_FULL = 1,           /* the last layer is full, whatever the file says */
	HF_WINDOW_OFF = 2,          /* a window counts only with use_sliding_window */
	HF_MULTI_QUERY = 4,         /* one KV head, unless multi_query says otherwise */
	HF_TWICE_THE_HEADS = 8,     /* sliding layers have twice the KV heads */
	HF_GATED_GLOBAL_HEADS = 16, /* num_global_key_value_heads counts only with attention_k_eq_v */
	HF_TWICE_THE_LAYERS = 32    /* each of num_layers attends twice */
};

/* 0: the type has no such default. */
struct hf_defaults {
	const char *model_type;
	int32_t layers, heads, kv_heads; /* kv_heads 0: as many as heads */
	int32_t hidden, head_dim;        /* head_dim 0: hidden over heads */
	int32_t max_seq;                 /* tokens the model was made for */
	int32_t window;
	enum hf_layout layout;
	int32_t n;
	uint32_t flags;
	int32_t full_head_dim; /* of full layers */
	int32_t v_head_dim;
	int32_t shared;              /* last layers that keep no K and V */
	int32_t chunk;               /* attention in chunks of so many tokens */
	int32_t latent, latent_rope; /* elements of a latent row (hf_latent.h) */
};

/* Never NULL: for a type that is not known all is 0, model_type NULL. Static. */
const struct hf_defaults *hf_defaults_of(const char *model_type);

#endif
