/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - the worker's device: a stream whose end of work the scenario decides
 *
 * Table updates take effect at once. Completion words are written at once too,
 * until the device is held; then they queue up until it is signalled. On the
 * host backend all of it is pretended; on a GPU updates go through the apply
 * kernel and words are stream writes.
 */
#ifndef SWAKV_REPLAY_DEVICE_H
#define SWAKV_REPLAY_DEVICE_H

#include <swakv/swakv.h>

struct driver;

struct device_word {
	uint64_t *word;
	uint64_t value;
};

#define DEVICE_MAX_GROUPS 8

/* The device table of one layer group. */
struct device_table {
	int32_t *cells; /* [max_batch][2][width], of a joined group [max_batch][1][width]; on a GPU what was read back
			   behind the last update */
	int32_t width, num_pages;
	bool joined;
	uint64_t address; /* on the GPU */
};

/* Cells from a row to the next, and from a K id to its V id, which is larger by device_v_more(); joined: itself. */
static inline int64_t device_row_cells(const struct device_table *t)
{
	return (t->joined ? 1 : 2) * (int64_t)t->width;
}

static inline int32_t device_v_column(const struct device_table *t)
{
	return t->joined ? 0 : t->width;
}

static inline int32_t device_v_more(const struct device_table *t)
{
	return t->joined ? 0 : t->num_pages;
}

struct device {
	int32_t max_batch;
	uint32_t n_groups;
	struct device_table tables[DEVICE_MAX_GROUPS];
	uint64_t entries; /* int32 written to all tables so far */
	bool held;
	bool excused; /* the next synchronisation succeeds */
	size_t n_words, capacity;
	struct device_word *words; /* queued */
	struct driver *driver;     /* NULL: host backend */
	void *stream;
	char why[256]; /* what went wrong in device_init(); empty: it is the session's to say */
};

/* Binds stream 0 of @s, which outlives *@d. 0 or a code of <swakv/error.h>. */
int device_init(struct device *d, swakv_session *s, uint32_t max_batch);
/* The session has been closed. Safe to repeat. */
void device_deinit(struct device *d);
/* Everything given so far ends: queued words are written in order, and the device is no longer held. */
void device_signal(struct device *d);
/* A synchronisation that could not end has failed for the library; but the device is late, not broken. */
void device_excuse(struct device *d, swakv_session *s);

#endif
