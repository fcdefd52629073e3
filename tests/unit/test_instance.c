/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "instance.h"

static void expect_folders(const char *first, const char *second)
{
	cr_expect_str_eq(instance_folder(0), first);
	if (second)
		cr_expect_str_eq(instance_folder(1), second);
	else
		cr_expect_null(instance_folder(1));
	cr_expect_null(instance_folder(2));
}

Test(instance, a_users_own_brokers_come_before_those_of_the_machine)
{
	setenv("XDG_RUNTIME_DIR", "/run/user/1000", 1);
	expect_folders("/run/user/1000", "/run");
}

Test(instance, without_a_folder_of_ones_own_only_the_machines_is_left)
{
	unsetenv("XDG_RUNTIME_DIR");
	expect_folders("/run", NULL);
	setenv("XDG_RUNTIME_DIR", "", 1);
	expect_folders("/run", NULL);
	setenv("XDG_RUNTIME_DIR", "relative/path", 1);
	expect_folders("/run", NULL);
}

Test(instance, a_path_that_does_not_fit_is_told)
{
	char path[24];
	volatile size_t size = sizeof(path); /* the compiler knows better, and would say so */

	cr_expect_eq(instance_socket(path, size, "/run", "gpu0"), 20);
	cr_expect_str_eq(path, "/run/swakv/gpu0.sock");
	cr_expect_geq(instance_socket(path, size, "/run/user/1000", "gpu0"), (int)sizeof(path));
}

Test(instance, a_name_is_part_of_a_path_and_no_path)
{
	static const char *const good[] = { "a", "default", "gpu-0.test_1", "1234567890123456789012345678901" };
	static const char *const bad[] = { "",   ".",   "..",  ".hidden",
					   "-n", "a/b", "a b", "12345678901234567890123456789012" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_expect(instance_name_valid(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(instance_name_valid(bad[i]), "%s", bad[i]);
}
