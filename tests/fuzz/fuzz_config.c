/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_config.c - swakvd's configuration file, and the plan that follows from it
 *
 * The input is either the file itself or a choice of sections, known keys and
 * values to make one of. A file is refused with a sentence or leads to a pool
 * whose parts fit in it.
 */
#include "config/config.h"
#include "device/plan.h"
#include "input.h"
#include "model_name.h"

enum { TEXT_SIZE = 4096 };

static const char *const lines[] = {
	"[broker]",
	"[pool]",
	"[pool main]",
	"[model a]",
	"[model b]",
	"[",
	"[model]",
	"group = full layers=2 k_bytes=64 form=joined order=rows align=16 tag=x",
	"group = sliding window=64 layers=2 kv_heads=1 head_dim=8 extra_bytes=4",
};
static const char *const values[] = {
	"0",       "1",      "-1",   "128", "1024", "64G",  "80%",  "100%", "16M",
	"host",    "auto",   "cuda", "f16", "bf16", "main", "yes",  "",     "4294967296",
	"1e9",     "64 KB",  "root", "0,1", "a b",  "1.5G", "0x10", "999%", "18446744073709551615",
	"sliding", "joined", "rows"
};

#define N(array) (sizeof(array) / sizeof((array)[0]))

/* Makes a file of the input's choices. Returns its length. */
static size_t make_text(char *text, struct input *in)
{
	size_t n_keys = 0, len = 0;

	while (config_key_at(n_keys))
		n_keys++;
	while (in->left > 0 && len < TEXT_SIZE - 512) {
		uint8_t what = input_u8(in);
		char raw[32] = { 0 };

		if (what < 24) {
			len += (size_t)sprintf(text + len, "%s\n", lines[what % N(lines)]);
			continue;
		}
		len += (size_t)sprintf(text + len, "%s = ", config_key_at(input_u8(in) % n_keys)->name);
		if (what < 216) {
			len += (size_t)sprintf(text + len, "%s\n", values[what % N(values)]);
			continue;
		}
		input_bytes(in, raw, what % sizeof(raw));
		memcpy(text + len, raw, sizeof(raw));
		len += what % sizeof(raw);
		text[len++] = '\n';
	}
	return len;
}

static void check_plan(const struct config *c)
{
	struct backend_pool pool = { .backend = WIRE_BACKEND_HOST, .fd = -1 };
	char why[BACKEND_WHY] = "";
	char *text = NULL;
	size_t size;
	FILE *out;

	if (plan_pool(&pool, c, (uint64_t)3 << 30, why) != 0) {
		FUZZ_CHECK(why[0] && memchr(why, '\0', sizeof(why)));
		return;
	}
	FUZZ_CHECK(pool.half_bytes > 0 && pool.half_bytes <= pool.bytes / 2);
	FUZZ_CHECK(pool.table_area_bytes <= pool.bytes - 2 * pool.half_bytes);
	FUZZ_CHECK(pool.extent_bytes > 0 && pool.extent_bytes <= pool.half_bytes);
	out = open_memstream(&text, &size);
	FUZZ_CHECK(out);
	plan_print(&pool, c, out);
	FUZZ_CHECK(fclose(out) == 0 && size > 0);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config c;
	struct input in = { data, size };
	struct config_error e = { "" };
	char text[TEXT_SIZE + 1];
	size_t len;
	FILE *f;
	int r;

	if (input_u8(&in) & 1) {
		len = make_text(text, &in);
	} else {
		len = in.left < TEXT_SIZE ? in.left : TEXT_SIZE;
		input_bytes(&in, text, len);
	}
	if (len == 0)
		return 0;
	f = fmemopen(text, len, "r");
	FUZZ_CHECK(f);
	config_init(&c);
	r = config_read(&c, f, "swakvd.conf", &e);
	fclose(f);
	if (r == 0)
		r = config_finish(&c, "swakvd.conf", &e);
	FUZZ_CHECK(r <= 0);
	FUZZ_CHECK(r == 0 || (e.text[0] && memchr(e.text, '\0', sizeof(e.text))));
	if (r == 0) {
		FUZZ_CHECK(config_name_valid(c.name) && memchr(c.socket, '\0', sizeof(c.socket)) && c.socket[0]);
		FUZZ_CHECK(c.n_models <= CONFIG_MAX_MODELS);
		for (uint32_t i = 0; i < c.n_models; i++)
			FUZZ_CHECK(model_name_valid(c.models[i].name));
		check_plan(&c);
	}
	return 0;
}
