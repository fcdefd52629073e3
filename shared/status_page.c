/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_page.c - writer and reader of the status page
 *
 * How a snapshot travels. The broker fills a private draft; commit copies its
 * used parts into the snapshot that is not current, by relaxed stores of whole
 * words. Its `number` is 0 meanwhile: number and contents are a sequence lock.
 * A reader has the kernel copy them (pread) between two looks at the number,
 * checks the counts in its own copy before it uses them, and believes nothing
 * of a copy whose number had changed. It maps nothing, so a page that is cut
 * short under it is an error and no signal.
 *
 * What becomes of a page that is cut short, or loses its name, under the broker.
 * Whoever guards its memory sets `lost`. One thread makes a new object and offers
 * it; the thread that commits maps it in the place of the old one before its next
 * snapshot. So no pointer into the page ever changes.
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
#include "status_name.h"

#define PAGE_ALIGN(n)  (((size_t)(n) + 4095) & ~(size_t)4095)
#define HEAD_BYTES     PAGE_ALIGN(sizeof(struct status_head))
#define SNAPSHOT_BYTES PAGE_ALIGN(sizeof(struct status_snapshot))
#define PAGE_BYTES     (HEAD_BYTES + 2 * SNAPSHOT_BYTES)
#define HEAD_CONSTANT  offsetof(struct status_head, current) /* bytes at its beginning that never change */

enum { COPY_TRIES = 8 };

/* All is copied in whole words. */
_Static_assert(offsetof(struct status_snapshot, number) == 0, "the number is the first word");
_Static_assert(offsetof(struct status_snapshot, classes) % 8 == 0, "counters");
_Static_assert(sizeof(struct status_class) % 8 == 0 && sizeof(struct status_session) % 8 == 0, "classes, sessions");
_Static_assert(sizeof(struct status_model) % 8 == 0 && offsetof(struct status_snapshot, models) % 8 == 0, "models");
_Static_assert(sizeof(struct status_request) % 8 == 0 && sizeof(struct status_sequence) % 8 == 0, "requests");
_Static_assert(sizeof(struct wire_binding) % 8 == 0 && offsetof(struct status_snapshot, bindings) % 8 == 0, "bindings");
_Static_assert(sizeof(struct status_extent) == 16 && offsetof(struct status_snapshot, extents) % 8 == 0, "extents");
_Static_assert(sizeof(struct status_event) % 8 == 0 && offsetof(struct status_snapshot, events) % 8 == 0, "events");

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t snapshot_offset(uint64_t number)
{
	return HEAD_BYTES + (number & 1) * SNAPSHOT_BYTES;
}

static struct status_snapshot *snapshot_at(const struct status_head *head, uint64_t number)
{
	return (void *)((uintptr_t)head + snapshot_offset(number));
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

struct part {
	size_t offset;
	size_t bytes;
};
enum { N_PARTS = 9 };

static size_t events_listed(const struct status_snapshot *s)
{
	return (size_t)(s->events_ever - status_event_first(s->events_ever));
}

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
		{ offsetof(struct status_snapshot, extents), s->n_extents * sizeof(s->extents[0]) },
		{ offsetof(struct status_snapshot, events), events_listed(s) * sizeof(s->events[0]) },
	};

	memcpy(parts, used, sizeof(used));
}

/* ---- writer --------------------------------------------------------------- */

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

/* All of the object is allocated now, running out later would be a signal; and it is shown, whatever the umask. */
static int object_fill(int fd)
{
	int r = posix_fallocate(fd, 0, PAGE_BYTES);

	if (r)
		return -r;
	return fchmod(fd, 0640) < 0 ? -errno : 0;
}

static int map_object(struct status_writer *w)
{
	void *map;
	int r = object_fill(w->fd);

	if (r < 0)
		return r;
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

	*w = (struct status_writer){ .fd = -1, .next = -1 };
	r = status_name_format(w->name, instance);
	if (r < 0)
		return r;
	w->fd = status_name_take(w->name);
	r = w->fd < 0 ? w->fd : map_object(w);
	if (r < 0) {
		status_writer_close(w);
		return r;
	}
	fill_head(w->head, instance);
	return 0;
}

void status_writer_ready(struct status_writer *w)
{
	store_release(&w->head->magic, STATUS_MAGIC); /* pairs with the load in check_head() */
	memcpy(&w->shown, w->head, HEAD_CONSTANT);
}

/* ---- a new page in place of one that has come to harm ------------------------- */

/* Takes over the new object once it is mapped: only then is the old one's lock given up. */
static void settle_renewal(struct status_writer *w)
{
	if (w->next < 0 || load_acquire(&w->offered)) /* pairs with adopt() */
		return;
	close_fd(&w->fd);
	w->fd = steal_fd(&w->next);
}

