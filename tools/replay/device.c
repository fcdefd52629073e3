/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atomics.h"
#include "launch.h"

/* ---- on a GPU ------------------------------------------------------------------ */

static size_t table_bytes(const struct device *d, const struct device_table *t)
{
	return (size_t)d->max_batch * (size_t)device_row_cells(t) * sizeof(*t->cells);
}

/* Reads the table back, and so waits for the updates before. */
static int read_table(struct device *d, struct device_table *t)
{
	int rc = driver_copy_to_host(d->driver, d->stream, t->cells, t->address, table_bytes(d, t));

	return rc ? rc : driver_stream_synchronize(d->driver, d->stream);
}

static int launch_updates(struct device *d, const struct device_table *t, const struct swakv_update *updates, size_t n)
{
	struct kernel_apply p = {
		.table = t->address, .width = t->width, .num_pages = t->num_pages, .joined = t->joined
	};
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i += p.n_updates) {
		p.n_updates = n - i < KERNEL_APPLY_MOST ? (uint32_t)(n - i) : KERNEL_APPLY_MOST;
		for (uint32_t k = 0; k < p.n_updates; k++)
			p.updates[k] = (struct kernel_update){ (uint32_t)updates[i + k].slot * (uint32_t)t->width +
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

static int open_gpu(struct device *d, const struct swakv_session_info *info)
{
	char why[DRIVER_WHY] = "";
	int rc = driver_open(&d->driver, NULL, info->device_uuid, 0, why);

	if (rc == 0) {
		(void)((rc = driver_stream_create(d->driver, &d->stream)) ||
		       (rc = driver_load_image(d->driver, &kernel_image_table)));
		for (uint32_t i = 0; rc == 0 && i < d->n_groups; i++) {
			d->tables[i].cells = calloc(1, table_bytes(d, &d->tables[i]));
			rc = d->tables[i].cells ? read_table(d, &d->tables[i]) : SWAKV_ENOMEM;
		}
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
	struct device_table *t;

	if (group >= d->n_groups)
		return -1;
	t = &d->tables[group];
	d->entries += (t->joined ? 1 : 2) * n;
	if (d->driver)
		return launch_updates(d, t, updates, n) || read_table(d, t) ? -1 : 0;
	for (size_t i = 0; i < n; i++) {
		int32_t *k = t->cells + updates[i].slot * device_row_cells(t) + updates[i].column;
		int32_t page = updates[i].page;

		k[0] = page;
		k[device_v_column(t)] = page < 0 ? -1 : page + device_v_more(t);
	}
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
		.size = sizeof(ops),
		.apply = device_apply,
		.write_word = device_write_word,
		.synchronize = device_synchronize,
	};
	struct swakv_session_info info = { .size = sizeof(info) };
	int r = 0;

	*d = (struct device){ .max_batch = (int32_t)max_batch };
	swakv_session_get_info(s, &info);
	d->n_groups = info.n_groups < DEVICE_MAX_GROUPS ? info.n_groups : DEVICE_MAX_GROUPS;
	for (uint32_t i = 0; i < d->n_groups && r == 0; i++) {
		struct swakv_layout layout = { .size = sizeof(layout) };

		r = swakv_session_get_layout(s, i, &layout);
		if (r == 0)
			d->tables[i] = (struct device_table){ .cells = (int32_t *)(uintptr_t)layout.table,
							      .width = layout.width,
							      .num_pages = layout.num_pages,
							      .joined = layout.form == SWAKV_JOINED,
							      .address = layout.table };
	}
	for (uint32_t i = 0; i < d->n_groups && info.cuda; i++)
		d->tables[i].cells = NULL; /* is no address of this CPU */
	if (r == 0 && info.cuda)
		r = open_gpu(d, &info);
	return r ? r : swakv_stream_bind_custom(s, 0, &ops, d);
}

void device_deinit(struct device *d)
{
	free(d->words);
	if (d->driver) {
		if (d->stream)
			(void)driver_stream_destroy(d->driver, d->stream);
		driver_close(d->driver);
		for (uint32_t i = 0; i < d->n_groups; i++)
			free(d->tables[i].cells);
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
