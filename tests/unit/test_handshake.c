/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "hello.h"
#include "session/handshake.h"

static struct wire_hello hello;
static struct handshake h;
static struct refusal r;
static const struct backend_pool pool = { .name = "main",
					  .backend = WIRE_BACKEND_HOST,
					  .fd = -1,
					  .bytes = 9 << 20,
					  .table_area_bytes = 1 << 20,
					  .half_bytes = 4 << 20,
					  .extent_bytes = 1 << 20 };

static void setup(void)
{
	hello = good_hello();
}

TestSuite(handshake, .init = setup);

static int check(void)
{
	memset(&r, 0, sizeof(r));
	return handshake_check(&h, &hello, sizeof(hello), &pool, &r);
}

#define REFUSED(code_, reason_)                                                                                        \
	do {                                                                                                           \
		cr_assert_eq(check(), code_, "%s", r.text);                                                            \
		cr_assert_eq(r.fault.reason, reason_, "%s", r.text);                                                   \
		cr_assert_eq(r.fault.code, code_);                                                                     \
		cr_assert_gt(strlen(r.text), 10u);                                                                     \
	} while (0)

Test(handshake, a_valid_hello_is_taken)
{
	cr_assert_eq(check(), 0, "%s", r.text);
	cr_assert_eq(h.version, WIRE_VERSION_MAX);
	cr_assert_eq(h.geometry[0].page_bytes, 16 * 64 * 2);
	cr_assert_eq(h.model.max_batch, 4);
}

Test(handshake, every_length_but_the_right_one_is_refused)
{
	unsigned char longer[sizeof(hello) + 1] = { 0 };

	memcpy(longer, &hello, sizeof(hello));
	for (size_t n = 0; n < sizeof(hello); n++)
		cr_assert_lt(handshake_check(&h, &hello, n, &pool, &r), 0, "%zu bytes", n);
	cr_assert_lt(handshake_check(&h, longer, sizeof(longer), &pool, &r), 0);
}

Test(handshake, garbage_is_no_hello)
{
	hello.magic ^= 1;
	REFUSED(SWAKV_EINVALID, FAULT_MESSAGE);
}

Test(handshake, versions_must_overlap)
{
	hello.version_min = hello.version_max = WIRE_VERSION_MAX + 1;
	REFUSED(SWAKV_EVERSION, FAULT_VERSION);
	hello.version_min = hello.version_max = WIRE_VERSION_MIN - 1;
	REFUSED(SWAKV_EVERSION, FAULT_VERSION);
	hello.version_min = 2;
	hello.version_max = 1;
	REFUSED(SWAKV_EVERSION, FAULT_VERSION);
}

Test(handshake, a_newer_client_that_still_speaks_our_version_is_taken)
{
	hello.version_max = WIRE_VERSION_MAX + 5;
	cr_assert_eq(check(), 0, "%s", r.text);
	cr_assert_eq(h.version, WIRE_VERSION_MAX);
}

Test(handshake, struct_sizes_must_agree)
{
	uint16_t *sizes[] = { &hello.size_welcome, &hello.size_command, &hello.size_reply, &hello.size_ring_control };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		*sizes[i] += 8;
		REFUSED(SWAKV_EVERSION, FAULT_STRUCT_SIZE);
		*sizes[i] -= 8;
	}
	hello.size += 8;
	REFUSED(SWAKV_EVERSION, FAULT_STRUCT_SIZE);
}

