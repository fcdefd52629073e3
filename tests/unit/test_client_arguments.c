/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_client_arguments.c - absurd counts, indices and missing pointers, in every call of the library
 *
 * Each is refused with a sentence, and nothing is read of a list whose count
 * cannot be meant: the lists here end where the memory does. No command is sent.
 */
#include <string.h>
#include <swakv/export.h>
#include <swakv/page_table.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client_fixture.h"

static swakv_request *r, *unused;
static swakv_ticket t;
static swakv_session *s;
static char why[256];
static unsigned char *end; /* of what may be read */

static void setup(void)
{
	long page = sysconf(_SC_PAGESIZE);
	unsigned char *p = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(mprotect(p + page, (size_t)page, PROT_NONE), 0);
	end = p + page;
	client_setup();
	r = begin(0, 0);
}

TestSuite(client_arguments, .init = setup, .fini = client_teardown);

/* One element at the end of the memory. */
static void *last(const void *element, size_t size)
{
	return memcpy(end - size, element, size);
}

#define LAST(type, ...) ((type *)last(&(type)__VA_ARGS__, sizeof(type)))
#define IDS             LAST(int32_t, { 1 })
#define FENCES          LAST(struct swakv_fence, { SWAKV_FENCE_LINE, 0, 1 })
#define STEPS           LAST(struct swakv_step, { .size = sizeof(struct swakv_step), .request = r })
#define GROUPS                                                                                                         \
	LAST(struct swakv_group, { .size = sizeof(struct swakv_group),                                                 \
				   .window = 64,                                                                       \
				   .layers = 1,                                                                        \
				   .head_dim = 8,                                                                      \
				   .kv_heads = 1,                                                                      \
				   .page_tokens = 16 })

static int begins(const int32_t *slots, uint32_t n, uint32_t stream)
{
	struct swakv_begin_options o = { .size = sizeof(o), .stream = stream, .slots = slots, .n_slots = n };
	swakv_request *out = r;
	int code = swakv_request_begin(s, &o, &out, &t);

	cr_expect_null(out);
	return code;
}

static int attaches(const struct swakv_group *groups, uint32_t n, uint32_t n_streams, uint32_t batch)
{
	struct swakv_model m = {
		.size = sizeof(m), .name = "m", .groups = groups, .n_groups = n, .max_batch = batch, .max_seq = 64
	};
	struct swakv_attach_options o = { .size = sizeof(o), .socket = "/nowhere", .n_streams = n_streams };
	swakv_session *out = s;
	int code = swakv_session_attach(&o, &m, &out, why, sizeof(why));

	cr_expect_null(out);
	return code;
}

static int takes(int32_t *ids, uint32_t *n, uint32_t group, uint32_t stream, uint32_t max)
{
	return swakv_pages_take(s, group, stream, 0, 1, max, 0, ids, n, &t);
}

static struct swakv_turn a_turn(uint32_t what, const struct swakv_begin_options *b)
{
	return (struct swakv_turn){ .size = sizeof(struct swakv_turn), .what = what, .begin = b };
}

static int turns(uint32_t what, const struct swakv_begin_options *b, uint32_t n)
{
	struct swakv_turn one = a_turn(what, b);

	return swakv_step_turn(s, last(&one, sizeof(one)), n, &t);
}

static int turn_begins(const int32_t *slots, uint32_t n)
{
	struct swakv_begin_options o = { .size = sizeof(o), .slots = slots, .n_slots = n };

	return turns(SWAKV_TURN_BEGIN, &o, 1);
}

#define TURNS LAST(struct swakv_turn, { .size = sizeof(struct swakv_turn), .what = SWAKV_TURN_COMPLETE })

static int cycles(struct swakv_turn *turns, uint32_t n, uint32_t stream)
{
	struct swakv_cycle c = { .size = sizeof(c), .stream = stream, .turns = turns, .n = n };

	return swakv_step_cycle(s, &c);
}

static uint32_t n_taken;
static int64_t n_pages;
static struct swakv_fence fence;
static struct swakv_sequence_state state = { .size = sizeof(state) };

