/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "fault.h"
#include "lifecycle.h"
#include "wire.h"

Test(fault, sentence_names_sequence_and_values)
{
	struct fault f;
	char buf[256];

	cr_assert_eq(fault_set(&f, FAULT_LENGTH_RANGE, 2, 0, 4096), SWAKV_EINVALID);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, "sequence 2: length 0 is outside 1 to 4096");
}

Test(fault, no_sequence_no_clause)
{
	struct fault f;
	char buf[256];

	fault_set(&f, FAULT_NOT_EXECUTING, -1, PHASE_ADMITTED, 0);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, "this call needs phase executing, the request is in phase admitted: prefill it first");
}

Test(fault, every_phase_and_transition_has_a_name_of_its_own)
{
	for (int i = 0; i < PHASE_COUNT; i++)
		cr_expect_str_neq(phase_name(i), "unknown", "phase %d", i);
	for (int i = 0; i < TRANSITION_COUNT; i++)
		cr_expect_str_neq(transition_name(i), "unknown", "transition %d", i);
	cr_expect_str_eq(transition_name(TRANSITION_EXTEND), "extend");
	cr_expect_str_eq(transition_name(TRANSITION_COUNT), "unknown");
	cr_expect_str_eq(phase_name(-1), "unknown");
}

Test(fault, a_pending_transition_is_named_with_its_article)
{
	struct fault f;
	char buf[256];

	fault_set(&f, FAULT_TRANSITION_PENDING, -1, TRANSITION_EXTEND, 0);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, "an extend is pending: complete it first (or abandon the request)");
	fault_set(&f, FAULT_TRANSITION_PENDING, -1, TRANSITION_COMPACT, 0);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, "a compaction is pending: complete it first (or abandon the request)");
	fault_set(&f, FAULT_NOT_PENDING, -1, TRANSITION_EXTEND, TRANSITION_STEP);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, "nothing to complete: no decode is pending (pending: extend)");
}

Test(fault, a_group_is_named_when_there_are_several)
{
	struct fault f;
	char buf[256];

	fault_set(&f, FAULT_MODEL_WINDOW, 1, 0, INT32_MAX);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf,
			 "group 1: window 0 is outside 1 to 2147483647; a group that keeps every token is SWAKV_FULL, "
			 "with window 0");
	fault_set(&f, FAULT_MODEL_PAGES, -1, 5, 4);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, "5 pages would exceed 4, the most whose V ids fit 32 bits");
}

Test(fault, pages_that_wait_are_told_with_the_steps_in_flight)
{
	struct fault f;
	char buf[256];

	cr_assert_eq(fault_in_flight(&f, fault_set(&f, FAULT_PAGES_PENDING, 3, 0, 1), 4, 2), SWAKV_EPENDING);
	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, "sequence 3: 1 pages are needed and 0 are available; the others wait behind 4 open "
			      "completion points (the model declared in_flight 2): retry when they are reached");
}

Test(fault, short_buffer_is_terminated)
{
	struct fault f;
	char buf[8];

	fault_set(&f, FAULT_LENGTH_RANGE, 2, 0, 4096);
	cr_assert_eq(fault_format(&f, buf, sizeof(buf)), 7);
	cr_assert_str_eq(buf, "sequenc");
}

Test(fault, timeline_values_have_no_sign)
{
	struct fault f;
	char buf[256];

	fault_set(&f, FAULT_FENCE_NOT_ARMED, -1, (int64_t)UINT64_MAX, 1);
	fault_format(&f, buf, sizeof(buf));
	cr_expect_not_null(strstr(buf, "18446744073709551615"), "%s", buf);
}

Test(fault, unknown_reason_falls_back_to_the_code)
{
	struct fault f = { .code = SWAKV_EBUSY, .reason = 9999 };
	char buf[256];

	fault_format(&f, buf, sizeof(buf));
	cr_assert_str_eq(buf, swakv_error_text(SWAKV_EBUSY));
}

/* With the longest values that there are, in what the library keeps them in and in what a refused attach travels in. */
Test(fault, every_sentence_fits_where_it_is_kept)
{
	char buf[1024];

	for (uint32_t r = 0; r < FAULT_REASON_COUNT; r++) {
		struct fault f;

		fault_in_flight(&f, fault_set(&f, r, INT32_MAX, INT64_MIN, INT64_MIN), UINT16_MAX, UINT16_MAX);
		cr_expect_lt(fault_format(&f, buf, sizeof(buf)), (size_t)WIRE_TEXT, "%s", buf);
	}
}

Test(fault, every_reason_formats_and_every_code_has_a_name)
{
	for (uint32_t r = 0; r < FAULT_REASON_COUNT; r++) {
		struct fault f;
		char buf[512];

		fault_set(&f, r, 1, 2, 3);
		cr_assert_gt(fault_format(&f, buf, sizeof(buf)), 0);
		cr_assert_null(strchr(buf, '%'), "reason %u leaves a conversion: %s", r, buf);
		cr_assert_str_neq(swakv_error_name(f.code), "unknown");
	}
	cr_assert_str_eq(swakv_error_name(1), "unknown");
	cr_assert_str_eq(swakv_error_name(-1000), "unknown");
	cr_assert_str_eq(swakv_error_name(SWAKV_ENEVER), "never");
	cr_assert_str_eq(swakv_error_name(SWAKV_EUNSUPPORTED), "unsupported");
}