bool status_writer_sound(struct status_writer *w)
{
	struct stat st;

	settle_renewal(w);
	if (w->next >= 0 || !load_relaxed(&w->shown.magic))
		return true; /* under way, or not shown yet */
	return !load_relaxed(&w->lost) && fstat(w->fd, &st) == 0 && st.st_nlink > 0 &&
	       st.st_size >= (off_t)PAGE_BYTES && memcmp(w->head, &w->shown, HEAD_CONSTANT) == 0;
}

int status_writer_renew(struct status_writer *w)
{
	AUTO_CLOSE int fd = status_name_retake(w->name, w->fd);
	struct status_head head = w->shown;
	struct stat old;
	int r;

	if (fd < 0)
		return fd;
	for (int i = 0; i < STATUS_N_THREADS; i++)
		store_relaxed(&head.threads[i].heartbeat_ns, clock_ns());
	store_relaxed(&head.current, 0);
	r = fstat(w->fd, &old) < 0 || fchown(fd, (uid_t)-1, old.st_gid) < 0 ? -errno : object_fill(fd);
	if (r == 0 && pwrite(fd, &head, sizeof(head), 0) != sizeof(head))
		r = -EIO;
	if (r < 0) {
		status_name_drop(w->name, fd);
		return r;
	}
	w->next = steal_fd(&fd);
	store_release(&w->offered, (uint32_t)w->next + 1); /* pairs with adopt() */
	return 0;
}

/* The committing thread's half. Where mapping fails the old memory stays, and the next snapshot tries again. */
static void adopt(struct status_writer *w)
{
	uint32_t offered = load_acquire(&w->offered); /* pairs with status_writer_renew() */

	if (!offered ||
	    mmap(w->head, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)offered - 1, 0) == MAP_FAILED)
		return;
	store_relaxed(&w->lost, 0);
	store_release(&w->offered, 0); /* pairs with settle_renewal() */
}

