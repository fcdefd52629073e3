/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.h - what the device table must hold by now, and NaN for pages that leave it */
#ifndef DEMO_MIRROR_H
#define DEMO_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <swakv/swakv.h>

#include "device.h"

struct mirror {
	struct device *device; /* borrowed */
	struct kernel_pages pages;
	uint32_t max_batch;
	int32_t *cells; /* [max_batch][width]: K ids in stream order, -1 empty */
	bool *owned; /* [max_batch][width]: the page of the cell belongs to the slot's sequence and may be poisoned */
	bool poison;
	struct buffer list; /* int32: page lists of fills in flight */
	size_t n_list, list_cap, list_step;
	int error; /* first failure inside the callback */
};

/* @private_pages: what one sequence reserves. 0 or a code. */
int mirror_init(struct mirror *m, struct device *device, const struct kernel_pages *pages, uint32_t max_batch,
		int32_t private_pages, bool poison);
void mirror_deinit(struct mirror *m);

/*
 * swakv_attach_options.on_updates: @arg is the array of mirrors, one a layer group. Poisons what leaves, then notes
 * what moves in.
 */
void mirror_updates(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n);

/*
 * Makes room for the fills of one command. Call before each command and before
 * mirror_poison_row(); may wait for the stream. 0 or a code: also that of a
 * callback that failed.
 */
int mirror_reserve(struct mirror *m);
/* The sequence in @slot has done its last step: poisons its pages in stream order, before the mark that frees them. */
int mirror_poison_row(struct mirror *m, int32_t slot);

/* Page of logical page @column of @slot, -1: none. */
int32_t mirror_page(const struct mirror *m, int32_t slot, int32_t column);

#endif
