/* SPDX-License-Identifier: Apache-2.0 */
/* What test_scrub.c asks, where it can be asked of host memory only. */
#include <criterion/criterion.h>

#include "lives.h"

static struct live live;

static void teardown(void)
{
	live_stop(&live);
}

TestSuite(scrub_host, .fini = teardown, .timeout = 100);

Test(scrub_host, a_stream_with_a_thread_scrubs_in_its_order)
{
	swakv_session *s;

	live_start(&live, "1M");
	life_first(true);
	s = life_attach(NULL);
	LIVE_OK(s, swakv_stream_bind_host(s, 0, true));
	life_second(s, 0);
	swakv_session_close(s);
}

/*
 * A window rotates through its own pages: scrubbing them again and again would be work for nothing. (On a GPU, memory
 * that nobody had yet is scrubbed along with its neighbours in a row.)
 */
Test(scrub_host, owner_change_leaves_a_workers_own_pages)
{
	swakv_session *s;

	live_start(&live, "1M");
	s = life_first(false);
	life_second(s, LIFE_NAN);
	swakv_session_close(s);
}
