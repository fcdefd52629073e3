/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - the environment of the fake driver
 *
 * FAKECUDA_FAIL="cuMemAlloc:2:2,..."   call 2 of cuMemAlloc answers CUDA error 2. NTH may be "3+" (from the third on)
 *                                      or 0 (each). Errors 700 and 719 break the context, as on a GPU.
 * FAKECUDA_STALL="NAME:NTH:MS,..."     that call sleeps before it does anything
 * FAKECUDA_LOST=FILE                   once it is there, the context is broken by the CUDA error whose number it holds
 * FAKECUDA_LATE="NAME:NTH:MS,..."      that call returns at once; what it enqueued runs MS late, and all behind it
 * FAKECUDA_COUNT=FILE                  at exit appends a line "PID PROCESS THREAD FUNCTION COUNT" for each pair used
 * FAKECUDA_CHECK_ARMED=1               a stream write aborts when the 8 bytes behind its target, the armed word of
 *                                      struct wire_line, hold less than its value when it is enqueued
 * FAKECUDA_DEVICES=N                   devices (1); CUDA_VISIBLE_DEVICES picks and orders them by ordinal
 * FAKECUDA_MEMORY=BYTES                of each device (8 GiB)
 * FAKECUDA_NAME=TEXT                   of each device; "... MIG 1g.5gb" makes it a slice
 * FAKECUDA_INTEGRATED=1, FAKECUDA_STREAM_WRITE=0   attributes
 * FAKECUDA_SHARED=BYTES                of shared memory that a block may have when it asks (227 KiB)
 *
 * Function names may be given with or without their version suffix. A name that
 * the driver does not have ends the process: a rule that never fires is a test
 * that tests nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

#define MAX_RULES  32
#define MAX_COUNTS 1024
#define NAME       48

struct rule {
	char function[NAME];
	unsigned nth;
	bool onwards;
	long value;
};

struct count {
	char thread[16];
	char function[NAME];
	unsigned long n;
};

static struct rule rules[FAKE_RULES][MAX_RULES];
static size_t n_rules[FAKE_RULES];
static struct count counts[MAX_COUNTS];
static size_t n_counts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

void fake_die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "fakecuda: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	abort();
}

void fake_sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		continue;
}

uint64_t fake_number(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);
	char *end;
	uint64_t n;

	if (!text || !*text)
		return otherwise;
	n = strtoull(text, &end, 10);
	if (*end)
		fake_die("%s=%s is not a number", variable, text);
	return n;
}

static void parse_rule(const char *variable, char *text, struct rule *rule)
{
	char suffix[2] = "";
	int end = 0;

	if (sscanf(text, "%47[^:]:%u%1[+]:%ld%n", rule->function, &rule->nth, suffix, &rule->value, &end) < 4) {
		if (sscanf(text, "%47[^:]:%u:%ld%n", rule->function, &rule->nth, &rule->value, &end) < 3)
			fake_die("%s: \"%s\" is not NAME:NTH:VALUE", variable, text);
	}
	if (text[end])
		fake_die("%s: \"%s\" has something behind its value", variable, text);
	if (!fake_knows(rule->function))
		fake_die("%s: this driver has no function %s", variable, rule->function);
	rule->onwards = *suffix || rule->nth == 0;
}

static void parse_rules(const char *variable, enum fake_rule kind)
{
	const char *text = getenv(variable);
	char *copy, *rest, *item;

	if (!text)
		return;
	copy = rest = strdup(text);
	while ((item = strsep(&rest, ",")) != NULL) {
		if (!*item)
			continue;
		if (n_rules[kind] == MAX_RULES)
			fake_die("%s has more than %d rules", variable, MAX_RULES);
		parse_rule(variable, item, &rules[kind][n_rules[kind]++]);
	}
	free(copy);
}

CUresult fake_lost(void)
{
	const char *path = getenv("FAKECUDA_LOST");
	FILE *f = path ? fopen(path, "re") : NULL;
	unsigned error = 0;

	if (!f)
		return CUDA_SUCCESS;
	if (fscanf(f, "%u", &error) != 1 || error == 0)
		fake_die("FAKECUDA_LOST=%s: the file holds no CUDA error", path);
	fclose(f);
	return (CUresult)error;
}

static void configure(void)
{
	parse_rules("FAKECUDA_FAIL", FAKE_FAIL);
	parse_rules("FAKECUDA_STALL", FAKE_STALL);
	parse_rules("FAKECUDA_LATE", FAKE_LATE);
}

void fake_configure(void)
{
	pthread_once(&once, configure);
}

unsigned fake_count(const char *function)
{
	char thread[16] = "";
	unsigned total = 1;
	struct count *mine = NULL;

	prctl(PR_GET_NAME, thread);
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_counts; i++) {
		if (strcmp(counts[i].function, function) != 0)
			continue;
		total += (unsigned)counts[i].n;
		if (strcmp(counts[i].thread, thread) == 0)
			mine = &counts[i];
	}
	if (!mine) {
		if (n_counts == MAX_COUNTS)
			fake_die("more than %d pairs of thread and function", MAX_COUNTS);
		mine = &counts[n_counts++];
		snprintf(mine->thread, sizeof(mine->thread), "%s", thread);
		snprintf(mine->function, sizeof(mine->function), "%s", function);
	}
	mine->n++;
	pthread_mutex_unlock(&lock);
	return total;
}

/* @function is the full name; @wanted may lack the "_v2". */
static bool same_function(const char *function, const char *wanted)
{
	size_t n = strlen(wanted);

	return strncmp(function, wanted, n) == 0 && (function[n] == '\0' || strncmp(function + n, "_v", 2) == 0);
}

long fake_rule(enum fake_rule kind, const char *function, unsigned nth)
{
	for (size_t i = 0; i < n_rules[kind]; i++) {
		const struct rule *r = &rules[kind][i];

		if (same_function(function, r->function) && (r->nth == nth || (r->onwards && nth >= r->nth)))
			return r->value;
	}
	return 0;
}

/* Spaces in a thread's name would break the columns. */
static void print_counts(FILE *f, const char *process)
{
	for (size_t i = 0; i < n_counts; i++) {
		for (char *c = counts[i].thread; *c; c++)
			*c = *c == ' ' ? '_' : *c;
		fprintf(f, "%ld %s %s %s %lu\n", (long)getpid(), process, counts[i].thread, counts[i].function,
			counts[i].n);
	}
}

__attribute__((destructor)) static void write_counts(void)
{
	const char *path = getenv("FAKECUDA_COUNT");
	char *text = NULL;
	size_t size = 0;
	FILE *f;
	int fd;

	if (!path || n_counts == 0)
		return;
	/* Several processes append to one file: each with one write. */
	f = open_memstream(&text, &size);
	if (!f)
		return;
	print_counts(f, program_invocation_short_name);
	fclose(f);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, text, size) != (ssize_t)size)
		fprintf(stderr, "fakecuda: cannot write %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(text);
}
