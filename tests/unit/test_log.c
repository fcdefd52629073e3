/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log/log.h"
#include "log/log_limit.h"
#include "log/log_queue.h"

static struct log_queue queue;
static struct log_limit limit;

static bool put(int n)
{
	char text[16];

	return log_queue_put(&queue, text, (size_t)snprintf(text, sizeof(text), "%d", n));
}

static void expect_next(int n)
{
	const struct log_slot *s = log_queue_first(&queue);
	char text[16];

	cr_assert_not_null(s, "line %d is missing", n);
	cr_assert_eq(s->length, (uint32_t)snprintf(text, sizeof(text), "%d", n));
	cr_assert_eq(memcmp(s->text, text, s->length), 0);
	log_queue_pop(&queue);
}

Test(log, lines_come_in_their_order_round_after_round)
{
	int next = 0;

	for (int i = 0; i < 5 * LOG_QUEUE_LINES; i++) {
		cr_assert(put(i));
		if (i % 3 == 2) /* more and more are waiting */
			for (int k = 0; k < 2 && next <= i; k++)
				expect_next(next++);
		if (i - next > LOG_QUEUE_LINES - 4)
			while (next <= i)
				expect_next(next++);
	}
	while (next < 5 * LOG_QUEUE_LINES)
		expect_next(next++);
	cr_assert_null(log_queue_first(&queue));
	cr_assert(log_queue_is_empty(&queue));
}

Test(log, a_full_queue_refuses_and_keeps_what_it_has)
{
	for (int i = 0; i < LOG_QUEUE_LINES; i++)
		cr_assert(put(i));
	cr_assert_not(put(-1));
	cr_assert_not(put(-1));
	expect_next(0);
	cr_assert(put(LOG_QUEUE_LINES), "there is room for one again");
	cr_assert_not(put(-1));
	for (int i = 1; i <= LOG_QUEUE_LINES; i++)
		expect_next(i);
	cr_assert(log_queue_is_empty(&queue));
}

/* How many of @n lines by @uid at one moment pass. */
static int passed(uint32_t uid, int n, uint64_t now)
{
	int passes = 0;

	for (int i = 0; i < n; i++)
		passes += log_limit_pass(&limit, uid, now);
	return passes;
}

Test(log, one_user_can_cause_so_many_lines_and_costs_others_none)
{
	uint64_t now = NS_PER_S;

	cr_assert_eq(passed(1000, 10000, now), LOG_LIMIT_BURST);
	cr_assert_eq(passed(1001, LOG_LIMIT_BURST, now), LOG_LIMIT_BURST, "of another user all pass");
	cr_assert_eq(passed(1000, 10000, now + NS_PER_S), LOG_LIMIT_A_SECOND);
	cr_assert_eq(passed(1000, 10000, now + 3600 * NS_PER_S), LOG_LIMIT_BURST, "and never more at a time");
}

Test(log, what_was_left_out_is_counted_and_told_once)
{
	uint64_t now = NS_PER_S;
	uint32_t uid, n;

	cr_assert_not(log_limit_due(&limit, now, true, &uid, &n));
	passed(1000, LOG_LIMIT_BURST + 7, now);
	cr_assert_not(log_limit_due(&limit, now, false, &uid, &n), "there is no room for that line either");
	now += NS_PER_S;
	cr_assert(log_limit_due(&limit, now, false, &uid, &n));
	cr_assert_eq(uid, 1000);
	cr_assert_eq(n, 7);
	cr_assert_not(log_limit_due(&limit, now, false, &uid, &n));
	passed(1000, LOG_LIMIT_BURST + 1, now);
	cr_assert(log_limit_due(&limit, now, true, &uid, &n), "at the end it is told at once");
}

Test(log, as_many_users_as_there_are_places_cost_each_other_none)
{
	for (uint32_t uid = 0; uid < LOG_LIMIT_SOURCES; uid++)
		cr_assert_eq(passed(uid, LOG_LIMIT_BURST + 1, NS_PER_S + uid), LOG_LIMIT_BURST);
}

/* A line each, over and over, or all that a place lets through: no more pass than the places have. */
Test(log, many_users_in_turn_pass_no_more_than_the_places_have)
{
	uint64_t now = NS_PER_S;
	int lines = 0;

	for (uint32_t uid = 0; uid < 10 * LOG_LIMIT_SOURCES; uid++)
		lines += passed(uid, LOG_LIMIT_BURST + 1, now);
	for (uint32_t i = 0; i < 100000; i++)
		lines += passed(i % 5000, 1, now);
	cr_expect_eq(lines, LOG_LIMIT_SOURCES * LOG_LIMIT_BURST, "%d", lines);
	lines = 0;
	now += NS_PER_S;
	for (uint32_t i = 0; i < 100000; i++)
		lines += passed(7000 + i, 1, now);
	cr_expect_eq(lines, LOG_LIMIT_SOURCES * LOG_LIMIT_A_SECOND, "%d", lines);
}

Test(log, who_comes_after_many_users_is_heard_again_later)
{
	for (uint32_t i = 0; i < 100000; i++)
		passed(i, 1, NS_PER_S);
	cr_expect_eq(passed(1, LOG_LIMIT_BURST + 1, 60 * NS_PER_S), LOG_LIMIT_BURST);
}

