/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.c - see broker.h
 *
 * Everything the broker leaves behind lies in one folder, but for its status
 * page: that has a name of its own, which is unlinked again when the broker did
 * not do so itself.
 */
#include "broker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "interrupt.h"
#include "value.h"

/* How long this tool waits for its own broker before it says so: no claim about speed. */
#define READY_MS 60000
#define STOP_MS  20000

#define MAX_ARGUMENTS 64
#define ARGUMENT      1024

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

/* What the file gives; else room for the device table of every attach of it, as if all were there at once. */
static uint64_t table_area(const struct script *s)
{
	const char *given = extra_value(s->statements, "table_area");
	uint64_t bytes = TABLE_LEAST;
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
		bytes += align_up((uint64_t)batch * 2 * sizeof(int32_t) * ((uint64_t)max_seq / m->page_tokens + 1),
				  TABLE_UNIT);
	}
	return align_up(bytes, TABLE_UNIT);
}

static uint64_t largest_page(const struct script *s)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < s->n_models; i++)
		if (s->models[i].page_bytes > largest)
			largest = s->models[i].page_bytes;
	return largest;
}

static uint64_t half_bytes(const struct script *s)
{
	const struct statement *st = s->statements;
	int64_t pages = statement_number(st, KEY_PAGES, 0);

	if (pages > 0)
		return (uint64_t)pages * s->models[0].page_bytes;
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

struct arguments {
	int n;
	char *list[MAX_ARGUMENTS + 1];
	char text[MAX_ARGUMENTS][ARGUMENT];
};

static void add(struct arguments *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct arguments *a, const char *format, ...)
{
	va_list args;

	if (a->n == MAX_ARGUMENTS)
		return;
	va_start(args, format);
	vsnprintf(a->text[a->n], ARGUMENT, format, args);
	va_end(args);
	a->list[a->n] = a->text[a->n];
	a->list[++a->n] = NULL;
}

/* "spin_us=20" becomes --spin-us=20. */
static void add_extra(struct arguments *a, const char *extra)
{
	char key[64];
	size_t len = strcspn(extra, "=");

	if (len >= sizeof(key))
		len = sizeof(key) - 1;
	for (size_t i = 0; i < len; i++)
		key[i] = extra[i] == '_' ? '-' : extra[i];
	key[len] = '\0';
	add(a, "--%s=%s", key, extra + strcspn(extra, "=") + 1);
}

static void build_arguments(struct arguments *a, const struct broker *b, const struct script *s)
{
	const struct statement *st = s->statements;
	uint64_t area = table_area(s);

	a->n = 0;
	add(a, "swakvd");
	add(a, "--name=%s", b->name);
	add(a, "--socket=%s", b->socket);
	add(a, "--backend=%s", statement_number(st, KEY_BACKEND, BACKEND_HOST) == BACKEND_CUDA ? "cuda" : "host");
	for (size_t i = 0; i < st->n_extra; i++)
		add_extra(a, st->extra[i]);
	if (!extra_value(st, "table_area"))
		add(a, "--table-area=%" PRIu64, area);
	if (!extra_value(st, "extent"))
		add(a, "--extent=%" PRIu64, extent_bytes(s, b->half_bytes));
	add(a, "--size=%" PRIu64, 2 * b->half_bytes + area);
}

/* ---- the program ----------------------------------------------------------------------- */

static bool executable(const char *path)
{
	return access(path, X_OK) == 0;
}

/* swakvd of $SWAKVD, of the build this tool lies in, or installed beside it; else by $PATH. */
static void find_program(char path[PATH_MAX])
{
	static const char *const places[] = { "/../../broker/swakvd", "/swakvd", "/../libexec/swakv/swakvd",
					      "/../libexec/swakvd", "/../sbin/swakvd" };
	const char *given = getenv("SWAKVD");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	snprintf(path, PATH_MAX, "%s", given && given[0] ? given : "swakvd");
	if ((given && given[0]) || n <= 0)
		return;
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char place[PATH_MAX];

		if (snprintf(place, sizeof(place), "%s%s", self, places[i]) < (int)sizeof(place) && executable(place)) {
			snprintf(path, PATH_MAX, "%s", place);
			return;
		}
	}
}

