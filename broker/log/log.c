/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - see log.h
 *
 * Standard error is inherited: its file status flags are its other users', too,
 * so it is never made non-blocking, and only the log's own thread is held up by
 * a reader that does not read. The process's end does not wait for that thread.
 */
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "crash/crash.h"
#include "log_limit.h"
#include "log_queue.h"

/*
 * At the end: how often it is looked whether lines still go out, how many looks in
 * a row may find the same write under way, and how many none at all: then the
 * thread was not run, which takes longer where there is much else to do.
 */
enum { STOP_LOOK_MS = 20, STOP_LOOKS = 10, STOP_LOOKS_AT_REST = 250 };

static struct log_queue queue;
static shm_u64 n_lost, n_written;
static shm_u32 stopping, running, writing;
static int bell = -1;
static pthread_t thread;
static struct log_limit limit;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- lines ------------------------------------------------------------------- */

static bool with_levels(void)
{
	static shm_u32 known; /* 1: a terminal, 2: none */
	uint32_t k = load_relaxed(&known);

	if (!k) {
		k = isatty(STDERR_FILENO) ? 1 : 2;
		store_relaxed(&known, k);
	}
	return k == 2;
}

const char *log_prefix(void)
{
	return with_levels() ? "<2>swakvd: " : "swakvd: ";
}

/* The whole line; its bytes. */
static size_t format_line(char line[LOG_LINE], enum log_level level, const char *format, va_list args)
{
	size_t len = 0;
	int n;

	if (with_levels())
		len = (size_t)snprintf(line, LOG_LINE, "<%d>", (int)level);
	len += (size_t)snprintf(line + len, LOG_LINE - len, "swakvd: ");
	n = vsnprintf(line + len, LOG_LINE - len - 1, format, args);
	if (n > 0)
		len += (size_t)n < LOG_LINE - len - 1 ? (size_t)n : LOG_LINE - len - 2;
	for (size_t i = 0; i < len; i++) /* names come from clients */
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[len++] = '\n';
	return len;
}

/* True when all of it went out. Whoever shares standard error may have made it non-blocking. */
static bool write_line(const char *line, size_t length)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
	ssize_t n;

	for (size_t done = 0; done < length; done += (size_t)n) {
		n = write(STDERR_FILENO, line + done, length - done);
		if (n >= 0)
			continue;
		if (errno != EINTR && (errno != EAGAIN || poll(&p, 1, -1) < 0))
			return false; /* nobody is left to be told */
		n = 0;
	}
	return true;
}

/* False: there is no room for it. */
static bool put_line(enum log_level level, const char *format, va_list args)
{
	char line[LOG_LINE];
	size_t length = format_line(line, level, format, args);
	bool put;

	if (!load_acquire(&running)) { /* pairs with log_start() */
		write_line(line, length);
		return true;
	}
	put = log_queue_put(&queue, line, length);
	if (put)
		eventfd_write(bell, 1);
	return put;
}

/* A line for which there is no room is lost, and counted. */
static void put_or_count(enum log_level level, const char *format, va_list args)
{
	if (put_line(level, format, args))
		return;
	add_relaxed(&n_lost, 1);
	eventfd_write(bell, 1); /* all that stood in its way may be written by now, and the thread asleep */
}

void log_line(enum log_level level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_or_count(level, format, args);
	va_end(args);
}

void log_caused(uint32_t uid, enum log_level level, const char *format, ...)
{
	va_list args;
	bool pass;

	pthread_mutex_lock(&limit_lock);
	pass = log_limit_pass(&limit, uid, clock_ns());
	pthread_mutex_unlock(&limit_lock);
	if (!pass)
		return;
	va_start(args, format);
	put_or_count(level, format, args);
	va_end(args);
}

__attribute__((format(printf, 1, 2))) static bool put_warning(const char *format, ...)
{
	va_list args;
	bool put;

	va_start(args, format);
	put = put_line(LOG_LEVEL_WARNING, format, args);
	va_end(args);
	return put;
}