#define NOT_ONE  "is NULL, and a count of 1 was given"
#define TOO_MANY "4294967295"

/* What is called, and words of the sentence. */
#define REFUSED(X)                                                                                                     \
	X(begin_options, swakv_request_begin(s, NULL, &unused, &t), "options are NULL")                                \
	X(begin_out, swakv_request_begin(s, LAST(struct swakv_begin_options, { 0 }), NULL, &t), "request is NULL")     \
	X(begin_slots, begins(NULL, 1, 0), NOT_ONE)                                                                    \
	X(begin_count, begins(IDS, UINT32_MAX, 0), TOO_MANY)                                                           \
	X(begin_stream, begins(IDS, 1, UINT32_MAX), TOO_MANY)                                                          \
	X(prefill_list, swakv_prefill_prepare(r, NULL, 1, &t), NOT_ONE)                                                \
	X(prefill_count, swakv_prefill_prepare(r, IDS, UINT32_MAX, &t), TOO_MANY)                                      \
	X(extend_list, swakv_extend_prepare(r, NULL, 1, &t), NOT_ONE)                                                  \
	X(extend_count, swakv_extend_prepare(r, IDS, UINT32_MAX, &t), TOO_MANY)                                        \
	X(extend_none, swakv_extend_prepare(r, IDS, 0, &t), "0 tokens")                                                \
	X(accepted_list, swakv_extend_complete(r, SWAKV_DONE, NULL, 1, &t), NOT_ONE)                                   \
	X(accepted_count, swakv_extend_complete(r, SWAKV_DONE, IDS, UINT32_MAX, &t), TOO_MANY)                         \
	X(rewind_list, swakv_rewind(r, NULL, 1, &t), NOT_ONE)                                                          \
	X(rewind_count, swakv_rewind(r, IDS, UINT32_MAX, &t), TOO_MANY)                                                \
	X(compact_list, swakv_compact_begin(r, NULL, 1, 0, 0, 0, &t), NOT_ONE)                                         \
	X(compact_count, swakv_compact_begin(r, IDS, UINT32_MAX, 0, 0, 0, &t), TOO_MANY)                               \
	X(step_list, swakv_step_prepare(s, NULL, 1, &t), NOT_ONE)                                                      \
	X(step_count, swakv_step_prepare(s, STEPS, UINT32_MAX, &t), TOO_MANY)                                          \
	X(step_none, swakv_step_prepare(s, STEPS, 0, &t), "0 were given")                                              \
	X(step_request, swakv_step_prepare(s, LAST(struct swakv_step, { .size = sizeof(struct swakv_step) }), 1, &t),  \
	  "entry 0 has no request")                                                                                    \
	X(step_complete_list, swakv_step_complete(s, NULL, 1, &t), NOT_ONE)                                            \
	X(step_complete_count, swakv_step_complete(s, STEPS, UINT32_MAX, &t), TOO_MANY)                                \
	X(turn_list, swakv_step_turn(s, NULL, 1, &t), NOT_ONE)                                                         \
	X(turn_count, turns(SWAKV_TURN_PREPARE, NULL, UINT32_MAX), TOO_MANY)                                           \
	X(turn_none, turns(SWAKV_TURN_PREPARE, NULL, 0), "0 were given")                                               \
	X(turn_request, turns(SWAKV_TURN_PREPARE, NULL, 1), "entry 0 has no request")                                  \
	X(turn_what, turns(UINT32_MAX, NULL, 1), "entry 0")                                                            \
	X(turn_begin, turns(SWAKV_TURN_BEGIN, NULL, 1), "`begin` is NULL")                                             \
	X(turn_slots, turn_begins(NULL, 1), "NULL")                                                                    \
	X(turn_slot_count, turn_begins(IDS, UINT32_MAX), TOO_MANY)                                                     \
	X(cycle, swakv_step_cycle(s, NULL), "swakv_cycle is NULL")                                                     \
	X(cycle_list, cycles(NULL, 1, 0), NOT_ONE)                                                                     \
	X(cycle_count, cycles(TURNS, UINT32_MAX, 0), TOO_MANY)                                                         \
	X(cycle_none, cycles(TURNS, 0, 0), "0 were given")                                                             \
	X(cycle_request, cycles(TURNS, 1, 0), "entry 0 has no request")                                                \
	X(cycle_stream, cycles(TURNS, 1, UINT32_MAX), TOO_MANY)                                                        \
	X(take_ids, takes(NULL, &n_taken, 0, 0, 1), "the place for the ids is NULL")                                   \
	X(take_n, takes(IDS, NULL, 0, 0, 1), "the pointer for the count is NULL")                                      \
	X(take_group, takes(IDS, &n_taken, UINT32_MAX, 0, 1), TOO_MANY)                                                \
	X(take_stream, takes(IDS, &n_taken, 0, UINT32_MAX, 1), TOO_MANY)                                               \
	X(take_count, takes(IDS, &n_taken, 0, 0, UINT32_MAX), TOO_MANY)                                                \
	X(give_ids, swakv_pages_give(s, 0, NULL, 1, NULL, 0, &t), NOT_ONE)                                             \
	X(give_count, swakv_pages_give(s, 0, IDS, UINT32_MAX, NULL, 0, &t), TOO_MANY)                                  \
	X(give_none, swakv_pages_give(s, 0, IDS, 0, NULL, 0, &t), "0 pages")                                           \
	X(give_group, swakv_pages_give(s, UINT32_MAX, IDS, 1, NULL, 0, &t), TOO_MANY)                                  \
	X(give_fences, swakv_pages_give(s, 0, IDS, 1, NULL, 1, &t), NOT_ONE)                                           \
	X(give_fence_count, swakv_pages_give(s, 0, &(int32_t){ 1 }, 1, FENCES, UINT32_MAX, &t), TOO_MANY)              \
	X(offer_group, swakv_pages_offer(s, UINT32_MAX, 1), TOO_MANY)                                                  \
	X(offer_count, swakv_pages_offer(s, 0, -1), "-1 pages")                                                        \
	X(limits_group, swakv_pages_get_limits(s, UINT32_MAX, &n_pages, &n_pages), TOO_MANY)                           \
	X(limits_floor, swakv_pages_get_limits(s, 0, NULL, &n_pages), "floor is NULL")                                 \
	X(limits_ceiling, swakv_pages_get_limits(s, 0, &n_pages, NULL), "ceiling is NULL")                             \
	X(info, swakv_session_get_info(s, NULL), "swakv_session_info is NULL")                                         \
	X(layout, swakv_session_get_layout(s, 0, NULL), "swakv_layout is NULL")                                        \
	X(layout_group, swakv_session_get_layout(s, UINT32_MAX, LAST(struct swakv_layout, { 0 })), TOO_MANY)           \
	X(counters, swakv_session_get_counters(s, NULL), "swakv_session_counters is NULL")                             \
	X(token, swakv_session_get_token(s, NULL), "NULL")                                                             \
	X(request_state, swakv_request_get_state(r, NULL), "state is NULL")                                            \
	X(sequence_state, swakv_sequence_get_state(r, 0, NULL), "state is NULL")                                       \
	X(group_state, swakv_sequence_get_group_state(r, 0, 0, NULL), "state is NULL")                                 \
	X(state_group, swakv_sequence_get_group_state(r, 0, UINT32_MAX, &state), TOO_MANY)                             \
	X(state_sequence, swakv_sequence_get_state(r, UINT32_MAX, &state), TOO_MANY)                                   \
	X(free_pages, swakv_session_free_pages(s, NULL), "NULL")                                                       \
	X(group_free_pages, swakv_session_group_free_pages(s, 0, NULL), "NULL")                                        \
	X(free_pages_group, swakv_session_group_free_pages(s, UINT32_MAX, &n_pages), TOO_MANY)                         \
	X(bind_host, swakv_stream_bind_host(s, UINT32_MAX, false), TOO_MANY)                                           \
	X(bind_cuda, swakv_stream_bind_cuda(s, UINT32_MAX, NULL), TOO_MANY)                                            \
	X(bind_cuda2, swakv_stream_bind_cuda2(s, UINT32_MAX, NULL), TOO_MANY)                                          \
	X(bind_custom, swakv_stream_bind_custom(s, UINT32_MAX, &ops, NULL), TOO_MANY)                                  \
	X(bind_custom_ops, swakv_stream_bind_custom(s, 1, NULL, NULL), "apply")                                        \
	X(set_unordered, swakv_stream_set_unordered(s, UINT32_MAX, true), TOO_MANY)                                    \
	X(launch_host, swakv_stream_launch_host(s, UINT32_MAX, wait_for_gate, NULL), TOO_MANY)                         \
	X(launch_host_fn, swakv_stream_launch_host(s, 0, NULL, NULL), "no function")                                   \
	X(mark, swakv_stream_mark(s, UINT32_MAX, &fence), TOO_MANY)                                                    \
	X(synchronize, swakv_stream_synchronize(s, UINT32_MAX), TOO_MANY)                                              \
	X(capture_begin, swakv_stream_capture_begin(s, UINT32_MAX), TOO_MANY)                                          \
	X(capture_end, swakv_stream_capture_end(s, UINT32_MAX), TOO_MANY)                                              \
	X(set_replay, swakv_stream_set_replay(s, UINT32_MAX, true), TOO_MANY)                                          \
	X(replay, swakv_stream_replay(s, UINT32_MAX, NULL, NULL), TOO_MANY)                                            \
	X(fence_line, swakv_fence_wait(s, (struct swakv_fence){ SWAKV_FENCE_LINE, UINT32_MAX, 1 }, 0), TOO_MANY)       \
	X(ticket, swakv_poll(s, UINT64_MAX), "ffffffffffffffff")                                                       \
	X(ticket_wait, swakv_wait_for(s, UINT64_MAX, 0), "ffffffffffffffff")                                           \
	X(withdraw, swakv_request_withdraw(s, UINT64_MAX, &t), "ffffffffffffffff")

