/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atomics.h"
#include "driver.h"
#include "kernels.h"

/* ---- on a GPU ------------------------------------------------------------------ */

static size_t table_bytes(const struct device *d)
{
	return (size_t)d->max_batch * 2 * (size_t)d->width * sizeof(*d->table);
}

/* Reads the table back, and so waits for the updates before. */
static int read_table(struct device *d)
{
	int rc = driver_copy_to_host(d->driver, d->stream, d->table, d->table_address, table_bytes(d));

	return rc ? rc : driver_stream_synchronize(d->driver, d->stream);
}

static int launch_updates(struct device *d, const struct swakv_update *updates, size_t n)
{
	struct kernel_apply p = { .table = d->table_address, .width = d->width, .num_pages = d->num_pages };
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i += p.n_updates) {
		p.n_updates = n - i < KERNEL_APPLY_MAX ? (uint32_t)(n - i) : KERNEL_APPLY_MAX;
		for (uint32_t k = 0; k < p.n_updates; k++)
			p.updates[k] = (struct kernel_update){ (uint32_t)updates[i + k].slot * (uint32_t)d->width +
								       (uint32_t)updates[i + k].column,
							       updates[i + k].page };
		rc = driver_run_apply(d->driver, d->stream, &p);
	}
	return rc;
}

/* The library has registered the memory that the words lie in. */
static int stream_write(struct device *d, const struct device_word *w)
{
	uint64_t address;
	int rc = driver_host_address(d->driver, w->word, &address);

	rc = rc ? rc : driver_stream_write64(d->driver, d->stream, address, w->value);
	return rc ? rc : driver_stream_synchronize(d->driver, d->stream);
}

static int open_gpu(struct device *d, const struct swakv_session_info *info, uint64_t table)
{
	char why[DRIVER_WHY] = "";
	int rc = driver_open(&d->driver, NULL, info->device_uuid, 0, why);

	if (rc == 0) {
		d->table_address = table;
		d->table = calloc(1, table_bytes(d));
		(void)((rc = d->table ? 0 : SWAKV_ENOMEM) || (rc = driver_stream_create(d->driver, &d->stream)) ||
		       (rc = driver_load_kernels(d->driver)) || (rc = read_table(d)));
		snprintf(why, sizeof(why), "%s", driver_why(d->driver));
	}
	if (rc)
		snprintf(d->why, sizeof(d->why), "%s", why);
	return rc;
}

/* ---- either ------------------------------------------------------------------------ */

static int device_apply(void *arg, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct device *d = arg;

	if (group != 0)
		return -1;
	if (d->driver) {
		d->entries += 2 * n;
		return launch_updates(d, updates, n) || read_table(d) ? -1 : 0;
	}
	for (size_t i = 0; i < n; i++) {
		int32_t *k = d->table + (int64_t)updates[i].slot * 2 * d->width + updates[i].column;
		int32_t page = updates[i].page;

		k[0] = page;
		k[d->width] = page < 0 ? -1 : page + d->num_pages;
	}
	d->entries += 2 * n;
	return 0;
}

static int word_write(struct device *d, const struct device_word *w)
{
	if (d->driver)
		return stream_write(d, w);
	store_release((shm_u64 *)w->word, w->value); /* pairs with the broker's acquire */
	return 0;
}

static int device_write_word(void *arg, uint64_t *word, uint64_t value)
{
	struct device_word w = { word, value };
	struct device *d = arg;

	if (!d->held)
		return word_write(d, &w) ? -1 : 0;
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
	struct swakv_session_info info;
	struct swakv_layout layout;
	int r = swakv_session_get_layout(s, 0, &layout);

	*d = (struct device){ 0 };
	if (r)
		return r;
	swakv_session_get_info(s, &info);
	d->max_batch = (int32_t)max_batch;
	d->width = layout.width;
	d->num_pages = layout.num_pages;
	if (info.cuda)
		r = open_gpu(d, &info, layout.table);
	else
		d->table = (int32_t *)(uintptr_t)layout.table;
	return r ? r : swakv_stream_bind_custom(s, 0, &ops, d);
}

void device_deinit(struct device *d)
{
	free(d->words);
	if (d->driver) {
		if (d->stream)
			(void)driver_stream_destroy(d->driver, d->stream);
		driver_close(d->driver);
		free(d->table);
	}
	*d = (struct device){ 0 };
}

void device_signal(struct device *d)
{
	for (size_t i = 0; i < d->n_words; i++)
		(void)word_write(d, &d->words[i]); /* one that fails is never reached, and that shows */
	d->n_words = 0;
	d->held = false;
}

void device_excuse(struct device *d, swakv_session *s)
{
	d->excused = true;
	(void)swakv_stream_synchronize(s, 0);
	d->excused = false;
}
