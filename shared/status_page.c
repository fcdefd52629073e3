/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_page.c - writer and reader of the status page
 *
 * Who owns the name. The lock on the object behind the name is the right to
 * unlink the name; nobody else does. A starting broker that finds an object
 * locks it, and when it had been a dead broker's it unlinks it and makes a new
 * one: old readers keep their old object, which nobody truncates under them.
 * The old lock is held until the new object is locked, so of several starting
 * brokers one gets the name and the others are told -EEXIST.
 *
 * How a snapshot travels. The broker fills a private draft; commit copies its
 * used parts into the snapshot that is not current, by relaxed stores of whole
 * words. Its `number` is 0 meanwhile: number and contents are a sequence lock.
 * A reader copies by relaxed loads between two looks at the number, checks the
 * counts in its own copy before it uses them, and believes nothing of a copy
 * whose number had changed. Both sides touch the shared words by atomics only,
 * so a torn copy is a case to detect and never undefined behaviour.
 */
#include "status_page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "instance.h"

#define PAGE_ALIGN(n)  (((size_t)(n) + 4095) & ~(size_t)4095)
#define HEAD_BYTES     PAGE_ALIGN(sizeof(struct status_head))
#define SNAPSHOT_BYTES PAGE_ALIGN(sizeof(struct status_snapshot))
#define PAGE_BYTES     (HEAD_BYTES + 2 * SNAPSHOT_BYTES)

enum { OPEN_TRIES = 16, COPY_TRIES = 8 };

/* All is copied in whole words. */
_Static_assert(offsetof(struct status_snapshot, number) == 0, "the number is the first word");
_Static_assert(offsetof(struct status_snapshot, classes) % 8 == 0, "counters");
_Static_assert(sizeof(struct status_class) % 8 == 0 && sizeof(struct status_session) % 8 == 0, "classes, sessions");
_Static_assert(sizeof(struct status_model) % 8 == 0 && offsetof(struct status_snapshot, models) % 8 == 0, "models");
_Static_assert(sizeof(struct status_request) % 8 == 0 && sizeof(struct status_sequence) % 8 == 0, "requests");
_Static_assert(sizeof(struct wire_binding) % 8 == 0 && offsetof(struct status_snapshot, bindings) % 8 == 0, "bindings");

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Writes the object's name of @instance to @buf; -EINVAL when it could mean another file. */
static int page_name(char *buf, size_t size, const char *instance)
{
	if (!instance_name_valid(instance))
		return -EINVAL;
	snprintf(buf, size, "/swakv-%s", instance);
	return 0;
}

static struct status_snapshot *snapshot_at(const struct status_head *head, uint64_t number)
{
	return (void *)((uintptr_t)head + HEAD_BYTES + (number & 1) * SNAPSHOT_BYTES);
}

/* The snapshot's number as the atomic word that it is between the two sides. */
static shm_u64 *number_of(struct status_snapshot *s)
{
	return (shm_u64 *)(void *)&s->number;
}

static void store_words(void *shared, const void *from, size_t bytes)
{
	shm_u64 *to = shared;
	const uint64_t *words = from;

	for (size_t i = 0; i < bytes / 8; i++)
		store_relaxed(&to[i], words[i]);
}

static void load_words(void *to, void *shared, size_t bytes)
{
	uint64_t *words = to;
	shm_u64 *from = shared;

	for (size_t i = 0; i < bytes / 8; i++)
		words[i] = load_relaxed(&from[i]);
}

struct part {
	size_t offset;
	size_t bytes;
};
enum { N_PARTS = 7 };

/* The used parts of a snapshot with the counts in @s, without its first word. */
static void used_parts(const struct status_snapshot *s, struct part parts[N_PARTS])
{
	const struct part used[N_PARTS] = {
		{ sizeof(s->number), offsetof(struct status_snapshot, classes) - sizeof(s->number) },
		{ offsetof(struct status_snapshot, classes), s->n_classes * sizeof(s->classes[0]) },
		{ offsetof(struct status_snapshot, models), s->n_models * sizeof(s->models[0]) },
		{ offsetof(struct status_snapshot, sessions), s->n_sessions * sizeof(s->sessions[0]) },
		{ offsetof(struct status_snapshot, requests), s->n_requests * sizeof(s->requests[0]) },
		{ offsetof(struct status_snapshot, sequences), s->n_sequences * sizeof(s->sequences[0]) },
		{ offsetof(struct status_snapshot, bindings), s->n_bindings * sizeof(s->bindings[0]) },
	};

	memcpy(parts, used, sizeof(used));
}