/* Nothing is forgotten of who had to make place. */
Test(log, lines_of_displaced_users_are_told_of_too)
{
	uint32_t uid, n, told = 0, nobodys = 0;

	uint64_t now = NS_PER_S;

	for (uint32_t i = 0; i < 10 * LOG_LIMIT_SOURCES; i++, now += i % LOG_LIMIT_SOURCES ? 1 : 60 * NS_PER_S)
		cr_assert_eq(passed(i, LOG_LIMIT_BURST + 3, now), LOG_LIMIT_BURST);
	while (log_limit_due(&limit, now, true, &uid, &n)) {
		told += n;
		nobodys += uid == LOG_NOBODY ? n : 0;
	}
	cr_assert_eq(told, 3 * 10 * LOG_LIMIT_SOURCES, "%u", told);
	cr_assert_eq(nobodys, 3 * 9 * LOG_LIMIT_SOURCES, "%u", nobodys);
}

Test(log, what_could_not_be_told_is_told_later)
{
	uint32_t uid, n;

	passed(1000, LOG_LIMIT_BURST + 7, NS_PER_S);
	cr_assert(log_limit_due(&limit, NS_PER_S, true, &uid, &n));
	log_limit_untold(&limit, uid, n);
	passed(1000, 2, NS_PER_S);
	cr_assert(log_limit_due(&limit, NS_PER_S, true, &uid, &n));
	cr_assert_eq(uid, 1000);
	cr_assert_eq(n, 9);
	for (uint32_t i = 0; i < LOG_LIMIT_SOURCES; i++)
		passed(2000 + i, 1, 60 * NS_PER_S);
	log_limit_untold(&limit, 1000, 9);
	cr_assert(log_limit_due(&limit, 60 * NS_PER_S, true, &uid, &n), "also when it has lost its place since");
	cr_assert_eq(uid, LOG_NOBODY);
	cr_assert_eq(n, 9);
}

static char text[1 << 20]; /* all that came through a pipe */

static void *read_all(void *arg)
{
	const int *fd = arg;
	size_t n = 0;
	ssize_t r;

	while ((r = read(*fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)r;
	return NULL;
}

/* Standard error becomes a pipe, whose other end is returned. */
static int pipe_stderr(void)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	cr_assert_eq(log_start(), 0);
	return ends[0];
}

/* Reads until the log has stopped; sums of what the lines say. */
static void read_to_the_end(int fd, int *came, int *lost, int *left_out)
{
	pthread_t reader;
	int n, uid;

	cr_assert_eq(pthread_create(&reader, NULL, read_all, &fd), 0);
	cr_assert(log_drain(60000));
	log_stop();
	close(STDERR_FILENO);
	pthread_join(reader, NULL);
	*came = *lost = *left_out = 0;
	for (char *line = text; (line = strstr(line, "swakvd: ")); line++)
		if (sscanf(line, "swakvd: %d more lines about uid %d", &n, &uid) == 2)
			*left_out += n;
		else if (sscanf(line, "swakvd: %d lines were lost", &n) == 1)
			*lost += n;
		else
			(*came)++;
}

/* More lines than queue and pipe hold, while nobody reads; then all that came is read. */
Test(log, lines_that_found_no_room_are_counted)
{
	int fd = pipe_stderr(), came, lost, left_out, all = LOG_QUEUE_LINES + 2000;

	for (int i = 0; i < all; i++)
		log_info("line %d %0900d", i, i);
	read_to_the_end(fd, &came, &lost, &left_out);
	cr_assert_eq(came + lost, all, "%d came, %d were lost", came, lost);
	cr_assert_gt(lost, 0);
}

enum { LOGGERS = 4, LINES_EACH = 3000 };

static void *cause_lines(void *arg)
{
	const uint32_t *uid = arg;

	for (int i = 0; i < LINES_EACH; i++)
		log_caused(*uid, LOG_LEVEL_INFO, "line %d %0200d", i, i);
	return NULL;
}

/* Each line came, was lost, or was left out; also when there was no room to say how many were left out. */
Test(log, lines_that_came_were_lost_and_left_out_add_up)
{
	const struct timespec refill = { .tv_nsec = 1000000000 / LOG_LIMIT_A_SECOND + 1 };
	int fd = pipe_stderr(), came, lost, left_out, passed_each, all = 2 * LOG_QUEUE_LINES;
	uint64_t begun = clock_ns();
	uint32_t uids[LOGGERS];
	pthread_t threads[LOGGERS];

	for (int i = 0; i < all; i++)
		log_info("line %d %0900d", i, i);
	for (uint32_t t = 0; t < LOGGERS; t++) {
		uids[t] = t;
		cr_assert_eq(pthread_create(&threads[t], NULL, cause_lines, &uids[t]), 0);
	}
	for (int t = 0; t < LOGGERS; t++)
		pthread_join(threads[t], NULL);
	nanosleep(&refill, NULL); /* now each may say something again */
	log_left_out();
	read_to_the_end(fd, &came, &lost, &left_out);
	all += LOGGERS * LINES_EACH;
	cr_assert_eq(came + lost + left_out, all, "%d came, %d were lost, %d left out", came, lost, left_out);
	/* Of each, as many pass as the bucket held and got meanwhile. */
	passed_each = LOG_LIMIT_BURST + LOG_LIMIT_A_SECOND * (int)((clock_ns() - begun) / NS_PER_S + 1);
	cr_assert_geq(left_out, LOGGERS * (LINES_EACH - passed_each), "%d", left_out);
}

/* What is left when the broker ends is given up, for a reader that takes nothing. */
Test(log, the_end_does_not_wait_for_a_reader)
{
	pipe_stderr();
	for (int i = 0; i < LOG_QUEUE_LINES; i++) /* more than the pipe holds */
		log_info("line %d %0900d", i, i);
	log_stop();
}
