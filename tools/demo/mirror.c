/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mirror.c - expected table and poison
 *
 * The mirror follows the updates as the library hands them to the stream; a
 * copy of the device table taken in stream order must equal it. It also tells
 * which logical pages are mapped, so that a prefill writes no more than those.
 *
 * Poison. A page that a sequence gives up is filled with NaN in stream order
 * while it is still this sequence's to write:
 *   - one that leaves the window: when its clear arrives, before the apply. It
 *     has been in the sequence's own reservation since the step before.
 *   - those of a sequence that ends: at the end of its last step, before the
 *     mark whose value proves that they may go to somebody else.
 * The clears of an ended sequence's row arrive later, perhaps with the updates
 * of the slot's next owner, when the pages may be anybody's: `owned` is false
 * by then and they are left alone. So if a broker hands a page on before its
 * proof, the fill destroys the new owner's data; if an update is lost, the old
 * page reads as NaN; both show as mismatches.
 */
#include "mirror.h"

#include <stdlib.h>
#include <string.h>

#define NAN_16 0x7fff /* NaN as f16 and as bf16 */

int mirror_init(struct mirror *m, struct device *device, const struct kernel_pages *pages, uint32_t max_batch,
		int32_t private_pages, bool poison)
{
	size_t n = (size_t)max_batch * (size_t)pages->width;
	int rc;

	*m = (struct mirror){ .device = device, .pages = *pages, .max_batch = max_batch, .poison = poison };
	m->cells = malloc(n * sizeof(*m->cells));
	m->owned = calloc(n, sizeof(*m->owned));
	if (!m->cells || !m->owned) {
		mirror_deinit(m);
		return SWAKV_ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		m->cells[i] = -1;
	if (!poison)
		return 0;
	m->list_step = (size_t)max_batch * (size_t)private_pages;
	m->list_cap = 16 * m->list_step;
	rc = device_buffer_new(device, &m->list, m->list_cap * sizeof(int32_t));
	if (rc)
		mirror_deinit(m);
	return rc;
}

void mirror_deinit(struct mirror *m)
{
	if (m->device)
		device_buffer_free(m->device, &m->list);
	free(m->cells);
	free(m->owned);
	*m = (struct mirror){ 0 };
}

int mirror_reserve(struct mirror *m)
{
	int rc;

	if (m->error)
		return m->error;
	if (!m->poison || m->n_list + m->list_step <= m->list_cap)
		return 0;
	rc = swakv_stream_synchronize(m->device->session, m->device->stream);
	m->n_list = 0;
	return rc;
}

/* Puts the page of cell @at on the list if it is still the sequence's. */
static int give_up(struct mirror *m, size_t at)
{
	int32_t *list = (int32_t *)(void *)m->list.host;

	if (!m->owned[at])
		return 0;
	m->owned[at] = false;
	if (!m->poison)
		return 0;
	if (m->n_list == m->list_cap)
		return SWAKV_ENOMEM;
	list[m->n_list++] = m->cells[at];
	return 0;
}

/* Fills the pages listed since @first. */
static int fill_listed(struct mirror *m, size_t first)
{
	size_t n = m->n_list - first;
	int rc;

	if (!n)
		return 0;
	rc = device_upload(m->device, &m->list, first * sizeof(int32_t), n * sizeof(int32_t));
	if (rc)
		return rc;
	return device_fill(m->device, &(struct kernel_fill){
					      .pages = m->pages,
					      .page_list = m->list.address + first * sizeof(int32_t),
					      .n_pages = (int32_t)n,
					      .pattern = NAN_16,
				      });
}

static int note_updates(struct mirror *m, const struct swakv_update *updates, size_t n)
{
	size_t first = m->n_list;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		const struct swakv_update *u = &updates[i];

		if (u->slot < 0 || (uint32_t)u->slot >= m->max_batch || u->column < 0 || u->column >= m->pages.width)
			return SWAKV_EINVALID;
		size_t at = (size_t)u->slot * (size_t)m->pages.width + (size_t)u->column;
		if (u->page == m->cells[at])
			continue;
		rc = give_up(m, at);
		if (rc)
			return rc;
		m->cells[at] = u->page;
		m->owned[at] = u->page >= 0;
	}
	return fill_listed(m, first);
}

void mirror_updates(void *arg, uint32_t stream, uint32_t group, const struct swakv_update *updates, size_t n)
{
	struct mirror *m = (struct mirror *)arg + group;
	int rc = m->cells ? note_updates(m, updates, n) : 0;

	if (rc && !m->error)
		m->error = rc;
}

int mirror_poison_row(struct mirror *m, int32_t slot)
{
	size_t row = (size_t)slot * (size_t)m->pages.width, first = m->n_list;

	for (int32_t c = 0; c < m->pages.width; c++) {
		int rc = give_up(m, row + (size_t)c);

		if (rc)
			return rc;
	}
	return fill_listed(m, first);
}

int32_t mirror_page(const struct mirror *m, int32_t slot, int32_t column)
{
	return m->cells[(size_t)slot * (size_t)m->pages.width + (size_t)column];
}