/* ---- writer --------------------------------------------------------------- */

static int lock_page(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, F_OFD_SETLK, &l) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

/* Only a write lock counts: whoever may read the page could hold a read lock. */
static bool write_locked(int fd)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_WRLCK;
}

/* Locks @fd and makes sure that the name still means it. -EAGAIN: it does not; -EEXIST, -EBUSY: locked by others. */
static int lock_named(int fd)
{
	struct stat st;
	int r = lock_page(fd);

	if (r == -EAGAIN)
		return write_locked(fd) ? -EEXIST : -EBUSY;
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_nlink == 0 ? -EAGAIN : 0;
}

/* Opens and locks the object that is there, a dead broker's: *@fd holds its lock, or is -1 when there is none. */
static int lock_existing(const char *name, int *fd)
{
	AUTO_CLOSE int old = shm_open(name, O_RDWR, 0);
	struct stat st;
	int r;

	*fd = -1;
	if (old < 0)
		return errno == ENOENT ? 0 : errno == EACCES ? -EPERM : -errno;
	if (fstat(old, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1)
		return -EPERM;
	r = lock_named(old);
	if (r == 0)
		*fd = steal_fd(&old);
	return r;
}

/* One try to get a fresh, locked, empty object under @name; -EAGAIN: the name changed hands, try again. */
static int make_object(const char *name)
{
	AUTO_CLOSE int old = -1;
	AUTO_CLOSE int fd = -1;
	int r = lock_existing(name, &old);

	if (r < 0)
		return r;
	if (old >= 0 && shm_unlink(name) < 0 && errno != ENOENT)
		return -errno;
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0640);
	if (fd < 0)
		return errno == EEXIST ? -EAGAIN : -errno;
	/* Until it is locked another starting broker takes it for a dead one's, and then that one wins. */
	r = lock_named(fd);
	return r < 0 ? r : steal_fd(&fd);
}

static void fill_head(struct status_head *head, const char *instance)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	head->version = STATUS_VERSION;
	head->head_bytes = (uint32_t)HEAD_BYTES;
	head->snapshot_bytes = SNAPSHOT_BYTES;
	head->pid = getpid();
	head->uid = geteuid();
	head->started_ns = clock_ns();
	head->started_unix = now.tv_sec;
	head->heartbeat_interval_ns = 500000000;
	for (int i = 0; i < STATUS_N_THREADS; i++)
		store_relaxed(&head->threads[i].heartbeat_ns, head->started_ns);
	snprintf(head->instance, sizeof(head->instance), "%s", instance);
	snprintf(head->version_text, sizeof(head->version_text), "%s", SWAKV_VERSION);
}

/* Memory of the fresh object, all of it allocated now: running out later would be a signal. */
static int map_object(struct status_writer *w)
{
	void *map;
	int r;

	if (fchmod(w->fd, 0640) < 0) /* whatever the umask */
		return -errno;
	r = posix_fallocate(w->fd, 0, PAGE_BYTES);
	if (r)
		return -r;
	map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	w->head = map;
	w->bytes = PAGE_BYTES;
	w->draft = calloc(1, sizeof(*w->draft));
	return w->draft ? 0 : -ENOMEM;
}

int status_writer_open(struct status_writer *w, const char *instance)
{
	int r;

	*w = (struct status_writer){ .fd = -1 };
	r = page_name(w->name, sizeof(w->name), instance);
	if (r < 0)
		return r;
	r = -EAGAIN;
	for (int i = 0; i < OPEN_TRIES && r == -EAGAIN; i++)
		r = make_object(w->name);
	if (r < 0)
		return r;
	w->fd = r;
	r = map_object(w);
	if (r < 0) {
		status_writer_close(w);
		return r;
	}
	fill_head(w->head, instance);
	return 0;
}

