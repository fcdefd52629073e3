/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "config/config.h"

static struct config c;
static struct config_error e;
static struct config_arguments a;

static void setup(void)
{
	setenv("XDG_RUNTIME_DIR", "/tmp/runtime", 1);
	config_init(&c);
	e.text[0] = '\0';
}

TestSuite(config, .init = setup);

static int read_text(const char *text)
{
	AUTO_FCLOSE FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int r;

	cr_assert(f);
	r = config_read(&c, f, "x.ini", &e);
	return r < 0 ? r : config_finish(&c, "x.ini", &e);
}

static int parse(int argc, const char *const *argv)
{
	char *copy[16] = { 0 };

	for (int i = 0; i < argc; i++)
		copy[i] = (char *)(uintptr_t)argv[i];
	return config_parse_arguments(&c, argc, copy, &a, &e);
}

#define ARGUMENTS(...)                                                                                                 \
	({                                                                                                             \
		const char *const argv_[] = { "swakvd", __VA_ARGS__ };                                                 \
		parse((int)(sizeof(argv_) / sizeof(argv_[0])), argv_);                                                 \
	})

/* The text must be refused, and the message must hold each of the words. */
#define REFUSED(ini_, ...)                                                                                             \
	do {                                                                                                           \
		const char *const words_[] = { __VA_ARGS__ };                                                          \
		config_init(&c);                                                                                       \
		cr_assert_lt(read_text(ini_), 0, "accepted");                                                          \
		for (size_t i_ = 0; i_ < sizeof(words_) / sizeof(words_[0]); i_++)                                     \
			cr_assert(strstr(e.text, words_[i_]), "\"%s\" lacks \"%s\"", e.text, words_[i_]);              \
	} while (0)

#define MODEL "[model m]\nwindow=1024\nlayers=2\nkv_heads=4\nhead_dim=64\nmax_batch=8\nmax_seq=4096\n"

Test(config, every_kind_of_key_is_read)
{
	cr_assert_eq(
		read_text("# comment\n[broker]\nname = prod\nbackend = host\nspin_us = 0\n"
			  "allow_uid = 0, 65534\nallow_gid=root\n"
			  "[pool main]\nsize = 64G\ntable_area = 16M\ndevice = 3\nextent=4096\nplanar=1536K\n" MODEL
			  "dtype = bf16\nv_head_dim = 32\n"),
		0, "%s", e.text);
	cr_assert_str_eq(c.name, "prod");
	cr_assert_str_eq(c.socket, "/tmp/runtime/swakv/prod.sock");
	cr_assert_eq(c.backend, CONFIG_BACKEND_HOST);
	cr_assert_eq(c.spin_us, 0);
	cr_assert_eq(c.allow_uid.n, 2);
	cr_assert_eq(c.allow_uid.ids[1], 65534);
	cr_assert_eq(c.allow_gid.n, 1);
	cr_assert_eq(c.allow_gid.ids[0], 0);
	cr_assert_str_eq(c.pool.name, "main");
	cr_assert_eq(c.pool.size.value, 64ull << 30);
	cr_assert_not(c.pool.size.percent);
	cr_assert_eq(c.pool.table_area.value, 16 << 20);
	cr_assert_eq(c.pool.planar.value, 1536 << 10);
	cr_assert_eq(c.pool.device.ordinal, 3);
	cr_assert_eq(c.n_models, 1);
	cr_assert_eq(c.models[0].model.groups[0].window, 1024);
	cr_assert_eq(c.models[0].model.groups[0].dtype, WIRE_BF16);
	cr_assert_eq(c.models[0].model.groups[0].k_head_dim, 64);
	cr_assert_eq(c.models[0].model.groups[0].v_head_dim, 32);
	cr_assert_eq(c.models[0].model.groups[0].page_tokens, 128);
	cr_assert_eq(c.models[0].model.max_batch, 8);
}

Test(config, a_percentage_is_told_from_bytes)
{
	cr_assert_eq(read_text("[pool]\nsize = 80%\n"), 0, "%s", e.text);
	cr_assert(c.pool.size.percent);
	cr_assert_eq(c.pool.size.value, 80);
}

