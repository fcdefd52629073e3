/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_latent.c - see hf_latent.h
 *
 * Engines keep kv_lora_rank elements, from which K and V of all heads are made
 * anew, and behind them qk_rope_head_dim elements of K, which all heads share.
 * No head of the file says anything of these rows.
 */
#include "hf_latent.h"

#include <inttypes.h>

#define MAX_ELEMENTS 65536

/* 0: no rotated part. @otherwise is that of the type, 0: it has none. */
static int read_rope(const struct hf_json *j, int64_t otherwise, int64_t *rope)
{
	const json_t *v = hf_json_field(j, "qk_rope_head_dim");

	*rope = otherwise;
	if (json_is_integer(v) && json_integer_value(v) == 0) {
		*rope = 0;
		return 0;
	}
	if (!v && !otherwise)
		return hf_json_say(j, HF_BAD, "%sqk_rope_head_dim is missing beside kv_lora_rank", j->path);
	return hf_json_count(j, "qk_rope_head_dim", MAX_ELEMENTS, rope);
}

static int read_row(struct hf_latent *out, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	int64_t rank = d->latent, rope = 0;
	int r;

	if ((r = hf_json_count(j, "kv_lora_rank", MAX_ELEMENTS, &rank)) || (r = read_rope(j, d->latent_rope, &rope)))
		return r;
	if (hf_json_field(j, "per_layer_config"))
		return hf_json_say(
			j, HF_UNMAPPABLE,
			"%sper_layer_config beside kv_lora_rank: heads of single layers, where no layer keeps "
			"heads",
			j->path);
	if (!hf_json_field(j, "kv_lora_rank"))
		hf_note(c, "the file has no kv_lora_rank; in %s it is %" PRId64, c->model_type, rank);
	hf_note(c, "a token keeps one latent row a layer, %" PRId64 " + %" PRId64 " elements, and no V", rank, rope);
	out->rank = (uint32_t)rank;
	out->rope = (uint32_t)rope;
	return 0;
}

int hf_latent_read(struct hf_latent *out, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	static const char *const names[] = { "kv_lora_rank", NULL };
	bool use = true;
	int r = hf_json_bool(j, "use_mla", &use);

	*out = (struct hf_latent){ .off = !use };
	if (r || !use)
		return r;
	if (hf_json_field(j, "kv_lora_rank") || (d->latent && !hf_json_is_there(j, names)))
		return read_row(out, c, j, d);
	if (d->latent)
		return hf_json_say(j, HF_UNMAPPABLE,
				   "%skv_lora_rank is null, and use_mla is not false: nothing says what a token keeps",
				   j->path);
	return 0;
}
