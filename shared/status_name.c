/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status_name.c - see status_name.h
 *
 * Looking at what stands under a name and replacing it are two steps, so they
 * are taken under a lock, the start lock: on an object of its own, "/.swakv-NAME",
 * which only its user can open and which is gone when the steps are done. (No
 * instance's name begins with a dot.) The page itself would not do: whoever may
 * read the page of a dead broker can lock it, and would keep every other broker
 * from the name.
 */
#include "status_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "instance.h"

enum { START_TRIES = 200, START_PAUSE_NS = 10000000, TAKE_TRIES = 16 };

int status_name_format(char name[STATUS_NAME], const char *instance)
{
	if (!instance_name_valid(instance))
		return -EINVAL;
	snprintf(name, STATUS_NAME, "/swakv-%s", instance);
	return 0;
}

static int lock_object(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, F_OFD_SETLK, &l) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

bool status_name_held(int fd)
{
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_WRLCK;
}

/* 0, or -EPERM: it is not a plain file of this user, under this name alone. */
static int check_own(int fd, struct stat *st)
{
	if (fstat(fd, st) < 0)
		return -errno;
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink <= 1 ? 0 : -EPERM;
}

static int open_own(const char *name, int flags)
{
	int fd = shm_open(name, O_RDWR | flags, 0600);

	if (fd >= 0)
		return fd;
	switch (errno) {
	case EACCES: /* another user's */
	case ELOOP:  /* a symbolic link */
	case EINVAL: /* shm_open()'s word for a directory */
	case ENXIO:  /* a socket */
		return -EPERM;
	default:
		return -errno;
	}
}

/* ---- the start lock --------------------------------------------------------- */

static void start_name(char buf[STATUS_NAME + 1], const char *name)
{
	snprintf(buf, STATUS_NAME + 1, "/.%s", name + 1);
}

/* One try: the locked object, or -EAGAIN: another holds it, or has just removed it. */
static int try_start(const char *lock)
{
	AUTO_CLOSE int fd = open_own(lock, O_CREAT);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	r = check_own(fd, &st);
	if (r == 0)
		r = lock_object(fd);
	if (r == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0)
		r = -EAGAIN;
	return r < 0 ? r : steal_fd(&fd);
}

static int start_begin(const char *name, int tries)
{
	const struct timespec pause = { .tv_nsec = START_PAUSE_NS };
	char lock[STATUS_NAME + 1];
	int r = -EAGAIN;

	start_name(lock, name);
	for (int i = 0; i < tries && r == -EAGAIN; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		r = try_start(lock);
	}
	return r == -EAGAIN ? -EBUSY : r;
}

/* Unlinked first: who opened it meanwhile finds, once it has the lock, that it has no name any more. */
static void start_end(const char *name, int *fd)
{
	char lock[STATUS_NAME + 1];

	start_name(lock, name);
	shm_unlink(lock);
	close_fd(fd);
}

/* ---- under it ----------------------------------------------------------------- */

/* True when @name means the object of @fd. */
static bool means(const char *name, int fd)
{
	AUTO_CLOSE int named = shm_open(name, O_RDONLY | O_NONBLOCK, 0);
	struct stat a, b;

	return named >= 0 && fstat(named, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Removes what stands under @name when it is a dead broker's, or the object of @own. */
static int clear(const char *name, int own)
{
	AUTO_CLOSE int old = open_own(name, 0);
	struct stat st;
	int r;

	if (old < 0)
		return old == -ENOENT ? 0 : old;
	r = check_own(old, &st);
	if (r < 0)
		return r;
	if (status_name_held(old) && (own < 0 || !means(name, own)))
		return -EEXIST;
	return shm_unlink(name) < 0 && errno != ENOENT ? -errno : 0;
}

/* One try; -EAGAIN: somebody without the start lock was quicker. */
static int make(const char *name, int own)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	int r = clear(name, own);

	if (r < 0)
		return r;
	fd = open_own(name, O_CREAT | O_EXCL);
	if (fd < 0)
		return fd == -EEXIST ? -EAGAIN : fd;
	r = lock_object(fd);
	if (r == 0 && fstat(fd, &st) == 0 && st.st_nlink == 0)
		r = -EAGAIN;
	return r < 0 ? r : steal_fd(&fd);
}

static int take(const char *name, int own)
{
	int start = start_begin(name, own < 0 ? START_TRIES : 1); /* a running broker comes again */
	int r = -EAGAIN;

	if (start < 0)
		return start;
	for (int i = 0; i < TAKE_TRIES && r == -EAGAIN; i++)
		r = make(name, own);
	start_end(name, &start);
	return r;
}

int status_name_take(const char *name)
{
	return take(name, -1);
}

int status_name_retake(const char *name, int fd)
{
	return take(name, fd);
}

void status_name_drop(const char *name, int fd)
{
	if (fd >= 0 && means(name, fd))
		shm_unlink(name);
}
