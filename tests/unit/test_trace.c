/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace.h"

#define HEADER "TIMESTAMP,ContextTokens,GeneratedTokens\n"

static char path[] = "/tmp/swakv-test-trace-XXXXXX";
static char why[256];
static struct trace t;

static void setup(void)
{
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
}

static void teardown(void)
{
	unlink(path);
}

TestSuite(trace, .init = setup, .fini = teardown);

static int read_text(const char *text, size_t len, size_t skip, size_t limit)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	cr_assert_eq(fwrite(text, 1, len, f), len);
	cr_assert_eq(fclose(f), 0);
	why[0] = '\0';
	return trace_read(&t, path, skip, limit, why, sizeof(why));
}

static int read_string(const char *text)
{
	return read_text(text, strlen(text), 0, 0);
}

/* Reading @text fails, and the sentence is @path followed by @rest. */
static void expect_refused(const char *text, const char *rest)
{
	char expected[256];

	cr_assert_eq(read_string(text), -1, "accepted: %s", text);
	snprintf(expected, sizeof(expected), "%s%s", path, rest);
	cr_assert_str_eq(why, expected);
	cr_assert_null(t.rows);
}

Test(trace, rows_are_read_in_order)
{
	cr_assert_eq(read_string("# a comment\n" HEADER "2023-11-16 18:17:03.97,4808,10\r\n\n"
				 "# another\nx,1,0\ny,2147483647,7"),
		     0, "%s", why);
	cr_assert_eq(t.n_rows, 3);
	cr_assert_eq(t.rows[0].context, 4808);
	cr_assert_eq(t.rows[0].generated, 10);
	cr_assert_eq(t.rows[1].context, 1);
	cr_assert_eq(t.rows[1].generated, 0);
	cr_assert_eq(t.rows[2].context, 2147483647);
	trace_deinit(&t);
	trace_deinit(&t);
}

Test(trace, skip_and_limit_choose_rows)
{
	const char *text = HEADER "a,1,1\nb,2,2\nc,3,3\nd,4,4\ne,wrong,1\n";

	cr_assert_eq(read_text(text, strlen(text), 1, 2), 0, "%s", why);
	cr_assert_eq(t.n_rows, 2);
	cr_assert_eq(t.rows[0].context, 2);
	cr_assert_eq(t.rows[1].context, 3);
	trace_deinit(&t);
}

Test(trace, errors_name_file_line_and_value)
{
	expect_refused(HEADER "a,0,1\n", ":2: ContextTokens is '0', expected a whole number from 1 to 2147483647");
	expect_refused(HEADER "a,1,1\na,-5,1\n",
		       ":3: ContextTokens is '-5', expected a whole number from 1 to 2147483647");
	expect_refused(HEADER "a,7x,1\n", ":2: ContextTokens is '7x', expected a whole number from 1 to 2147483647");
	expect_refused(HEADER "a,,1\n", ":2: ContextTokens is '', expected a whole number from 1 to 2147483647");
	expect_refused(HEADER "a,1,2147483648\n",
		       ":2: GeneratedTokens is '2147483648', expected a whole number from 0 to 2147483647");
	expect_refused(HEADER "a,1, 2\n", ":2: GeneratedTokens is ' 2', expected a whole number from 0 to 2147483647");
	expect_refused(HEADER "a,1,99999999999999999999999\n", ":2: GeneratedTokens is '99999999999999999999999', "
							       "expected a whole number from 0 to 2147483647");
	expect_refused(HEADER ",1,2\n", ":2: TIMESTAMP is '', expected a time");
	expect_refused(HEADER "a,1\n",
		       ":2: the row is 'a,1', expected three fields, TIMESTAMP,ContextTokens,GeneratedTokens");
	expect_refused(HEADER "a,1,2,3\n",
		       ":2: the row is 'a,1,2,3', expected three fields, TIMESTAMP,ContextTokens,GeneratedTokens");
	expect_refused("a,1,2\n", ":1: the header is 'a,1,2', expected TIMESTAMP,ContextTokens,GeneratedTokens");
}

Test(trace, a_trace_without_rows_is_refused)
{
	expect_refused("", ": no rows left: it has 0, 0 are to be skipped");
	expect_refused(HEADER, ": no rows left: it has 0, 0 are to be skipped");
	cr_assert_eq(read_text(HEADER "a,1,1\n", sizeof(HEADER "a,1,1\n") - 1, 1, 0), -1);
	cr_assert_not_null(strstr(why, "no rows left: it has 1, 1 are to be skipped"));
}

Test(trace, binary_is_refused)
{
	static const char text[] = HEADER "a,1\0,1\n";

	cr_assert_eq(read_text(text, sizeof(text) - 1, 0, 0), -1);
	cr_assert_not_null(strstr(why, ":2: the line is 'a,1', expected text without NUL bytes"), "%s", why);
}

Test(trace, a_file_that_is_not_there_is_named)
{
	cr_assert_eq(trace_read(&t, "/nonexistent/trace.csv", 0, 0, why, sizeof(why)), -1);
	cr_assert_str_eq(why, "/nonexistent/trace.csv: No such file or directory");
	cr_assert_eq(trace_read(&t, "/tmp", 0, 0, why, sizeof(why)), -1);
	cr_assert_str_eq(why, "/tmp:0: Is a directory");
}