Test(handshake, reserved_fields_must_be_zero)
{
	hello.flags = WIRE_HELLO_JOIN << 1;
	REFUSED(SWAKV_EINVALID, FAULT_RESERVED);
	hello.flags = WIRE_HELLO_JOIN | WIRE_HELLO_JOINABLE;
	REFUSED(SWAKV_EINVALID, FAULT_RESERVED);
	hello.flags = WIRE_HELLO_JOIN | WIRE_HELLO_EVENTS;
	REFUSED(SWAKV_EINVALID, FAULT_RESERVED);
	hello.flags = 0;
	for (size_t i = 0; i < sizeof(hello.join); i++) {
		((unsigned char *)&hello.join)[i] = 1;
		REFUSED(SWAKV_EINVALID, FAULT_RESERVED);
		((unsigned char *)&hello.join)[i] = 0;
	}
	for (size_t i = 0; i < sizeof(hello.reserved) / sizeof(hello.reserved[0]); i++) {
		hello.reserved[i] = 1;
		REFUSED(SWAKV_EINVALID, FAULT_RESERVED);
		hello.reserved[i] = 0;
	}
	hello.groups[0].reserved[7] = 1;
	REFUSED(SWAKV_EINVALID, FAULT_RESERVED);
	hello.groups[0].reserved[7] = 0;
	hello.groups[WIRE_MAX_GROUPS - 1].dtype = 1;
	REFUSED(SWAKV_EINVALID, FAULT_RESERVED);
}

Test(handshake, names_must_be_terminated_printable_and_clean_behind)
{
	memset(hello.model, 'a', sizeof(hello.model));
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_NAME);
	setup();
	hello.model[0] = '\n';
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_NAME);
	setup();
	hello.model[20] = 'x';
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_NAME);
}

Test(handshake, a_models_name_has_127_bytes_and_is_never_cut)
{
	memset(hello.model, 'm', WIRE_MODEL_NAME - 1);
	cr_assert_eq(check(), 0, "%s", r.text);
	hello.model[WIRE_MODEL_NAME - 1] = 'm';
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_NAME);
	cr_assert(strstr(r.text, "1 to 127 printable"), "%s", r.text);
	memset(hello.model, 0, WIRE_MODEL_NAME);
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_NAME);
	strcpy(hello.model, "m "); /* no line of a configuration could name it */
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_NAME);
	strcpy(hello.model, " m");
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_NAME);
}

Test(handshake, another_pools_name_is_refused_with_ours)
{
	strcpy(hello.pool, "main");
	cr_assert_eq(check(), 0, "%s", r.text);
	strcpy(hello.pool, "other");
	REFUSED(SWAKV_EINVALID, FAULT_POOL_NAME);
	cr_assert(strstr(r.text, "\"other\"") && strstr(r.text, "\"main\""), "%s", r.text);
}

Test(handshake, too_many_groups_are_refused_before_they_are_read)
{
	hello.n_groups = WIRE_MAX_GROUPS + 1;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_GROUPS);
	hello.n_groups = UINT32_MAX;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_GROUPS);
	hello.n_groups = 0;
	cr_assert_neq(check(), 0);
}

Test(handshake, what_a_model_says_of_its_steps_is_taken)
{
	hello.flags = WIRE_HELLO_CHUNK_MAPPED;
	hello.max_advance = 8;
	hello.in_flight = 3;
	hello.max_rewind = 5;
	cr_assert_eq(check(), 0, "%s", r.text);
	cr_assert(h.model.chunk_mapped);
	cr_assert_eq(h.model.max_advance, 8);
	cr_assert_eq(h.model.in_flight, 3);
	cr_assert_eq(h.model.max_rewind, 5);
	hello.flags = 0;
	cr_assert_eq(check(), 0, "%s", r.text);
	cr_assert_not(h.model.chunk_mapped);
}

