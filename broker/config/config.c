/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - the table of keys, and how each type of value is read
 *
 * One table serves the file, the options and the usage text, so they cannot
 * drift apart. The two readers are config_file.c and config_arguments.c.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu_list.h"
#include "driver.h"
#include "instance.h"
#include "model_name.h"
#include "names.h"
#include "size.h"

NAMES(backend_choices, CONFIG_BACKEND_COUNT + 1, CONFIG_BACKEND_NAMES, NULL);
NAMES(export_choices, CONFIG_EXPORT_COUNT + 1, CONFIG_EXPORT_NAMES, NULL);
NAMES(scrub_choices, WIRE_SCRUB_COUNT + 1, WIRE_SCRUB_NAMES, NULL);
NAMES(answers, CONFIG_ANSWER_COUNT + 1, CONFIG_ANSWER_NAMES, NULL);
NAMES(lost_choices, CONFIG_LOST_COUNT + 1, CONFIG_LOST_NAMES, NULL);
NAMES(sandbox_choices, CONFIG_SANDBOX_COUNT + 1, CONFIG_SANDBOX_NAMES, NULL);
NAMES(dtype_choices, WIRE_DTYPE_COUNT + 1, "", WIRE_DTYPE_NAMES, NULL);
NAMES(form_choices, WIRE_FORM_COUNT + 1, WIRE_FORM_NAMES, NULL);
NAMES(order_choices, WIRE_ORDER_COUNT + 1, WIRE_ORDER_NAMES, NULL);

#define BROKER(field)   SECTION_BROKER, #field
#define AT(field)       offsetof(struct config, field), sizeof(((struct config *)0)->field)
#define POOL_AT(field)  offsetof(struct config_pool, field), sizeof(((struct config_pool *)0)->field)
#define MODEL_AT(field) offsetof(struct config_model, field), sizeof(((struct config_model *)0)->field)
#define GROUP_AT(field) MODEL_AT(model.groups[0].field)

