/* SPDX-License-Identifier: Apache-2.0 */
/* What programs of other versions hand in: structs that are shorter, longer, or never got a size. */
#include <stdlib.h>
#include <string.h>
#include <swakv/page_table.h>

#include "client_fixture.h"
#include "session.h"

TestSuite(client_version, .init = client_setup, .fini = client_teardown);

/* A struct with room behind it, as a later version of it has. */
#define LONGER(type)                                                                                                   \
	union {                                                                                                        \
		unsigned char bytes[sizeof(struct type) + 16]; /* first, so that { 0 } fills them all */               \
		struct type s;                                                                                         \
	}

/* Refused without a size and with a byte that nobody knows, taken with zeroes behind; @call uses @x, @why is said. */
#define TAKES(x, call, why)                                                                                            \
	do {                                                                                                           \
		memset((x).bytes + sizeof((x).s), 0, sizeof(x) - sizeof((x).s));                                       \
		(x).s.size = 0;                                                                                        \
		cr_expect_eq((call), SWAKV_EINVALID, "no size");                                                       \
		cr_expect_not_null(strstr((why), "is 0, not"), "%s", (why));                                           \
		(x).s.size = sizeof(uint32_t);                                                                         \
		cr_expect_eq((call), SWAKV_EINVALID, "too small");                                                     \
		(x).s.size = 0xaaaaaaaa;                                                                               \
		cr_expect_eq((call), SWAKV_EINVALID, "never set");                                                     \
		(x).s.size = sizeof(x);                                                                                \
		(x).bytes[sizeof(x) - 1] = 1;                                                                          \
		cr_expect_eq((call), SWAKV_EINVALID, "what is not known");                                             \
		cr_expect_not_null(strstr((why), "others must be 0"), "%s", (why));                                    \
		(x).bytes[sizeof(x) - 1] = 0;                                                                          \
		cr_expect_eq((call), 0, "zeroes: %s", (why));                                                          \
	} while (0)

#define SAID swakv_session_error(session)

Test(client_version, the_library_says_its_own)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", SWAKV_VERSION_MAJOR, SWAKV_VERSION_MINOR, SWAKV_VERSION_PATCH);
	cr_expect_str_eq(text, SWAKV_VERSION, "the build's");
	cr_expect_eq(swakv_version(), SWAKV_VERSION_NUMBER);
	cr_expect(swakv_has("sized-structs"));
	cr_expect(swakv_has("pages"));
	cr_expect(swakv_has("wants-fd"));
	cr_expect_not(swakv_has("no such feature"));
	cr_expect_not(swakv_has(""));
	cr_expect_not(swakv_has(NULL));
}

Test(client_version, the_size_of_each_struct_can_be_asked_for)
{
	cr_expect_eq(swakv_struct_size("swakv_layout"), sizeof(struct swakv_layout));
	cr_expect_eq(swakv_struct_size("swakv_fence"), sizeof(struct swakv_fence));
	cr_expect_eq(swakv_struct_size("layout"), 0);
	cr_expect_eq(swakv_struct_size(NULL), 0);
}

Test(client_version, what_is_filled_may_be_longer_and_never_beyond_its_size)
{
	LONGER(swakv_session_info) info = { 0 };
	LONGER(swakv_layout) layout = { 0 };
	LONGER(swakv_session_counters) counters = { 0 };

	TAKES(info, swakv_session_get_info(session, &info.s), SAID);
	cr_expect_eq(info.s.n_streams, FAKE_STREAMS);
	TAKES(layout, swakv_session_get_layout(session, 0, &layout.s), SAID);
	cr_expect_eq(layout.s.width, FAKE_WIDTH);
	TAKES(counters, swakv_session_get_counters(session, &counters.s), SAID);
	cr_expect_eq(counters.s.size, sizeof(counters), "the size is the program's");
	for (unsigned i = sizeof(info.s); i < sizeof(info); i++)
		cr_expect_eq(info.bytes[i], 0);
}

Test(client_version, a_stream_without_a_size_stays_unbound)
{
	LONGER(swakv_stream_ops) o = { .s = ops };

	TAKES(o, swakv_stream_bind_custom(session, 0, &o.s, &streams[0]), SAID);
	cr_expect_eq(swakv_stream_bind_custom(session, 0, &o.s, &streams[0]), SWAKV_EBUSY);
}

Test(client_version, steps_of_a_newer_program_lie_further_apart)
{
	LONGER(swakv_step) list[2] = { 0 };
	struct fake_command c;
	swakv_ticket t;

	for (int i = 0; i < 2; i++) {
		list[i].s = (struct swakv_step){ .size = sizeof(list[i]), .request = begin(0, i), .result = 77 };
		memset(list[i].bytes + sizeof(list[i].s), 0, 16);
	}
	list[1].s.size = sizeof(list[1].s);
	cr_expect_eq(swakv_step_prepare(session, &list[0].s, 2, &t), SWAKV_EINVALID);
	cr_expect_not_null(strstr(SAID, "entry 1: size of struct swakv_step is "), "%s", SAID);
	cr_expect_eq(list[0].s.result, 77, "nobody knows where the others lie");
	list[1].s.size = 0;
	cr_expect_eq(swakv_step_prepare(session, &list[0].s, 2, &t), SWAKV_EINVALID);
	list[1].s.size = sizeof(list[1]);
	list[1].bytes[sizeof(list[1].s)] = 1;
	cr_expect_eq(swakv_step_prepare(session, &list[0].s, 2, &t), SWAKV_EINVALID);
	list[1].bytes[sizeof(list[1].s)] = 0;
	cr_assert_eq(swakv_step_prepare(session, &list[0].s, 2, &t), 0, "%s", SAID);
	fake_take(&fake, WIRE_OP_STEP_PREPARE, &c);
	cr_assert_eq(c.head.n, 2);
	fake_deliver(&fake, &c, &(struct fake_delivery){ 0 });
	cr_expect_eq(swakv_wait(session, t), 0);
	cr_expect_eq(list[0].s.result, 0);
	cr_expect_eq(list[1].s.result, 0);
	cr_expect_eq(list[1].bytes[sizeof(list[1].s)], 0);
}

