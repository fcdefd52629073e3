/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "sized.h"

/* The library's own: version 1 ends with `b`, `later` came after it. */
struct known {
	uint32_t size, a, b, later;
};
static const struct sized kind = { "known", sizeof(struct known), offsetof(struct known, later) };

/* As a program of some version has it, in the middle of memory that is not its own. */
struct program {
	uint32_t before;
	uint32_t words[8]; /* size first */
	uint32_t behind;
};

static struct program of(uint32_t size)
{
	return (struct program){ .before = 0xaaaaaaaa, .words = { size, 1, 2 }, .behind = 0xaaaaaaaa };
}

static char why[256];

#define REFUSED(size, ...)                                                                                             \
	do {                                                                                                           \
		struct program p = of(size);                                                                           \
		struct known own;                                                                                      \
                                                                                                                       \
		why[0] = '\0';                                                                                         \
		cr_expect_not(sized_take(&kind, &own, p.words, why, sizeof(why)), "size %u", (unsigned)(size));        \
		cr_expect_str_eq(why, __VA_ARGS__);                                                                    \
	} while (0)

Test(sized, a_size_that_was_not_set_is_refused)
{
	REFUSED(0, "size of struct known is 0, not 16: set it to sizeof(struct known)");
	REFUSED(8, "size of struct known is 8, not 16: set it to sizeof(struct known)");
	REFUSED(0xaaaaaaaa, "size of struct known is 2863311530, not 16: set it to sizeof(struct known)");
}

Test(sized, what_an_older_program_does_not_know_is_0)
{
	struct program p = of(kind.first);
	struct known own;

	p.words[3] = 77; /* not the struct's */
	memset(&own, 0xaa, sizeof(own));
	cr_assert(sized_take(&kind, &own, p.words, why, sizeof(why)), "%s", why);
	cr_expect_eq(own.a, 1);
	cr_expect_eq(own.b, 2);
	cr_expect_eq(own.later, 0);
}

Test(sized, what_a_newer_program_does_not_use_is_accepted_and_the_rest_refused)
{
	struct program p = of(sizeof(p.words));
	struct known own;

	p.words[3] = 3;
	cr_assert(sized_take(&kind, &own, p.words, why, sizeof(why)), "%s", why);
	cr_expect_eq(own.later, 3);
	for (unsigned i = kind.size; i < sizeof(p.words); i++) {
		((unsigned char *)p.words)[i] = 9;
		cr_expect_not(sized_take(&kind, &own, p.words, why, sizeof(why)), "byte %u", i);
		((unsigned char *)p.words)[i] = 0;
	}
	cr_expect_str_eq(
		why, "byte 31 of struct known is 9, and this library knows 16 of its 32 bytes: others must be 0, or "
		     "ask swakv_has() first");
}

Test(sized, nothing_is_written_beyond_the_programs_size)
{
	const struct known own = { 1234, 5, 6, 7 };

	for (uint32_t words = 3; words <= 8; words++) {
		struct program p = of(words * 4), was = p;

		sized_give(&kind, p.words, &own);
		cr_expect_eq(p.words[0], words * 4, "its size is its own");
		cr_expect_eq(p.words[1], 5);
		cr_expect_eq(p.words[2], 6);
		cr_expect_eq(p.words[3], words > 3 ? 7 : was.words[3]);
		cr_expect_arr_eq(&p.words[4], &was.words[4], sizeof(p) - offsetof(struct program, words[4]));
		cr_expect_eq(p.before, was.before);
	}
}

Test(sized, elements_of_a_list_lie_as_far_apart_as_the_first_says)
{
	uint32_t list[3][5] = { { 20, 1, 2, 3 }, { 20, 4, 5, 6 }, { 20, 7, 8, 9 } }, bad = 9;
	struct known own;

	cr_assert(sized_check_list(&kind, list, 3, &bad, why, sizeof(why)), "%s", why);
	cr_assert(sized_take(&kind, &own, sized_at(list, 2), why, sizeof(why)));
	cr_expect_eq(own.later, 9);
	list[2][4] = 1;
	cr_expect_not(sized_check_list(&kind, list, 3, &bad, why, sizeof(why)));
	cr_expect_eq(bad, 2);
	list[1][0] = 16;
	cr_expect_not(sized_check_list(&kind, list, 3, &bad, why, sizeof(why)));
	cr_expect_eq(bad, 1);
	cr_expect_str_eq(
		why, "size of struct known is 16 here and 20 in the first of the list: all say sizeof(struct known)");
	list[0][0] = 0;
	cr_expect_not(sized_check_list(&kind, list, 3, &bad, NULL, 0));
	cr_expect_eq(bad, 0);
	cr_expect(sized_check_list(&kind, NULL, 0, &bad, NULL, 0), "nothing is looked at");
}