/* ---- the thread ----------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static bool write_now(const char *format, ...)
{
	char line[LOG_LINE];
	va_list args;
	bool written;

	va_start(args, format);
	written = write_line(line, format_line(line, LOG_LEVEL_WARNING, format, args));
	va_end(args);
	return written;
}

/* Tells of lines that were lost since it was last told. @told: how many were then. */
static void tell_lost(uint64_t *told)
{
	uint64_t now = load_relaxed(&n_lost);

	if (now == *told)
		return;
	write_now("%" PRIu64 " lines were lost here: standard error was not read in time", now - *told);
	*told = now;
}

/* Of what one user caused. @tell: how; false when it could not be, and then it is told of later. */
static void tell_left_out(bool at_once, bool (*tell)(const char *format, ...))
{
	uint32_t uid, n;
	bool due, told;

	for (;;) {
		pthread_mutex_lock(&limit_lock);
		due = log_limit_due(&limit, clock_ns(), at_once, &uid, &n);
		pthread_mutex_unlock(&limit_lock);
		if (!due)
			return;
		if (uid == LOG_NOBODY)
			told = tell("%" PRIu32 " more lines of this kind were not logged", n);
		else
			told = tell("%" PRIu32 " more lines about uid %" PRIu32 " were not logged", n, uid);
		if (told)
			continue;
		pthread_mutex_lock(&limit_lock);
		log_limit_untold(&limit, uid, n);
		pthread_mutex_unlock(&limit_lock);
		return;
	}
}

void log_left_out(void)
{
	tell_left_out(false, put_warning);
}

static void *log_main(void *arg)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };
	const struct log_slot *line;
	uint64_t told = 0;
	eventfd_t n;

	prctl(PR_SET_NAME, "swakvd-log");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* see process/sandbox.h */
	crash_thread("log", false);
	for (;;) {
		bool last = load_acquire(&stopping); /* pairs with log_stop(): what was put before is seen below */

		while ((line = log_queue_first(&queue))) {
			store_relaxed(&writing, 1);
			if (write_line(line->text, line->length))
				add_relaxed(&n_written, 1);
			store_relaxed(&writing, 0);
			log_queue_pop(&queue);
			tell_lost(&told);
		}
		tell_lost(&told); /* of one that found the queue full, and was counted once it was empty */
		if (last)
			break;
		poll(&p, 1, -1);
		eventfd_read(bell, &n);
	}
	tell_left_out(true, write_now); /* whatever there is no room for */
	crash_thread_end();
	return NULL;
}

int log_start(void)
{
	int r;

	with_levels(); /* while it may still be asked: see process/sandbox.h */
	bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell < 0)
		return -errno;
	r = -pthread_create(&thread, NULL, log_main, NULL);
	if (r == 0)
		store_release(&running, 1); /* pairs with put_line() */
	return r;
}

bool log_drain(unsigned int ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	if (!load_acquire(&running))
		return true;
	for (unsigned int i = 0; i < ms && !log_queue_is_empty(&queue); i++)
		nanosleep(&pause, NULL);
	return log_queue_is_empty(&queue);
}

void log_stop(void)
{
	uint64_t written, before = load_relaxed(&n_written);
	int idle = 0, at_rest = 0;

	if (!load_acquire(&running))
		return;
	store_release(&stopping, 1); /* pairs with log_main() */
	eventfd_write(bell, 1);
	while (idle < STOP_LOOKS && at_rest < STOP_LOOKS_AT_REST) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += STOP_LOOK_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		if (pthread_timedjoin_np(thread, NULL, &until) == 0) {
			store_release(&running, 0);
			close_fd(&bell);
			return;
		}
		written = load_relaxed(&n_written);
		if (written != before)
			idle = at_rest = 0;
		else if (load_relaxed(&writing))
			idle++;
		else
			at_rest++;
		before = written;
	}
}
