/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_fixture.h - what must hold of any driver is tried on one: the fake one, or, with SWAKV_CUDA_LIBRARY set
 * (tests/gpu/run), a GPU's
 */
#ifndef SWAKV_DEVICE_FIXTURE_H
#define SWAKV_DEVICE_FIXTURE_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "launch.h"

/* A call of driver `d` that must succeed. */
#define OK(call) cr_assert_eq((call), 0, "%s", driver_why(d))

static inline const char *device_library(void)
{
	const char *library = getenv("SWAKV_CUDA_LIBRARY");

	return library ? library : FAKECUDA_LIBRARY;
}

static inline struct driver *open_device(void)
{
	char why[DRIVER_WHY] = "";
	struct driver *d;

	cr_assert_eq(driver_open(&d, device_library(), NULL, 0, why), 0, "%s", why);
	return d;
}

#endif