static const struct config_key keys[] = {
	{ BROKER(name), KEY_NAME, AT(name), 0, 0, NULL, "NAME", "instance name [default]", false },
	{ BROKER(socket), KEY_PATH, offsetof(struct config, socket), SOCKET_PATH_SIZE, 0, 0, NULL, "PATH",
	  "socket [$XDG_RUNTIME_DIR/swakv/NAME.sock, else /run/swakv/NAME.sock]", false },
	{ BROKER(backend), KEY_CHOICE, AT(backend), 0, 0, backend_choices, "auto|host|cuda",
	  "where the pool lies; auto: cuda if there is a driver and a device [auto]", false },
	{ SECTION_BROKER, "export", KEY_CHOICE, AT(export_kind), 0, 0, export_choices, "ipc|fd",
	  "how workers import a pool on a GPU: by handle, or as a descriptor; cuda only [ipc]", false },
	{ BROKER(self_test), KEY_CHOICE, AT(self_test), 0, 0, answers, "yes|no",
	  "test at the start whether other processes can use the pool; cuda only [yes]", false },
	{ BROKER(device_lost), KEY_CHOICE, AT(device_lost), 0, 0, lost_choices, "exit|stay",
	  "when the device is lost: end with code 8, or refuse new work and stay; cuda only [exit]", false },
	{ BROKER(sandbox), KEY_CHOICE, AT(sandbox), 0, 0, sandbox_choices, "no|yes|trap",
	  "keep only the system calls that a serving broker needs; trap: another one is a crash [no]", false },
	{ BROKER(dump_file), KEY_PATH, AT(dump_file), 0, CONFIG_PATH, NULL, "PATH",
	  "append crash reports to this file, too [standard error only]", false },
	{ BROKER(state_dir), KEY_PATH, AT(state_dir), 0, 0, NULL, "PATH",
	  "folder for limits that swakv-ctl saves [$STATE_DIRECTORY, else none]", false },
	{ BROKER(cuda_library), KEY_PATH, AT(cuda_library), 0, 0, NULL, "PATH",
	  "CUDA driver library [$SWAKV_CUDA_LIBRARY, else libcuda.so.1]", false },
	{ BROKER(scrub), KEY_CHOICE, AT(scrub), 0, 0, scrub_choices, "never|owner-change|always",
	  "which pages workers fill with zeroes before they use them [owner-change]", false },
	{ BROKER(spin_us), KEY_U32, AT(spin_us), 0, 1000000, NULL, "N",
	  "microseconds to look for work before sleeping [50]", false },
	{ BROKER(cpu_affinity), KEY_CPUS, AT(cpu_affinity), 0, 0, NULL, "any|LIST",
	  "CPUs that the ring thread keeps to, as of taskset -c [any]", false },
	{ BROKER(budget), KEY_U32, AT(budget), 1, 65536, NULL, "N", "commands of one session per round [32]", false },
	{ BROKER(shared_budget), KEY_U32, AT(shared_budget), 1, 65536, NULL, "N",
	  "the same while several sessions give some [4]", false },
	{ BROKER(max_sessions), KEY_U32, AT(max_sessions), 1, 256, NULL, "N", "sessions at a time [64]", false },
	{ BROKER(max_sessions_per_uid), KEY_U32, AT(max_sessions_per_uid), 1, 256, NULL, "N",
	  "sessions of one user [all of them; at most half where several users may attach]", false },
	{ BROKER(max_half_open), KEY_U32, AT(max_half_open), 1, 256, NULL, "N",
	  "connections that have not said hello [32]", false },
	{ BROKER(hello_timeout_ms), KEY_U32, AT(hello_timeout_ms), 10, 60000, NULL, "N",
	  "how long a connection may take to say hello [5000]", false },
	{ BROKER(reclaim_grace_ms), KEY_U32, AT(reclaim_grace_ms), 0, 600000, NULL, "N",
	  "how long the pages of a dead process wait before they return; cuda only [2000]", false },
	{ BROKER(stop_wait_ms), KEY_U32, AT(stop_wait_ms), 0, 600000, NULL, "N",
	  "how long an orderly stop waits for workers to release the pool [2000]", false },
	{ BROKER(watchdog_s), KEY_U32, AT(watchdog_s), 0, 86400, NULL, "N",
	  "report completion points that stay open longer, in seconds; 0: never [10]", false },
	{ BROKER(wait_claim_ms), KEY_U32, AT(wait_claim_ms), 0, 3600000, NULL, "N",
	  "how long a request waits before pages are kept for it and others of its model may overtake it [100]",
	  false },
	{ BROKER(claim_hold_ms), KEY_U32, AT(claim_hold_ms), 1, 3600000, NULL, "N",
	  "how long pages are kept for it while no more of them come free [200]", false },
	{ BROKER(claim_max_ms), KEY_U32, AT(claim_max_ms), 1, 3600000, NULL, "N",
	  "the longest that pages are kept for it; then they are open to all for as long [10000]", false },
	{ BROKER(min_page_bytes), KEY_U32, AT(min_page_bytes), 16, 1u << 30, NULL, "N",
	  "smallest page (bytes of its K) that a model may have [4096, less for pools below 1G]", false },
	{ BROKER(allow_uid), KEY_UIDS, AT(allow_uid), 0, 0, NULL, "LIST",
	  "users that may attach besides root and the broker's own, by number or name [none]", false },
	{ BROKER(allow_gid), KEY_GIDS, AT(allow_gid), 0, 0, NULL, "LIST",
	  "groups whose members may attach, by number or name [none]", false },
	{ BROKER(admin_uid), KEY_UIDS, AT(admin_uid), 0, 0, NULL, "LIST",
	  "users that may use swakv-ctl besides root and the broker's own, by number or name [none]", false },
	{ BROKER(status_gid), KEY_GIDS, AT(status_gid), 0, 1, NULL, "GROUP",
	  "group that may read the status page, by number or name [the broker's own]", false },
	{ SECTION_POOL, "name", KEY_NAME, POOL_AT(name), 0, 0, NULL, "NAME", "name of the pool [default]", false },
	{ SECTION_POOL, "device", KEY_DEVICE, POOL_AT(device), 0, 0, NULL, "UUID|N",
	  "GPU by UUID (GPU-...) or ordinal; cuda only [0]", false },
	{ SECTION_POOL, "size", KEY_SIZE, POOL_AT(size), 0, 0, NULL, "SIZE",
	  "size of the pool: \"64G\", or \"80%\" of what is free [1G]", false },
	{ SECTION_POOL, "table_area", KEY_SIZE, POOL_AT(table_area), 1, 0, NULL, "SIZE",
	  "part of the pool for device page tables [a 64th, 64K to 64M]", false },
	{ SECTION_POOL, "extent", KEY_SIZE, POOL_AT(extent), 1, 0, NULL, "SIZE",
	  "how much of each half a page class takes at a time [64M, less for small pools]", false },
	{ SECTION_POOL, "planar", KEY_SIZE, POOL_AT(planar), 1, 0, NULL, "SIZE",
	  "bytes of a page: cuts the halves to a multiple, so that its K and V have one base [off]", false },
	{ SECTION_MODEL, "name", KEY_MODEL_NAME, MODEL_AT(name), 0, 0, NULL, "NAME",
	  "what its sessions call the model [the section's]", false },
	{ SECTION_MODEL, "group", KEY_GROUP, MODEL_AT(model), 0, 0, NULL, "KIND KEY=VALUE...",
	  "one of its layer groups, in place of the keys from window to tag", false },
	{ SECTION_MODEL, "window", KEY_I64, GROUP_AT(window), 1, INT32_MAX, NULL, "TOKENS", "window", true },
	{ SECTION_MODEL, "page_tokens", KEY_U32, GROUP_AT(page_tokens), 16, 256, NULL, "TOKENS", "tokens a page [128]",
	  false },
	{ SECTION_MODEL, "layers", KEY_U32, GROUP_AT(layers), 1, 65536, NULL, "N", "layers of the group", true },
	{ SECTION_MODEL, "kv_heads", KEY_U32, GROUP_AT(kv_heads), 1, 65536, NULL, "N", "key/value heads", true },
	{ SECTION_MODEL, "head_dim", KEY_U32, GROUP_AT(k_head_dim), 1, 65536, NULL, "N", "elements a head", true },
	{ SECTION_MODEL, "v_head_dim", KEY_U32, MODEL_AT(v_head_dim), 1, 65536, NULL, "N",
	  "elements a head of V [head_dim]", false },
	{ SECTION_MODEL, "dtype", KEY_CHOICE, GROUP_AT(dtype), 0, 0, dtype_choices, "f16|bf16|f32|fp8",
	  "element type [f16]", false },
	{ SECTION_MODEL, "form", KEY_CHOICE, GROUP_AT(form), 0, 0, form_choices, "split|joined",
	  "whether K and V of a page lie apart or together [split]", false },
	{ SECTION_MODEL, "k_bytes", KEY_U32, GROUP_AT(k_bytes), 1, INT32_MAX, NULL, "N",
	  "bytes of K of a token and layer, in place of heads and element type", false },
	{ SECTION_MODEL, "v_bytes", KEY_U32, GROUP_AT(v_bytes), 0, INT32_MAX, NULL, "N", "the same of V [0]", false },
	{ SECTION_MODEL, "extra_bytes", KEY_U32, GROUP_AT(extra_bytes), 0, INT32_MAX, NULL, "N",
	  "bytes of a page and layer beside K and V [0]", false },
	{ SECTION_MODEL, "align", KEY_U32, GROUP_AT(align), 1, WIRE_MAX_ALIGN, NULL, "N",
	  "power of two at multiples of which K, V and extra bytes begin [1]", false },
	{ SECTION_MODEL, "order", KEY_CHOICE, GROUP_AT(order), 0, 0, order_choices, "k-v-extra|extra-k-v|rows",
	  "how they follow each other [k-v-extra]", false },
	{ SECTION_MODEL, "tag", KEY_TAG, GROUP_AT(tag), 0, 0, NULL, "TEXT", "what the bytes are, for people [none]",
	  false },
	{ SECTION_MODEL, "max_batch", KEY_I32, MODEL_AT(model.max_batch), 1, WIRE_MAX_BATCH, NULL, "N",
	  "sequences at a time", true },
	{ SECTION_MODEL, "floor", KEY_SIZE, MODEL_AT(floor), 0, 0, NULL, "SIZE",
	  "bytes of K and V, or part of the pool, that are always there for its sessions [none]", false },
	{ SECTION_MODEL, "ceiling", KEY_SIZE, MODEL_AT(ceiling), 0, 0, NULL, "SIZE",
	  "bytes of K and V, or part of the pool, that its sessions may hold together [all]", false },
	{ SECTION_MODEL, "max_seq", KEY_I64, MODEL_AT(model.max_seq), 1, INT32_MAX, NULL, "TOKENS", "longest sequence",
	  true },
};