Test(config, a_uuid_names_a_device)
{
	cr_assert_eq(read_text("[pool]\ndevice = GPU-01020304-0506-0708-090a-0b0c0d0e0f10\n"), 0, "%s", e.text);
	cr_assert(c.pool.device.by_uuid);
	cr_assert_eq(c.pool.device.uuid[15], 0x10);
}

Test(config, without_a_runtime_folder_the_socket_lies_in_run)
{
	unsetenv("XDG_RUNTIME_DIR");
	cr_assert_eq(read_text("[broker]\nname=x\n"), 0, "%s", e.text);
	cr_assert_str_eq(c.socket, "/run/swakv/x.sock");
}

Test(config, an_unknown_key_is_named_with_its_place_and_the_allowed_ones)
{
	REFUSED("[broker]\n\nnmae = x\n", "x.ini:3", "[broker]", "nmae", "allowed", "name", "spin_us");
	REFUSED("[pool]\nspin_us = 1\n", "x.ini:2", "[pool]", "spin_us", "table_area");
}

Test(config, an_unknown_section_is_named_even_without_keys)
{
	REFUSED("[broker]\nname=x\n[pol]\n", "x.ini:3", "[pol]", "[pool]", "[model NAME]");
}

Test(config, a_wrong_value_is_named_with_what_is_allowed)
{
	REFUSED("[broker]\nspin_us = fast\n", "x.ini:2", "spin_us", "fast", "0 to 1000000");
	REFUSED("[broker]\ncpu_affinity = 3-1\n", "x.ini:2", "cpu_affinity", "3-1", "any, or a list");
	REFUSED("[broker]\nbackend = gpu\n", "gpu", "auto, host, cuda");
	REFUSED("[broker]\nname = ../x\n", "name", "../x", "A-Z");
	REFUSED("[pool]\nsize = 64Q\n", "size", "64Q", "K, M, G");
	REFUSED("[pool]\nsize = 64Mx\n", "size", "64Mx", "K, M, G");
	REFUSED("[pool]\nsize = 0x40M\n", "size", "0x40M", "K, M, G");
	REFUSED("[pool]\nsize = 101%\n", "size", "101%", "1% to 100%");
	REFUSED("[pool]\nsize = -1G\n", "size", "-1G");
	REFUSED("[pool]\ntable_area = 5%\n", "table_area", "5%");
	REFUSED("[pool]\ndevice = first\n", "device", "first", "GPU-");
	REFUSED("[broker]\nallow_uid = no-such-user-here\n", "allow_uid", "no-such-user-here", "user names");
	REFUSED("[broker]\nbudget = 0\n", "budget", "1 to 65536");
	REFUSED("[broker]\nbudget = 99999999999999999999\n", "budget", "1 to 65536");
}

Test(config, a_line_that_is_neither_key_nor_section_is_named)
{
	REFUSED("[broker]\nname = x\nwhat is this\n", "x.ini:3");
}

Test(config, a_key_given_twice_is_refused)
{
	REFUSED("[broker]\nname = x\nname = y\n", "x.ini:3", "twice");
	REFUSED(MODEL "window = 5\n", "twice", "window");
}

Test(config, two_pools_are_refused_and_one_broker_each_is_advised)
{
	REFUSED("[pool a]\nsize=1G\n[pool b]\nsize=1G\n", "x.ini:3", "one pool", "one broker for each");
}

Test(config, two_models_may_share_keys_but_not_a_name)
{
	cr_assert_eq(read_text(MODEL "[model n]\nwindow=1\nlayers=1\nkv_heads=1\nhead_dim=8\nmax_batch=1\nmax_seq=9\n"),
		     0, "%s", e.text);
	cr_assert_eq(c.n_models, 2);
	REFUSED(MODEL MODEL, "[model m]", "line 1");
}

#define X43  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X127 X43 X43 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

