/* SPDX-License-Identifier: Apache-2.0 */
/* What a client believes of a broker's welcome, and what a child of the client may do. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_broker.h"
#include "session.h"

static struct fake fake;
static char why[1024];

static void setup(void)
{
	fake_open(&fake);
}

static void teardown(void)
{
	fake_close(&fake);
}

TestSuite(client_attach, .init = setup, .fini = teardown);

static uint32_t count_entries(const char *dir)
{
	DIR *d = opendir(dir);
	uint32_t n = 0;

	cr_assert_not_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static uint32_t count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	uint32_t n = 0;
	int c;

	cr_assert_not_null(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* The attach must fail with @code and a sentence that contains @words; nothing of it may be left. */
static void assert_refused(int code, const char *words)
{
	swakv_session *s = (void *)&fake;
	uint32_t fds = count_entries("/proc/self/fd");
	int r = fake_try_attach(&fake, NULL, &s, why, sizeof(why));

	cr_expect_eq(r, code, "result %s instead of %s: %s", swakv_error_name(r), swakv_error_name(code), why);
	cr_expect_null(s);
	cr_expect_not_null(strstr(why, words), "'%s' does not contain '%s'", why, words);
	fake_die(&fake);
	if (fake.client_pidfd >= 0)
		close(fake.client_pidfd);
	fake.client_pidfd = -1;
	cr_expect_eq(count_entries("/proc/self/fd"), fds, "a descriptor leaked: %s", why);
}

Test(client_attach, tells_what_the_broker_decided)
{
	swakv_session *s = fake_attach(&fake, NULL);
	struct swakv_session_info info = { .size = sizeof(info) };
	struct swakv_layout l = { .size = sizeof(l) };

	swakv_session_get_info(s, &info);
	cr_expect_eq(info.session_id, 7);
	cr_expect_eq(info.generation, 3);
	cr_expect_eq(info.n_streams, FAKE_STREAMS);
	cr_expect_not(info.cuda);
	cr_expect_str_eq(info.device, "a fake");
	cr_expect_eq((uint64_t)(uintptr_t)info.pool, info.pool_device);
	cr_expect_eq(swakv_session_get_layout(s, 0, &l), 0);
	cr_expect_eq(l.num_pages, FAKE_PAGES);
	cr_expect_eq(l.width, FAKE_WIDTH);
	cr_expect_eq(l.table, info.pool_device + 1024);
	cr_expect_eq(l.k_base, info.pool_device + 4096);
	cr_expect_eq(l.v_base, l.k_base + FAKE_HALF_REST);
	cr_expect_eq(l.element_bytes, 2);
	cr_expect_eq(l.v_head_dim, 8);
	cr_expect_eq(l.host_table[0], -1);
	cr_expect_eq(swakv_session_get_layout(s, 1, &l), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_private_pages(s), FAKE_WIDTH);
	fake_end(&fake, s);
}

Test(client_attach, says_its_sizes_and_sends_a_pidfd_of_itself)
{
	swakv_session *s = fake_attach(&fake, NULL);
	char path[64], line[128], found[128] = "";
	FILE *info;

	cr_expect_eq(fake.hello.size, sizeof(struct wire_hello));
	cr_expect_eq(fake.hello.size_ring_control, sizeof(struct ring_control));
	cr_expect_eq(fake.hello.groups[0].v_head_dim, 8);
	cr_expect_str_eq(fake.hello.model, "fake");
	cr_assert_geq(fake.client_pidfd, 0);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fake.client_pidfd);
	info = fopen(path, "re");
	cr_assert_not_null(info);
	while (fgets(line, sizeof(line), info))
		if (strncmp(line, "Pid:", 4) == 0)
			snprintf(found, sizeof(found), "%s", line);
	fclose(info);
	cr_expect_eq(atoi(found + 4), (int)getpid(), "fdinfo says '%s'", found);
	fake_end(&fake, s);
}