const struct config_key *config_key_at(size_t index)
{
	return index < sizeof(keys) / sizeof(keys[0]) ? &keys[index] : NULL;
}

int config_key_find(enum config_section section, const char *name)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].section == section && !strcmp(keys[i].name, name))
			return (int)i;
	return -1;
}

void config_key_list(enum config_section section, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && len < size; i++)
		if (keys[i].section == section)
			len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "", keys[i].name);
}

int config_fail(struct config_error *e, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(e->text, sizeof(e->text), format, args);
	va_end(args);
	return -EINVAL;
}

void config_init(struct config *c)
{
	*c = (struct config){
		.name = "default",
		.self_test = CONFIG_YES,
		.sandbox = CONFIG_SANDBOX_NO,
		.scrub = WIRE_SCRUB_OWNER_CHANGE,
		.spin_us = 50,
		.budget = 32,
		.shared_budget = 4,
		.max_sessions = 64,
		.max_half_open = 32,
		.hello_timeout_ms = 5000,
		.reclaim_grace_ms = 2000,
		.stop_wait_ms = 2000,
		.watchdog_s = 10,
		.wait_claim_ms = 100,
		.claim_hold_ms = 200,
		.claim_max_ms = 10000,
		.pool = { .name = "default", .size = { .value = 1ull << 30 } },
	};
}