Test(handshake, every_group_has_a_layout_and_a_table)
{
	uint64_t offsets[WIRE_MAX_GROUPS];
	struct session_layout l;
	struct wire_welcome w;

	hello.n_groups = WIRE_MAX_GROUPS;
	for (uint32_t i = 0; i < WIRE_MAX_GROUPS; i++) {
		hello.groups[i] = hello.groups[0];
		hello.groups[i].kv_heads = 1 + i;
		offsets[i] = 512 * i;
	}
	hello.groups[3].kind = WIRE_GROUP_FULL;
	hello.groups[3].window = 0;
	cr_assert_eq(check(), 0, "%s", r.text);
	session_layout_init(&l, &h.model, h.geometry);
	welcome_fill(&w, &h, &l, &pool, offsets);
	cr_assert_eq(w.n_groups, WIRE_MAX_GROUPS);
	cr_assert_eq(w.n_tables, WIRE_MAX_GROUPS);
	for (uint32_t i = 0; i < WIRE_MAX_GROUPS; i++) {
		cr_assert_eq(w.tables[i].group, i);
		cr_assert_eq(w.tables[i].device_offset, 512 * i);
		cr_assert_eq(w.layouts[i].page_stride, w.layouts[0].page_stride * (1 + i));
		cr_assert_eq(w.layouts[i].v_base + (uint64_t)w.layouts[i].num_pages * w.layouts[i].page_stride,
			     pool.table_area_bytes + pool.half_bytes);
		cr_assert(i == 0 ||
			  w.tables[i].host_offset >= w.tables[i - 1].rows_offset + 4 * sizeof(struct wire_row_head));
	}
	hello.groups[3].window = 64;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_FULL);
}

Test(handshake, a_model_the_pool_cannot_hold_is_refused)
{
	hello.max_batch = UINT32_MAX;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_BATCH);
	setup();
	hello.groups[0].layers = 4000;
	REFUSED(SWAKV_ENEVER, FAULT_MODEL_PAGE_BYTES);
	setup();
	hello.n_streams = WIRE_MAX_STREAMS + 1;
	REFUSED(SWAKV_EINVALID, FAULT_STREAM_COUNT);
}

Test(handshake, each_dimension_is_refused_by_its_name)
{
	hello.groups[0].layers = 0;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_LAYERS);
	cr_assert(strstr(r.text, "layers 0 is"), "%s", r.text);
	setup();
	hello.groups[0].kv_heads = 5000;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_KV_HEADS);
	cr_assert(strstr(r.text, "kv_heads 5000 is"), "%s", r.text);
	setup();
	hello.groups[0].k_head_dim = 0;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_HEAD_DIM);
	setup();
	hello.groups[0].v_head_dim = 9000;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_V_HEAD_DIM);
	cr_assert(strstr(r.text, "v_head_dim 9000 is"), "%s", r.text);
}

/* One row a token of 576 bf16, as a latent of MLA has, and 100 bytes beside them. */
static void say_bytes(void)
{
	setup();
	hello.groups[0].kv_heads = hello.groups[0].k_head_dim = hello.groups[0].v_head_dim = hello.groups[0].dtype = 0;
	hello.groups[0].k_bytes = 1152;
	hello.groups[0].extra_bytes = 100;
	hello.groups[0].align = 16;
	memcpy(hello.groups[0].tag, "mla-bf16", 8);
}

Test(handshake, a_group_in_bytes_is_taken_and_laid_out)
{
	uint64_t offsets[WIRE_MAX_GROUPS] = { 0 };
	struct session_layout l;
	struct wire_welcome w;

	say_bytes();
	hello.groups[0].layers = 3;
	cr_assert_eq(check(), 0, "%s", r.text);
	session_layout_init(&l, &h.model, h.geometry);
	welcome_fill(&w, &h, &l, &pool, offsets);
	cr_expect_eq(w.layouts[0].layer_stride, 16 * 1152 + 112);
	cr_expect_eq(w.layouts[0].page_stride, 3 * (16 * 1152 + 112));
	cr_expect_eq(w.layouts[0].k_token_stride, 1152);
	cr_expect_eq(w.layouts[0].v_token_stride, 0);
	cr_expect_eq(w.layouts[0].base, pool.table_area_bytes);
	cr_expect_eq(w.layouts[0].k_base, pool.table_area_bytes);
	cr_expect_eq(w.layouts[0].extra_first, pool.table_area_bytes + 16 * 1152);
	cr_expect_eq(w.layouts[0].v_first, pool.table_area_bytes + pool.half_bytes);
	hello.groups[0].order = WIRE_ORDER_EXTRA_K_V;
	cr_assert_eq(check(), 0, "%s", r.text);
	welcome_fill(&w, &h, &l, &pool, offsets);
	cr_expect_eq(w.layouts[0].base, pool.table_area_bytes);
	cr_expect_eq(w.layouts[0].k_base, pool.table_area_bytes + 112);
	cr_expect_eq(w.layouts[0].extra_first, pool.table_area_bytes);
}

