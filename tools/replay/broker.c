/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.c - see broker.h
 *
 * What a scenario says of its broker, and what follows from its models, become
 * flags; the process is tools/common/private_broker.c's.
 */
#include "broker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cleanup.h"
#include "value.h"

/* ---- how large ------------------------------------------------------------------- */

#define TABLE_UNIT  4096ull
#define TABLE_LEAST (64ull << 10)
#define MAX_EXTENTS 1024

static uint64_t align_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* The value of a configuration key that the file gives, NULL: it does not. */
static const char *extra_value(const struct statement *st, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < st->n_extra; i++)
		if (!strncmp(st->extra[i], key, len) && st->extra[i][len] == '=')
			return st->extra[i] + len + 1;
	return NULL;
}

/*
 * What the file gives; else room for the device tables of every attach of it, as if all were there at once. One may
 * have half of it.
 */
static uint64_t table_area(const struct script *s)
{
	const char *given = extra_value(s->statements, "table_area");
	uint64_t bytes = TABLE_LEAST, largest = 0, tables;
	int64_t n;

	if (given) /* one that is no size is told by the broker */
		return bytes_read(given, &n) ? align_up((uint64_t)n, TABLE_UNIT) : 0;
	for (size_t i = 0; i < s->n_statements; i++) {
		const struct statement *st = &s->statements[i];
		const struct script_model *m;
		int64_t batch, max_seq;

		if (st->kind != ST_ATTACH)
			continue;
		m = script_model_find(s, statement_value(st, KEY_MODEL)->text);
		batch = statement_number(m->statement, KEY_MAX_BATCH, 0);
		max_seq = statement_number(m->statement, KEY_MAX_SEQ, 0);
		/* What no broker takes is refused at attach; it needs no room. */
		if (batch < 1 || batch > 4096 || max_seq < 1 || max_seq > INT32_MAX || m->page_tokens < 16)
			continue;
		tables = m->n_groups *
			 align_up((uint64_t)batch * 2 * sizeof(int32_t) * ((uint64_t)max_seq / m->page_tokens + 1),
				  TABLE_UNIT);
		bytes += tables;
		if (tables > largest)
			largest = tables;
	}
	return align_up(bytes > 2 * largest ? bytes : 2 * largest, TABLE_UNIT);
}

static uint64_t largest_page(const struct script *s)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < s->n_models; i++)
		for (size_t g = 0; g < s->models[i].n_groups; g++)
			if (s->models[i].groups[g].page.bytes > largest)
				largest = s->models[i].groups[g].page.bytes;
	return largest;
}

static uint64_t half_bytes(const struct script *s)
{
	const struct statement *st = s->statements;
	int64_t pages = statement_number(st, KEY_PAGES, 0);

	if (pages > 0)
		return (uint64_t)pages * s->models[0].groups[0].page.bytes;
	return (uint64_t)statement_number(st, KEY_BYTES, 0) / 2;
}

/* As fine as the largest page, so that models with different pages share the pool closely. */
static uint64_t extent_bytes(const struct script *s, uint64_t half)
{
	uint64_t page = largest_page(s), pages;

	if (page == 0 || page > half)
		return half;
	pages = half / page;
	return page * (pages / MAX_EXTENTS + 1);
}

/* ---- the command line --------------------------------------------------------------- */

enum { MAX_FLAGS = 64, FLAG = 1024 };

struct flags {
	size_t n;
	const char *list[MAX_FLAGS];
	char text[MAX_FLAGS][FLAG];
};

static void add(struct flags *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct flags *f, const char *format, ...)
{
	va_list args;

	if (f->n == MAX_FLAGS)
		return;
	va_start(args, format);
	vsnprintf(f->text[f->n], FLAG, format, args);
	va_end(args);
	f->list[f->n] = f->text[f->n];
	f->n++;
}

static bool has_limits(const struct script *s)
{
	for (size_t i = 0; i < s->n_models; i++)
		if (statement_value(s->models[i].statement, KEY_FLOOR) ||
		    statement_value(s->models[i].statement, KEY_CEILING))
			return true;
	return false;
}

static void limits_path(const struct broker *b, char path[96])
{
	snprintf(path, 96, "%s/limits.ini", b->process.folder);
}