bool config_name_valid(const char *text)
{
	return instance_name_valid(text);
}

/* Decimal digits and nothing else. */
static bool parse_number(const char *text, int64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)text[0]) && !(text[0] == '-' && isdigit((unsigned char)text[1])))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static int store_number(const struct config_key *key, void *at, const char *value, char *allowed, size_t size)
{
	int64_t n;

	if (!parse_number(value, &n) || n < key->min || n > key->max) {
		snprintf(allowed, size, "a number from %" PRId64 " to %" PRId64, key->min, key->max);
		return -EINVAL;
	}
	if (key->type == KEY_I64)
		*(int64_t *)at = n;
	else if (key->type == KEY_I32)
		*(int32_t *)at = (int32_t)n;
	else
		*(uint32_t *)at = (uint32_t)n;
	return 0;
}

static int store_choice(const struct config_key *key, uint32_t *at, const char *value, char *allowed, size_t size)
{
	size_t len = 0;

	for (uint32_t i = 0; key->choices[i]; i++)
		if (key->choices[i][0] && !strcmp(key->choices[i], value)) {
			*at = i;
			return 0;
		}
	allowed[0] = '\0';
	for (uint32_t i = 0; key->choices[i] && len < size; i++)
		if (key->choices[i][0])
			len += (size_t)snprintf(allowed + len, size - len, "%s%s", len ? ", " : "", key->choices[i]);
	return -EINVAL;
}

