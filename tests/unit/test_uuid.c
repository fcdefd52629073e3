/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "driver.h"

static const uint8_t uuid[16] = { 0x8f, 0x34, 0x02, 0xab, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xfe, 0xff };

Test(uuid, text_form_and_back)
{
	char text[41];
	uint8_t back[16] = { 0 };

	driver_uuid_format(uuid, text);
	cr_assert_str_eq(text, "GPU-8f3402ab-0001-0203-0405-06070809feff");
	cr_assert(driver_uuid_parse(text, back));
	cr_assert_arr_eq(back, uuid, 16);
	memset(back, 0, sizeof(back));
	cr_assert(driver_uuid_parse("8F3402AB-0001-0203-0405-06070809FEFF", back));
	cr_assert_arr_eq(back, uuid, 16);
}

Test(uuid, what_is_none_is_refused_and_nothing_written)
{
	static const char *const bad[] = {
		"",
		"0",
		"GPU-",
		"GPU-8f3402ab-0001-0203-0405-06070809fef",
		"GPU-8f3402ab-0001-0203-0405-06070809feff0",
		"GPU-8f3402ab-0001-0203-0405-06070809fefg",
		"GPU-8f3402ab_0001-0203-0405-06070809feff",
		"GPU8f3402ab-0001-0203-0405-06070809feff",
		"MIG-8f3402ab-0001-0203-0405-06070809feff",
	};
	uint8_t back[16] = { 0 }, zero[16] = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_not(driver_uuid_parse(bad[i], back), "%s", bad[i]);
		cr_assert_arr_eq(back, zero, 16);
	}
}