Test(client_attach, device_table_starts_empty)
{
	swakv_session *s = fake_attach(&fake, NULL);

	for (int i = 0; i < FAKE_BATCH * 2 * FAKE_WIDTH; i++)
		cr_expect_eq(fake.device[i], -1);
	cr_expect_eq(fake.device[-1], 0x77777777);
	cr_expect_eq(fake.device[FAKE_BATCH * 2 * FAKE_WIDTH], 0x77777777);
	fake_end(&fake, s);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void twist_refuse(struct fake *f)
{
	f->welcome.code = SWAKV_EDENIED;
	snprintf(f->welcome.text, sizeof(f->welcome.text), "uid 5 is not on the list");
	f->send_fds = 0;
}

Test(client_attach, refusal_is_passed_on)
{
	fake.twist = twist_refuse;
	assert_refused(SWAKV_EDENIED, "uid 5 is not on the list");
}

/* The broker knows from the connection alone, and closes it over a hello unread, or before one has come. */
Test(client_attach, a_refusal_is_heard_whatever_became_of_the_hello)
{
	fake.twist = twist_refuse;
	fake.haste = FAKE_DOES_NOT_READ;
	assert_refused(SWAKV_EDENIED, "uid 5 is not on the list");
	fake.haste = FAKE_DOES_NOT_WAIT;
	for (int i = 0; i < 100; i++)
		assert_refused(SWAKV_EDENIED, "uid 5 is not on the list");
}

static void twist_version(struct fake *f)
{
	f->welcome.version = 9;
}

Test(client_attach, other_version_is_named)
{
	fake.twist = twist_version;
	assert_refused(SWAKV_EVERSION, "version 9");
}

static void twist_size(struct fake *f)
{
	f->welcome.size = 3000;
	f->send_bytes = sizeof(f->welcome) - 8;
}

Test(client_attach, other_struct_size_is_named)
{
	fake.twist = twist_size;
	assert_refused(SWAKV_EVERSION, "3000");
}

static void twist_magic(struct fake *f)
{
	f->welcome.magic = 1;
}

Test(client_attach, other_program_is_told)
{
	fake.twist = twist_magic;
	assert_refused(SWAKV_EVERSION, "not a swakv broker");
}

static void twist_hang_up(struct fake *f)
{
	f->send_bytes = 0;
}

Test(client_attach, closed_connection_is_gone)
{
	fake.twist = twist_hang_up;
	assert_refused(SWAKV_EGONE, "without an answer");
}

/* One field a case; each must be noticed before anything is mapped. */
static const struct {
	const char *field;
	size_t offset, size;
	uint64_t value;
} lies[] = {
#define LIE(field, value)                                                                                              \
	{                                                                                                              \
#field, offsetof(struct wire_welcome, field), sizeof(((struct wire_welcome *)0)->field),               \
			(uint64_t)(value)                                                                              \
	}
	LIE(n_fds, 2),
	LIE(n_fds, 5),
	LIE(n_pools, 0),
	LIE(n_pools, WIRE_MAX_POOLS + 1),
	LIE(n_groups, 2),
	LIE(n_tables, 0),
	LIE(n_streams, 1),
	LIE(n_streams, 1000),
	LIE(max_message_slots, 0),
	LIE(max_message_slots, FAKE_SLOTS + 1),
	LIE(commands.n_slots, 0),
	LIE(commands.n_slots, 48),
	LIE(commands.n_slots, 1u << 31),
	LIE(commands.control_offset, 8),
	LIE(commands.control_offset, 16384),
	LIE(commands.slots_offset, 16384 - 64),
	LIE(replies.slots_offset, UINT64_MAX - 63),
	LIE(replies.n_slots, 1024),
	LIE(lines_offset, 16384 - 64),
	LIE(lines_offset, 1028),
	LIE(wait_offset, 16384),
	LIE(wait_offset, 513),
	LIE(boards_offset, 16384 - 64),
	LIE(boards_offset, 1028),
	LIE(ranges_offset, 16384 - 64),
	LIE(ranges_offset, 1028),
	LIE(pools[0].backend, 9),
	LIE(pools[0].export_kind, WIRE_EXPORT_CUDA_FD),
	LIE(pools[0].fd_index, 0),
	LIE(pools[0].fd_index, 4),
	LIE(pools[0].fd_index, -1),
	LIE(pools[0].table_area_bytes, UINT64_MAX),
	LIE(pools[0].half_bytes, 1u << 20),
	LIE(pools[0].half_bytes, 4225), /* beside the table area */
	LIE(layouts[0].pool, 1),
	LIE(layouts[0].num_pages, 0),
	LIE(layouts[0].num_pages, FAKE_PAGES + 1),
	LIE(layouts[0].num_pages, INT32_MAX),
	LIE(layouts[0].width, FAKE_WIDTH + 1),
	LIE(layouts[0].width, -1),
	LIE(layouts[0].private_pages, 0),
	LIE(layouts[0].page_stride, 0),
	LIE(layouts[0].page_stride, 512),
	LIE(layouts[0].page_stride, UINT64_MAX / 2),
	LIE(layouts[0].layer_stride, 257),
	LIE(layouts[0].k_token_stride, 257),
	LIE(layouts[0].v_token_stride, UINT64_MAX),
	LIE(layouts[0].base, 1u << 20),
	LIE(layouts[0].k_base, 1u << 20),
	LIE(layouts[0].extra_first, 0),
	LIE(layouts[0].v_first, 0),
	LIE(layouts[0].v_base, 8192),
	LIE(layouts[0].v_base, UINT64_MAX - 100),
	LIE(tables[0].group, 1),
	LIE(tables[0].pool, 1),
	LIE(tables[0].device_offset, 4096),
	LIE(tables[0].device_offset, 1026),
	LIE(tables[0].host_offset, 4096 - 16),
	LIE(tables[0].rows_offset, 4096 - 8),
};

static void twist_lie(struct fake *f)
{
	memcpy((unsigned char *)&f->welcome + lies[f->choice].offset, &lies[f->choice].value, lies[f->choice].size);
}

Test(client_attach, impossible_welcome_is_refused)
{
	const struct wire_welcome good = fake.welcome;

	fake.twist = twist_lie;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		swakv_session *s;
		int r;

		fake.welcome = good;
		fake.choice = (int)i;
		r = fake_try_attach(&fake, NULL, &s, why, sizeof(why));
		cr_expect(r == SWAKV_EVERSION || r == SWAKV_EUNSUPPORTED, "%s = %llu gave %d", lies[i].field,
			  (unsigned long long)lies[i].value, r);
		fake_die(&fake);
		close(fake.client_pidfd);
	}
}

