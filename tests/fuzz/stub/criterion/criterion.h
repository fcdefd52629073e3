/* SPDX-License-Identifier: Apache-2.0 */
/* criterion.h - what tests/unit/fake_broker.c asks of Criterion, for a fuzzer, which has none */
#ifndef SWAKV_FUZZ_CRITERION_H
#define SWAKV_FUZZ_CRITERION_H

#include "input.h"

#define cr_assert(condition, ...)  FUZZ_CHECK(condition)
#define cr_assert_eq(a, b, ...)    FUZZ_CHECK((a) == (b))
#define cr_assert_neq(a, b, ...)   FUZZ_CHECK((a) != (b))
#define cr_assert_geq(a, b, ...)   FUZZ_CHECK((a) >= (b))
#define cr_assert_not_null(p, ...) FUZZ_CHECK((p) != NULL)

#endif