/* A percentage is allowed where key->min is 0: of the pool for a model's limits, else of what is free. */
static int store_size(const struct config_key *key, struct config_size *at, const char *value, char *allowed,
		      size_t size)
{
	size_t len = strlen(value);
	char digits[24];
	uint64_t bytes;
	int64_t n;

	if (len > 1 && len < sizeof(digits) && value[len - 1] == '%' && key->min == 0) {
		memcpy(digits, value, len - 1);
		digits[len - 1] = '\0';
		if (parse_number(digits, &n) && n >= 1 && n <= 100) {
			*at = (struct config_size){ .value = (uint64_t)n, .percent = true };
			return 0;
		}
	} else if (size_read(value, &bytes) && bytes > 0) {
		*at = (struct config_size){ .value = bytes };
		return 0;
	}
	snprintf(allowed, size, SIZE_RULE "%s",
		 key->min != 0                   ? ""
		 : key->section == SECTION_MODEL ? ", or 1% to 100% of the pool"
						 : ", or 1% to 100% of what is free");
	return -EINVAL;
}

static int store_device(struct config_device *at, const char *value, char *allowed, size_t size)
{
	struct config_device d = { 0 };
	int64_t n;

	if (parse_number(value, &n) && n >= 0 && n < 1024) {
		d.ordinal = (uint32_t)n;
	} else if (driver_uuid_parse(value, d.uuid)) {
		d.by_uuid = true;
	} else {
		snprintf(allowed, size, "an ordinal from 0, or a UUID as nvidia-smi -L prints it (GPU-...)");
		return -EINVAL;
	}
	*at = d;
	return 0;
}

static int store_cpus(cpu_set_t *at, const char *value, char *allowed, size_t size)
{
	if (!strcmp(value, "any")) {
		CPU_ZERO(at);
		return 0;
	}
	if (cpu_list_read(value, at))
		return 0;
	snprintf(allowed, size, "any, or a list of CPUs (0-3,8)");
	return -EINVAL;
}

static bool parse_id(enum key_type type, const char *text, uint32_t *out)
{
	int64_t n;

	if (parse_number(text, &n) && n >= 0 && n < UINT32_MAX) {
		*out = (uint32_t)n;
		return true;
	}
	if (type == KEY_UIDS) {
		const struct passwd *pw = getpwnam(text);

		*out = pw ? pw->pw_uid : 0;
		return pw != NULL;
	}
	const struct group *gr = getgrnam(text);

	*out = gr ? gr->gr_gid : 0;
	return gr != NULL;
}

static int store_ids(const struct config_key *key, struct config_ids *at, const char *value, char *allowed, size_t size)
{
	struct config_ids ids = { 0 };
	uint32_t most = key->max ? (uint32_t)key->max : CONFIG_MAX_IDS;
	char copy[512], *save, *word;

	if (most == 1)
		snprintf(allowed, size, "one known group name or gid");
	else
		snprintf(allowed, size, "up to %u known %s, separated by commas", most,
			 key->type == KEY_UIDS ? "user names or uids" : "group names or gids");
	if (strlen(value) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, value);
	for (word = strtok_r(copy, ", \t", &save); word; word = strtok_r(NULL, ", \t", &save)) {
		if (ids.n == most || !parse_id(key->type, word, &ids.ids[ids.n]))
			return -EINVAL;
		ids.n++;
	}
	if (ids.n == 0)
		return -EINVAL;
	*at = ids;
	return 0;
}

static bool is_tag(const char *text, size_t size)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return len > 0 && len < size;
}

