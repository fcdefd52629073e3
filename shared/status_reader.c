/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_reader.c - reader of the status page (status_page.h)
 *
 * It has the kernel copy a snapshot (pread) between two looks at its number,
 * checks the counts in its own copy before it uses them, and believes nothing
 * of a copy whose number had changed. It maps nothing, so a page that is cut
 * short under it is an error and no signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "instance.h"
#include "status_layout.h"
#include "status_name.h"

enum { COPY_TRIES = 8 };

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
static int read_head(struct status_reader *r)
{
	const struct status_head *head = &r->head;
	struct stat st;
	int e;

	if (fstat(r->fd, &st) < 0)
		return -errno;
	r->owner = st.st_uid;
	if (!S_ISREG(st.st_mode))
		return -EPROTO;
	/* Magic and version stand at the same place in every version. */
	e = read_page(r->fd, &r->head, sizeof(r->head), 0);
	if (e < 0)
		return e;
	if (load_acquire(&head->magic) != STATUS_MAGIC) /* pairs with status_writer_ready() */
		return -EPROTO;
	r->version = head->version;
	if (r->version != STATUS_VERSION || st.st_size < (off_t)PAGE_BYTES || head->head_bytes != HEAD_BYTES ||
	    head->snapshot_bytes != SNAPSHOT_BYTES)
		return -EPROTO;
	return 0;
}

int status_reader_open(struct status_reader *r, const char *instance)
{
	char name[STATUS_NAME];
	int e;

	*r = (struct status_reader){ .fd = -1 };
	e = status_name_format(name, instance);
	if (e < 0)
		return e;
	r->fd = shm_open(name, O_RDONLY | O_NONBLOCK, 0); /* what stands there may be a pipe that nobody writes */
	if (r->fd < 0)
		return -errno;
	e = read_head(r);
	return e == 0 && (r->head.uid != r->owner || socket_is_anothers(instance, r->owner)) ? -EPERM : e;
}

int status_reader_adopt(struct status_reader *r, int fd)
{
	*r = (struct status_reader){ .fd = fd };
	return read_head(r);
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
	       s->n_extents <= STATUS_MAX_EXTENTS && s->n_tallies <= STATUS_MAX_TALLIES &&
	       s->n_denials <= STATUS_MAX_DENIALS;
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
		if (x->groups[i].class_index >= s->n_classes || x->groups[i].n_ranges > STATUS_RANGES)
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
	for (uint32_t i = 0; i < s->n_tallies; i++)
		s->tallies[i].model[WIRE_MODEL_NAME - 1] = '\0';
	for (uint32_t i = 0; i < s->n_denials; i++)
		if (s->denials[i].tally >= s->n_tallies)
			return false;
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
