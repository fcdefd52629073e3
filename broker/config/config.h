/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - what a broker is told: an INI file and options, checked in full
 *
 * Both come from one table of keys; options override the file. Whatever is not
 * known or not allowed is an error that names its place, key, value and what is
 * allowed.
 */
#ifndef SWAKV_BROKER_CONFIG_H
#define SWAKV_BROKER_CONFIG_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "wire.h"

#define CONFIG_MAX_MODELS 16
#define CONFIG_MAX_IDS    32
#define CONFIG_PATH       256
#define CONFIG_SOCKET     108 /* as sun_path */
/* Most bytes between the brackets of a section: libinih cuts there, and so do those who read the file with it. */
#define CONFIG_SECTION_MAX 49

/* Exit codes of swakvd; documented in swakvd(8). */
enum exit_code {
	EXIT_CODE_OK = 0,
	EXIT_CODE_FAILURE = 1,
	EXIT_CODE_CONFIG = 2,
	EXIT_CODE_IN_USE = 3,
	EXIT_CODE_BACKEND = 4,
	EXIT_CODE_POOL = 5,
	EXIT_CODE_CRASH = 6,  /* a fault of the broker itself */
	EXIT_CODE_BROKEN = 7, /* it found its own state broken */
	EXIT_CODE_DEVICE = 8, /* the device was lost while it ran */
};

enum config_backend { CONFIG_BACKEND_AUTO, CONFIG_BACKEND_HOST, CONFIG_BACKEND_CUDA, CONFIG_BACKEND_COUNT };
#define CONFIG_BACKEND_NAMES "auto", "host", "cuda"
enum config_export { CONFIG_EXPORT_IPC, CONFIG_EXPORT_FD, CONFIG_EXPORT_COUNT };
#define CONFIG_EXPORT_NAMES "ipc", "fd"
enum config_answer { CONFIG_NO, CONFIG_YES, CONFIG_ANSWER_COUNT };
#define CONFIG_ANSWER_NAMES "no", "yes"
/* trap: what is not allowed is a crash, which says what it was. */
enum config_sandbox { CONFIG_SANDBOX_NO, CONFIG_SANDBOX_YES, CONFIG_SANDBOX_TRAP, CONFIG_SANDBOX_COUNT };
#define CONFIG_SANDBOX_NAMES "no", "yes", "trap"
/* What a broker does that has lost its device, besides refusing new work. */
enum config_lost { CONFIG_LOST_EXIT, CONFIG_LOST_STAY, CONFIG_LOST_COUNT };
#define CONFIG_LOST_NAMES "exit", "stay"

/* Bytes, or a share: of the pool for a model's limits, else of what is free. value 0: not given. */
struct config_size {
	uint64_t value;
	bool percent;
};

struct config_device {
	bool by_uuid;
	uint8_t uuid[16];
	uint32_t ordinal;
};

struct config_pool {
	char name[WIRE_NAME];
	struct config_device device;
	struct config_size size;
	struct config_size table_area;
	struct config_size extent;
	struct config_size planar;
};

/*
 * Limits of the sessions of that name. The rest is for --dry-run, the default
 * extent and a floor before anybody has attached: a worker declares its own model.
 */
struct config_model {
	char label[CONFIG_SECTION_MAX + 1]; /* of its section */
	char name[WIRE_MODEL_NAME];         /* the label, when the key was not given */
	struct model model;
	uint32_t v_head_dim; /* 0: as head_dim; of a section without lines of groups */
	uint32_t n_lines;    /* of groups: model.groups are theirs; 0: one group, made of the other keys */
	struct config_size floor, ceiling;
	bool limits_only; /* nothing else was said of it */
	uint64_t seen;    /* bit a key of the section that was given */
	int line;
};

struct config_ids {
	uint32_t n;
	uint32_t ids[CONFIG_MAX_IDS];
};

struct config {
	char name[WIRE_NAME];
	char socket[CONFIG_SOCKET];
	uint32_t backend;     /* enum config_backend */
	uint32_t export_kind; /* enum config_export; cuda only */
	uint32_t self_test;   /* enum config_answer; cuda only */
	uint32_t device_lost; /* enum config_lost; cuda only */
	uint32_t sandbox;     /* enum config_sandbox */
	char cuda_library[CONFIG_PATH];
	char dump_file[CONFIG_PATH];
	char state_dir[CONFIG_PATH]; /* empty: none */
	uint32_t scrub;              /* enum wire_scrub_policy */
	uint32_t spin_us;
	cpu_set_t cpu_affinity; /* of the ring thread; empty: any */
	uint32_t budget;        /* commands of one session a round */
	uint32_t shared_budget; /* the same while several sessions give some */
	uint32_t max_sessions;
	uint32_t max_sessions_per_uid; /* 0 until config_finish(), when not given: all */
	uint32_t max_half_open;
	uint32_t hello_timeout_ms;
	uint32_t reclaim_grace_ms;
	uint32_t stop_wait_ms;
	uint32_t watchdog_s;
	uint32_t wait_claim_ms, claim_hold_ms, claim_max_ms;
	uint32_t min_page_bytes; /* 0: follows from the pool */
	struct config_ids allow_uid;
	struct config_ids allow_gid;
	struct config_ids admin_uid;
	struct config_ids status_gid; /* one, or none */
	struct config_pool pool;
	uint32_t n_models;
	struct config_model models[CONFIG_MAX_MODELS];
	uint32_t n_pools; /* [pool] sections seen */
	int stray_line;   /* of the first key before any section, 0: none */
};