/* What attaches nowhere: the size is looked at first. */
static int try_attach(struct swakv_attach_options *o, const struct swakv_model *m, char *why, size_t size)
{
	swakv_session *s = session;
	int r = swakv_session_attach(o, m, &s, why, size);

	cr_expect_null(s);
	return r == SWAKV_EGONE || r == SWAKV_ESYSTEM || r == SWAKV_EDENIED ? 0
									    : r; /* nobody is there: it got so far */
}

Test(client_version, an_attach_looks_at_all_sizes_first)
{
	LONGER(swakv_group) g[2] = { 0 };
	LONGER(swakv_model)
	m = { .s = { .name = "m", .n_groups = 2, .groups = &g[0].s, .max_batch = 1, .max_seq = 64 } };
	LONGER(swakv_attach_options) o = { .s = { .socket = "/nonexistent/swakv.sock" } };
	char why[512] = "";

	for (int i = 0; i < 2; i++)
		g[i].s = (struct swakv_group){ .size = sizeof(g[i]),
					       .kind = SWAKV_FULL,
					       .layers = 1,
					       .kv_heads = 1,
					       .head_dim = 8,
					       .dtype = SWAKV_F16 };
	for (int i = 0; i < 2; i++)
		memset(g[i].bytes + sizeof(g[i].s), 0, 16);
	m.s.size = sizeof(m.s);
	TAKES(o, try_attach(&o.s, &m.s, why, sizeof(why)), why);
	TAKES(m, try_attach(&o.s, &m.s, why, sizeof(why)), why);
	TAKES(g[0], (g[1].s.size = g[0].s.size, try_attach(&o.s, &m.s, why, sizeof(why))), why);
	g[1].s.size = sizeof(g[1].s);
	cr_expect_eq(try_attach(&o.s, &m.s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "group 1: size of struct swakv_group is "), "%s", why);
}

Test(client_version, a_begin_without_a_size_takes_no_slot)
{
	LONGER(swakv_begin_options) o = { .s = { .slots = (int32_t[]){ 1 }, .n_slots = 1 } };
	struct fake_command c;
	swakv_request *r;
	swakv_ticket t;

	TAKES(o, swakv_request_begin(session, &o.s, &r, &t), SAID);
	fake_take(&fake, WIRE_OP_BEGIN, &c);
	cr_expect_eq(c.head.n, 1, "the one that was sent");
}

Test(client_version, a_state_without_a_size_is_neither_asked_for_nor_freed)
{
	struct swakv_sequence_state sequence = { .bindings = (void *)1 };
	struct swakv_request_state state = { .phase = SWAKV_PHASE_FINISHING };
	swakv_request *r = begin(0, 1);

	cr_expect_eq(swakv_sequence_get_state(r, 0, &sequence), SWAKV_EINVALID);
	cr_expect_not_null(strstr(SAID, "struct swakv_sequence_state is 0"), "%s", SAID);
	swakv_sequence_state_clear(&sequence);
	cr_expect_eq(sequence.bindings, (void *)1, "what it is, is not known");
	cr_expect_eq(swakv_request_get_state(r, &state), SWAKV_EINVALID);
	cr_expect_eq(state.phase, SWAKV_PHASE_FINISHING);
}

static int sink_copy(void *arg, uint64_t dst, const void *src, size_t bytes)
{
	return 0;
}

static int sink_fill(void *arg, uint64_t dst, int32_t value, size_t n)
{
	return 0;
}

static int make_table(const struct swakv_page_table_options *o, swakv_page_table **t, char *why, size_t size)
{
	swakv_page_table_free(*t);
	return swakv_page_table_new(o, t, why, size);
}

static int upload(swakv_page_table *t, const struct swakv_page_table_sink *sink)
{
	swakv_page_table_upload *u;
	int r = swakv_page_table_upload_rows(t, sink, &u);

	swakv_page_table_upload_free(u);
	return r;
}

Test(client_version, a_page_table_looks_at_sizes_too)
{
	int32_t cells[2 * 2 * 4], id = 3;
	LONGER(swakv_page_table_options)
	o = { .s = { .cells = cells, .device = 64, .n_rows = 2, .width = 4, .num_pages = 9 } };
	LONGER(swakv_page_table_row) rows[2] = { 0 };
	LONGER(swakv_page_table_view) view = { 0 };
	LONGER(swakv_page_table_sink) sink = { .s = { .copy = sink_copy, .fill = sink_fill } };
	swakv_page_table *t = NULL;
	char why[256] = "";

	TAKES(o, make_table(&o.s, &t, why, sizeof(why)), why);
	TAKES(view, swakv_page_table_get_view(t, &view.s), swakv_page_table_error(t));
	cr_expect_eq(view.s.width, 4);
	rows[0].s = (struct swakv_page_table_row){ .row = 0 };
	rows[1].s = (struct swakv_page_table_row){ .size = sizeof(rows[1]), .row = 1, .count = 1, .ids = &id };
	memset(rows[1].bytes + sizeof(rows[1].s), 0, 16);
	TAKES(rows[0], swakv_page_table_set_rows(t, &rows[0].s, 2), swakv_page_table_error(t));
	cr_expect_eq(swakv_page_table_row(t, 1)[0], 3);
	TAKES(sink, upload(t, &sink.s), swakv_page_table_error(t));
	swakv_page_table_free(t);
}