void status_writer_ready(struct status_writer *w)
{
	store_release(&w->head->magic, STATUS_MAGIC); /* pairs with the load in status_reader_open() */
}

struct status_snapshot *status_writer_begin(struct status_writer *w)
{
	memset(w->draft, 0, offsetof(struct status_snapshot, classes));
	return w->draft;
}

static void cut(struct status_snapshot *s, uint32_t *count, uint32_t max)
{
	if (*count > max) {
		*count = max;
		s->truncated = 1;
	}
}

void status_writer_commit(struct status_writer *w)
{
	uint64_t number = load_relaxed(&w->head->current) + 1;
	struct status_snapshot *to = snapshot_at(w->head, number);
	struct status_snapshot *s = w->draft;
	struct part parts[N_PARTS];

	cut(s, &s->n_classes, STATUS_MAX_CLASSES);
	cut(s, &s->n_models, STATUS_MAX_MODELS);
	cut(s, &s->n_sessions, STATUS_MAX_SESSIONS);
	cut(s, &s->n_requests, STATUS_MAX_REQUESTS);
	cut(s, &s->n_sequences, STATUS_MAX_SEQUENCES);
	cut(s, &s->n_bindings, STATUS_MAX_BINDINGS);
	if (s->published_ns == 0)
		s->published_ns = clock_ns();
	store_relaxed(number_of(to), 0);
	fence_release(); /* pairs with the reader's fence: who saw a word of this copy sees the 0, or later */
	used_parts(s, parts);
	for (int i = 0; i < N_PARTS; i++)
		store_words((char *)to + parts[i].offset, (char *)s + parts[i].offset, parts[i].bytes);
	store_release(number_of(to), number);
	store_release(&w->head->current, number);
}

/* True while the name still means the object that @w holds. */
static bool name_is_ours(const struct status_writer *w)
{
	AUTO_CLOSE int fd = shm_open(w->name, O_RDONLY, 0);
	struct stat named, held;

	return fd >= 0 && fstat(fd, &named) == 0 && fstat(w->fd, &held) == 0 && named.st_dev == held.st_dev &&
	       named.st_ino == held.st_ino;
}

void status_writer_close(struct status_writer *w)
{
	if (!w->name[0]) /* never opened */
		return;
	if (w->fd >= 0 && name_is_ours(w))
		shm_unlink(w->name);
	if (w->head)
		munmap(w->head, w->bytes);
	free(w->draft);
	close_fd(&w->fd);
	*w = (struct status_writer){ .fd = -1 };
}

/* ---- reader --------------------------------------------------------------- */

/* Checks what was mapped; the head fields used later are compared with this build's, not trusted. */
static int check_head(struct status_reader *r, const struct status_head *head)
{
	if (load_acquire(&head->magic) != STATUS_MAGIC) /* pairs with status_writer_ready() */
		return -EPROTO;
	r->version = head->version;
	if (r->version != STATUS_VERSION || r->bytes < PAGE_BYTES || head->head_bytes != HEAD_BYTES ||
	    head->snapshot_bytes != SNAPSHOT_BYTES)
		return -EPROTO;
	return 0;
}

int status_reader_open(struct status_reader *r, const char *instance)
{
	char name[WIRE_NAME + 8];
	struct stat st;
	void *map;
	int e;

	*r = (struct status_reader){ .fd = -1 };
	e = page_name(name, sizeof(name), instance);
	if (e < 0)
		return e;
	r->fd = shm_open(name, O_RDONLY, 0);
	if (r->fd < 0 || fstat(r->fd, &st) < 0)
		return -errno;
	/* Magic and version stand at the same place in every version. */
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof(struct status_head))
		return -EPROTO;
	r->bytes = (uint64_t)st.st_size < PAGE_BYTES ? (size_t)st.st_size : PAGE_BYTES;
	map = mmap(NULL, r->bytes, PROT_READ, MAP_SHARED, r->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	e = check_head(r, map);
	if (e < 0)
		munmap(map, r->bytes);
	else
		r->head = map;
	return e;
}

