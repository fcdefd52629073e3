/* SPDX-License-Identifier: Apache-2.0 */
/* When a device counts as lost. */
#include <criterion/criterion.h>
#include <sys/eventfd.h>

#include "device/device_health.h"

static int code; /* what the device answers */

static int answer(void *state, const struct backend_pool *pool, char why[BACKEND_WHY])
{
	if (code)
		snprintf(why, BACKEND_WHY, "no answer");
	return code;
}

static const struct backend_ops ops = { .name = "test", .check = answer }, mute = { .name = "cannot be lost" };
static struct backend backend = { .ops = &ops, .allocated = true };
static struct device_health health;

static void setup(void)
{
	cr_assert_eq(device_health_init(&health), 0);
}

static void teardown(void)
{
	device_health_deinit(&health);
	device_health_deinit(&health);
}

TestSuite(device_health, .init = setup, .fini = teardown);

static void look(int answered)
{
	code = answered;
	device_health_look(&health, &backend);
}

static bool told(void)
{
	eventfd_t n;

	return eventfd_read(health.told, &n) == 0;
}

Test(device_health, an_error_that_passes_is_no_loss)
{
	for (int i = 0; i < 10; i++) {
		look(EXIT_CODE_DEVICE);
		look(0);
	}
	cr_expect(!device_health_lost(&health) && !told());
}

Test(device_health, an_error_that_stays_is_told_once_with_its_sentence)
{
	look(EXIT_CODE_DEVICE);
	cr_expect(!device_health_lost(&health) && !told());
	look(EXIT_CODE_DEVICE);
	cr_expect(device_health_lost(&health) && told());
	cr_expect_str_eq(health.why, "no answer");
	look(EXIT_CODE_DEVICE);
	cr_expect_not(told());
}

Test(device_health, what_is_lost_stays_lost)
{
	look(EXIT_CODE_DEVICE);
	look(EXIT_CODE_DEVICE);
	look(0);
	cr_expect(device_health_lost(&health));
}

Test(device_health, what_cannot_be_lost_or_is_not_there_is_not_asked)
{
	backend.ops = &mute;
	look(EXIT_CODE_DEVICE);
	look(EXIT_CODE_DEVICE);
	backend = (struct backend){ 0 };
	look(EXIT_CODE_DEVICE);
	look(EXIT_CODE_DEVICE);
	cr_expect_not(device_health_lost(&health));
}