#define ATTACH_REFUSED(X)                                                                                              \
	X(attach_out, swakv_session_attach(NULL, LAST(struct swakv_model, { 0 }), NULL, why, sizeof(why)),             \
	  "session is NULL")                                                                                           \
	X(attach_model, swakv_session_attach(NULL, NULL, &s, why, sizeof(why)), "no model")                            \
	X(attach_groups, attaches(NULL, 1, 1, 1), "groups is NULL")                                                    \
	X(attach_group_count, attaches(GROUPS, UINT32_MAX, 1, 1), TOO_MANY)                                            \
	X(attach_streams, attaches(GROUPS, 1, UINT32_MAX, 1), TOO_MANY)                                                \
	X(attach_batch, attaches(GROUPS, 1, 1, UINT32_MAX), TOO_MANY)

#define FUNCTION(name, call, words)                                                                                    \
	static int call_##name(void)                                                                                   \
	{                                                                                                              \
		return call;                                                                                           \
	}
REFUSED(FUNCTION)
ATTACH_REFUSED(FUNCTION)

struct argument {
	const char *name;
	int (*call)(void);
	const char *words;
};

#define ROW(name, call, words) { #name, call_##name, words },

Test(client_arguments, absurd_ones_are_refused_before_anything_is_read)
{
	static const struct argument table[] = { REFUSED(ROW) };

	s = session;
	for (size_t i = 0; i < N(table); i++) {
		int code = table[i].call();
		const char *said = swakv_session_error(s);

		cr_expect_eq(code, SWAKV_EINVALID, "%s: %d: %s", table[i].name, code, said);
		cr_expect_not_null(strstr(said, table[i].words), "%s: %s", table[i].name, said);
		cr_expect_not(fake_has_command(&fake), "%s is sent", table[i].name);
	}
}

