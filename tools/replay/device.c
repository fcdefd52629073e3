/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdlib.h>

#include "atomics.h"

static int device_apply(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct device *d = arg;

	if (group != 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int32_t *k = d->table + (int64_t)updates[i].slot * 2 * d->width + updates[i].column;
		int32_t page = updates[i].page;

		k[0] = page;
		k[d->width] = page < 0 ? -1 : page + d->num_pages;
	}
	d->entries += 2 * n;
	return 0;
}

/* Pairs with the broker's acquire of the word. */
static void word_write(const struct device_word *w)
{
	store_release((shm_u64 *)w->word, w->value);
}

static int device_write_word(void *arg, uint64_t *word, uint64_t value)
{
	struct device_word w = { word, value };
	struct device *d = arg;

	if (!d->held) {
		word_write(&w);
		return 0;
	}
	if (d->n_words == d->capacity) {
		size_t more = d->capacity ? 2 * d->capacity : 16;
		struct device_word *words = reallocarray(d->words, more, sizeof(*words));

		if (!words)
			return -1;
		d->words = words;
		d->capacity = more;
	}
	d->words[d->n_words++] = w;
	return 0;
}

/* Work that only `signal` ends cannot be waited for. */
static int device_synchronize(void *arg)
{
	struct device *d = arg;

	return d->n_words > 0 && !d->excused ? -1 : 0;
}

int device_init(struct device *d, swakv_session *s, uint32_t max_batch)
{
	static const struct swakv_stream_ops ops = {
		.apply = device_apply,
		.write_word = device_write_word,
		.synchronize = device_synchronize,
	};
	struct swakv_layout layout;
	int r = swakv_session_get_layout(s, 0, &layout);

	if (r)
		return r;
	*d = (struct device){ .table = (int32_t *)(uintptr_t)layout.table,
			      .max_batch = (int32_t)max_batch,
			      .width = layout.width,
			      .num_pages = layout.num_pages };
	return swakv_stream_bind_custom(s, 0, &ops, d);
}

void device_deinit(struct device *d)
{
	free(d->words);
	*d = (struct device){ 0 };
}

void device_signal(struct device *d)
{
	for (size_t i = 0; i < d->n_words; i++)
		word_write(&d->words[i]);
	d->n_words = 0;
	d->held = false;
}

void device_excuse(struct device *d, swakv_session *s)
{
	d->excused = true;
	(void)swakv_stream_synchronize(s, 0);
	d->excused = false;
}