Test(handshake, bytes_that_cannot_be_are_refused_by_their_name)
{
	struct {
		size_t at;
		uint32_t value;
		enum fault_reason reason;
	} wrong[] = {
#define FIELD(name) offsetof(struct wire_group, name)
		{ FIELD(kv_heads), 1, FAULT_MODEL_BOTH },
		{ FIELD(k_head_dim), 1, FAULT_MODEL_BOTH },
		{ FIELD(v_head_dim), 1, FAULT_MODEL_BOTH },
		{ FIELD(dtype), WIRE_F16, FAULT_MODEL_BOTH },
		{ FIELD(k_bytes), (1u << 27) + 1, FAULT_MODEL_K_BYTES },
		{ FIELD(k_bytes), UINT32_MAX, FAULT_MODEL_K_BYTES },
		{ FIELD(v_bytes), UINT32_MAX, FAULT_MODEL_V_BYTES },
		{ FIELD(extra_bytes), UINT32_MAX, FAULT_MODEL_EXTRA },
		{ FIELD(align), 24, FAULT_MODEL_ALIGN },
		{ FIELD(align), 8192, FAULT_MODEL_ALIGN },
		{ FIELD(form), WIRE_FORM_COUNT, FAULT_MODEL_FORM },
		{ FIELD(order), WIRE_ORDER_COUNT, FAULT_MODEL_ORDER },
		{ FIELD(tag), 0x01616161, FAULT_MODEL_TAG },
		{ FIELD(tag) + 12, 0x61616161, FAULT_MODEL_TAG },
		{ FIELD(tag) + WIRE_TAG - 4, 0x61616161, FAULT_MODEL_TAG },
#undef FIELD
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		say_bytes();
		memcpy((char *)&hello.groups[0] + wrong[i].at, &wrong[i].value, sizeof(wrong[i].value));
		REFUSED(SWAKV_EINVALID, wrong[i].reason);
	}
	say_bytes();
	hello.groups[0].k_bytes = 0;
	hello.groups[0].v_bytes = 8;
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_K_BYTES);
	say_bytes();
	memset(hello.groups[0].tag, 'a', WIRE_TAG);
	REFUSED(SWAKV_EINVALID, FAULT_MODEL_TAG);
}

/* The V half begins where the K half ends, which need not be a multiple of what K begins at. */
Test(handshake, an_alignment_that_the_v_half_does_not_have_is_refused)
{
	struct backend_pool odd = pool;

	odd.half_bytes += 16;
	say_bytes();
	cr_expect_eq(handshake_check(&h, &hello, sizeof(hello), &odd, &r), 0, "%s", r.text);
	hello.groups[0].align = 32;
	cr_expect_eq(handshake_check(&h, &hello, sizeof(hello), &odd, &r), SWAKV_EINVALID);
	cr_expect_eq(r.fault.reason, FAULT_MODEL_ALIGN_HALF);
}

/* Any bytes: a verdict, and never more streams, slots or groups than there is room for. */
Test(handshake, random_damage_is_survived)
{
	unsigned int seed = 1;

	for (int round = 0; round < 200000; round++) {
		unsigned char bytes[sizeof(hello)];

		memcpy(bytes, &hello, sizeof(bytes));
		for (int i = 0; i < 1 + round % 4; i++)
			bytes[32 + (size_t)rand_r(&seed) % (sizeof(bytes) - 32)] = (unsigned char)rand_r(&seed);
		if (handshake_check(&h, bytes, sizeof(bytes), &pool, &r) != 0)
			continue;
		cr_assert_leq(h.model.n_groups, WIRE_MAX_GROUPS);
		cr_assert_leq(h.model.n_streams, WIRE_MAX_STREAMS);
		cr_assert(h.model.max_batch >= 1 && h.model.max_batch <= WIRE_MAX_BATCH);
		cr_assert_gt(h.geometry[0].width, 0);
	}
}

