/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
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

Test(log, many_users_share_the_places)
{
	for (uint32_t uid = 0; uid < 10 * LOG_LIMIT_SOURCES; uid++)
		cr_assert_eq(passed(uid, LOG_LIMIT_BURST + 1, NS_PER_S + uid), LOG_LIMIT_BURST);
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

/* More lines than queue and pipe hold, while nobody reads; then all that came is read. */
Test(log, lines_that_found_no_room_are_counted)
{
	int ends[2], came = 0, lost = 0, n, all = LOG_QUEUE_LINES + 2000;
	pthread_t reader;

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	cr_assert_eq(log_start(), 0);
	for (int i = 0; i < all; i++)
		log_info("line %d %0900d", i, i);
	cr_assert_eq(pthread_create(&reader, NULL, read_all, &ends[0]), 0);
	cr_assert(log_drain(60000));
	log_stop();
	close(STDERR_FILENO);
	pthread_join(reader, NULL);
	for (char *line = text; (line = strstr(line, "swakvd: ")); line++)
		if (sscanf(line, "swakvd: %d lines were lost", &n) == 1)
			lost += n;
		else
			came++;
	cr_assert_eq(came + lost, all, "%d came, %d were lost", came, lost);
	cr_assert_gt(lost, 0);
}
