/* SPDX-License-Identifier: Apache-2.0 */
/* engine_worker.h - one engine with one worker on it, which the test opens as it needs them */
#ifndef SWAKV_ENGINE_WORKER_H
#define SWAKV_ENGINE_WORKER_H

#include "engine_fixture.h"

static struct engine *e;
static struct worker w;

static inline void open_with(int64_t pages, int64_t window, uint32_t p, int32_t batch, int64_t max_seq)
{
	e = make_engine(pages, p);
	worker_open(&w, e, make_model(window, p, batch, max_seq), (uint64_t)pages * p * TOKEN_BYTES, 1);
}

static inline void teardown(void)
{
	if (!e)
		return;
	worker_close(&w);
	engine_free(e);
}

#endif