Test(config, a_models_name_that_no_section_holds_stands_below_it)
{
	cr_assert_eq(read_text("[model a]\nname = " X127 "\nfloor = 1\n[model b]\nname = org/b ] 3\nceiling = 1\n"
			       "[model org/c:4 x]\nfloor = 1\n[model " X43 "]\nfloor = 1\n"),
		     0, "%s", e.text);
	cr_assert_str_eq(c.models[0].name, X127);
	cr_assert(c.models[0].limits_only);
	cr_assert_str_eq(c.models[1].name, "org/b ] 3");
	cr_assert_str_eq(c.models[2].name, "org/c:4 x");
	cr_assert_str_eq(c.models[3].name, X43);
	REFUSED("[model a]\nname = x" X127 "\nfloor = 1\n", "x.ini:2", "[model a]", "1 to 127");
	REFUSED("[model a]\nname = x\xc3\xa4\nfloor = 1\n", "x.ini:2", "printable ASCII");
	REFUSED("[model a]\nname = x\n", "[model a]", "lacks the key window");
}

/* A blank and a ; begin a comment: the floor would be that of another model. */
Test(config, a_models_name_is_not_cut_by_a_comment)
{
	REFUSED("[model a]\nname = x ; y\nfloor = 1\n", "x.ini:2", "[model a]", "begin a comment", "swakv-ctl limit");
	REFUSED("[model a]\n  name\t:x\t;y\nfloor = 1\n", "x.ini:2", "begin a comment");
	config_init(&c);
	cr_assert_eq(read_text("[model a]\nname = x;y\nfloor = 1 ; that much\n"), 0, "%s", e.text);
	cr_assert_str_eq(c.models[0].name, "x;y");
}

Test(config, a_section_that_libinih_cuts_is_refused)
{
	REFUSED("[broker]\n[model x" X43 "]\nfloor = 1\n", "x.ini:2", "(44 bytes)", "1 to 43", "name = NAME");
	REFUSED("[model]\nfloor = 1\n", "x.ini:1", "(0 bytes)", "1 to 43");
	REFUSED("[model a]b]\nfloor = 1\n", "x.ini:1", "\"b]\"", "follows the ]");
	REFUSED("[model a;b]\nfloor = 1\n", "x.ini:1", "a;b", "except ; and ]");
	REFUSED("[pool " X43 "]\n", "x.ini:1", "not a pool name", "1 to 31");
	config_init(&c);
	cr_assert_eq(read_text("[model a] ; of the day\nfloor = 1\n[model b]   # too\r\nfloor = 1\n"), 0, "%s", e.text);
}

Test(config, two_sections_of_one_model_contradict_each_other)
{
	REFUSED("[model a]\nfloor = 1\n[model b]\nname = a\nfloor = 2\n", "x.ini:3", "[model b]", "\"a\"", "line 1");
	REFUSED("[model a]\nname = x\nfloor = 1\n[model b]\nname = x\nfloor = 2\n", "\"x\"", "line 1");
}

Test(config, a_key_before_any_section_is_noted)
{
	cr_assert_eq(read_text("\n# of mine\nname = x\nspin_us = 1\n[pool]\nsize = 1M\n"), 0, "%s", e.text);
	cr_assert_str_eq(c.name, "x");
	cr_assert_eq(c.stray_line, 3);
	config_init(&c);
	cr_assert_eq(read_text("[broker]\nname = x\n"), 0, "%s", e.text);
	cr_assert_eq(c.stray_line, 0);
	REFUSED("size = 1M\n", "x.ini:1", "before any section", "[broker]", "size");
}

Test(config, a_byte_order_mark_hides_no_section)
{
	cr_assert_eq(read_text("\xEF\xBB\xBF[pool]\nsize = 1M\n"), 0, "%s", e.text);
	cr_assert_eq(c.pool.size.value, 1 << 20);
	cr_assert_eq(c.stray_line, 0);
}

Test(config, a_model_that_lacks_a_key_is_named)
{
	REFUSED("[model m]\nwindow=1024\n", "x.ini:1", "[model m]", "layers");
}

Test(config, a_line_too_long_is_refused_not_cut)
{
	char text[400];

	memset(text, 'x', sizeof(text));
	memcpy(text, "socket = /", 10);
	text[399] = '\0';
	REFUSED(text, "x.ini:1", "longer");
}

Test(config, a_socket_leaves_room_for_the_one_beside_it)
{
	char text[160] = "socket = /";
	size_t head = strlen("socket = ");

	memset(text + head + 1, 'x', 102);
	cr_assert_eq(read_text(text), 0, "%s", e.text);
	cr_assert_eq(strlen(c.socket), 103);
	text[head + 103] = 'x';
	REFUSED(text, "socket = \"/xxx", "a path of 1 to 103 bytes");
}