static void twist_unsealed(struct fake *f)
{
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)f->welcome.session_bytes), 0);
	dup2(fd, f->fds[f->choice]);
	close(fd);
}

Test(client_attach, memory_that_could_shrink_is_refused)
{
	fake.twist = twist_unsealed;
	fake.choice = WIRE_FD_SESSION;
	assert_refused(SWAKV_ESYSTEM, "session memory is not sealed");
}

Test(client_attach, pool_that_could_shrink_is_refused)
{
	fake.twist = twist_unsealed;
	fake.choice = WIRE_FD_POOLS;
	assert_refused(SWAKV_ESYSTEM, "pool is not sealed");
}

static void twist_bytes(struct fake *f)
{
	f->welcome.session_bytes += 4096;
}

Test(client_attach, memory_of_another_size_is_refused)
{
	fake.twist = twist_bytes;
	assert_refused(SWAKV_ESYSTEM, "session memory has 16384 bytes, it said 20480");
}

/* ---- waiting for a broker ---- */

Test(client_attach, who_waits_for_a_broker_that_does_not_come_is_told_so)
{
	struct swakv_attach_options o = { .size = sizeof(o), .wait_ms = 30, .socket = "/tmp/swakv-no-such.sock" };
	const struct swakv_group g = {
		.size = sizeof(g), .kind = SWAKV_FULL, .layers = 1, .kv_heads = 1, .head_dim = 8, .dtype = SWAKV_F16
	};
	const struct swakv_model m = {
		.size = sizeof(m), .name = "m", .groups = &g, .n_groups = 1, .max_batch = 1, .max_seq = 64
	};
	swakv_session *s;
	unsigned ms = 0;

	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EGONE);
	cr_expect_eq(sscanf(why, "waited %u ms: no broker", &ms), 1, "%s", why);
	cr_expect_geq(ms, 30);
	cr_expect_not_null(strstr(why, "there is no socket /tmp/swakv-no-such.sock"), "%s", why);
	o.flags = 1u << 31;
	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "flags 2147483648"), "%s", why);
}