struct status_snapshot *status_writer_begin(struct status_writer *w)
{
	adopt(w);
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
	cut(s, &s->n_extents, STATUS_MAX_EXTENTS);
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

void status_writer_close(struct status_writer *w)
{
	if (!w->name[0]) /* never opened */
		return;
	status_name_drop(w->name, w->fd);
	status_name_drop(w->name, w->next);
	if (w->head)
		munmap(w->head, w->bytes);
	free(w->draft);
	close_fd(&w->fd);
	close_fd(&w->next);
	*w = (struct status_writer){ .fd = -1, .next = -1 };
}

/* ---- reader --------------------------------------------------------------- */

/* Copies @bytes of the page, all or -EPROTO: it has been cut short. */
static int read_page(int fd, void *to, size_t bytes, size_t at)
{
	ssize_t n;

	for (size_t done = 0; done < bytes; done += (size_t)n) {
		n = pread(fd, (char *)to + done, bytes - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
	}
	return 0;
}

/* True when brokers' sockets of that name are there, where workers look for them, and none is @owner's. */
static bool socket_is_anothers(const char *instance, uid_t owner)
{
	char path[sizeof(((struct status_head *)0)->socket_path)];
	const char *folder;
	bool any = false;
	struct stat st;

	for (unsigned int i = 0; (folder = instance_folder(i)); i++) {
		if (instance_socket(path, sizeof(path), folder, instance) >= (int)sizeof(path) ||
		    lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
			continue;
		if (st.st_uid == owner)
			return false;
		any = true;
	}
	return any;
}

/* Checks what was copied; the head fields used later are compared with this build's, not trusted. */
static int check_head(struct status_reader *r, const char *instance, uint64_t bytes)
{
	const struct status_head *head = &r->head;

	if (load_acquire(&head->magic) != STATUS_MAGIC) /* pairs with status_writer_ready() */
		return -EPROTO;
	r->version = head->version;
	if (r->version != STATUS_VERSION || bytes < PAGE_BYTES || head->head_bytes != HEAD_BYTES ||
	    head->snapshot_bytes != SNAPSHOT_BYTES)
		return -EPROTO;
	return head->uid != r->owner || socket_is_anothers(instance, r->owner) ? -EPERM : 0;
}

int status_reader_open(struct status_reader *r, const char *instance)
{
	char name[STATUS_NAME];
	struct stat st;
	int e;

	*r = (struct status_reader){ .fd = -1 };
	e = status_name_format(name, instance);
	if (e < 0)
		return e;
	r->fd = shm_open(name, O_RDONLY | O_NONBLOCK, 0); /* what stands there may be a pipe that nobody writes */
	if (r->fd < 0 || fstat(r->fd, &st) < 0)
		return -errno;
	r->owner = st.st_uid;
	if (!S_ISREG(st.st_mode))
		return -EPROTO;
	/* Magic and version stand at the same place in every version. */
	e = read_page(r->fd, &r->head, sizeof(r->head), 0);
	return e < 0 ? e : check_head(r, instance, (uint64_t)st.st_size);
}

void status_reader_close(struct status_reader *r)
{
	close_fd(&r->fd);
	*r = (struct status_reader){ .fd = -1 };
}

bool status_reader_alive(const struct status_reader *r)
{
	return status_name_held(r->fd);
}

static bool counts_possible(const struct status_snapshot *s)
{
	return s->n_classes <= STATUS_MAX_CLASSES && s->n_models <= STATUS_MAX_MODELS &&
	       s->n_sessions <= STATUS_MAX_SESSIONS && s->n_requests <= STATUS_MAX_REQUESTS &&
	       s->n_sequences <= STATUS_MAX_SEQUENCES && s->n_bindings <= STATUS_MAX_BINDINGS &&
	       s->n_extents <= STATUS_MAX_EXTENTS;
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

static bool session_possible(const struct status_snapshot *s, struct status_session *x)
{
	if (x->n_groups < 1 || x->n_groups > WIRE_MAX_GROUPS || x->n_members > WIRE_MAX_JOINED)
		return false;
	for (uint32_t i = 0; i < x->n_groups; i++) {
		x->groups[i].tag[WIRE_TAG - 1] = '\0';
		if (x->groups[i].class_index >= s->n_classes)
			return false;
	}
	return true;
}

/* The same of the picture of the pool, and of what happened. */
static bool map_possible(struct status_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_extents; i++)
		if (s->extents[i].page_class != STATUS_NO_CLASS && s->extents[i].page_class >= s->n_classes)
			return false;
	for (size_t i = 0; i < events_listed(s); i++)
		s->events[i].model[STATUS_EVENT_TEXT - 1] = s->events[i].text[STATUS_EVENT_TEXT - 1] = '\0';
	return true;
}

/* Checks the private copy @s, so that its user may follow every index, and ends its texts. */
static bool contents_possible(struct status_snapshot *s)
{
	for (uint32_t i = 0; i < s->n_models; i++)
		s->models[i].name[WIRE_MODEL_NAME - 1] = '\0';
	for (uint32_t i = 0; i < s->n_sessions; i++) {
		s->sessions[i].model[WIRE_MODEL_NAME - 1] = '\0';
		if (!session_possible(s, &s->sessions[i]))
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
	return map_possible(s);
}

/* Copies the word of snapshot @number that says which it is. */
static int read_number(int fd, uint64_t number, uint64_t *now)
{
	int e = read_page(fd, now, sizeof(*now), snapshot_offset(number));

	fence_acquire(); /* pairs with the fence and the release in commit */
	return e;
}

/* Copies snapshot @number. -EAGAIN: it was overwritten meanwhile; -EPROTO: whole, but impossible, or cut short. */
static int copy_snapshot(int fd, uint64_t number, struct status_snapshot *out)
{
	struct part parts[N_PARTS];
	uint64_t now;
	int e = read_number(fd, number, &now);
	bool possible;

	if (e < 0 || now != number)
		return e < 0 ? e : -EAGAIN;
	memset(out, 0, offsetof(struct status_snapshot, classes));
	used_parts(out, parts); /* the first part does not depend on counts */
	e = read_page(fd, (char *)out + parts[0].offset, parts[0].bytes, snapshot_offset(number) + parts[0].offset);
	possible = e == 0 && counts_possible(out);
	if (possible)
		used_parts(out, parts);
	for (int i = 1; i < N_PARTS && possible && e == 0; i++)
		e = read_page(fd, (char *)out + parts[i].offset, parts[i].bytes,
			      snapshot_offset(number) + parts[i].offset);
	if (e == 0)
		e = read_number(fd, number, &now);
	if (e < 0 || now != number)
		return e < 0 ? e : -EAGAIN;
	out->number = number;
	return possible && contents_possible(out) ? 0 : -EPROTO;
}

int status_reader_copy(const struct status_reader *r, struct status_snapshot *out)
{
	uint64_t number;
	int e = -EAGAIN;

	for (int i = 0; i < COPY_TRIES && e == -EAGAIN; i++) {
		e = read_page(r->fd, &number, sizeof(number), offsetof(struct status_head, current));
		fence_acquire(); /* pairs with the flip in commit */
		if (e < 0 || number == 0)
			return e < 0 ? e : -EAGAIN;
		e = copy_snapshot(r->fd, number, out);
	}
	return e;
}