void status_reader_close(struct status_reader *r)
{
	if (r->head)
		munmap((void *)(uintptr_t)r->head, r->bytes);
	close_fd(&r->fd);
	*r = (struct status_reader){ .fd = -1 };
}

bool status_reader_alive(const struct status_reader *r)
{
	return write_locked(r->fd);
}

static bool counts_possible(const struct status_snapshot *s)
{
	return s->n_classes <= STATUS_MAX_CLASSES && s->n_models <= STATUS_MAX_MODELS &&
	       s->n_sessions <= STATUS_MAX_SESSIONS && s->n_requests <= STATUS_MAX_REQUESTS &&
	       s->n_sequences <= STATUS_MAX_SEQUENCES && s->n_bindings <= STATUS_MAX_BINDINGS;
}

/* True when [first, first + n) lies inside @total; what a truncated snapshot does not hold is marked instead. */
static bool range_possible(const struct status_snapshot *s, uint32_t *first, uint64_t n, uint32_t total)
{
	if (*first != STATUS_NOT_LISTED && *first + n <= total)
		return true;
	if (!s->truncated)
		return false;
	*first = STATUS_NOT_LISTED;
	return true;
}

static bool groups_possible(const struct status_snapshot *s, const struct status_session *x)
{
	if (x->n_groups < 1 || x->n_groups > WIRE_MAX_GROUPS)
		return false;
	for (uint32_t i = 0; i < x->n_groups; i++)
		if (x->groups[i].class_index >= s->n_classes)
			return false;
	return true;
}

/* Checks the private copy @s, so that its user may follow every index, and ends its texts. */
static bool contents_possible(struct status_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_models; i++)
		s->models[i].name[WIRE_MODEL_NAME - 1] = '\0';
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		s->sessions[i].model[WIRE_MODEL_NAME - 1] = '\0';
		if (!groups_possible(s, &s->sessions[i]))
			return false;
	}
	for (uint32_t i = 0; i < s->n_requests; i++) {
		struct status_request *r = &s->requests[i];

		if (r->session >= s->n_sessions ||
		    !range_possible(s, &r->first_sequence, (uint64_t)r->n_sequences * s->sessions[r->session].n_groups,
				    s->n_sequences))
			return false;
	}
	for (uint32_t i = 0; i < s->n_sequences; i++) {
		struct status_sequence *q = &s->sequences[i];

		if (q->group >= WIRE_MAX_GROUPS ||
		    !range_possible(s, &q->first_binding, (uint64_t)q->n_bound + q->n_retiring, s->n_bindings))
			return false;
	}
	return true;
}

/* Copies snapshot @number. -EAGAIN: it was overwritten meanwhile; -EPROTO: whole, but impossible. */
static int copy_snapshot(const struct status_head *head, uint64_t number, struct status_snapshot *out)
{
	struct status_snapshot *from = snapshot_at(head, number);
	struct part parts[N_PARTS];
	bool possible;

	if (load_acquire(number_of(from)) != number) /* pairs with the release of the number in commit */
		return -EAGAIN;
	memset(out, 0, offsetof(struct status_snapshot, classes));
	used_parts(out, parts); /* the first part does not depend on counts */
	load_words((char *)out + parts[0].offset, (char *)from + parts[0].offset, parts[0].bytes);
	possible = counts_possible(out);
	if (possible) {
		used_parts(out, parts);
		for (int i = 1; i < N_PARTS; i++)
			load_words((char *)out + parts[i].offset, (char *)from + parts[i].offset, parts[i].bytes);
	}
	fence_acquire(); /* pairs with the fence in commit */
	if (load_relaxed(number_of(from)) != number)
		return -EAGAIN;
	out->number = number;
	return possible && contents_possible(out) ? 0 : -EPROTO;
}

int status_reader_copy(const struct status_reader *r, struct status_snapshot *out)
{
	int e = -EAGAIN;

	for (int i = 0; i < COPY_TRIES && e == -EAGAIN; i++) {
		uint64_t number = load_acquire(&r->head->current); /* pairs with the flip in commit */

		if (number == 0)
			return -EAGAIN;
		e = copy_snapshot(r->head, number, out);
	}
	return e;
}