static int store_text(const struct config_key *key, char *at, const char *value, char *allowed, size_t size)
{
	if (key->type == KEY_NAME && !config_name_valid(value)) {
		snprintf(allowed, size, "%s", INSTANCE_NAME_RULE);
		return -EINVAL;
	}
	if (key->type == KEY_MODEL_NAME && !model_name_valid(value)) {
		snprintf(allowed, size, "%s", MODEL_NAME_RULE);
		return -EINVAL;
	}
	if (key->type == KEY_TAG && !is_tag(value, key->size)) {
		snprintf(allowed, size, "1 to %zu printable ASCII characters", key->size - 1);
		return -EINVAL;
	}
	if (value[0] == '\0' || strlen(value) >= key->size) {
		snprintf(allowed, size, "a path of 1 to %zu bytes", key->size - 1);
		return -EINVAL;
	}
	strcpy(at, value);
	return 0;
}

int config_key_store(const struct config_key *key, void *target, const char *value, char *allowed, size_t size)
{
	void *at = (char *)target + key->offset;

	switch (key->type) {
	case KEY_NAME:
	case KEY_MODEL_NAME:
	case KEY_TAG:
	case KEY_PATH:
		return store_text(key, at, value, allowed, size);
	case KEY_GROUP:
		return config_group_store(target, value, allowed, size);
	case KEY_U32:
	case KEY_I32:
	case KEY_I64:
		return store_number(key, at, value, allowed, size);
	case KEY_CHOICE:
		return store_choice(key, at, value, allowed, size);
	case KEY_SIZE:
		return store_size(key, at, value, allowed, size);
	case KEY_DEVICE:
		return store_device(at, value, allowed, size);
	case KEY_CPUS:
		return store_cpus(at, value, allowed, size);
	case KEY_UIDS:
	case KEY_GIDS:
		return store_ids(key, at, value, allowed, size);
	}
	return -EINVAL;
}

static int default_socket(struct config *c, struct config_error *e)
{
	const char *folder = instance_folder(0);

	if (instance_socket(c->socket, sizeof(c->socket), folder, c->name) >= SOCKET_PATH_SIZE)
		return config_fail(e,
				   "the socket path made of XDG_RUNTIME_DIR=\"%s\" and name \"%s\" is longer than %d "
				   "bytes: set socket",
				   folder, c->name, SOCKET_PATH_SIZE - 1);
	return 0;
}

bool config_many_users(const struct config *c)
{
	uid_t one = geteuid(); /* 0: none so far */

	for (uint32_t i = 0; i < c->allow_uid.n; i++) {
		if (c->allow_uid.ids[i] == 0 || c->allow_uid.ids[i] == one)
			continue;
		if (one)
			return true;
		one = c->allow_uid.ids[i];
	}
	return c->allow_gid.n > 0;
}

bool config_many_admins(const struct config *c)
{
	for (uint32_t i = 0; i < c->admin_uid.n; i++)
		if (c->admin_uid.ids[i] != 0 && c->admin_uid.ids[i] != geteuid())
			return true;
	return false;
}

/* What systemd made for the unit; a list of several folders is none of ours. */
static void default_state_dir(struct config *c)
{
	const char *folder = getenv("STATE_DIRECTORY");

	if (folder && !c->state_dir[0] && !strchr(folder, ':') && strlen(folder) < sizeof(c->state_dir))
		strcpy(c->state_dir, folder);
}

int config_finish(struct config *c, const char *path, struct config_error *e)
{
	int r;

	for (uint32_t i = 0; i < c->n_models; i++) {
		r = config_model_finish(c, &c->models[i], path, e);
		if (r < 0)
			return r;
	}
	if (c->max_sessions_per_uid > c->max_sessions)
		return config_fail(e,
				   "max_sessions_per_uid %" PRIu32 " is above max_sessions %" PRIu32
				   ": lower it, or raise max_sessions",
				   c->max_sessions_per_uid, c->max_sessions);
	if (c->max_sessions_per_uid == 0)
		c->max_sessions_per_uid = c->max_sessions;
	default_state_dir(c);
	return c->socket[0] ? 0 : default_socket(c, e);
}