/* Child: becomes the broker, with @log_fd as its output. */
static void exec_broker(char *const *arguments, int log_fd)
{
	char path[PATH_MAX];

	find_program(path);
	interrupt_reset();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	dup2(log_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	execvp(path, arguments);
	dprintf(STDERR_FILENO, "swakv-replay: %s cannot be run: %s\n", path, strerror(errno));
	_exit(127);
}

/* ---- start ------------------------------------------------------------------------------- */

static int open_log(const struct broker *b)
{
	return open(b->log, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
}

int broker_init(struct broker *b, const struct script *s)
{
	const char *tmp = getenv("TMPDIR");
	static unsigned int counter;

	*b = (struct broker){ .status = { .fd = -1 }, .half_bytes = half_bytes(s) };
	if (!tmp || !tmp[0] || strlen(tmp) > sizeof(b->folder) - sizeof("/swakv-replay.XXXXXX"))
		tmp = "/tmp";
	snprintf(b->name, sizeof(b->name), "replay-%d-%u", (int)getpid(), ++counter);
	snprintf(b->folder, sizeof(b->folder), "%s/swakv-replay.XXXXXX", tmp);
	if (!mkdtemp(b->folder)) {
		b->folder[0] = '\0';
		return -errno;
	}
	snprintf(b->socket, sizeof(b->socket), "%s/sock", b->folder);
	snprintf(b->log, sizeof(b->log), "%s/swakvd.log", b->folder);
	b->snapshot = calloc(1, sizeof(*b->snapshot));
	return b->snapshot ? 0 : -ENOMEM;
}

/* Waits for @pid for at most @ms. True: it has ended, and *@status says how. */
static bool wait_for(pid_t pid, int ms, int *status)
{
	const struct timespec tick = { 0, 2000000 };

	for (int i = 0; i <= ms / 2; i++) {
		pid_t r = waitpid(pid, status, WNOHANG);

		if (r == pid || (r < 0 && errno == ECHILD))
			return true;
		nanosleep(&tick, NULL);
	}
	return false;
}

static void read_text(const char *path, char *buf, size_t size)
{
	AUTO_FCLOSE FILE *f = fopen(path, "re");
	size_t n = f ? fread(buf, 1, size - 1, f) : 0;

	buf[n] = '\0';
	for (char *c = buf; *c; c++)
		if (*c == '\n')
			*c = c[1] ? ';' : '\0';
}

int broker_check_keys(struct broker *b, const struct script *s, struct script_error *e)
{
	struct arguments *a = calloc(1, sizeof(*a));
	AUTO_CLOSE int log_fd = open_log(b);
	char text[400];
	int status = 0;
	pid_t pid;

	if (!a || log_fd < 0) {
		free(a);
		return script_fail(e, s->statements->line, "%s: %s", b->log, strerror(errno));
	}
	build_arguments(a, b, s);
	add(a, "--check-config");
	pid = fork();
	if (pid == 0)
		exec_broker(a->list, log_fd);
	free(a);
	if (pid < 0 || !wait_for(pid, READY_MS, &status))
		return script_fail(e, s->statements->line, "swakvd --check-config did not end");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		unlink(b->log);
		return 0;
	}
	read_text(b->log, text, sizeof(text));
	/* Behind the level and the program's name, as in "<3>swakvd: ". */
	return script_fail(e, s->statements->line, "the broker says: %s",
			   text + (text[0] == '<' ? strcspn(text, " ") + 1 : 0));
}

/* 0 when the broker has said that it is ready. */
static int wait_ready(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;
	int r = poll(&p, 1, ms);

	if (r <= 0)
		return r == 0 ? -ETIMEDOUT : -errno;
	return read(fd, &byte, 1) == 1 ? 0 : -ECHILD;
}

static int fork_broker(struct broker *b, const struct script *s, int ready_fd)
{
	struct arguments *a = calloc(1, sizeof(*a));
	AUTO_CLOSE int log_fd = open_log(b);

	if (!a || log_fd < 0) {
		free(a);
		return log_fd < 0 ? -errno : -ENOMEM;
	}
	build_arguments(a, b, s);
	add(a, "--ready-fd=%d", ready_fd);
	b->pid = fork();
	if (b->pid == 0) {
		fcntl(ready_fd, F_SETFD, 0);
		exec_broker(a->list, log_fd);
	}
	free(a);
	if (b->pid < 0) {
		b->pid = 0;
		return -errno;
	}
	return 0;
}

int broker_start(struct broker *b, const struct script *s, char *why, size_t size)
{
	int ready[2], r;

	if (pipe2(ready, O_CLOEXEC) < 0) {
		snprintf(why, size, "pipe: %s", strerror(errno));
		return -errno;
	}
	r = fork_broker(b, s, ready[1]);
	close(ready[1]);
	if (r == 0)
		r = wait_ready(ready[0], READY_MS);
	close(ready[0]);
	if (r == 0)
		r = status_reader_open(&b->status, b->name);
	if (r < 0)
		snprintf(why, size, "the broker did not start: %s", r == -ECHILD ? "it ended" : strerror(-r));
	return r;
}

/* ---- end --------------------------------------------------------------------------------- */

bool broker_stop(struct broker *b)
{
	int status = 0;
	bool ended;

	if (b->pid == 0)
		return true;
	kill(b->pid, SIGTERM);
	ended = wait_for(b->pid, STOP_MS, &status);
	if (!ended) {
		kill(b->pid, SIGKILL);
		waitpid(b->pid, &status, 0);
	}
	b->pid = 0;
	return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void broker_deinit(struct broker *b, bool keep)
{
	static const char *const files[] = { "sock", "sock.lock", "swakvd.log" };
	char path[128];

	broker_stop(b);
	status_reader_close(&b->status);
	free(b->snapshot);
	b->snapshot = NULL;
	if (!b->folder[0])
		return;
	snprintf(path, sizeof(path), "/swakv-%s", b->name);
	shm_unlink(path);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && !keep; i++) {
		snprintf(path, sizeof(path), "%s/%s", b->folder, files[i]);
		unlink(path);
	}
	if (!keep)
		rmdir(b->folder);
	b->folder[0] = '\0';
}

void broker_print_log(const struct broker *b, FILE *out)
{
	AUTO_FCLOSE FILE *f = b->folder[0] ? fopen(b->log, "re") : NULL;
	char line[1024];

	while (f && fgets(line, sizeof(line), f))
		fprintf(out, "%s%s", line + (line[0] == '<' ? strcspn(line, ">") + 1 : 0),
			strchr(line, '\n') ? "" : "\n");
}

/* ---- status ------------------------------------------------------------------------------- */

int broker_read_status(struct broker *b)
{
	return status_reader_copy(&b->status, b->snapshot);
}

const struct status_class *broker_class(const struct broker *b, uint64_t page_bytes)
{
	for (uint32_t i = 0; i < b->snapshot->n_classes; i++)
		if (b->snapshot->classes[i].page_bytes == page_bytes)
			return &b->snapshot->classes[i];
	return NULL;
}

const struct status_session *broker_session(const struct broker *b, uint32_t id, uint32_t generation)
{
	for (uint32_t i = 0; i < b->snapshot->n_sessions; i++)
		if (b->snapshot->sessions[i].id == id && b->snapshot->sessions[i].generation == generation)
			return &b->snapshot->sessions[i];
	return NULL;
}