Test(client_arguments, absurd_ones_of_an_attach_are_refused_before_anything_is_read)
{
	static const struct argument table[] = { ATTACH_REFUSED(ROW) };

	for (size_t i = 0; i < N(table); i++) {
		int code = table[i].call();

		cr_expect_eq(code, SWAKV_EINVALID, "%s: %d: %s", table[i].name, code, why);
		cr_expect_not_null(strstr(why, table[i].words), "%s: %s", table[i].name, why);
	}
}

/* ---- a page table of the caller's ---------------------------------------------------------- */

static swakv_page_table *table;

static int tables(const struct swakv_page_table_options *o)
{
	swakv_page_table *out = table;
	int code = swakv_page_table_new(o, &out, why, sizeof(why));

	cr_expect_null(out);
	return code;
}

#define ROWS LAST(struct swakv_page_table_row, { .size = sizeof(struct swakv_page_table_row), .count = 1, .ids = &one })

static const int32_t one = 1;

#define TABLE_REFUSED(X)                                                                                               \
	X(set_row_list, swakv_page_table_set_row(table, 0, NULL, 1), "NULL")                                           \
	X(set_row_count, swakv_page_table_set_row(table, 0, IDS, INT32_MAX), "2147483647")                             \
	X(set_row_less, swakv_page_table_set_row(table, 0, IDS, -1), "-1")                                             \
	X(set_row_row, swakv_page_table_set_row(table, INT32_MAX, IDS, 1), "2147483647")                               \
	X(set_rows_list, swakv_page_table_set_rows(table, NULL, 1), "NULL")                                            \
	X(set_rows_count, swakv_page_table_set_rows(table, ROWS, INT32_MAX), "2147483647")                             \
	X(set_rows_less, swakv_page_table_set_rows(table, ROWS, -1), "-1")                                             \
	X(set_entry, swakv_page_table_set_entry(table, 0, INT32_MAX, 1), "2147483647")                                 \
	X(clear_entry, swakv_page_table_clear_entry(table, 0, INT32_MIN), "-2147483648")                               \
	X(compact_rows_list, swakv_page_table_compact_rows(table, NULL, 1, 1), "NULL")                                 \
	X(compact_rows_count, swakv_page_table_compact_rows(table, IDS, INT32_MAX, 1), "2147483647")                   \
	X(compact_rows_less, swakv_page_table_compact_rows(table, IDS, -1, 1), "-1")                                   \
	X(view, swakv_page_table_get_view(table, NULL), "NULL")                                                        \
	X(upload_rows_sink, swakv_page_table_upload_rows(table, NULL, NULL), "upload is NULL")                         \
	X(upload_entries_sink, swakv_page_table_upload_entries(table, NULL, NULL), "upload is NULL")