/* Limits have no flags: they stand in a file. 0 or a negative errno. */
static int write_limits(const struct broker *b, const struct script *s)
{
	AUTO_FCLOSE FILE *file = NULL;
	char path[96];

	if (!has_limits(s))
		return 0;
	limits_path(b, path);
	file = fopen(path, "we");
	if (!file)
		return -errno;
	for (size_t i = 0; i < s->n_models; i++) {
		const struct statement *st = s->models[i].statement;
		int64_t floor = statement_number(st, KEY_FLOOR, 0), ceiling = statement_number(st, KEY_CEILING, 0);

		if (floor || ceiling)
			fprintf(file, "[model %zu]\nname = %s\n", i, s->models[i].name);
		if (floor)
			fprintf(file, "floor = %" PRId64 "\n", floor);
		if (ceiling)
			fprintf(file, "ceiling = %" PRId64 "\n", ceiling);
	}
	return ferror(file) ? -EIO : 0;
}

/* "spin_us=20" becomes --spin-us=20. */
static void add_extra(struct flags *f, const char *extra)
{
	char key[64];
	size_t len = strcspn(extra, "=");

	if (len >= sizeof(key))
		len = sizeof(key) - 1;
	for (size_t i = 0; i < len; i++)
		key[i] = extra[i] == '_' ? '-' : extra[i];
	key[len] = '\0';
	add(f, "--%s=%s", key, extra + strcspn(extra, "=") + 1);
}

/* NULL: memory is short. To be freed. */
static struct flags *flags_of(const struct broker *b, const struct script *s)
{
	const struct statement *st = s->statements;
	struct flags *f = calloc(1, sizeof(*f));
	uint64_t area = table_area(s);
	char path[96];

	if (!f)
		return NULL;
	if (has_limits(s)) {
		limits_path(b, path);
		add(f, "--config=%s", path);
	}
	add(f, "--backend=%s", statement_number(st, KEY_BACKEND, BACKEND_HOST) == BACKEND_CUDA ? "cuda" : "host");
	for (size_t i = 0; i < st->n_extra; i++)
		add_extra(f, st->extra[i]);
	if (!extra_value(st, "table_area"))
		add(f, "--table-area=%" PRIu64, area);
	if (!extra_value(st, "extent"))
		add(f, "--extent=%" PRIu64, extent_bytes(s, b->half_bytes));
	add(f, "--size=%" PRIu64, 2 * b->half_bytes + area);
	return f;
}

/* ---- start and end --------------------------------------------------------------------- */

int broker_init(struct broker *b, const struct script *s)
{
	int r;

	*b = (struct broker){ .status = { .fd = -1 }, .half_bytes = half_bytes(s) };
	r = private_broker_init(&b->process, "replay");
	if (r < 0)
		return r;
	r = write_limits(b, s);
	if (r < 0)
		return r;
	b->snapshot = calloc(1, sizeof(*b->snapshot));
	return b->snapshot ? 0 : -ENOMEM;
}

bool broker_has_keys(const struct script *s)
{
	return s->statements[0].n_extra > 0 || has_limits(s);
}

int broker_check_keys(struct broker *b, const struct script *s, struct script_error *e)
{
	struct flags *f = flags_of(b, s);
	char why[400];
	int r;

	if (!f)
		return script_fail(e, s->statements->line, "out of memory");
	r = private_broker_check(&b->process, f->list, f->n, why, sizeof(why));
	free(f);
	if (r == 0)
		return 0;
	return script_fail(e, s->statements->line, r == -EINVAL ? "the broker says: %s" : "%s", why);
}

int broker_start(struct broker *b, const struct script *s, char *why, size_t size)
{
	struct flags *f = flags_of(b, s);
	int r;

	if (!f) {
		snprintf(why, size, "out of memory");
		return -ENOMEM;
	}
	r = private_broker_start(&b->process, f->list, f->n, why, size);
	free(f);
	if (r < 0)
		return r;
	r = status_reader_open(&b->status, b->process.name);
	if (r < 0)
		snprintf(why, size, "the broker's status page cannot be read: %s", strerror(-r));
	return r;
}

void broker_deinit(struct broker *b, bool keep)
{
	private_broker_deinit(&b->process, keep);
	status_reader_close(&b->status);
	free(b->snapshot);
	b->snapshot = NULL;
}

/* ---- status ------------------------------------------------------------------------------- */

int broker_read_status(struct broker *b)
{
	return status_reader_copy(&b->status, b->snapshot);
}

const struct status_class *broker_class(const struct broker *b, struct page_key page)
{
	for (uint32_t i = 0; i < b->snapshot->n_classes; i++) {
		const struct status_class *c = &b->snapshot->classes[i];

		if (page_key_equal((struct page_key){ c->page_bytes, c->joined }, page))
			return c;
	}
	return NULL;
}

const struct status_session *broker_session(const struct broker *b, uint32_t id, uint32_t generation)
{
	for (uint32_t i = 0; i < b->snapshot->n_sessions; i++)
		if (b->snapshot->sessions[i].id == id && b->snapshot->sessions[i].generation == generation)
			return &b->snapshot->sessions[i];
	return NULL;
}