struct config_error {
	char text[768];
};

/* What to do besides running. */
struct config_arguments {
	char file[CONFIG_PATH]; /* empty: none */
	bool check_config;
	bool dry_run;
	bool help;
	bool version;
	int ready_fd; /* -1: none */
};

/* Every field its default. */
void config_init(struct config *c);

/* All below: 0, or -EINVAL with the sentence in *@e. */

/*
 * Reads the INI text of @file; @path is only for messages. What came before a
 * mistake stays set.
 */
int config_read(struct config *c, FILE *file, const char *path, struct config_error *e);

/* Flags and, before they are applied, the file that they name. */
int config_parse_arguments(struct config *c, int argc, char **argv, struct config_arguments *a, struct config_error *e);

/* Fills what follows from the rest (names, socket path) and checks the models' sections for missing keys. */
int config_finish(struct config *c, const char *path, struct config_error *e);

/* True when more than one user besides root may attach. */
bool config_many_users(const struct config *c);
/* True when others than root and the broker's own user may administer. */
bool config_many_admins(const struct config *c);

/* Usage with every option, from the same table. */
void config_usage(FILE *out);

/* ---- keys: shared by config.c, config_file.c and config_arguments.c ------- */

enum config_section { SECTION_BROKER, SECTION_POOL, SECTION_MODEL };

enum key_type {
	KEY_NAME,
	KEY_MODEL_NAME,
	KEY_GROUP, /* may stand several times */
	KEY_TAG,
	KEY_PATH,
	KEY_U32,
	KEY_I32,
	KEY_I64,
	KEY_CHOICE,
	KEY_SIZE,
	KEY_DEVICE,
	KEY_CPUS,
	KEY_UIDS,
	KEY_GIDS
};

struct config_key {
	enum config_section section;
	const char *name;
	enum key_type type;
	size_t offset; /* in struct config, config_pool or config_model */
	size_t size;   /* of text fields */
	int64_t min, max;
	const char *const *choices; /* KEY_CHOICE: names of values 0, 1, ...; NULL entries are no choice */
	const char *argument;       /* placeholder in the usage */
	const char *help;
	bool required; /* of a [model] section */
};

/* NULL behind the last. */
const struct config_key *config_key_at(size_t index);
/* Index of key @name of @section, -1: unknown. */
int config_key_find(enum config_section section, const char *name);
/* Names of the keys of @section, comma-separated. */
void config_key_list(enum config_section section, char *buf, size_t size);
/* Stores @value into @target (the section's struct). -EINVAL: @allowed says what is allowed. */
int config_key_store(const struct config_key *key, void *target, const char *value, char *allowed, size_t size);
/* Of a section without any key. */
struct config_model config_model_make(int line);
/*
 * Adds the group that @value says ("sliding window=1024 layers=20 ...") to the struct config_model @m.
 * -EINVAL: @allowed says what is allowed.
 */
int config_group_store(struct config_model *m, const char *value, char *allowed, size_t size);
/* True for the keys of a section that say something of a group. */
bool config_group_has(const struct config_key *key);
/* True when the first group of @m, of which the keys in m->seen are there, lacks @key, one of those. */
bool config_group_lacks(const struct config_model *m, const struct config_key *key);
/* Fills what follows of the first group of @m from what was said. */
void config_group_finish(struct config_model *m);
/* A model's limit in bytes of K and V; a percentage is of the pool, whose halves have @half_bytes. */
uint64_t config_limit_bytes(const struct config_size *limit, uint64_t half_bytes);
/* Fills what follows from what the section @m of @c says, and checks it; @path is that of the file. */
int config_model_finish(struct config *c, struct config_model *m, const char *path, struct config_error *e);
/* True when @text is a valid name: 1 to 31 of A-Z a-z 0-9 . _ -, not beginning with a dot or dash. */
bool config_name_valid(const char *text);
/* Writes the sentence to @e and returns -EINVAL. */
int config_fail(struct config_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
