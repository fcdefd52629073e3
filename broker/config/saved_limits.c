/* SPDX-License-Identifier: Apache-2.0 */
/* saved_limits.c - see saved_limits.h */
#include "saved_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "model_name.h"
#include "size.h"

#define HEAD                                                                                                           \
	"# Limits that swakv-ctl limit --save has saved; they replace those of the configuration. A line may be "      \
	"removed.\n"

enum { MAX_SAVED = CONFIG_MAX_MODELS, LINE = 64 + WIRE_MODEL_NAME, FILE_PATH = CONFIG_PATH + WIRE_NAME + 16 };

struct saved {
	struct saved_limit all[MAX_SAVED];
	uint32_t n;
};

/* The file's path, to @out. False: the broker has no state_dir. */
static bool path_of(const struct config *c, char out[FILE_PATH])
{
	snprintf(out, FILE_PATH, "%s/%s.limits", c->state_dir, c->name);
	return c->state_dir[0] != '\0';
}

/* "64", or "25%". False: neither. */
static bool read_value(const char *text, struct config_size *out)
{
	size_t len = strlen(text);
	char digits[24];
	uint64_t n;

	*out = (struct config_size){ 0 };
	if (len > 1 && len < sizeof(digits) && text[len - 1] == '%') {
		memcpy(digits, text, len - 1);
		digits[len - 1] = '\0';
		out->percent = true;
		text = digits;
	}
	if (!size_read(text, &n) || (out->percent && n > 100))
		return false;
	out->value = n;
	return true;
}

/* A line without its end. */
static bool read_line(const char *line, struct saved_limit *out)
{
	char floor[24], ceiling[24];
	int at = 0;

	if (sscanf(line, "floor=%23[0-9%] ceiling=%23[0-9%none] model=%n", floor, ceiling, &at) != 2 || at == 0 ||
	    !model_name_valid(line + at))
		return false;
	memset(out, 0, sizeof(*out));
	strcpy(out->name, line + at);
	return read_value(floor, &out->floor) && (!strcmp(ceiling, "none") || read_value(ceiling, &out->ceiling));
}

static int read_file(const char *path, struct saved *s, struct config_error *e)
{
	AUTO_FCLOSE FILE *file = fopen(path, "re");
	char line[LINE];

	s->n = 0;
	if (!file && errno == ENOENT)
		return 0;
	if (!file)
		return config_fail(e, "%s: the saved limits cannot be read: %s", path, strerror(errno));
	for (int number = 1; fgets(line, sizeof(line), file); number++) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#' || line[0] == '\0')
			continue;
		if (s->n == MAX_SAVED)
			return config_fail(e, "%s:%d: more than %d models: remove a line", path, number, MAX_SAVED);
		if (!read_line(line, &s->all[s->n]))
			return config_fail(e,
					   "%s:%d: \"%s\" is not a saved limit (floor=SIZE ceiling=SIZE|none "
					   "model=NAME): remove the line, or the file",
					   path, number, line);
		s->n++;
	}
	return 0;
}

/* Of that name; NULL: none. */
static struct config_model *section_of(struct config *c, const char *name)
{
	for (uint32_t i = 0; i < c->n_models; i++)
		if (!strcmp(c->models[i].name, name))
			return &c->models[i];
	return NULL;
}

int saved_limits_read(struct config *c, struct config_error *e)
{
	char path[FILE_PATH];
	struct saved s;
	int r;

	if (!path_of(c, path))
		return 0;
	r = read_file(path, &s, e);
	for (uint32_t i = 0; i < s.n && r == 0; i++) {
		struct config_model *m = section_of(c, s.all[i].name);

		if (!m && c->n_models == CONFIG_MAX_MODELS)
			return config_fail(e, "%s: with \"%s\" there are limits of more than %d models: remove one",
					   path, s.all[i].name, CONFIG_MAX_MODELS);
		if (!m) {
			m = &c->models[c->n_models++];
			*m = config_model_make(0);
			strcpy(m->name, s.all[i].name);
			m->limits_only = true;
		}
		m->floor = s.all[i].floor;
		m->ceiling = s.all[i].ceiling;
	}
	return r;
}

static const char *value_text(const struct config_size *size, char buf[32])
{
	snprintf(buf, 32, "%" PRIu64 "%s", size->value, size->percent ? "%" : "");
	return buf;
}

/* True when all of it is on the disk. */
static bool write_file(const char *path, const struct saved *s)
{
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	char floor[32], ceiling[32];

	if (fd < 0 || dprintf(fd, HEAD) < 0)
		return false;
	for (uint32_t i = 0; i < s->n; i++)
		if (dprintf(fd, "floor=%s ceiling=%s model=%s\n", value_text(&s->all[i].floor, floor),
			    s->all[i].ceiling.value ? value_text(&s->all[i].ceiling, ceiling) : "none",
			    s->all[i].name) < 0)
			return false;
	return fsync(fd) == 0;
}

int saved_limits_write(const struct config *c, const struct saved_limit *limit, struct config_error *e)
{
	char path[FILE_PATH], next[FILE_PATH + 8];
	struct saved s;
	uint32_t i;
	int r;

	if (!path_of(c, path))
		return config_fail(
			e, "this broker has no state_dir to save limits in (systemd's StateDirectory= sets it)");
	r = read_file(path, &s, e);
	if (r < 0)
		return r;
	for (i = 0; i < s.n && strcmp(s.all[i].name, limit->name) != 0; i++)
		;
	if (i == MAX_SAVED)
		return config_fail(e, "%s has limits of %d models already: remove a line", path, MAX_SAVED);
	s.all[i] = *limit;
	s.n += i == s.n;
	snprintf(next, sizeof(next), "%s.new", path);
	if (write_file(next, &s) && rename(next, path) == 0)
		return 0;
	r = errno;
	unlink(next);
	return config_fail(e, "%s cannot be written: %s", path, strerror(r));
}
