/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_file.c - the INI file
 *
 * inih tells its handler neither the line nor an empty section, so the lines
 * pass through a reader here that counts them and opens sections itself. Only
 * the first mistake is reported.
 */
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <string.h>

#include "config.h"
#include "model_name.h"

#define LABEL_MAX       (CONFIG_SECTION_MAX - sizeof("model")) /* and a blank */
#define BYTE_ORDER_MARK "\xEF\xBB\xBF"                         /* inih skips it, too */

struct config_file {
	struct config *config;
	struct config_error *error;
	FILE *file;
	const char *path;
	int line;
	int result;  /* of the first mistake */
	bool opened; /* a section was */
	enum config_section section;
	void *target;                   /* what the section's keys go to */
	uint64_t seen;                  /* bit a key of the broker and its pool */
	char header[INI_MAX_LINE + 16]; /* "[pool NAME]", for messages */
};

#define FAIL(f, ...)                                                                                                   \
	do {                                                                                                           \
		if ((f)->result == 0)                                                                                  \
			(f)->result = config_fail((f)->error, __VA_ARGS__);                                            \
	} while (0)

static void open_pool(struct config_file *f, const char *name)
{
	struct config *c = f->config;

	if (++c->n_pools > 1) {
		FAIL(f, "%s:%d: a second [pool] section: this broker serves one pool; start one broker for each pool",
		     f->path, f->line);
		return;
	}
	f->section = SECTION_POOL;
	f->target = &c->pool;
	if (name[0] && !config_name_valid(name))
		FAIL(f, "%s:%d: \"%s\" is not a pool name; allowed: 1 to %d of A-Z a-z 0-9 . _ -", f->path, f->line,
		     name, WIRE_NAME - 1);
	else if (name[0])
		strcpy(c->pool.name, name);
}

static void open_model(struct config_file *f, const char *name)
{
	struct config *c = f->config;
	struct config_model *m;

	if (strlen(name) > LABEL_MAX || !model_name_valid(name) || strchr(name, ';')) {
		FAIL(f,
		     "%s:%d: \"%s\" (%zu bytes) cannot stand in [model NAME]: allowed: 1 to %zu printable ASCII "
		     "characters except ; and ]. For any other name write [model LABEL], and name = NAME below it",
		     f->path, f->line, name, strlen(name), LABEL_MAX);
		return;
	}
	if (c->n_models == CONFIG_MAX_MODELS) {
		FAIL(f, "%s:%d: more than %d [model] sections", f->path, f->line, CONFIG_MAX_MODELS);
		return;
	}
	for (uint32_t i = 0; i < c->n_models; i++)
		if (!strcmp(c->models[i].label, name))
			FAIL(f, "%s:%d: [model %s] was given in line %d already", f->path, f->line, name,
			     c->models[i].line);
	m = &c->models[c->n_models++];
	*m = config_model_make(f->line);
	strcpy(m->label, name);
	f->section = SECTION_MODEL;
	f->target = m;
}

/* @text is what stands between the brackets. */
static void open_section(struct config_file *f, char *text)
{
	char *name = text + strcspn(text, " \t");

	if (*name)
		*name++ = '\0';
	name += strspn(name, " \t");
	for (char *end = name + strlen(name); end > name && isspace((unsigned char)end[-1]);)
		*--end = '\0';
	f->opened = true;
	snprintf(f->header, sizeof(f->header), "[%s%s%s]", text, *name ? " " : "", name);
	if (!strcmp(text, "broker") && !*name) {
		f->section = SECTION_BROKER;
		f->target = f->config;
	} else if (!strcmp(text, "pool")) {
		open_pool(f, name);
	} else if (!strcmp(text, "model")) {
		open_model(f, name);
	} else {
		FAIL(f, "%s:%d: unknown section %s; allowed: [broker], [pool], [pool NAME], [model NAME]", f->path,
		     f->line, f->header);
	}
}

/* @at is behind the '['. Without a ']' the line is inih's to refuse. */
static void take_header(struct config_file *f, const char *at)
{
	char section[INI_MAX_LINE];
	const char *end = strchr(at, ']');

	if (!end || end - at >= (ptrdiff_t)sizeof(section))
		return;
	memcpy(section, at, (size_t)(end - at));
	section[end - at] = '\0';
	end++;
	end += strspn(end, " \t\r\n");
	if (*end && *end != ';' && *end != '#') /* inih would drop it */
		FAIL(f,
		     "%s:%d: \"%.*s\" follows the ] of a section; put a name with ] into the key name of a [model] "
		     "section",
		     f->path, f->line, (int)strcspn(end, "\r\n"), end);
	open_section(f, section);
}

