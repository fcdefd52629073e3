/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_page.c - writer of the status page; status_reader.c reads it
 *
 * How a snapshot travels. The broker fills a private draft; commit copies its
 * used parts into the snapshot that is not current, by relaxed stores of whole
 * words. Its `number` is 0 meanwhile: number and contents are a sequence lock.
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
#include "status_layout.h"
#include "status_name.h"

#define HEAD_CONSTANT offsetof(struct status_head, current) /* bytes at its beginning that never change */

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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
	cut(s, &s->n_tallies, STATUS_MAX_TALLIES);
	cut(s, &s->n_denials, STATUS_MAX_DENIALS);
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

int status_writer_share(const struct status_writer *w)
{
	char path[32];
	int fd;

	if (!w->name[0])
		return -EBADF;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", w->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
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