TABLE_REFUSED(FUNCTION)

Test(client_arguments, absurd_ones_of_a_page_table_are_refused_before_anything_is_read)
{
	static const struct argument rows[] = { TABLE_REFUSED(ROW) };
	int32_t own[2 * 2 * 4];
	struct swakv_page_table_options o = {
		.size = sizeof(o), .n_rows = 2, .width = 4, .num_pages = 8, .cells = own
	};

	cr_assert_eq(swakv_page_table_new(&o, &table, why, sizeof(why)), 0, "%s", why);
	for (size_t i = 0; i < N(rows); i++) {
		int code = rows[i].call();
		const char *said = swakv_page_table_error(table);

		cr_expect_eq(code, SWAKV_EINVALID, "%s: %d: %s", rows[i].name, code, said);
		cr_expect_not_null(strstr(said, rows[i].words), "%s: %s", rows[i].name, said);
	}
	swakv_page_table_free(table);
	table = (void *)&own;
	cr_expect_eq(swakv_page_table_new(NULL, &table, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_eq(swakv_page_table_new(&o, NULL, why, sizeof(why)), SWAKV_EINVALID);
	o.cells = NULL;
	cr_expect_eq(tables(&o), SWAKV_EINVALID);
	o.cells = own;
	o.n_rows = o.width = INT32_MAX;
	cr_expect_eq(tables(&o), SWAKV_EINVALID);
	o.n_rows = -1;
	cr_expect_eq(tables(&o), SWAKV_EINVALID);
}

/* ---- exports of a table ---------------------------------------------------------------------- */

static const struct swakv_export_style style = {
	.size = sizeof(style), .halves = 1, .ratio = 1, .scale = 1, .hole = -1
};
static int32_t cells[4];
static int64_t places[4];
static size_t n_listed;

static struct swakv_export_rows rows_of(uint32_t n, uint32_t width)
{
	static const int32_t ids[1] = { 1 };
	static const int64_t lengths[1] = { 1 };
	struct swakv_export_rows x = { .size = sizeof(x), .n = n, .width = width, .page_tokens = 16, .n_rows = 1 };

	x.ids = last(ids, sizeof(ids));
	x.lengths = last(lengths, sizeof(lengths));
	x.stride = width;
	return x;
}

static int dense(uint32_t n, uint32_t width)
{
	struct swakv_export_rows x = rows_of(n, width);

	return swakv_export_dense(&x, &style, cells, 1, NULL, why, sizeof(why));
}

static int lists_of(int32_t *indptr, size_t *count)
{
	struct swakv_export_rows x = rows_of(1, 1);

	return swakv_export_csr(&x, &style, indptr, cells, 4, count, cells, NULL, why, sizeof(why));
}

static int slots_of(const int32_t *count, uint32_t n)
{
	struct swakv_export_rows x = rows_of(n, 1);

	return swakv_export_slots(&x, &style, count, places, 4, why, sizeof(why));
}

#define EXPORT_REFUSED(X)                                                                                              \
	X(export_rows, swakv_export_dense(NULL, &style, cells, 1, NULL, why, sizeof(why)), "rows are NULL")            \
	X(export_csr_rows, swakv_export_csr(NULL, &style, cells, cells, 4, &n_listed, cells, NULL, why, sizeof(why)),  \
	  "rows are NULL")                                                                                             \
	X(export_slots_rows, swakv_export_slots(NULL, &style, cells, places, 4, why, sizeof(why)), "rows are NULL")    \
	X(export_style,                                                                                                \
	  swakv_export_dense(LAST(struct swakv_export_rows, { 0 }), NULL, cells, 1, NULL, why, sizeof(why)),           \
	  "style is NULL")                                                                                             \
	X(export_count, dense(UINT32_MAX, 1), TOO_MANY)                                                                \
	X(export_width, dense(1, UINT32_MAX), TOO_MANY)                                                                \
	X(export_indptr, lists_of(NULL, &n_listed), "indptr is NULL")                                                  \
	X(export_n_indices, lists_of(cells, NULL), "count is NULL")                                                    \
	X(export_counts, slots_of(NULL, 1), "counts are NULL")                                                         \
	X(export_slots, slots_of(IDS, UINT32_MAX), TOO_MANY)                                                           \
	X(style_layout,                                                                                                \
	  swakv_export_style_of(SWAKV_VLLM, NULL, 1, 0, LAST(struct swakv_export_style, { 0 }), why, sizeof(why)),     \
	  "layout is NULL")                                                                                            \
	X(style_out,                                                                                                   \
	  swakv_export_style_of(SWAKV_VLLM, LAST(struct swakv_layout, { 0 }), 1, 0, NULL, why, sizeof(why)),           \
	  "style is NULL")

EXPORT_REFUSED(FUNCTION)

Test(client_arguments, absurd_ones_of_an_export_are_refused_before_anything_is_read)
{
	static const struct argument rows[] = { EXPORT_REFUSED(ROW) };

	for (size_t i = 0; i < N(rows); i++) {
		int code = rows[i].call();

		cr_expect_eq(code, SWAKV_EINVALID, "%s: %d: %s", rows[i].name, code, why);
		cr_expect_not_null(strstr(why, rows[i].words), "%s: %s", rows[i].name, why);
	}
}

/* ---- nothing at all -------------------------------------------------------------------------- */

#define MISSING(X)                                                                                                     \
	X(no_begin, swakv_request_begin(NULL, LAST(struct swakv_begin_options, { 0 }), &unused, &t), "")               \
	X(no_withdraw, swakv_request_withdraw(NULL, 1, &t), "")                                                        \
	X(no_reserve, swakv_request_reserve(NULL, 1, &t), "")                                                          \
	X(no_finish, swakv_request_finish(NULL, &t), "")                                                               \
	X(no_abandon, swakv_request_abandon(NULL, &t), "")                                                             \
	X(no_prefill, swakv_prefill_prepare(NULL, IDS, 1, &t), "")                                                     \
	X(no_prefill_complete, swakv_prefill_complete(NULL, SWAKV_DONE, &t), "")                                       \
	X(no_decode, swakv_decode_prepare(NULL, &t), "")                                                               \
	X(no_decode_complete, swakv_decode_complete(NULL, SWAKV_DONE, &t), "")                                         \
	X(no_extend, swakv_extend_prepare(NULL, IDS, 1, &t), "")                                                       \
	X(no_extend_complete, swakv_extend_complete(NULL, SWAKV_DONE, IDS, 1, &t), "")                                 \
	X(no_rewind, swakv_rewind(NULL, IDS, 1, &t), "")                                                               \
	X(no_compact, swakv_compact_begin(NULL, IDS, 1, 1, 0, 0, &t), "")                                              \
	X(no_compact_complete, swakv_compact_complete(NULL, SWAKV_DONE, &t), "")                                       \
	X(no_step, swakv_step_prepare(NULL, STEPS, 1, &t), "")                                                         \
	X(no_step_complete, swakv_step_complete(NULL, STEPS, 1, &t), "")                                               \
	X(no_turn, swakv_step_turn(NULL, LAST(struct swakv_turn, { .size = sizeof(struct swakv_turn) }), 1, &t), "")   \
	X(no_take, swakv_pages_take(NULL, 0, 0, 0, 1, 1, 0, IDS, &n_taken, &t), "")                                    \
	X(no_give, swakv_pages_give(NULL, 0, IDS, 1, FENCES, 1, &t), "")                                               \
	X(no_offer, swakv_pages_offer(NULL, 0, 1), "")                                                                 \
	X(no_limits, swakv_pages_get_limits(NULL, 0, &n_pages, &n_pages), "")                                          \
	X(no_token, swakv_session_get_token(NULL, LAST(struct swakv_token, { { 0 } })), "")                            \
	X(no_shutdown, swakv_session_shutdown(NULL), "")                                                               \
	X(no_ping, swakv_session_ping(NULL, &t), "")                                                                   \
	X(no_info, swakv_session_get_info(NULL, NULL), "")                                                             \
	X(no_layout, swakv_session_get_layout(NULL, 0, NULL), "")                                                      \
	X(no_counters, swakv_session_get_counters(NULL, NULL), "")                                                     \
	X(no_poll, swakv_poll(NULL, 1), "")                                                                            \
	X(no_wait, swakv_wait(NULL, 1), "")                                                                            \
	X(no_wait_for, swakv_wait_for(NULL, 1, 1), "")                                                                 \
	X(no_fd, swakv_session_fd(NULL), "")                                                                           \
	X(no_session_take, swakv_session_take(NULL), "")                                                               \
	X(no_request_state, swakv_request_get_state(NULL, NULL), "")                                                   \
	X(no_sequence_state, swakv_sequence_get_state(NULL, 0, &state), "")                                            \
	X(no_group_state, swakv_sequence_get_group_state(NULL, 0, 0, &state), "")                                      \
	X(no_free_pages, swakv_session_free_pages(NULL, &n_pages), "")                                                 \
	X(no_group_free_pages, swakv_session_group_free_pages(NULL, 0, &n_pages), "")                                  \
	X(no_bind_host, swakv_stream_bind_host(NULL, 0, false), "")                                                    \
	X(no_bind_cuda, swakv_stream_bind_cuda(NULL, 0, NULL), "")                                                     \
	X(no_bind_cuda2, swakv_stream_bind_cuda2(NULL, 0, NULL), "")                                                   \
	X(no_bind_custom, swakv_stream_bind_custom(NULL, 0, &ops, NULL), "")                                           \
	X(no_unordered, swakv_stream_set_unordered(NULL, 0, true), "")                                                 \
	X(no_launch, swakv_stream_launch_host(NULL, 0, wait_for_gate, NULL), "")                                       \
	X(no_mark, swakv_stream_mark(NULL, 0, &fence), "")                                                             \
	X(no_fence_wait, swakv_fence_wait(NULL, SWAKV_DONE, 0), "")                                                    \
	X(no_synchronize, swakv_stream_synchronize(NULL, 0), "")                                                       \
	X(no_capture_begin, swakv_stream_capture_begin(NULL, 0), "")                                                   \
	X(no_capture_end, swakv_stream_capture_end(NULL, 0), "")                                                       \
	X(no_set_replay, swakv_stream_set_replay(NULL, 0, true), "")                                                   \
	X(no_replay, swakv_stream_replay(NULL, 0, NULL, &fence), "")                                                   \
	X(no_identity, swakv_page_table_set_identity(NULL), "")                                                        \
	X(no_set_row, swakv_page_table_set_row(NULL, 0, IDS, 1), "")                                                   \
	X(no_set_rows, swakv_page_table_set_rows(NULL, ROWS, 1), "")                                                   \
	X(no_set_entry, swakv_page_table_set_entry(NULL, 0, 0, 1), "")                                                 \
	X(no_clear_entry, swakv_page_table_clear_entry(NULL, 0, 0), "")                                                \
	X(no_compact_rows, swakv_page_table_compact_rows(NULL, IDS, 1, 1), "")                                         \
	X(no_view, swakv_page_table_get_view(NULL, NULL), "")                                                          \
	X(no_check, swakv_page_table_check(NULL), "")

MISSING(FUNCTION)

Test(client_arguments, a_missing_session_or_request_is_refused)
{
	static const struct argument table_of_all[] = { MISSING(ROW) };

	for (size_t i = 0; i < N(table_of_all); i++)
		cr_expect_eq(table_of_all[i].call(), SWAKV_EINVALID, "%s: %d", table_of_all[i].name,
			     table_of_all[i].call());
	swakv_request_free(NULL);
	swakv_session_close(NULL);
	swakv_page_table_free(NULL);
	swakv_page_table_upload_free(NULL);
	swakv_sequence_state_clear(NULL);
	cr_expect_not(swakv_request_valid(NULL));
	cr_expect_eq(swakv_request_batch(NULL), 0);
	cr_expect_eq(swakv_request_slot(NULL, 0), -1);
	cr_expect_eq(swakv_request_slot(r, UINT32_MAX), -1);
	cr_expect_eq(swakv_session_private_pages(NULL), 0);
	cr_expect_eq(swakv_pages_takeable(NULL, 0), 0);
	cr_expect_eq(swakv_pages_takeable(session, UINT32_MAX), 0);
	cr_expect_eq(swakv_pages_wanted(NULL, 0, NULL), 0);
	cr_expect_eq(swakv_pages_wanted(session, UINT32_MAX, NULL), 0);
	cr_expect_not(swakv_fence_reached(NULL, (struct swakv_fence){ SWAKV_FENCE_LINE, 0, 1 }));
	cr_expect_not(swakv_fence_reached(session, (struct swakv_fence){ SWAKV_FENCE_LINE, UINT32_MAX, 1 }));
	cr_expect_null(swakv_stream_cuda(NULL, 0));
	cr_expect_null(swakv_stream_cuda(session, UINT32_MAX));
	cr_expect_not_null(swakv_session_error(NULL));
	cr_expect_not_null(swakv_page_table_error(NULL));
	cr_expect_null(swakv_page_table_row(NULL, 0));
	cr_expect_not(swakv_page_table_is_identity(NULL));
	cr_expect_eq(swakv_page_table_upload_entries_sent(NULL), 0);
	cr_expect_eq(swakv_page_table_upload_copies(NULL), 0);
}