/* A broker that is about to end leaves whoever connects without an answer; then it is another. */
Test(client_attach, who_waits_is_served_by_the_next_broker)
{
	struct swakv_attach_options o = { .size = sizeof(o), .wait_ms = 60000 };
	swakv_session *s;

	fake.turn_away = 3;
	cr_assert_eq(fake_try_attach(&fake, &o, &s, why, sizeof(why)), 0, "%s", why);
	cr_expect_eq(fake.n_turned_away, 3);
	fake_end(&fake, s);
}

Test(client_attach, who_does_not_wait_is_not_served_by_the_next_broker)
{
	swakv_session *s;

	fake.turn_away = UINT32_MAX;
	cr_expect_eq(fake_try_attach(&fake, NULL, &s, why, sizeof(why)), SWAKV_EGONE);
	cr_expect_eq(fake.n_turned_away, 1);
	cr_expect_null(strstr(why, "waited"), "%s", why);
	fake_close(&fake);
}

/* Pauses of 5, 10, 20, 40, 80 and then 100 ms: the less often it gets to run, the fewer. */
Test(client_attach, who_waits_looks_a_few_times_a_second)
{
	struct swakv_attach_options o = { .size = sizeof(o), .wait_ms = 500 };
	swakv_session *s;

	fake.turn_away = UINT32_MAX;
	cr_expect_eq(fake_try_attach(&fake, &o, &s, why, sizeof(why)), SWAKV_EGONE);
	cr_expect_leq(fake.n_turned_away, 11);
	cr_expect_geq(fake.n_turned_away, 1);
	fake_close(&fake);
}

Test(client_attach, silent_broker_times_out)
{
	struct swakv_attach_options o = { .size = sizeof(o), .timeout_ms = 50 };
	swakv_session *s;

	fake.mute = true;
	cr_expect_eq(fake_try_attach(&fake, &o, &s, why, sizeof(why)), SWAKV_ETIMEDOUT);
	cr_expect_not_null(strstr(why, "swakv-ctl --socket"), "%s", why);
	fake_close(&fake);
}

Test(client_attach, descriptors_that_do_not_arrive_are_noticed)
{
	struct rlimit limit;
	swakv_session *s;
	int top = dup(0);
	int r;

	/* room for the client's socket and the broker's end of it, but not for the welcome's */
	close(top);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)top + 4;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	r = fake_try_attach(&fake, NULL, &s, why, sizeof(why));
	cr_expect_eq(r, SWAKV_ESYSTEM, "%s", why);
	cr_expect_not_null(strstr(why, "limit of open files"), "%s", why);
	fake_close(&fake);
}

Test(client_attach, no_broker_says_how_to_start_one)
{
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_SLIDING,
				       .window = 32,
				       .page_tokens = 16,
				       .layers = 1,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16 };
	const struct swakv_model m = {
		.size = sizeof(m), .name = "m", .groups = &g, .n_groups = 1, .max_batch = 1, .max_seq = 64
	};
	struct swakv_attach_options o = { .size = sizeof(o),
					  .broker = "nobody-here",
					  .socket = "/tmp/swakv-no-such.sock" };
	swakv_session *s;

	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EGONE);
	cr_expect_not_null(strstr(why, "swakvd --name nobody-here --socket /tmp/swakv-no-such.sock"), "%s", why);
	o = (struct swakv_attach_options){ .size = sizeof(struct swakv_attach_options),
					   .socket = "/tmp/swakv-no-such.sock" };
	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EGONE);
	cr_expect_not_null(strstr(why, "start one with 'swakvd --socket /tmp/swakv-no-such.sock'"), "%s", why);
	cr_expect_null(strstr(why, "default"), "a name that nobody gave: %s", why);
	o.socket = "/proc/self/status";
	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EGONE);
	cr_expect_not_null(strstr(why, "/proc/self/status is not a socket"), "%s", why);
	o.socket = fake.path;
	close(fake.listener);
	fake.listener = -1;
	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EGONE);
	cr_expect_not_null(strstr(why, "has died and left its socket"), "%s", why);
	cr_expect_null(strstr(why, "default"), "a name that nobody gave: %s", why);
	fake_close(&fake);
}

