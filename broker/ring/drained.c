/* SPDX-License-Identifier: Apache-2.0 */
#include "drained.h"

#include <string.h>

static int find(const struct drained *d, const char *model)
{
	for (uint32_t i = 0; i < d->n; i++)
		if (!strcmp(d->models[i], model))
			return (int)i;
	return -1;
}

bool drained_has(const struct drained *d, const char *model)
{
	return d->all || find(d, model) >= 0;
}

bool drained_lists(const struct drained *d, const char *model)
{
	return find(d, model) >= 0;
}

int drained_add(struct drained *d, const char model[WIRE_MODEL_NAME], char *why, size_t size)
{
	if (!model[0]) {
		d->all = true;
		snprintf(why, size, "draining: no new sessions and no new requests; those in progress may finish");
		return 0;
	}
	if (find(d, model) < 0) {
		if (d->n == ADMIN_MAX_DRAINED) {
			snprintf(why, size,
				 "%d models are drained, the most there can be: end one with drain MODEL --off",
				 ADMIN_MAX_DRAINED);
			return SWAKV_EBUSY;
		}
		memcpy(d->models[d->n++], model, WIRE_MODEL_NAME);
	}
	snprintf(why, size, "draining model \"%s\": no new sessions and no new requests; those in progress may finish",
		 model);
	return 0;
}

int drained_remove(struct drained *d, const char model[WIRE_MODEL_NAME], char *why, size_t size)
{
	int i = find(d, model);

	if (!model[0]) {
		d->all = false;
		d->n = 0;
		snprintf(why, size, "no longer draining: sessions and requests of all models are accepted");
		return 0;
	}
	if (d->all) {
		snprintf(why, size, "the whole broker is drained, not only model \"%s\": use drain --off", model);
		return SWAKV_EBUSY;
	}
	if (i < 0) {
		snprintf(why, size, "model \"%s\" is not drained", model);
		return SWAKV_EINVALID;
	}
	memcpy(d->models[i], d->models[--d->n], WIRE_MODEL_NAME);
	snprintf(why, size, "no longer draining model \"%s\"", model);
	return 0;
}
