/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_shared.c - see hf_shared.h
 *
 * Two ways are known. The last num_kv_shared_layers layers read what the last
 * layer of their kind before them keeps (Gemma 3n and 4). With use_cla, of
 * each cla_share_factor layers the first keeps K and V for all (Hunyuan).
 */
#include "hf_shared.h"

#include <inttypes.h>

static int no_donor(const struct hf_json *j, const struct hf_layers *l, uint32_t i)
{
	return hf_json_say(j, HF_UNMAPPABLE,
			   "%slayer %" PRIu32
			   " is to read the K and V of an earlier %s layer, and no such layer keeps any",
			   j->path, i, l->layer[i].kind == WIRE_GROUP_SLIDING ? "sliding" : "full");
}

static void share(struct hf_config *c, uint32_t i, uint32_t donor)
{
	c->donor[i] = (uint16_t)donor;
	c->shared++;
}

static int share_last(const struct hf_layers *l, struct hf_config *c, const struct hf_json *j, uint32_t n)
{
	uint32_t first = c->layers - n;

	for (uint32_t i = first; i < c->layers; i++) {
		uint32_t donor = first;

		if (l->layer[i].kind == HF_KEEPS_NOTHING)
			continue;
		while (donor > 0 && l->layer[donor - 1].kind != l->layer[i].kind)
			donor--;
		if (donor == 0)
			return no_donor(j, l, i);
		share(c, i, donor - 1);
	}
	if (n)
		hf_note(c, "the last %" PRIu32 " layers read the K and V of earlier ones and keep none", n);
	return 0;
}

static int share_by(const struct hf_layers *l, struct hf_config *c, const struct hf_json *j, uint32_t factor)
{
	for (uint32_t i = 0; i < c->layers; i++) {
		uint32_t donor = i - i % factor;

		if (donor == i || l->layer[i].kind == HF_KEEPS_NOTHING)
			continue;
		if (l->layer[donor].kind != l->layer[i].kind || l->layer[donor].window != l->layer[i].window)
			return no_donor(j, l, i);
		share(c, i, donor);
	}
	if (factor > 1)
		hf_note(c, "of each %" PRIu32 " layers the first keeps K and V, and the others read them", factor);
	return 0;
}

static int read_last(const struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d, int64_t *n)
{
	const json_t *v = hf_json_field(j, "num_kv_shared_layers");

	*n = v ? json_integer_value(v) : d->shared;
	if (v && (!json_is_integer(v) || *n < 0 || *n > HF_MAX_LAYERS))
		return hf_json_refuse(j, "num_kv_shared_layers", v, "a whole number from 0 to 4096");
	if (*n >= c->layers)
		return hf_json_say(j, HF_UNMAPPABLE,
				   "%snum_kv_shared_layers is %" PRId64 " of %" PRIu32
				   " layers: none keeps K and V of its own",
				   j->path, *n, c->layers);
	return 0;
}

/* *@factor is 1 where layers do not share that way. */
static int read_factor(const struct hf_json *j, int64_t *factor)
{
	bool use = false, said = hf_json_field(j, "use_cla");
	int r;

	*factor = 0;
	if ((r = hf_json_bool(j, "use_cla", &use)) || (r = hf_json_count(j, "cla_share_factor", HF_MAX_LAYERS, factor)))
		return r;
	if (use && !*factor)
		return hf_json_say(j, HF_BAD, "%scla_share_factor is missing beside use_cla", j->path);
	if (!said && *factor > 1)
		return hf_json_say(j, HF_UNMAPPABLE,
				   "%scla_share_factor is %" PRId64
				   ", and nothing says whether layers share K and V: use_cla is missing",
				   j->path, *factor);
	if (!use)
		*factor = 1;
	return 0;
}

int hf_shared_read(const struct hf_layers *l, struct hf_config *c, const struct hf_json *j, const struct hf_defaults *d)
{
	int64_t n, factor;
	int r;

	for (uint32_t i = 0; i < c->layers; i++)
		c->donor[i] = (uint16_t)i;
	if ((r = read_last(c, j, d, &n)) || (r = read_factor(j, &factor)))
		return r;
	if (n && factor > 1)
		return hf_json_say(j, HF_UNMAPPABLE, "%snum_kv_shared_layers and use_cla: which of them counts?",
				   j->path);
	return factor > 1 ? share_by(l, c, j, (uint32_t)factor) : share_last(l, c, j, (uint32_t)n);
}
