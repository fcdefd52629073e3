/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "device/mps_list.h"

static uint32_t pids[4];

static int parse(const char *answer)
{
	return mps_list_parse(answer, pids, 4);
}

Test(mps_list, one_pid_a_line)
{
	cr_expect_eq(parse(""), 0);
	cr_expect_eq(parse("\n"), 0);
	cr_expect_eq(parse("17\n2147483647\n"), 2);
	cr_expect(pids[0] == 17 && pids[1] == 2147483647);
	cr_expect_eq(parse(" 17 \r\n18"), 2);
	cr_expect_eq(pids[1], 18);
}

Test(mps_list, a_sentence_is_no_empty_list)
{
	cr_expect_eq(parse("Cannot find MPS control daemon process\n"), -1);
	cr_expect_eq(parse("17\nfailed\n"), -1);
	cr_expect_eq(parse("17x\n"), -1);
	cr_expect_eq(parse("-17\n"), -1);
}

Test(mps_list, no_number_is_taken_for_another)
{
	cr_expect_eq(parse("4294967313\n"), -1, "17 in 32 bits");
	cr_expect_eq(parse("18446744073709551633\n"), -1, "17 in 64 bits");
	cr_expect_eq(parse("0\n"), -1);
}

Test(mps_list, what_is_left_out_is_not_taken_for_absent)
{
	cr_expect_eq(parse("1\n2\n3\n4\n"), 4);
	cr_expect_eq(parse("1\n2\n3\n4\n5\n"), -1);
}