Test(client_attach, bad_arguments_are_named)
{
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_SLIDING,
				       .window = 32,
				       .page_tokens = 16,
				       .layers = 1,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16 };
	struct swakv_model m = {
		.size = sizeof(m), .name = "m", .groups = &g, .n_groups = 1, .max_batch = 0, .max_seq = 64
	};
	struct swakv_attach_options o = { .size = sizeof(o), .n_streams = 65 };
	swakv_session *s;

	cr_expect_eq(swakv_session_attach(NULL, NULL, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "max_batch 0 is outside 1 to 4096"), "%s", why);
	cr_expect_eq(swakv_session_attach(&o, &m, &s, NULL, 0), SWAKV_EINVALID);
	o = (struct swakv_attach_options){ .size = sizeof(struct swakv_attach_options), .broker = "a/b" };
	m.max_batch = 1;
	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	m.max_seq = INT64_C(1) << 40;
	cr_expect_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "max_seq 1099511627776"), "%s", why);
	m.max_seq = 64;
	m.n_groups = 9;
	cr_expect_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "9 were given"), "%s", why);
	fake_close(&fake);
}

/* Attached by a path alone: what is said later names that, and no broker that the caller never meant. */
Test(client_attach, a_broker_found_by_its_path_is_called_by_it)
{
	swakv_session *s = fake_attach(&fake, NULL);

	cr_expect_str_eq(s->broker, fake.path);
	s->timeout_ns = 20000000;
	cr_expect_eq(swakv_session_ping(s, NULL), SWAKV_ETIMEDOUT);
	cr_expect_not_null(strstr(swakv_session_error(s), "swakv-ctl --socket "), "%s", swakv_session_error(s));
	fake_die(&fake);
	cr_expect_eq(swakv_session_ping(s, NULL), SWAKV_EGONE);
	cr_expect_not_null(strstr(swakv_session_error(s), fake.path), "%s", swakv_session_error(s));
	fake_end(&fake, s);
}

Test(client_attach, a_models_name_is_sent_whole_or_refused)
{
	const struct swakv_group g = { .size = sizeof(g),
				       .kind = SWAKV_SLIDING,
				       .window = 32,
				       .page_tokens = 16,
				       .layers = 1,
				       .kv_heads = 1,
				       .head_dim = 8,
				       .dtype = SWAKV_F16 };
	char name[WIRE_MODEL_NAME + 1] = "";
	struct swakv_model m = {
		.size = sizeof(m), .name = name, .groups = &g, .n_groups = 1, .max_batch = 1, .max_seq = 64
	};
	struct swakv_attach_options o = { .size = sizeof(o), .pool = name };
	swakv_session *s;

	memset(name, 'n', WIRE_MODEL_NAME);
	cr_expect_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "nnn...' (128 bytes)"), "%s", why);
	cr_expect_not_null(strstr(why, "1 to 127 printable ASCII characters"), "%s", why);
	m.name = "m\n\x1b[2J";
	cr_expect_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "'m??[2J' (6 bytes)"), "%s", why);
	m.name = "m ";
	cr_expect_eq(swakv_session_attach(NULL, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "no blank first or last"), "%s", why);
	m.name = "m";
	name[32] = '\0';
	cr_expect_eq(swakv_session_attach(&o, &m, &s, why, sizeof(why)), SWAKV_EINVALID);
	cr_expect_not_null(strstr(why, "has 32 characters, at most 31 are allowed"), "%s", why);
	fake_close(&fake);
}

/* ---- one process, many sessions ------------------------------------------------------------- */

Test(client_attach, second_session_shares_the_pool)
{
	struct fake other;
	swakv_session *a = fake_attach(&fake, NULL), *b;
	struct swakv_session_info ia = { .size = sizeof(ia) }, ib = { .size = sizeof(ib) };

	fake_open(&other);
	b = fake_attach(&other, NULL); /* the same boot id and pool name: the same pool */
	swakv_session_get_info(a, &ia);
	swakv_session_get_info(b, &ib);
	cr_expect_eq(ia.pool, ib.pool);
	fake_end(&fake, a);
	*(volatile unsigned char *)ib.pool = 1; /* still mapped: the other session uses it */
	fake_end(&other, b);
}

