/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "number.h"

static const char *const none[] = { "", " 1", "+1", "-1", "1 ", "x", "0x10", "1e3", "1k1", "1,000", "inf", "nan" };

Test(number, a_whole_number_has_nothing_but_digits)
{
	uint64_t n = 77;

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		cr_expect_not(number_read(none[i], 0, UINT64_MAX, &n), "\"%s\"", none[i]);
	cr_expect_not(number_read("1K", 0, UINT64_MAX, &n), "it means no size");
	cr_expect_eq(n, 77, "a refusal leaves it alone");
	cr_expect(number_read("010", 0, UINT64_MAX, &n));
	cr_expect_eq(n, 10, "no octal");
	cr_expect(number_read("18446744073709551615", 0, UINT64_MAX, &n));
	cr_expect_eq(n, UINT64_MAX);
	cr_expect_not(number_read("18446744073709551616", 0, UINT64_MAX, &n));
}

Test(number, a_number_outside_its_bounds_is_none)
{
	uint64_t n;

	cr_expect(number_read("5", 5, 7, &n));
	cr_expect(number_read("7", 5, 7, &n));
	cr_expect_not(number_read("4", 5, 7, &n));
	cr_expect_not(number_read("8", 5, 7, &n));
}

Test(number, a_prefix_says_where_it_ends)
{
	const char *end = NULL;
	uint64_t n;

	cr_expect(number_read_prefix("12.3", 1, 256, &n, &end));
	cr_expect_eq(n, 12);
	cr_expect_str_eq(end, ".3");
	cr_expect_not(number_read_prefix(".3", 1, 256, &n, &end));
}

Test(number, a_handle_is_read_as_it_is_shown)
{
	uint64_t n = 0;

	cr_expect(number_read_handle("0x1f00000001", &n));
	cr_expect_eq(n, 0x1f00000001);
	cr_expect(number_read_handle("31", &n));
	cr_expect_eq(n, 31);
	cr_expect_not(number_read_handle("0x", &n));
	cr_expect_not(number_read_handle("0x-1", &n));
	cr_expect_not(number_read_handle("0x1g", &n));
	cr_expect_not(number_read_handle("1f", &n));
	cr_expect_not(number_read_handle("0x10000000000000000", &n));
}

Test(number, sizes_have_suffixes)
{
	uint64_t n = 0;

	cr_expect(number_read_bytes("4096", 1, INT64_MAX, &n));
	cr_expect_eq(n, 4096);
	cr_expect(number_read_bytes("64M", 1, INT64_MAX, &n));
	cr_expect_eq(n, 64 << 20);
	cr_expect(number_read_bytes("2G", 1, INT64_MAX, &n));
	cr_expect_eq(n, 2ull << 30);
	cr_expect_not(number_read_bytes("0", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("1G", 1, 1 << 20, &n));
	cr_expect_not(number_read_bytes("99999999999999999999G", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("-64M", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("64  M", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("64 ", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("64Q", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("64Mx", 1, INT64_MAX, &n), "something behind the suffix");
	cr_expect_not(number_read_bytes("1KK", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("0x10", 1, INT64_MAX, &n), "another base");
	cr_expect_not(number_read_bytes("8E", 1, INT64_MAX, &n));
	cr_expect(number_read_bytes("010", 1, INT64_MAX, &n));
	cr_expect_eq(n, 10, "a leading zero made it octal: %lu", (unsigned long)n);
	cr_expect_not(number_read_bytes("many", 1, INT64_MAX, &n));
	cr_expect_not(number_read_bytes("", 1, INT64_MAX, &n));
}

Test(number, sizes_are_read_as_people_write_them)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = { { "64GiB", 64ull << 30 }, { "64 G", 64ull << 30 }, { "64 GiB", 64ull << 30 },
		     { "1.5G", 3ull << 29 },   { "0.25k", 256 },        { "0.000000001G", 1 },
		     { "64giB", 64ull << 30 } };
	static const char *const bad[] = { "64GB",  "64Gi",   "64GIB", "1.5",  "1.G",  ".5G",
					   "1..5G", "1.5.5G", "64iB",  "64 B", "8.0E", "1,5G" };
	uint64_t n;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		n = 77;
		cr_expect(number_read_bytes(good[i].text, 1, INT64_MAX, &n), "%s", good[i].text);
		cr_expect_eq(n, good[i].bytes, "%s is %lu", good[i].text, (unsigned long)n);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		n = 77;
		cr_expect_not(number_read_bytes(bad[i], 1, INT64_MAX, &n), "%s", bad[i]);
		cr_expect_eq(n, 77, "a refusal leaves it alone");
	}
	cr_expect_not(number_read_bytes("1.0000000001K", 1, INT64_MAX, &n), "more digits than anybody means");
	cr_expect(number_read_bytes("7.999999999E", 1, INT64_MAX, &n), "below what fits");
}

Test(number, seconds_have_a_point_perhaps)
{
	double n = 0;

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		cr_expect_not(number_read_seconds(none[i], 0, 1e9, &n), "\"%s\"", none[i]);
	cr_expect(number_read_seconds("0.5", 0.001, 10, &n));
	cr_expect_float_eq(n, 0.5, 1e-12);
	cr_expect(number_read_seconds("10", 0.001, 10, &n));
	cr_expect_not(number_read_seconds("0.0001", 0.001, 10, &n));
	cr_expect_not(number_read_seconds("10.1", 0.001, 10, &n));
	cr_expect_not(number_read_seconds("1.2.3", 0, 10, &n));
}