/* What follows a blank and a ; is a comment to inih: the name of a model would be cut there without a word. */
static void check_name_line(struct config_file *f, const char *at)
{
	const char *value = at + strlen("name");

	if (f->section != SECTION_MODEL || strncmp(at, "name", strlen("name")) != 0)
		return;
	value += strspn(value, " \t");
	if (*value != '=' && *value != ':')
		return;
	for (value++; *value; value++)
		if (*value == ';' && isspace((unsigned char)value[-1])) {
			FAIL(f,
			     "%s:%d: %s: a blank and a ; begin a comment: put it into a line of its own. The limits of "
			     "a "
			     "model that has them in its name can be set with swakv-ctl limit only",
			     f->path, f->line, f->header);
			return;
		}
}

/* inih's line source: counts lines and sees sections, also those without keys. */
static char *read_line(char *buf, int size, void *user)
{
	struct config_file *f = user;
	const char *at;

	if (f->result < 0 || !fgets(buf, size, f->file))
		return NULL;
	f->line++;
	if (!strchr(buf, '\n') && !feof(f->file)) {
		FAIL(f, "%s:%d: the line is longer than %d bytes", f->path, f->line, size - 2);
		return NULL;
	}
	if (isspace((unsigned char)buf[0])) { /* inih would take an indented line for more of the last value */
		size_t skip = strspn(buf, " \t");

		memmove(buf, buf + skip, strlen(buf + skip) + 1);
	}
	at = f->line == 1 && !strncmp(buf, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) ? buf + strlen(BYTE_ORDER_MARK)
										     : buf;
	if (*at == '[')
		take_header(f, at + 1);
	else
		check_name_line(f, at);
	return buf;
}

/* False when the key was given before in this section, and may stand but once. */
static bool note_key(struct config_file *f, int index)
{
	uint64_t bit = 1ull << index;
	uint64_t *seen = f->section == SECTION_MODEL ? &((struct config_model *)f->target)->seen : &f->seen;

	if (*seen & bit && config_key_at((size_t)index)->type != KEY_GROUP)
		return false;
	*seen |= bit;
	return true;
}

static int take_key(void *user, const char *section, const char *name, const char *value)
{
	struct config_file *f = user;
	char allowed[512];
	int index;

	(void)section; /* read_line() has opened it */
	if (f->result < 0)
		return 0;
	if (!f->opened && f->config->stray_line == 0)
		f->config->stray_line = f->line;
	index = config_key_find(f->section, name);
	if (index < 0) {
		config_key_list(f->section, allowed, sizeof(allowed));
		FAIL(f, "%s:%d: %s: unknown key \"%s\" (= \"%s\"); allowed: %s", f->path, f->line, f->header, name,
		     value, allowed);
	} else if (!note_key(f, index)) {
		FAIL(f, "%s:%d: %s: the key \"%s\" is given twice (now = \"%s\")", f->path, f->line, f->header, name,
		     value);
	} else if (config_key_store(config_key_at((size_t)index), f->target, value, allowed, sizeof(allowed)) < 0) {
		FAIL(f, "%s:%d: %s: %s = \"%s\"; allowed: %s", f->path, f->line, f->header, name, value, allowed);
	}
	return f->result == 0;
}

int config_read(struct config *c, FILE *file, const char *path, struct config_error *e)
{
	struct config_file f = { .config = c,
				 .error = e,
				 .file = file,
				 .path = path,
				 .target = c,
				 .header = "before any section, where keys are those of [broker]" };
	int line = ini_parse_stream(read_line, &f, take_key, &f);

	if (f.result == 0 && ferror(file))
		FAIL(&f, "%s: reading failed: %s", path, strerror(errno));
	if (f.result == 0 && line > 0)
		FAIL(&f, "%s:%d: neither \"key = value\" nor \"[section]\"", path, line);
	if (f.result == 0 && line < 0)
		FAIL(&f, "%s: out of memory", path);
	return f.result;
}