Test(client_attach, nothing_is_left_after_close)
{
	uint32_t fds = 0, maps = 0;

	fake_close(&fake);
	for (int i = 0; i < 20; i++) {
		swakv_session *s;

		if (i == 5) {
			fds = count_entries("/proc/self/fd");
			maps = count_maps();
		}
		fake_open(&fake);
		s = fake_attach(&fake, NULL);
		swakv_stream_bind_host(s, 0, true);
		fake_end(&fake, s);
	}
	cr_expect_eq(count_entries("/proc/self/fd"), fds);
	cr_expect_leq(count_maps(), maps + 2); /* thread stacks and heaps come and go */
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void *pool_of(swakv_session *s)
{
	struct swakv_session_info info = { .size = sizeof(info) };

	swakv_session_get_info(s, &info);
	return info.pool;
}

/* In the child: 0, or the number of the check that failed. */
static int child_checks(swakv_session *s, swakv_request *r, swakv_ticket t)
{
	struct swakv_fence fence;
	struct swakv_request_state state = { .size = sizeof(state) };
	struct swakv_step step = { .size = sizeof(step), .request = r };
	int32_t length = 16;
	int64_t pages;
	unsigned char vec[1];

	if (swakv_session_ping(s, NULL) != SWAKV_EFORKED)
		return 1;
	if (!strstr(swakv_session_error(s), "child"))
		return 2;
	if (swakv_prefill_prepare(r, &length, 1, NULL) != SWAKV_EFORKED ||
	    swakv_decode_prepare(r, NULL) != SWAKV_EFORKED || swakv_request_finish(r, NULL) != SWAKV_EFORKED ||
	    swakv_request_abandon(r, NULL) != SWAKV_EFORKED || swakv_step_prepare(s, &step, 1, NULL) != SWAKV_EFORKED)
		return 3;
	if (swakv_stream_mark(s, 0, &fence) != SWAKV_EFORKED || swakv_stream_synchronize(s, 0) != SWAKV_EFORKED ||
	    swakv_stream_bind_host(s, 1, false) != SWAKV_EFORKED)
		return 4;
	if (swakv_poll(s, t) != SWAKV_EFORKED || swakv_wait(s, t) != SWAKV_EFORKED)
		return 5;
	if (swakv_request_get_state(r, &state) != SWAKV_EFORKED ||
	    swakv_session_free_pages(s, &pages) != SWAKV_EFORKED || swakv_session_shutdown(s) != SWAKV_EFORKED)
		return 6;
	if (swakv_request_valid(r) || swakv_fence_reached(s, (struct swakv_fence){ SWAKV_FENCE_LINE, 0, 0 }))
		return 7;
	if (mincore(pool_of(s), 4096, vec) == 0 || errno != ENOMEM)
		return 8; /* the pool is not mapped here */
	swakv_request_free(r);
	swakv_session_close(s);
	return 0;
}

Test(client_attach, child_is_refused_and_does_no_harm)
{
	swakv_session *s = fake_attach(&fake, NULL);
	int32_t slot = 1;
	swakv_request *r = fake_begin(&fake, s, 0, &slot, 1);
	struct fake_command c;
	swakv_ticket t;
	char byte;
	int status;
	pid_t pid;

	cr_assert_eq(swakv_session_ping(s, &t), 0);
	pid = fork();
	if (pid == 0)
		_exit(child_checks(s, r, t));
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status));
	cr_expect_eq(WEXITSTATUS(status), 0, "check %d of the child failed", WEXITSTATUS(status));
	/* the parent's session lives, and nothing came from the child */
	cr_expect_eq(recv(fake.sock, &byte, 1, MSG_DONTWAIT), -1);
	cr_expect_eq(errno, EAGAIN);
	fake_take(&fake, WIRE_OP_NOP, &c);
	cr_expect_not(fake_has_command(&fake));
	fake_answer(&fake, &c, 0, 0, NULL, 0);
	cr_expect_eq(swakv_wait(s, t), 0);
	cr_expect(swakv_request_valid(r));
	fake_end(&fake, s);
}

Test(client_attach, child_can_attach_itself)
{
	swakv_session *s = fake_attach(&fake, NULL);
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct fake own;
		swakv_session *mine;

		fake_open(&own);
		mine = fake_attach(&own, NULL);
		fake_serve(&own);
		status = swakv_session_ping(mine, NULL) == 0 && swakv_session_ping(s, NULL) == SWAKV_EFORKED ? 0 : 1;
		fake_end(&own, mine);
		_exit(status);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	fake_end(&fake, s);
}