Test(config, a_model_may_have_limits_and_nothing_else)
{
	cr_assert_eq(read_text("[model a]\nfloor = 8G\n[model b]\nceiling = 100\nfloor = 100\n"), 0, "%s", e.text);
	cr_assert_eq(config_finish(&c, "x.ini", &e), 0, "%s", e.text);
	cr_assert_eq(c.models[0].floor.value, 8ull << 30);
	cr_assert_eq(c.models[0].ceiling.value, 0);
	cr_assert(c.models[0].limits_only && c.models[1].limits_only);
	REFUSED("[model a]\nfloor = 101\nceiling = 100\n", "x.ini:1", "[model a]", "101", "above the ceiling of 100");
	REFUSED("[model a]\nfloor = 101%\n", "floor", "101%", "1% to 100% of the pool");
	REFUSED("[model a]\nfloor = 60%\nceiling = 50%\n", "[model a]", "60%", "above the ceiling of 50");
	config_init(&c);
	cr_assert_eq(read_text("[model a]\nfloor = 25%\nceiling = 100\n"), 0, "%s", e.text);
	cr_assert(c.models[0].floor.percent && c.models[0].floor.value == 25);
	REFUSED("[model a]\nfloor = 5\nwindow = 8\n", "[model a]", "layers");
}

#define SHELL  "[model m]\nmax_batch = 8\nmax_seq = 4096\n"
#define SLIDES "group = sliding window=512 layers=20 kv_heads=8 head_dim=64\n"

Test(config, a_model_may_have_a_line_for_each_of_its_groups)
{
	const struct model *m = &c.models[0].model;

	cr_assert_eq(
		read_text(SHELL SLIDES
			  "group = full\tlayers=4  kv_heads=2 head_dim=192 v_head_dim=128 page_tokens=64 dtype=bf16\n"
			  "floor = 8M\n"),
		0, "%s", e.text);
	cr_assert_eq(config_finish(&c, "x.ini", &e), 0, "%s", e.text);
	cr_assert_eq(m->n_groups, 2);
	cr_assert_eq(m->groups[0].kind, WIRE_GROUP_SLIDING);
	cr_assert_eq(m->groups[0].window, 512);
	cr_assert_eq(m->groups[0].v_head_dim, 64);
	cr_assert_eq(m->groups[0].page_tokens, 128);
	cr_assert_eq(m->groups[0].dtype, WIRE_F16);
	cr_assert_eq(m->groups[1].kind, WIRE_GROUP_FULL);
	cr_assert_eq(m->groups[1].window, 0);
	cr_assert_eq(m->groups[1].layers, 4);
	cr_assert_eq(m->groups[1].kv_heads, 2);
	cr_assert_eq(m->groups[1].k_head_dim, 192);
	cr_assert_eq(m->groups[1].v_head_dim, 128);
	cr_assert_eq(m->groups[1].page_tokens, 64);
	cr_assert_eq(m->groups[1].dtype, WIRE_BF16);
	cr_assert_not(c.models[0].limits_only);
}

Test(config, a_group_may_say_its_form_and_its_bytes)
{
	const struct model *m = &c.models[0].model;

	cr_assert_eq(read_text(SHELL
			       "group = full layers=61 k_bytes=1152 form=joined extra_bytes=64 align=256 order=rows "
			       "tag=mla\n"
			       "group = sliding window=9 layers=4 kv_heads=2 head_dim=8 extra_bytes=4 "
			       "order=extra-k-v\n"),
		     0, "%s", e.text);
	cr_assert_eq(m->groups[0].k_bytes, 1152);
	cr_assert_eq(m->groups[0].v_bytes, 0);
	cr_assert_eq(m->groups[0].extra_bytes, 64);
	cr_assert_eq(m->groups[0].align, 256);
	cr_assert_eq(m->groups[0].form, WIRE_JOINED);
	cr_assert_eq(m->groups[0].order, WIRE_ORDER_ROWS);
	cr_assert_str_eq(m->groups[0].tag, "mla");
	cr_assert_eq(m->groups[0].kv_heads | m->groups[0].dtype, 0);
	cr_assert_eq(m->groups[1].form, WIRE_SPLIT);
	cr_assert_eq(m->groups[1].order, WIRE_ORDER_EXTRA_K_V);
	cr_assert_eq(m->groups[1].dtype, WIRE_F16);
	cr_assert_str_eq(m->groups[1].tag, "");
}