Test(handshake, k_and_v_of_a_planar_pool_have_one_base)
{
	uint64_t offsets[WIRE_MAX_GROUPS] = { 0 };
	struct session_layout l;
	struct wire_welcome w;

	cr_assert_eq(check(), 0, "%s", r.text);
	cr_assert_eq(pool.half_bytes % h.geometry[0].page_bytes, 0);
	session_layout_init(&l, &h.model, h.geometry);
	welcome_fill(&w, &h, &l, &pool, offsets);
	cr_assert_eq(w.layouts[0].k_base, w.layouts[0].v_base);
}

/* V id = K id + num_pages, and V page 0 lies where the pool's V half begins. */
Test(handshake, the_welcome_puts_the_v_half_behind_the_k_half)
{
	uint64_t offsets[WIRE_MAX_GROUPS] = { 512 };
	struct session_layout l;
	struct wire_welcome w;

	hello.groups[0].layers =
		3; /* a half is no multiple of such a page, so the end tells the two halves' bases apart */
	cr_assert_eq(check(), 0, "%s", r.text);
	cr_assert_neq(pool.half_bytes % h.geometry[0].page_bytes, 0);
	session_layout_init(&l, &h.model, h.geometry);
	welcome_fill(&w, &h, &l, &pool, offsets);
	cr_assert_eq(w.layouts[0].k_base, pool.table_area_bytes);
	cr_assert_eq(w.layouts[0].v_base + (uint64_t)w.layouts[0].num_pages * w.layouts[0].page_stride,
		     pool.table_area_bytes + pool.half_bytes);
	cr_assert_gt(w.layouts[0].num_pages, 1);
	cr_assert_eq(w.tables[0].device_offset, 512);
	cr_assert_eq(w.code, 0);
	cr_assert_eq(w.pools[0].fd_index, -1);
}

/* Each layout says for itself whether its kernels need offsets of 64 bits. */
Test(handshake, the_welcome_says_which_layouts_are_wide)
{
	uint64_t offsets[WIRE_MAX_GROUPS] = { 0 };
	struct session_layout l;
	struct wire_welcome w;

	hello.n_groups = 3;
	hello.groups[1] = hello.groups[2] = hello.groups[0];
	cr_assert_eq(check(), 0, "%s", r.text);
	session_layout_init(&l, &h.model, h.geometry);
	for (uint32_t wide = 0; wide < 8; wide++) {
		for (uint32_t i = 0; i < 3; i++)
			h.geometry[i].wide = wide >> i & 1;
		welcome_fill(&w, &h, &l, &pool, offsets);
		for (uint32_t i = 0; i < 3; i++)
			cr_assert_eq(w.layouts[i].flags, wide >> i & 1 ? WIRE_LAYOUT_WIDE : 0, "group %u of %u", i,
				     wide);
	}
}

/* A page costs the broker as much whatever its size. */
Test(handshake, a_model_of_tiny_pages_is_refused)
{
	struct backend_pool strict = pool;

	hello.n_groups = 2;
	hello.groups[1] = hello.groups[0];
	hello.groups[1].k_head_dim = hello.groups[1].v_head_dim = 32; /* 16 tokens of 32 values of 2 bytes */
	strict.min_page_bytes = 1024;
	cr_expect_eq(handshake_check(&h, &hello, sizeof(hello), &strict, &r), 0, "%s", r.text);
	strict.min_page_bytes = 1025;
	cr_expect_eq(handshake_check(&h, &hello, sizeof(hello), &strict, &r), SWAKV_EINVALID);
	cr_expect_eq(r.fault.reason, FAULT_PAGE_SMALL);
	cr_expect_str_eq(r.text, "group 1: a page has 1024 bytes of K, and the broker takes none below 1025: choose "
				 "more page_tokens, or lower its min_page_bytes");
}
