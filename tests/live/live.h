/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.h - a real swakvd for one test, and sessions on it
 *
 * $LIVE_BACKEND is "host" (default) or "cuda"; the driver is then the one of
 * $SWAKV_TEST_CUDA_LIBRARY, which tests/gpu/run sets, else of
 * $SWAKV_CUDA_LIBRARY, which meson sets to the fake one.
 */
#ifndef SWAKV_TESTS_LIVE_H
#define SWAKV_TESTS_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <swakv/swakv.h>

struct live {
	pid_t pid;
	char name[32];
	char dir[64]; /* its $XDG_RUNTIME_DIR */
};

/* Starts a broker with a pool of @size, waits until it is ready, and names it in $SWAKV_BROKER. */
void live_start(struct live *l, const char *size);
/* As above, with one more argument, such as "--scrub=never". */
void live_start_with(struct live *l, const char *size, const char *argument);
/* Stops it in order (it must say 0), or cleans up after it was killed. */
void live_stop(struct live *l);
/* kill -9 */
void live_kill(struct live *l);

bool live_is_cuda(void);

/* Attaches; must succeed. @o may be NULL. On the CUDA backend every stream is bound. */
swakv_session *live_attach(const struct swakv_attach_options *o, int64_t window, uint32_t page_tokens, uint32_t layers,
			   uint32_t max_batch, int64_t max_seq);

/* Of the pages of sessions that are attached from now on; split to begin with. */
extern enum swakv_form live_form;
/* Rows of ids that a slot has in the table, and runs of bytes that a page has: 2, or 1 of joined pages. */
int32_t live_halves(const struct swakv_layout *l);

/* How long a test waits for a state, in steps of a millisecond, before it gives up: never a claim about speed. */
#define LIVE_PATIENCE 60000

/* Fills K and V of page @page with a pattern, once all streams have run dry: a scrub may be under way to it. */
void live_fill_page(swakv_session *s, int32_t page, uint16_t pattern);
/* True when every half-word of K and V of @page is @pattern, once all streams have run dry. */
bool live_page_is(swakv_session *s, int32_t page, uint16_t pattern);

/* Waits until every page that the session could have is free again; fails the test when that does not happen. */
void live_expect_free(swakv_session *s, int64_t pages);

/* Waits until all that the request's streams were given has ended and the broker has seen it: no page is staged. */
void live_settle(swakv_session *s, swakv_request *r);

/* The test's own look at the GPU; NULL on the host backend. */
struct driver *live_driver(swakv_session *s);

/* Runs @fn in stream order. */
void live_launch(swakv_session *s, uint32_t stream, void (*fn)(void *), void *arg);

/* Operations of a custom stream that does nothing in the end: updates are forgotten, words are written at once. */
int live_forget_updates(void *arg, uint32_t group, const struct swakv_update *updates, size_t n);
int live_write_word(void *arg, uint64_t *word, uint64_t value);
int live_synchronize_nothing(void *arg);

/* K id in the device table when all streams have run dry. */
int32_t live_device_page(swakv_session *s, int slot, int column);

/*
 * Synchronises all streams, then compares device tables and host tables of all groups, K and V: of every slot, or of
 * the request's.
 */
void live_expect_tables_equal(swakv_session *s, uint32_t max_batch);
void live_expect_rows_equal(swakv_session *s, swakv_request *r);

/* Tokens of the request's first sequence; the call must succeed. */
int64_t live_endpoint(swakv_session *s, swakv_request *r);

/* One step of the lifecycle with everything around it; each must succeed. */
void live_prefill(swakv_session *s, swakv_request *r, const int32_t *lengths, uint32_t n);
void live_decode(swakv_session *s, swakv_request *r);
/* The first half of live_decode(). */
void live_decode_prepare(swakv_session *s, swakv_request *r);

#define LIVE_OK(s, call)                                                                                               \
	do {                                                                                                           \
		int live_result_ = (call);                                                                             \
		cr_assert_eq(live_result_, 0, "%s: %s: %s", #call, swakv_error_name(live_result_),                     \
			     swakv_session_error(s));                                                                  \
	} while (0)

#endif