Test(config, a_section_may_say_the_form_and_bytes_of_its_group)
{
	const struct wire_group *g = &c.models[0].model.groups[0];

	cr_assert_eq(read_text(SHELL "window = 64\nlayers = 4\nk_bytes = 576\nv_bytes = 64\nform = joined\n"
				     "tag = fp8, scaled\n"),
		     0, "%s", e.text);
	cr_assert_eq(g->k_bytes, 576);
	cr_assert_eq(g->v_bytes, 64);
	cr_assert_eq(g->form, WIRE_JOINED);
	cr_assert_eq(g->dtype, 0);
	cr_assert_str_eq(g->tag, "fp8, scaled");
	REFUSED(SHELL "window = 64\nlayers = 4\nform = joined\n", "lacks the key kv_heads");
	REFUSED(SHELL "window = 64\nk_bytes = 4\n", "lacks the key layers");
}

Test(config, a_group_that_no_worker_could_declare_is_refused)
{
	REFUSED(SHELL "group = full layers=4 k_bytes=64 kv_heads=2 head_dim=8\n", "x.ini:1", "[model m]", "bytes");
	REFUSED(SHELL "group = full layers=4 k_bytes=64 dtype=f16\n", "x.ini:1", "bytes");
	REFUSED(SHELL "group = full layers=4 v_bytes=64\n", "x.ini:1", "k_bytes 0");
	REFUSED(SHELL "group = full layers=4 k_bytes=64 align=3\n", "x.ini:1", "align 3");
	REFUSED(SHELL SLIDES "group = full layers=4 k_bytes=64 order=rows\n", "x.ini:1", "group 1", "rows");
	REFUSED(SHELL "group = full layers=4 k_bytes=64 form=loose\n", "x.ini:4", "form: split, joined");
	REFUSED(SHELL "group = full layers=4 k_bytes=64 order=v\n", "x.ini:4", "order: k-v-extra, extra-k-v, rows");
	REFUSED(SHELL "group = full layers=4 k_bytes=64 tag=abcdefghijklmnopqrstuvwxyz123456\n", "x.ini:4",
		"tag: 1 to 31 printable");
	REFUSED(SHELL "window = 9\nlayers = 4\nk_bytes = 64\ntag = t\xc3\xa4g\n", "x.ini:7", "printable ASCII");
	REFUSED(SHELL "window = 9\nlayers = 4\nkv_heads = 2\nhead_dim = 8\npage_tokens = 100\n", "x.ini:1",
		"page_tokens 100");
}

Test(config, a_line_of_a_group_that_is_not_whole_is_refused)
{
	REFUSED(SHELL "group = round layers=4 kv_heads=2 head_dim=8\n", "x.ini:4", "[model m]", "round", "sliding");
	REFUSED(SHELL "group = full layers=4 kv_heads=2\n", "x.ini:4", "head_dim=N");
	REFUSED(SHELL "group = sliding layers=4 kv_heads=2 head_dim=8\n", "x.ini:4", "window=TOKENS");
	REFUSED(SHELL "group = full window=9 layers=4 kv_heads=2 head_dim=8\n", "x.ini:4", "of sliding ones");
	REFUSED(SHELL "group = full layers=4 layers=4 kv_heads=2 head_dim=8\n", "x.ini:4", "layers=N");
	REFUSED(SHELL "group = full layers=4 kv_heads=0 head_dim=8\n", "x.ini:4", "kv_heads: a number from 1");
	REFUSED(SHELL "group = full layers=4 kv_heads=2 head_dim=8 dtype=int8\n", "dtype: f16, bf16, f32, fp8");
	REFUSED(SHELL "group = full layers=4 kv_heads=2 head_dim=8 floor=8\n", "x.ini:4", "up to 8 groups");
	REFUSED(SHELL "group = full layers\n", "x.ini:4", "layers=N");
	REFUSED(SHELL "group =\n", "x.ini:4", "sliding");
	REFUSED(SHELL SLIDES SLIDES SLIDES SLIDES SLIDES SLIDES SLIDES SLIDES SLIDES, "x.ini:12", "up to 8 groups");
	REFUSED(SHELL SLIDES "layers = 4\n", "x.ini:1", "[model m]", "layers beside group");
	REFUSED(SHELL SLIDES "form = joined\n", "x.ini:1", "[model m]", "form beside group");
	REFUSED("[model m]\nmax_seq = 4096\n" SLIDES, "x.ini:1", "max_batch");
}

Test(config, administrators_are_listed_by_number_or_name)
{
	cr_assert_eq(read_text("admin_uid = root, 4000\n"), 0, "%s", e.text);
	cr_assert_eq(c.admin_uid.n, 2);
	cr_assert_eq(c.admin_uid.ids[1], 4000);
	cr_assert_eq(c.allow_uid.n, 0);
}

Test(config, options_override_the_file)
{
	char path[] = "/tmp/swakv-config-XXXXXX";
	AUTO_CLOSE int fd = mkstemp(path);
	const char *text = "[broker]\nname = file\nspin_us = 7\n";

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(ARGUMENTS("--name", "flag", "-c", path, "--pool=p", "--size", "3M", "-n", "5"), 0, "%s", e.text);
	unlink(path);
	cr_assert_str_eq(c.name, "flag");
	cr_assert_eq(c.spin_us, 7);
	cr_assert_str_eq(c.pool.name, "p");
	cr_assert_eq(c.pool.size.value, 3 << 20);
	cr_assert_eq(a.ready_fd, 5);
}

Test(config, wrong_options_are_named)
{
	cr_assert_lt(ARGUMENTS("--nmae=x"), 0);
	cr_assert(strstr(e.text, "--nmae"), "%s", e.text);
	cr_assert_lt(ARGUMENTS("--spin-us=x"), 0);
	cr_assert(strstr(e.text, "--spin-us") && strstr(e.text, "0 to 1000000"), "%s", e.text);
	cr_assert_lt(ARGUMENTS("stray"), 0);
	cr_assert(strstr(e.text, "stray"), "%s", e.text);
	cr_assert_lt(ARGUMENTS("--name"), 0);
	cr_assert(strstr(e.text, "--name"), "%s", e.text);
	cr_assert_lt(ARGUMENTS("-n", "1"), 0);
	cr_assert(strstr(e.text, "--ready-fd"), "%s", e.text);
	cr_assert_lt(ARGUMENTS("-c", "/nonexistent/x.ini"), 0);
	cr_assert(strstr(e.text, "/nonexistent/x.ini"), "%s", e.text);
}

Test(config, the_usage_shows_every_option)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	config_usage(f);
	fclose(f);
	for (size_t i = 0; config_key_at(i); i++) {
		char option[64] = "--";

		if (config_key_at(i)->section != SECTION_BROKER)
			continue;
		strcat(option, config_key_at(i)->name);
		for (char *p = option; *p; p++)
			if (*p == '_')
				*p = '-';
		cr_assert(strstr(text, option), "usage lacks %s", option);
	}
	free(text);
}

/* A limit for each that is above that of all is a mistake in one of the two. */
Test(config, a_user_may_not_have_more_sessions_than_there_are)
{
	REFUSED("max_sessions = 8\nmax_sessions_per_uid = 9\n", "max_sessions_per_uid 9", "max_sessions 8");
	config_init(&c);
	cr_assert_eq(read_text("max_sessions = 8\nmax_sessions_per_uid = 8\n"), 0, "%s", e.text);
	config_init(&c);
	cr_assert_eq(read_text("max_sessions = 8\n"), 0, "%s", e.text);
	cr_assert_eq(c.max_sessions_per_uid, 8, "all of them when it is not said");
	config_init(&c);
	cr_assert_lt(ARGUMENTS("--max-sessions-per-uid=65"), 0);
	cr_assert(strstr(e.text, "max_sessions 64"), "%s", e.text);
	config_init(&c);
	cr_assert_eq(ARGUMENTS("--max-sessions-per-uid=65", "--max-sessions=65"), 0, "%s", e.text);
}
